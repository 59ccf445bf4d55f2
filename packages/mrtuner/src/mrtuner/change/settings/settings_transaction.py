"""One journalled change of a server's settings: forward to its target, or back to its start.

ALTER SYSTEM changes only postgresql.auto.conf; nothing takes effect until a reload or a restart
reads it. If there is a restart, there is no reload before it, so that all settings change at the
same moment; without one, a reload does the same for those that need no restart. What is in force
is therefore the start or the target, unless someone else reloads the server while the entries
are being written; reverting then needs one more reload.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from mrtuner.change.journal import Journal
from mrtuner.change.record import Change, ParameterChange, State
from mrtuner.change.settings import live
from mrtuner.change.settings.data_directory import belongs_to, read_text, replace_file, runs_from
from mrtuner.change.settings.file_errors import refuse_broken_files
from mrtuner.change.settings.live import AUTO_CONF, FileSetting, InForce
from mrtuner.change.settings.restart import (
    LEAST,
    Method,
    NotAnswering,
    NotRestarted,
    Restart,
    answering,
    ended,
    restarted,
    started,
)
from mrtuner.change.settings.server_log import server_log, with_log
from mrtuner.change.transaction import Observer, Transaction
from mrtuner.errors import MAY_BE_DOWN, ApplyError, ConnectCause, MrTunerError, Refused
from mrtuner.postgres.conf_file import entry, with_entries, with_unit
from mrtuner.postgres.connect import connect

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection

Direction = Literal["after", "before"]

#: A postmaster reads its files moments after a reload; a busy machine needs longer [s].
_RELOAD_PATIENCE: Final = 10.0
_PAUSE: Final = 0.05


@dataclass(slots=True)
class SettingsTransaction(Transaction):
    """A change of a server's settings, and the session that holds the server's lock."""

    dsn: str
    journal: Journal
    change: Change
    how: Restart
    at: Observer
    conn: Connection | None
    limit: float = LEAST  # for a restart [s]

    def forward(self) -> None:
        """Write, reload or restart, and verify in a new session."""
        conn = self._session()
        for name, write in self._writes(conn, "after"):
            with self._step(State.WRITING, f"write {name}"):
                write()
        with self._step(State.WRITTEN, "check the files"):
            _raise_any(self._file_problems(conn, "after"), self._hint)
        if self.change.restarts:
            with self._step(State.RESTARTING, "restart"):
                self._restart()
        else:
            with self._step(State.RELOADING, "reload"):
                live.reload(conn)
        with self._step(State.RELOADED, "verify"):
            _raise_any(self._settled("after", may_wait=not self.change.restarts), self._hint)
        self._note(State.VERIFIED, "verified")

    def at_target(self) -> bool:
        """Whether all wanted values are in force, as far as a single check can tell."""
        with connect(self.dsn) as conn:
            return not self._problems(conn, "after", may_wait=not self.change.restarts)

    def back(self) -> tuple[str, ...]:
        """Put everything back; return the names that keep our value until a restart."""
        waiting: tuple[str, ...] = ()
        ended(self.how.patience or self.limit)  # a restart that was interrupted or took too long
        try:
            waiting = self._back_over_sql(self._session())
        except NotAnswering as error:
            self._after_failed_restart(error)
        except NotRestarted as error:
            raise ApplyError(f"the old settings need a restart: {error}", _AGAIN) from error
        self._note(State.REVERTED, "reverted")
        return waiting

    def as_before(self, waiting: Sequence[str]) -> str:
        """Report that the files, and the values in force except pending ones, are as before."""
        if waiting:
            return (
                "the files are as they were, but these keep their new value until a "
                f"restart: {', '.join(waiting)}"
            )
        return "all settings are as they were before"

    def close(self) -> None:
        """Close the session, which releases the lock."""
        if self.conn is not None:
            self.conn.close()

    def _session(self) -> Connection:
        """Return the open session, or a new one. Raises NotAnswering."""
        if self.conn is not None and alive(self.conn):
            return self.conn
        self.close()
        self.conn = answering(self.dsn, self.how.patience or self.limit)
        return self.conn

    def _writes(
        self, conn: Connection, direction: Direction, names: Sequence[str] | None = None
    ) -> Iterator[tuple[str, Callable[[], None]]]:
        """Yield each name to write, or the file, with the function that writes it."""
        wanted = self.change.names if names is None else names
        if self.change.method == "include file":
            if wanted:
                text: str | None = getattr(self.change, f"text_{direction}")
                yield str(self._file()), partial(replace_file, self._file(), text)
            return
        for one in self.change.entries:
            if one.name in wanted:
                value: str | None = getattr(one, direction)
                yield one.name, partial(live.alter_system, conn, one.name, value)

    def _file(self) -> Path:
        return Path(self.change.file or AUTO_CONF)

    @property
    def _file_name(self) -> str:
        return AUTO_CONF if self.change.method == "alter system" else str(self._file())

    @property
    def _hint(self) -> str | None:
        if self.change.method == "include file":
            return f"The server must include it: include_dir = '{self._file().parent}'."
        return None

    def _restart(self) -> None:
        """Restart with the owner's method and keep a session with the new server."""
        if self.how.run is None:
            raise ApplyError("no way to restart the server was given", None)
        conn = self._session()
        before, log = live.identify(conn).started, server_log(conn)
        self.limit = self.how.limit(conn)
        self.close()
        try:
            self.conn = restarted(self.dsn, self.how.run, self.limit, before)
        except NotAnswering as error:
            raise NotAnswering(with_log(str(error), log), error.cause) from error
        with suppress(MrTunerError):
            live.lock(self.conn)

    # Checking.

    def _settled(self, direction: Direction, *, may_wait: bool) -> list[str]:
        """What is still wrong when it should be in force; each check uses a new session."""
        deadline = time.monotonic() + _RELOAD_PATIENCE
        while True:
            with connect(self.dsn) as conn:
                problems = self._problems(conn, direction, may_wait=may_wait)
            if not problems or time.monotonic() > deadline:
                return problems
            time.sleep(_PAUSE)

    def _problems(self, conn: Connection, direction: Direction, *, may_wait: bool) -> list[str]:
        if problems := self._file_problems(conn, direction):
            return problems
        rows = live.in_force(conn, self.change.names)
        found = (self._problem(conn, one, rows, direction, may_wait) for one in self.change.entries)
        return [problem for problem in found if problem]

    def _problem(
        self,
        conn: Connection,
        one: ParameterChange,
        rows: Mapping[str, InForce],
        direction: Direction,
        may_wait: bool,
    ) -> str | None:
        """Why a parameter does not have the value this direction wants; None if it does."""
        row, back = rows.get(one.name), direction == "before" or self.change.undoes is not None
        if row is None or (back and row.commanded):  # with its entry back, a file can do no more
            return None if back else f"the server no longer knows {one.name}"
        if row.hidden or (may_wait and one.restart and row.pending_restart):
            return None
        if direction == "before" and row.setting == one.in_force:
            return None
        value: str | None = getattr(one, direction)
        if self._gives(row, value):
            return None
        if value is not None and live.shown(conn, row, value) == row.setting:
            return None
        shown = with_unit(row.setting, row.vartype, row.unit)
        return f"{one.name} is {shown}" + (
            f" instead of {value}" if value is not None else " still"
        )

    def _gives(self, row: InForce, value: str | None) -> bool:
        ours = live.is_file(row.sourcefile, self._file_name)
        if value is None:
            return not ours
        # A value that the server chooses is shown as its own; `_file_problems` knows our line.
        if self.change.method == "include file" and not ours and row.source != "override":
            return False
        return row.gives(value)

    def _file_problems(self, conn: Connection, direction: Direction) -> list[str]:
        """What in the files keeps the entries from taking effect; empty if we may not read them."""
        if direction == "before" and self.change.method == "include file":
            return []  # the whole file is back, and it may never have been read
        lines = live.file_lines(conn)
        if lines is None:
            return []
        rows = live.in_force(conn, self.change.names)
        found = (self._file_problem(one, lines, rows, direction) for one in self.change.entries)
        return [problem for problem in found if problem]

    def _file_problem(
        self,
        one: ParameterChange,
        lines: Sequence[FileSetting],
        rows: Mapping[str, InForce],
        direction: Direction,
    ) -> str | None:
        value: str | None = getattr(one, direction)
        same_name = [line for line in lines if (line.name or "").lower() == one.name.lower()]
        ours = [line for line in same_name if live.is_file(line.sourcefile, self._file_name)]
        if value is None:
            return f"{one.name} is still set in {ours[-1]}" if ours else None
        if not ours:
            return f"the server does not read {one.name} from {self._file_name}"
        if same_name[-1] is not ours[-1]:
            return f"{one.name} is overridden by {same_name[-1]}"
        return _line_problem(one, ours[-1], rows.get(one.name), value)

    # Reverting.

    def _back_over_sql(self, conn: Connection) -> tuple[str, ...]:
        reload = self.change.state not in _NOTHING_IN_FORCE
        for name, write in self._writes(conn, "before", self._to_put_back(conn)):
            with self._step(State.REVERTING, f"put back {name}"):
                write()
        if reload or self._off_start(or_pending=True):
            with self._step(State.REVERTING, "reload"):
                live.reload(conn)
        _raise_any(self._not_before(conn), _AGAIN)
        waiting = self._off_start()
        if not waiting or self.how.run is None:
            return waiting
        with self._step(State.REVERTING, "restart"):
            self._restart()
        _raise_any(self._settled("before", may_wait=False), _AGAIN)
        return ()

    def _not_before(self, conn: Connection) -> list[str]:
        problems = self._settled("before", may_wait=True)
        if problems:  # a reload applies nothing while a file is broken
            try:
                refuse_broken_files(conn, self.change.names, restarts=False)
            except Refused as broken:
                problems.append(broken.message)
        return problems

    def _to_put_back(self, conn: Connection) -> tuple[str, ...]:
        """The names still to be restored. Values that someone else has written since are kept."""
        if self.change.method == "include file":
            return self._file_to_put_back()
        lines = live.file_lines(conn)
        rows = live.in_force(conn, self.change.names)
        entries = self.change.entries
        if lines is None:
            if self.change.state is State.VERIFIED:  # only then pg_settings shows what is written
                self.change = replace(
                    self.change, entries=tuple(one for one in entries if _seems_ours(one, rows))
                )
            return self.change.names
        now = live.values_in(lines, AUTO_CONF)
        keep = [one for one in entries if _is_ours(one, now.get(one.name.lower()), rows)]
        self.change = replace(self.change, entries=tuple(keep))
        return tuple(one.name for one in keep if now.get(one.name.lower()) != one.before)

    def _file_to_put_back(self) -> tuple[str, ...]:
        now = read_text(self._file())
        if now == self.change.text_before:
            return ()
        if now != self.change.text_after:
            self.change = replace(self.change, entries=())
        return self.change.names

    def _off_start(self, *, or_pending: bool = False) -> tuple[str, ...]:
        """The names whose original value is not in force for new sessions.

        pending_restart alone does not count: when the line that caused it is removed again, the
        server does not clear the flag. It only shows that someone has reloaded meanwhile.
        """
        with connect(self.dsn) as conn:
            rows = live.in_force(conn, self.change.names)
        known = [(one, rows[one.name]) for one in self.change.entries if one.name in rows]
        return tuple(
            one.name
            for one, row in known
            if (or_pending and row.pending_restart) or self._is_off(one, row)
        )

    def _is_off(self, one: ParameterChange, row: InForce) -> bool:
        if row.hidden or row.commanded:
            return False
        return row.setting != one.in_force and not self._gives(row, one.before)

    def _after_failed_restart(self, failed: NotAnswering) -> None:
        """Bring back a server that is down: restore its file, then use its owner's method.

        One that is still starting gets its file only. One that may run is left alone.
        """
        here = self._reachable()
        starting = here and failed.cause is ConnectCause.STARTING
        if not starting and (failed.cause not in MAY_BE_DOWN or (here and self._runs())):
            raise ApplyError(f"the server may run, but gives no session: {failed}", _AGAIN)
        if not here:
            raise ApplyError(f"the server is down: {failed}", self._by_hand())
        with self._step(State.REVERTING, f"put back {self._file()}"):
            replace_file(self._file(), self._old_text())
        back = f"{failed}; its old settings are back in {self._file()}"
        if starting:
            raise ApplyError(
                f"the server is not up yet: {back}",
                "Wait until it accepts connections, then run again to verify.",
            )
        method = self.how.start or self.how.run
        if method is None:
            raise ApplyError(f"the server is down: {back}", "Start it, then run again to verify.")
        if not ended(0):
            raise ApplyError(
                f"the server is down, and its restart command still runs: {back}",
                "Wait until that has ended, then run again to verify.",
            )
        with self._step(State.REVERTING, "start"):
            self._start(method)
        _raise_any(self._settled("before", may_wait=False), _AGAIN)

    def _start(self, method: Method) -> None:
        try:
            self.conn = started(self.dsn, method, self.how.patience or self.limit)
        except NotAnswering as error:
            down = error.cause in MAY_BE_DOWN
            raise ApplyError(
                f"the server does not start even with its old settings: {error}"
                if down
                else f"the server has its old settings, but gives no session: {error}",
                f"See its log; the settings are in {self._file()}.",
            ) from error

    def _reachable(self) -> bool:
        """Whether we may replace the file while the server is down."""
        if not self.change.local:
            return False
        if self.change.method == "include file":
            return os.access(self._file().parent, os.W_OK)
        return belongs_to(self._file().parent, self.change.system_identifier)

    def stopped_here(self) -> bool:
        """Whether its files are on this machine, may be replaced, and no server runs from them."""
        return self._reachable() and not self._runs()

    def _runs(self) -> bool:
        return runs_from(self._file().parent)

    def _old_text(self) -> str | None:
        """The file with our entries as they were, keeping others' changes since.

        Entries are restored at its end: their order does not matter, since each name occurs once.
        """
        if self.change.method == "include file":
            return self.change.text_before
        return self._with_entries({one.name: one.before for one in self.change.entries})

    def _with_entries(self, values: Mapping[str, str | None]) -> str:
        return with_entries(read_text(self._file()) or "", values)

    def _by_hand(self) -> str:
        """What the owner must write, and where, if we cannot reach the file."""
        file = self.change.file or AUTO_CONF
        if self.change.method == "include file":
            return f"Put the previous {file} back, then start the server."
        put = [entry(one.name, one.before) for one in self.change.entries if one.before is not None]
        drop = [one.name for one in self.change.entries if one.before is None]
        wanted = [f"put back {'; '.join(put)}"] if put else []
        wanted += [f"remove the lines that set {', '.join(drop)}"] if drop else []
        return f"In {file} of its data directory {' and '.join(wanted)}, then start the server."


