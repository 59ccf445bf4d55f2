"""Storage parameters as one journalled change: either all are set and verified, or none.

ALTER TABLE is transactional, so all tables of a change are altered in one transaction and there is
no intermediate state. The change is journalled first, so that the next run can find out whether one
that was killed around the commit took effect, and `undo` restores exactly what was there: a
parameter that was unset becomes unset again. Server settings are set by `mrtuner apply`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Final

from mrtuner.change.journal import Journal, busy
from mrtuner.change.record import Change, Outcome, ParameterChange, State
from mrtuner.change.transaction import Observer, Transaction, unobserved
from mrtuner.errors import ApplyError, UsageError
from mrtuner.postgres.connect import connect, translated
from mrtuner.postgres.sql import query
from mrtuner.vacuum.commands import qualified

if TYPE_CHECKING:
    import psycopg

    from mrtuner.postgres.connect import Connection
    from mrtuner.vacuum.assess import Vacuum
    from mrtuner.vacuum.model import Table

#: ALTER TABLE waits for a vacuum or another ALTER; it must not wait for long.
_PATIENCE: Final = "SET lock_timeout = '5s'"
_TOAST: Final = "toast."
_LOOK_AGAIN: Final = "Run again: that checks whether it was committed, and finishes or reverts it."
#: "mrtuner" in ASCII, as for every change of a server: our key among its advisory locks.
_LOCK: Final = int.from_bytes(b"mrtuner")


def plan(dsn: str, found: Vacuum) -> tuple[ParameterChange, ...]:
    """Return the changes to tables that the advice requires, without what is already set."""
    wanted = {
        entry_name(one.table, item.name): item.value for one in found.tables for item in one.advice
    }
    with connect(dsn) as conn, translated():
        now = _values(conn, wanted)
    return tuple(
        ParameterChange(
            name=name, before=now[name], after=value, restart=False, in_force=now[name] or ""
        )
        for name, value in wanted.items()
        if now[name] != value
    )


def entry_name(table: Table, parameter: str) -> str:
    """The name of a table's parameter in a change: both, with the table quoted as in SQL."""
    return f"{qualified(table)} {parameter}"


def apply(
    dsn: str, entries: Sequence[ParameterChange], journal: Journal, *, at: Observer = unobserved
) -> Outcome:
    """Set what was planned. ApplyError if the server refuses; nothing is changed then.

    An interrupted change of this database is cleaned up first.
    """
    with _alone(dsn, journal) as (conn, key):
        _recover(conn, journal, key)
        if not entries:
            return Outcome(result="nothing")
        if off := _off(conn, entries, [one.before for one in entries]):
            raise ApplyError(
                f"nothing was changed: {', '.join(off)} changed since the plan was made",
                "Run again for a new plan.",
            )
        change = journal.begin(_change(conn, key, entries))
        _StorageParameters(conn, journal, change, at).carry_out()
        return Outcome(result="applied", change=change.id, changed=change.names)


def last(dsn: str, journal: Journal) -> Change | None:
    """The change of this database that `undo` would revert, or None."""
    with connect(dsn) as conn, translated():
        return journal.last(_key(conn))


def undo(dsn: str, journal: Journal, *, at: Observer = unobserved) -> Outcome:
    """Undo the last change of this database, keeping what others have set since.

    UsageError if the journal has none.
    """
    with _alone(dsn, journal) as (conn, key):
        _recover(conn, journal, key)
        done = journal.last(key)
        if done is None:
            raise UsageError(
                "there is nothing to undo: the journal has no change of this database's tables",
                "If it was made with another journal, name that with --journal.",
            )
        left = _off(conn, done.entries, [one.after for one in done.entries])
        back = [
            replace(one, before=one.after, after=one.before)
            for one in done.entries
            if one.name not in left
        ]
        change = journal.begin(replace(_change(conn, key, back), undoes=done.id))
        _StorageParameters(conn, journal, change, at).carry_out()
        return Outcome(result="undone", change=change.id, changed=change.names, left=left)


def finish_or_revert_storage_parameters(dsn: str, journal: Journal) -> Outcome | None:
    """Clean up an interrupted change of this database; None if there is none."""
    with _alone(dsn, journal) as (conn, key):
        return _recover(conn, journal, key)


@contextmanager
def _alone(dsn: str, journal: Journal) -> Iterator[tuple[Connection, str]]:
    """Open a session that keeps other MrTuner processes from changing this database; yield its key.

    The server's lock outlives a killed process until its session has ended: once we have the
    lock, whatever that session sent last has been committed or rolled back.
    """
    from psycopg import errors

    with connect(dsn) as conn, translated():
        key = _key(conn)
        with journal.hold(key):
            conn.execute(_PATIENCE)
            try:
                conn.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
            except errors.LockNotAvailable:
                raise busy() from None
            yield conn, key


def _recover(conn: Connection, journal: Journal, key: str) -> Outcome | None:
    change = journal.unfinished(key)
    if change is None:
        return None
    outcome = _StorageParameters(conn, journal, change, unobserved).finish_or_revert()
    if outcome.result == "reverted":
        return outcome
    off = _off(conn, change.entries, [one.after for one in change.entries])
    return replace(outcome, left=off)


def _key(conn: Connection) -> str:
    """The database's key, different from the server's own, under which settings are changed."""
    row = conn.execute(query("vacuum_identity", conn.info.server_version)).fetchone()
    assert row is not None  # noqa: S101 - a function gives one row
    return f"storage parameters of {row[1]} in {row[0]}"


