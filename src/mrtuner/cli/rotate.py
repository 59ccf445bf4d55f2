"""`mrtuner rotate`: a new password for an application that goes on running."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mrtuner.cli import exit_codes, options, terminal
from mrtuner.errors import UsageError

if TYPE_CHECKING:
    from mrtuner.rotate.rotation import Outcome, Rotator, Standing

SCHEMA: Final = "mrtuner.rotate/1"


@options.command("rotate")
@click.argument("dsn")
@click.option(
    "--group",
    required=True,
    metavar="ROLE",
    help="Group role that owns everything; its two login roles take turns.",
)
@click.option(
    "--to", metavar="STORE",
    help="secretsmanager:ARN, file:PATH, stdout, or a command that reads JSON from stdin.  "
    "[default: as last time]",
)  # fmt: skip
@click.option("--status", is_flag=True, help="Show the state of the rotation; change nothing.")
@click.option("--abort", is_flag=True, help="Go back to the old credential.")
@click.option(
    "--current", metavar="ROLE",
    help="Role in use, if it cannot be determined; starts over, or ends a wait.",
)  # fmt: skip
@click.option(
    "--wait", type=options.Duration(), default="10min", show_default=True,
    help="Longest wait for sessions of the old role to end.",
)  # fmt: skip
@click.option(
    "--quiet", type=options.Duration(), default="1min", show_default=True,
    help="Time without a session of the old role before it is disabled.",
)  # fmt: skip
@click.option(
    "--replica", "replicas", multiple=True, metavar="DSN",
    help="Standby that applications read from, whose sessions count; may be repeated.",
)  # fmt: skip
@options.journal_option
@options.yes_option
@options.json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    dsn: str,
    group: str,
    to: str | None,
    status: bool,
    abort: bool,
    current: str | None,
    wait: float,
    quiet: float,
    replicas: tuple[str, ...],
    journal: Path | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Give an application a new password while it runs: two login roles take turns.

    \b
    Examples:
      mrtuner rotate postgresql://postgres@db/shop --group app --to file:/run/secrets/db.json
      mrtuner rotate postgresql://admin@db/shop --group app --to secretsmanager:ARN
      mrtuner rotate postgresql://admin@db/shop --group app --to 'vault kv put secret/db -'
      mrtuner rotate postgresql://admin@db/shop --group app --status
      mrtuner rotate postgresql://admin@db/shop --group app --abort

    Connect as a role that may administer the group. ROLE itself owns what the application owns;
    ROLE_blue and ROLE_green log in for it, one at a time. A ROLE that logs in today is taken over.
    The old role is disabled when its last session has ended; until then nothing is taken away.
    If interrupted, run the same command again to continue.
    """
    from mrtuner.rotate.answer import held, opened
    from mrtuner.rotate.sessions import Patience

    if status and abort:
        raise UsageError("--status and --abort exclude each other", "Say one of them.")
    for each in (dsn, *replicas):
        options.warn_of_password(each)
    patience = Patience(wait=wait, quiet=quiet)
    everything = opened(dsn, group, patience, replicas, journal, terminal.print_note)
    with terminal.sigterm_as_interrupt(), everything as rotator:
        if status:
            _show(rotator.status(), as_json)
            return
        with held(rotator, journal):
            outcome = _aborted(rotator) if abort else _rotated(rotator, to, current, yes, as_json)
    _show(outcome, as_json)
    if not outcome.rotation.finished:
        ctx.exit(exit_codes.UNFINISHED)


def _rotated(
    rotator: Rotator, to: str | None, current: str | None, yes: bool, as_json: bool
) -> Outcome:
    from mrtuner.rotate.answer import upcoming

    rotation, where = upcoming(rotator, to, current, sys.stdout)
    if as_json and rotation.to == "stdout":
        raise UsageError("stdout takes the secret or the document", "Leave --json out.")
    if rotation.steps:
        terminal.print_note(f"going on with the rotation of {rotation.began}, at: {rotation.step}")
        return rotator.run(rotation, where)
    terminal.print_note(
        f"{rotation.old or 'a new group'} → {rotation.new}; the secret goes to {rotation.to}"
    )
    for doubt in rotator.doubts(rotation):
        terminal.print_note(f"warning: {doubt}")
    terminal.confirm("Rotate?", yes=yes)
    return rotator.run(rotation, where)


def _aborted(rotator: Rotator) -> Outcome:
    from mrtuner.rotate.rotation import unfinished
    from mrtuner.rotate.stores import store

    rotation = unfinished(rotator.last())
    return rotator.abort(rotation, store(rotation.to, sys.stdout))


def _show(outcome: Standing, as_json: bool) -> None:
    if as_json:
        terminal.document(_document(outcome))
        return
    for line in _lines(outcome):
        terminal.print_note(line)


def _lines(outcome: Standing) -> list[str]:
    rotation = outcome.rotation
    lines = [f"warning: {notice}" for notice in outcome.notices]
    if rotation is None:
        lines.append("no rotation so far")
    else:
        lines.append(f"{rotation.old or 'nothing'} → {rotation.new}: {rotation.step}")
    lines += [f"still there: {holder.words}" for holder in outcome.holders]
    return [*lines, f"can log in: {', '.join(outcome.enabled) or 'none'}"]


def _document(outcome: Standing) -> dict[str, Any]:
    rotation = outcome.rotation
    return {
        "schema": SCHEMA,
        "rotation": None if rotation is None else {**asdict(rotation), "step": str(rotation.step)},
        "enabled": list(outcome.enabled),
        "holders": [asdict(holder) for holder in outcome.holders],
        "notices": list(outcome.notices),
    }
