"""`mrtuner rotate`: a new password for an application that goes on running."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mrtuner.cli import options, terminal
from mrtuner.errors import UsageError

if TYPE_CHECKING:
    from mrtuner.rotate.rotation import Outcome, Rotator, Standing
    from mrtuner.rotate.stores import Store

SCHEMA: Final = "mrtuner.rotate/1"
#: Exit code while sessions of the role to be disabled are still there.
WAITED_FOR: Final = 3


@options.command("rotate")
@click.argument("dsn")
@click.option("--group", required=True, metavar="ROLE", help="The role that owns everything.")
@click.option(
    "--to", metavar="STORE",
    help="secretsmanager:ARN, file:PATH, stdout, or a command that reads JSON from stdin.  "
    "[default: as last time]",
)  # fmt: skip
@click.option("--status", is_flag=True, help="Show how far it is; change nothing.")
@click.option("--abort", is_flag=True, help="Go back to the old credential.")
@click.option(
    "--current", metavar="ROLE", help="The role in use, where that cannot be told; begins anew."
)
@click.option(
    "--wait", type=options.Duration(), default="10min", show_default=True,
    help="At most, for sessions of the old role to end.",
)  # fmt: skip
@click.option(
    "--quiet", type=options.Duration(), default="5s", show_default=True,
    help="Without any such session before the old role is disabled.",
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
    Broken off at any moment, the same command goes on.
    """
    from mrtuner.journal.store import Journal
    from mrtuner.postgres.connect import connect

    if status and abort:
        raise UsageError("--status and --abort exclude each other", "Say one of them.")
    if as_json and to == "stdout":
        raise UsageError("stdout takes the secret or the document", "Leave --json out.")
    options.careful(dsn)
    with terminal.gentle_end(), connect(dsn) as conn:
        rotator = _rotator(dsn, conn, group, journal, wait, quiet)
        if status:
            _show(rotator.status(), as_json)
            return
        with Journal(journal) as book, book.hold(f"rotate {group} {rotator.server}"):
            outcome = _aborted(rotator) if abort else _rotated(rotator, to, current, yes)
    _show(outcome, as_json)
    if outcome.holders:
        ctx.exit(WAITED_FOR)


def _rotator(
    dsn: str, conn: Any, group: str, journal: Path | None, wait: float, quiet: float
) -> Rotator:
    from mrtuner.rotate.book import Book
    from mrtuner.rotate.model import Group
    from mrtuner.rotate.rotation import Patience, Rotator

    return Rotator(
        dsn=dsn,
        conn=conn,
        group=Group(group),
        book=Book(journal),
        patience=Patience(wait=wait, quiet=quiet),
        tell=terminal.talk,
    )


def _rotated(rotator: Rotator, to: str | None, current: str | None, yes: bool) -> Outcome:
    from mrtuner.rotate.rotation import check_role

    check_role(current, rotator.group)
    last = rotator.last()
    named = to or (last.to if last else None)
    if named is None:
        raise UsageError("nowhere to put the secret", "Say --to file:PATH, or another store.")
    where = _store(named)
    if last and not last.finished and current is None:
        terminal.talk(f"going on with the rotation of {last.began}, at: {last.step}")
        return rotator.run(replace(last, to=named), where)
    rotation = rotator.plan(named, where, current)
    terminal.talk(f"{rotation.old or 'a new group'} → {rotation.new}; the secret goes to {named}")
    terminal.agree("Rotate?", yes=yes)
    return rotator.run(rotation, where)


def _aborted(rotator: Rotator) -> Outcome:
    from mrtuner.rotate.rotation import unfinished

    rotation = unfinished(rotator.last())
    return rotator.abort(rotation, _store(rotation.to))


def _store(named: str) -> Store:
    from mrtuner.rotate.stores import store

    return store(named, sys.stdout)


def _show(outcome: Standing, as_json: bool) -> None:
    if as_json:
        terminal.document(_document(outcome))
        return
    for line in _lines(outcome):
        terminal.talk(line)


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