def _change(conn: Connection, key: str, entries: Sequence[ParameterChange]) -> Change:
    info = conn.info
    return Change(
        server=key,
        address=f"{info.host}:{info.port}/{info.dbname}",
        method="storage parameters",
        entries=tuple(entries),
        restarts=False,
    )


class _StorageParameters(Transaction):
    """A change of storage parameters in progress."""

    def __init__(self, conn: Connection, journal: Journal, change: Change, at: Observer) -> None:
        self.conn = conn
        self.journal = journal
        self.change = change
        self.at = at

    def forward(self) -> None:
        """Commit and verify."""
        with self._step(State.WRITING, "commit"):
            self._alter(self.change.entries)
        with self._step(State.WRITTEN, "verify"):
            if off := _off(self.conn, self.change.entries, self._after()):
                raise ApplyError(
                    f"{', '.join(off)} changed in the meantime",
                    "Check who changed it, then run again.",
                )
        self._note(State.VERIFIED, "verified")

    def at_target(self) -> bool:
        """Whether the one transaction was committed, as a single value in the catalog shows."""
        entries = self.change.entries
        return not entries or len(_off(self.conn, entries, self._after())) < len(entries)

    def back(self) -> tuple[str, ...]:
        """Put back the values that are still ours, again in one transaction."""
        if self.conn.closed:
            raise ApplyError("the connection was lost", _LOOK_AGAIN)
        off = _off(self.conn, self.change.entries, self._after())
        ours = [one for one in self.change.entries if one.name not in off]
        if ours:
            with self._step(State.REVERTING, "commit the previous values"):
                self._alter([replace(one, before=one.after, after=one.before) for one in ours])
        self._note(State.REVERTED, "reverted")
        return ()

    def as_before(self, waiting: Sequence[str]) -> str:  # noqa: ARG002 - none needs a restart
        return "nothing was changed"

    def _after(self) -> list[str | None]:
        return [one.after for one in self.change.entries]

    def _alter(self, entries: Sequence[ParameterChange]) -> None:
        """Alter all tables in one transaction, which ends with the step that commits it."""
        import psycopg

        try:
            with self.conn.transaction():
                for relation, of_table in groupby(entries, key=table_of):
                    self._tell(f"alter {relation}")
                    for statement in _statements(tuple(of_table)):
                        self.conn.execute(statement.encode())
        except psycopg.Error as error:
            raise _refused(error) from error


def _refused(error: psycopg.Error) -> ApplyError:
    from psycopg import errors

    hints = {
        errors.LockNotAvailable: "A vacuum or another ALTER holds the table: run again later.",
        errors.InsufficientPrivilege: "Connect as the owner of the tables or as a superuser.",
        errors.OutOfMemory: "Raise max_locks_per_transaction, or run --format sql in parts.",
    }
    said = str(error).partition("\n")[0]
    hint = next((text for kind, text in hints.items() if isinstance(error, kind)), None)
    return ApplyError(said, hint or "Resolve this, then run again.")


def _statements(entries: Sequence[ParameterChange]) -> Iterator[str]:
    """SET for parameters with a value, RESET for those that become unset; for one table."""
    relation = table_of(entries[0])
    put = [f"{_split(one.name)[1]} = {one.after}" for one in entries if one.after is not None]
    drop = [_split(one.name)[1] for one in entries if one.after is None]
    if put:
        yield f"ALTER TABLE {relation} SET ({', '.join(put)})"
    if drop:
        yield f"ALTER TABLE {relation} RESET ({', '.join(drop)})"


def _off(
    conn: Connection, entries: Sequence[ParameterChange], expected: Sequence[str | None]
) -> tuple[str, ...]:
    """The names of entries that differ from what is expected."""
    now = _values(conn, tuple(one.name for one in entries))
    return tuple(
        one.name for one, value in zip(entries, expected, strict=True) if now[one.name] != value
    )


def _values(conn: Connection, names: Collection[str]) -> dict[str, str | None]:
    """The present value of each "table" parameter; None if unset or the table is gone."""
    relations = sorted({_split(name)[0] for name in names})
    found = {row[0]: row[1:] for row in conn.execute(_OPTIONS, (relations,)).fetchall()}
    return {name: _value(name, found) for name in names}


_OPTIONS: Final = (
    "SELECT given.name, c.reloptions, t.reloptions FROM unnest(%s::text[]) AS given(name) "
    "JOIN pg_catalog.pg_class AS c ON c.oid = to_regclass(given.name) "
    "LEFT JOIN pg_catalog.pg_class AS t ON t.oid = c.reltoastrelid"
)


def _value(name: str, found: Mapping[str, Sequence[list[str] | None]]) -> str | None:
    relation, parameter = _split(name)
    own, toast = found.get(relation, (None, None))
    if parameter.startswith(_TOAST):
        return _options(toast).get(parameter.removeprefix(_TOAST))
    return _options(own).get(parameter)


def _options(given: Sequence[str] | None) -> Mapping[str, str]:
    return {name: value for name, _, value in (text.partition("=") for text in given or ())}


def table_of(entry: ParameterChange) -> str:
    """Return the table whose parameter an entry is, quoted as in SQL."""
    return _split(entry.name)[0]


def _split(name: str) -> tuple[str, str]:
    """Split into quoted table and parameter; a parameter's name contains no space."""
    relation, _, parameter = name.rpartition(" ")
    return relation, parameter
