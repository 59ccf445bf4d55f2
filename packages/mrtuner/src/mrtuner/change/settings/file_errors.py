"""Errors in the configuration files that would keep a change from taking effect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mrtuner.change.settings import live
from mrtuner.change.settings.live import AUTO_CONF, FileSetting
from mrtuner.errors import Refused
from mrtuner.postgres.pending import waiting

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection


def refuse_broken_files(conn: Connection, names: Sequence[str], restarts: bool) -> None:
    """Raise Refused if a reload, or a restart that is due, could not read the files.

    Errors in lines for `names` do not count, since those lines are rewritten.
    """
    ours = {name.lower() for name in names}
    for line in live.file_lines(conn) or ():
        if (line.name or "").lower() not in ours and _in_the_way(conn, line, restarts):
            what = f"{line.name}: {line.error}" if line.name else line.error
            raise Refused(
                f"the configuration files contain an error: {line}: {what}",
                "Correct that line first; the server would not start with it.",
            )


def refuse_broken_entries(conn: Connection, names: Sequence[str]) -> None:
    """Raise Refused if postgresql.auto.conf has a value for `names` that ALTER SYSTEM would refuse.

    Once it is replaced, nobody could put it back.
    """
    ours = {name.lower() for name in names}
    for line in live.file_lines(conn) or ():
        if line.name is None or line.name.lower() not in ours:
            continue
        if live.is_file(line.sourcefile, AUTO_CONF) and _in_the_way(conn, line, restarts=True):
            raise Refused(
                f"{AUTO_CONF} sets {line.name} to what could not be restored: {line.error}",
                f"Remove it first: ALTER SYSTEM RESET {line.name}.",
            )


def _in_the_way(conn: Connection, line: FileSetting, restarts: bool) -> bool:
    """Whether an error keeps a reload or a restart from reading the files.

    A reload applies nothing if a file cannot be parsed or a name is unknown, and the rest if a
    value is invalid; a start fails at any of them. Merely waiting for a restart is not an error.
    Source: guc.c, ProcessConfigFileInternal.
    """
    if line.error is None:
        return False
    name = (line.name or "").lower()
    row = live.in_force(conn, [name]).get(name)
    flagged = (name,) if row is not None and row.pending_restart else ()
    if waiting(line.name, line.value, line.error, flagged):
        return False
    return row is None or restarts
