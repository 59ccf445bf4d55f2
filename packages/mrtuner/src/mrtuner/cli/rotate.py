"""`mrtuner rotate`: change an application's password without downtime."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from mrtuner.cli.common import exit_codes, options, targets, terminal
from mrtuner.cli.common.commands import offer_verbs
from mrtuner.errors import UsageError

if TYPE_CHECKING:
    from mrtuner.rotate.rotation import RotationResult, Rotator, Standing

#: The options that a rotation, its status and its abort share.
_shared: Final = options.stacked(
    click.option(
        "--role", "group", required=True, metavar="ROLE",
        help="Role that owns everything; its two login roles take turns.",
    ),
    options.time_option(
        "--wait", "Longest wait for sessions of the old role to end.", default="10min"
    ),
    options.time_option(
        "--idle", "Time without a session of the old role before it is disabled.", name="quiet",
        default="1min",
    ),
    click.option(
        "--replica", "replicas", multiple=True, metavar="DSN",
        help="Standby that applications read from: its sessions count too; may be repeated.",
    ),
    options.journal_option,
    options.json_option,
)  # fmt: skip


@options.command("rotate")
@click.argument("dsn", type=targets.ServerArgument(), shell_complete=offer_verbs)
@click.option(
    "--to", metavar="STORE",
    help="Where the secret goes: secretsmanager:ARN, file:PATH, stdout, or a command that reads "
    "JSON from stdin.  [default: the last one used]",
)  # fmt: skip
@click.option(
    "--current", metavar="ROLE",
    help="Role in use, if it cannot be determined; starts over, or ends a wait.",
)  # fmt: skip
@_shared
@options.yes_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    dsn: str,
    to: str | None,
    current: str | None,
    yes: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Change an application's password without downtime: two login roles take turns.

    \b
    Examples:
      mrtuner rotate postgresql://postgres@db/shop --role app --to file:/run/secrets/db.json
      mrtuner rotate postgresql://admin@db/shop --role app --to secretsmanager:ARN
      mrtuner rotate postgresql://admin@db/shop --role app --to 'vault kv put secret/db -'
      mrtuner rotate status postgresql://admin@db/shop --role app
      mrtuner rotate abort postgresql://admin@db/shop --role app

    Connect as a role that may administer the group. ROLE owns the application's objects; ROLE_blue
    and ROLE_green log in for it, one at a time. If applications log in as ROLE today, it is
    converted. The old role is disabled when its last session has ended; until then it keeps
    working. If interrupted, run the same command again to continue. The exit code is 6 while
    sessions of the old role remain.
    """
    from mrtuner.rotate.answer import held

    with terminal.sigterm_as_interrupt(), _opened(dsn, given) as rotator, held(rotator):
        outcome = _rotated(rotator, to, current, yes, as_json)
    _end(ctx, outcome, as_json)


@command.verb("status")
@click.argument("dsn", type=targets.ServerArgument())
@_shared
def status(dsn: str, as_json: bool, **given: Any) -> None:
    """Show the state of the rotation; change nothing.

    \b
    Examples:
      mrtuner rotate status postgresql://admin@db/shop --role app
      mrtuner rotate status postgresql://admin@db/shop --role app --json
    """
    with terminal.sigterm_as_interrupt(), _opened(dsn, given) as rotator:
        _show(rotator.status(), as_json)


@command.verb("abort")
@click.argument("dsn", type=targets.ServerArgument())
@_shared
@click.pass_context
def abort(ctx: click.Context, /, dsn: str, as_json: bool, **given: Any) -> None:
    """Go back to the old credential.

    \b
    Examples:
      mrtuner rotate abort postgresql://admin@db/shop --role app

    The store gets the old secret back, and the new role is disabled when its last session has
    ended. The exit code is 6 while sessions of that role remain: run it again.
    """
    from mrtuner.rotate.answer import held

    with terminal.sigterm_as_interrupt(), _opened(dsn, given) as rotator, held(rotator):
        outcome = _aborted(rotator)
    _end(ctx, outcome, as_json)


@contextmanager
def _opened(dsn: str, given: Mapping[str, Any]) -> Iterator[Rotator]:
    from mrtuner.rotate.answer import opened
    from mrtuner.rotate.sessions import Patience

    replicas = given["replicas"]
    for each in (dsn, *replicas):
        options.warn_of_password(each)
    patience = Patience(wait=given["wait"], quiet=given["quiet"])
    with opened(
        dsn, given["group"], patience, replicas, given["journal"], terminal.print_note
    ) as rotator:
        yield rotator


def _end(ctx: click.Context, outcome: RotationResult, as_json: bool) -> None:
    _show(outcome, as_json)
    if not outcome.rotation.finished:
        ctx.exit(exit_codes.UNFINISHED)


def _rotated(
    rotator: Rotator, to: str | None, current: str | None, yes: bool, as_json: bool
) -> RotationResult:
    from mrtuner.rotate.answer import upcoming

    rotation, where = upcoming(rotator, to, current, sys.stdout)
    if as_json and rotation.to == "stdout":
        raise UsageError("stdout cannot take both the secret and --json", "Leave out --json.")
    if rotation.steps:
        terminal.print_note(f"continuing the rotation begun {rotation.began}, at: {rotation.step}")
        return rotator.run(rotation, where)
    terminal.print_note(
        f"{rotation.old or 'a new group'} → {rotation.new}; the secret goes to {rotation.to}"
    )
    for doubt in rotator.doubts(rotation):
        terminal.print_note(f"warning: {doubt}")
    terminal.confirm("Rotate?", yes=yes)
    return rotator.run(rotation, where)


def _aborted(rotator: Rotator) -> RotationResult:
    from mrtuner.rotate.rotation import unfinished
    from mrtuner.rotate.stores import store

    rotation = unfinished(rotator.last())
    return rotator.abort(rotation, store(rotation.to, sys.stdout))


def _show(outcome: Standing, as_json: bool) -> None:
    if as_json:
        from mrtuner.documents import convert
        from mrtuner.rotate.document import RotateDocument

        terminal.document(convert(outcome, RotateDocument))
        return
    terminal.print_notes(_lines(outcome))


def _lines(outcome: Standing) -> list[str]:
    rotation = outcome.rotation
    lines = [f"warning: {notice}" for notice in outcome.notices]
    if rotation is None:
        lines.append("no rotation so far")
    else:
        lines.append(f"{rotation.old or 'nothing'} → {rotation.new}: {rotation.step}")
    lines += [f"still connected: {holder.words}" for holder in outcome.holders]
    return [*lines, f"can log in: {', '.join(outcome.enabled) or 'none'}"]
