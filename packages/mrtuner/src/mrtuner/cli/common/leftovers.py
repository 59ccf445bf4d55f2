"""Find what killed proofs left behind, and remove it if the user agrees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mrtuner.cli.common import terminal

if TYPE_CHECKING:
    from pathlib import Path

    from mrtuner.bench.server.scratch import Marked
    from mrtuner.postgres.connect import Connection


def removed(dsn: str, *, yes: bool) -> tuple[str, ...]:
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
    from mrtuner.postgres.reader import refused

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
