"""`mrtuner undo`: put back exactly what the last apply changed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mrtuner.cli.common import change, options, role_settings, targets, terminal
from mrtuner.errors import MAY_BE_DOWN, ConnectError
from mrtuner.wording import plural

if TYPE_CHECKING:
    from mrtuner.bench.server.scratch import Marked
    from mrtuner.change.journal import Journal
    from mrtuner.change.record import Change
    from mrtuner.change.settings.apply import Outcome, Restart
    from mrtuner.postgres.connect import Connection


@options.command("undo")
@click.argument("dsn", type=targets.ServerArgument())
@change.restart_options
@click.option("--force", is_flag=True, help="Overwrite settings that have been changed since.")
@options.path_option(
    "--data-directory", "DIR",
    "Data directory of a server that is down.  [default: as the journal knows it]",
    name="directory", exists=True,
)  # fmt: skip
@click.option(
    "--proof", is_flag=True, help="Remove only what a killed proof or search left behind."
)
@click.option(
    "--roles", is_flag=True, help="Undo the last mrtuner apply --roles, and nothing else."
)
@options.change_options
def command(
    dsn: str,
    restarting: change.Restarting,
    force: bool,
    directory: Path | None,
    proof: bool,
    roles: bool,
    asked: options.Asked,
) -> None:
    """Undo the last change of a server: a value that was unset becomes unset again.

    \b
    Examples:
      mrtuner undo postgresql://postgres@db/app
      mrtuner undo postgresql://postgres@db/app --restart 'systemctl restart postgresql'
      mrtuner undo postgresql://postgres@db/app --force --yes
      mrtuner undo postgresql://postgres@db/app --proof
      mrtuner undo postgresql://postgres@db/app --roles
      mrtuner undo postgresql://postgres@db/app --data-directory /var/lib/pgsql/data

    If the server is down, its files are put back on this machine, and --restart starts it.
    An interrupted change is finished or reverted first; if it is reverted, nothing more is
    undone. Databases and scratch directories that a killed proof left behind are listed, and
    removed if you confirm; with --proof only they and its settings are removed, and changes
    made by mrtuner apply stay.
    """
    from mrtuner.change.settings.apply import Outcome
    from mrtuner.cli.common.document import undo_document

    options.warn_of_password(dsn)
    if roles:
        if force or directory or proof or restarting != change.Restarting():
            raise click.UsageError("--roles goes without --force, --proof, --restart, --standby")
        with terminal.sigterm_as_interrupt():
            role_settings.CHANGE.take_back(dsn, asked)
        return
    with terminal.sigterm_as_interrupt(), asked.book() as book:
        try:
            recovered = None
            recovered = restarting.finish_interrupted(dsn, book)
            removed = _leftovers_removed(dsn, yes=asked.yes)
        except ConnectError as error:
            if recovered is not None and recovered.change_is_undone:
                _say_undone_in_files(recovered, error, asked)
                return
            how = restarting.consent(due=True)
            _undo_stopped(dsn, book, directory, how, error, proof=proof, force=force, asked=asked,
                          recovered=recovered)  # fmt: skip
            return
        if recovered is not None and recovered.change_is_undone:
            outcome = recovered
        else:
            last = _last(dsn, book, proof=proof)
            enough = last is None and (proof or bool(removed))
            outcome = (
                Outcome(result="nothing")
                if enough  # there is no change to undo, or none that --proof undoes
                else _undone(dsn, last, book, restarting, asked, force=force, proof=proof)
            )
    if asked.as_json:
        terminal.document(undo_document(recovered, outcome, removed))
        return
    if removed:
        terminal.print_line(f"removed: {', '.join(removed)}")
    if outcome.result != "nothing" or not removed:
        change.say(outcome)


def _say_undone_in_files(outcome: Outcome, down: ConnectError, asked: options.Asked) -> None:
    """Report an interrupted undo that was finished while the server is down."""
    from mrtuner.cli.common.document import undo_document

    if down.cause not in MAY_BE_DOWN:
        raise down
    if asked.as_json:
        terminal.document(undo_document(outcome, outcome, ()))
        return
    terminal.print_line(f"{plural(len(outcome.changed), 'setting')} restored")
    terminal.print_note("start the server to put them into force")


def _undo_stopped(
    dsn: str,
    book: Journal,
    directory: Path | None,
    how: Restart,
    down: ConnectError,
    *,
    proof: bool,
    force: bool,
    asked: options.Asked,
    recovered: Outcome | None = None,
) -> None:
    """Undo the last change of a server that does not answer, if its files are on this machine."""
    from mrtuner.change.settings.apply import address_of
    from mrtuner.change.settings.stopped import stopped_change, undo_stopped
    from mrtuner.cli.common.document import undo_document

    last = stopped_change(book, address_of(dsn), directory)
    if last is None or (proof and not last.proof) or down.cause not in MAY_BE_DOWN:
        raise down
    terminal.print_notes(change.way_back(last, "unset"))
    terminal.print_note("the server is down: its files are changed, in force once it starts")
    asked.confirm(f"Restore {plural(len(last.entries), 'setting')}?")
    outcome = undo_stopped(
        dsn, book, last, directory, restart=how, force=force, at=change.observed
    )  # fmt: skip
    if asked.as_json:
        terminal.document(undo_document(recovered, outcome, ()))
    elif how.run is not None:
        change.say(outcome)
    else:
        terminal.print_line(f"{plural(len(outcome.changed), 'setting')} restored in {last.file}")
        terminal.print_note("start the server to put them into force")


def _undone(
    dsn: str,
    last: Change | None,
    book: Journal,
    restarting: change.Restarting,
    asked: options.Asked,
    *,
    force: bool,
    proof: bool,
) -> Outcome:
    from mrtuner.answers import undo

    if last is not None:
        also = _also_due(dsn, last, restarts=restarting.restart != "never")
        terminal.print_notes((*change.way_back(last, "unset"), *_without_effect(dsn, last), *also))
        asked.confirm(f"Restore {plural(len(last.entries), 'setting')}?")
    restarts = last is not None and any(entry.restart for entry in last.entries)
    return undo(
        dsn, journal=book, restart=restarting.consent(due=restarts),
        standbys=restarting.of_standbys(), force=force, proof=proof,
        only=0 if last is None else last.id, at=change.observed,
    )  # fmt: skip


def _last(dsn: str, book: Journal, *, proof: bool) -> Change | None:
    from mrtuner.change.settings.live import identify
    from mrtuner.postgres.connect import connect

    with connect(dsn) as connection:
        server = identify(connection).server
        return book.measured(server) if proof else book.last(server)


def _without_effect(dsn: str, last: Change) -> Iterator[str]:
    """Yield whose entry is put back although no file decides the value."""
    from mrtuner.change.settings.live import in_force
    from mrtuner.postgres.connect import connect

    with connect(dsn) as connection:
        rows = in_force(connection, last.names)
    for name in last.names:
        if name not in rows:
            yield f"{name}: the server no longer knows it, but its entry is put back"
        elif rows[name].commanded:
            yield f"{name}: the command line sets it, which overrides its entry"


def _also_due(dsn: str, last: Change, *, restarts: bool) -> Iterator[str]:
    """Yield what else a reload, or the restart, would put into force."""
    from mrtuner.change.settings.apply import SettingsPlan, plan
    from mrtuner.change.settings.next_start import unloaded
    from mrtuner.postgres.connect import connect
    from mrtuner.postgres.read_server import read
    from mrtuner.tuning.report.text import plan_of_change

    ours = {entry.name for entry in last.entries}
    with connect(dsn) as connection:
        pending = plan(read(connection), ()).pending if restarts else ()
        reloaded = unloaded(connection, ours)
    others = SettingsPlan(
        steps=(), pending=tuple(one for one in pending if one.name not in ours), reloaded=reloaded
    )
    yield from plan_of_change(others, terminal.look(sys.stderr))


def _leftovers_removed(dsn: str, *, yes: bool) -> tuple[str, ...]:
    """Remove leftovers on this server and this machine if the user agrees; return what was removed.

    A database of another machine's proof is only named: that proof may still be running.
    """
    from mrtuner.bench.server import leftover, scratch
    from mrtuner.postgres.connect import connect

    with connect(dsn) as session:
        found = scratch.marked(session)
        _name_others([one for one in found if one.owner is scratch.Owner.ELSEWHERE])
        databases = [one for one in found if one.owner is scratch.Owner.GONE]
        directories = leftover.directories()
        names = [f"database {name}" for one in databases for name in one.databases]
        names += [f"directory {path}" for path in directories]
        if not names:
            return ()
        for name in names:
            terminal.print_note(f"left behind by a run that was killed: {name}")
        if not terminal.confirm_offer("Remove it?", yes=yes):
            return ()
        return *_dropped(session, databases), *_deleted(directories)


def _name_others(found: Sequence[Marked]) -> None:
    for one in found:
        terminal.print_note(f"database {one.template} exists: {one.mark}")
        drops = " ".join(f'DROP DATABASE "{name}";' for name in one.databases)
        terminal.print_note(f"  once that has ended: {drops}")


def _dropped(session: Connection, databases: Sequence[Marked]) -> list[str]:
    import psycopg

    from mrtuner.bench.server import scratch
    from mrtuner.postgres.missing_grants import refused

    gone: list[str] = []
    for one in databases:
        try:
            gone += scratch.drop(session, one.template)
        except psycopg.Error as error:
            terminal.print_note(f"warning: {one.template} cannot be dropped: {refused(error)}")
    return gone


def _deleted(directories: Sequence[Path]) -> list[str]:
    from mrtuner.bench.server import leftover

    gone: list[str] = []
    for path in directories:
        if leftover.remove(path):
            gone.append(str(path))
        else:
            terminal.print_note(f"warning: {path} cannot be deleted: is something mounted there?")
    return gone