#: Up to these states, we have asked for no reload or restart.
_NOTHING_IN_FORCE: Final = frozenset({State.PLANNED, State.WRITING, State.WRITTEN})
_AGAIN: Final = "The change is in the journal: run again to continue putting it back."


def _is_ours(one: ParameterChange, now: str | None, rows: Mapping[str, InForce]) -> bool:
    """Whether an entry is as it was before us or as we wrote it."""
    if now in (one.before, one.after):
        return True
    row = rows.get(one.name)
    return (
        row is not None and now is not None and one.after is not None and row.same(now, one.after)
    )


def _seems_ours(one: ParameterChange, rows: Mapping[str, InForce]) -> bool:
    """Whether an entry is ours, or back, as far as pg_settings shows it."""
    row = rows.get(one.name)
    if row is None or row.hidden or row.pending_restart:
        return True
    if not live.is_file(row.sourcefile, AUTO_CONF):
        return one.before is None
    return any(row.same(text, row.setting) for text in (one.before, one.after) if text is not None)


def _line_problem(
    one: ParameterChange, line: FileSetting, row: InForce | None, value: str
) -> str | None:
    if line.value != value and not (row and line.value and row.same(line.value, value)):
        return f"{one.name} is {line.value} in {line} instead of {value}"
    if line.error and not one.restart:  # else the error only says that a restart is needed
        return f"the server cannot use {one.name} in {line}: {line.error}"
    return None


def _raise_any(problems: Sequence[str], hint: str | None) -> None:
    if problems:
        raise ApplyError("; ".join(problems), hint)


def alive(conn: Connection) -> bool:
    """Whether a session still answers."""
    import psycopg

    try:
        conn.execute("SELECT 1")
    except psycopg.Error:
        return False
    return True
