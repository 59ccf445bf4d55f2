"""Storage parameters as one journalled change: all of them set and verified, or none.

ALTER TABLE is transactional, so all tables of a change are altered in one transaction and there is
no state in between. The journal knows of it before, so that a run that was killed around the
commit is told apart by the next one, and `undo` puts back exactly what was there: a parameter
that was unset becomes unset again. Server settings are the main job's (`mrtuner apply`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Final, Literal

from mrtuner.change.journal import Journal, busy
from mrtuner.change.record import Change, Entry, State
from mrtuner.change.steps import Observer, Steps, unseen
from mrtuner.errors import ApplyError, UsageError
from mrtuner.postgres.connect import connect, translated
from mrtuner.postgres.sql import query
from mrtuner.vacuum.commands import qualified

if TYPE_CHECKING:
    import psycopg

    from mrtuner.postgres.connect import Connection
    from mrtuner.vacuum.assess import Vacuum
    from mrtuner.vacuum.model import Table

#: ALTER TABLE waits behind a vacuum or another ALTER; it must not wait for long.
_PATIENCE: Final = "SET lock_timeout = '5s'"
_TOAST: Final = "toast."
#: "mrtuner" in ASCII, as in every change of a server: our key among its advisory locks.
_LOCK: Final = int.from_bytes(b"mrtuner")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What has become of a change; `changed` and `left` are "table" parameter.

    Of an interrupted one: finished (it is in force), reverted (it is not); of an interrupted undo:
    undone, or nothing.
    """

    did: Literal["nothing", "applied", "undone", "finished", "reverted"]
    change: int | None = None  # its number in the journal
    changed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()  # undo: what somebody has changed since, or whose table is gone


def plan(dsn: str, found: Vacuum) -> tuple[Entry, ...]:
    """The advice for tables against what is set now; without what is set already."""
    wanted = {
        entry_name(one.table, item.name): item.value for one in found.tables for item in one.advice
    }
    with connect(dsn) as conn, translated():
        now = _values(conn, wanted)
    return tuple(
        Entry(name=name, before=now[name], after=value, restart=False, in_force=now[name] or "")
        for name, value in wanted.items()
        if now[name] != value
    )


def entry_name(table: Table, parameter: str) -> str:
    """What a change calls a table's parameter: both, the table quoted as in SQL."""
    return f"{qualified(table)} {parameter}"


def apply(
    dsn: str, entries: Sequence[Entry], journal: Journal, *, at: Observer = unseen
) -> Outcome:
    """Set what was planned. ApplyError when the server refuses: nothing is changed then.

    An interrupted change of this database is cleared up first.
    """
    with _alone(dsn, journal) as (conn, key):
        _recover(conn, journal, key)
        if not entries:
            return Outcome(did="nothing")
        if off := _off(conn, entries, [one.before for one in entries]):
            raise ApplyError(
                f"nothing was changed: somebody has changed {', '.join(off)} since the plan",
                "Run again for a fresh plan.",
            )
        change = journal.begin(_change(conn, key, entries))
        _Writing(conn, journal, change, at).carry_out()
        return Outcome(did="applied", change=change.id, changed=_names(entries))


def last(dsn: str, journal: Journal) -> Change | None:
    """The change of this database that `undo` would take back."""
    with connect(dsn) as conn, translated():
        return journal.last(_key(conn))


def undo(dsn: str, journal: Journal, *, at: Observer = unseen) -> Outcome:
    """Take the last change of this database back; what others have set since is left to them.

    UsageError when the journal knows of none.
    """
    with _alone(dsn, journal) as (conn, key):
        _recover(conn, journal, key)
        done = journal.last(key)
        if done is None:
            raise UsageError(
                "there is nothing to undo: the journal knows no change of this database's tables",
                "If it was made with another journal, name that with --journal.",
            )
        left = _off(conn, done.entries, [one.after for one in done.entries])
        back = [
            replace(one, before=one.after, after=one.before)
            for one in done.entries
            if one.name not in left
        ]
        change = journal.begin(replace(_change(conn, key, back), undoes=done.id))
        _Writing(conn, journal, change, at).carry_out()
        return Outcome(did="undone", change=change.id, changed=_names(back), left=left)


def recover(dsn: str, journal: Journal) -> Outcome | None:
    """Clear up a change of this database that was interrupted; None when there is none."""
    with _alone(dsn, journal) as (conn, key):
        return _recover(conn, journal, key)


@contextmanager
def _alone(dsn: str, journal: Journal) -> Iterator[tuple[Connection, str]]:
    """A session during which nobody else of us changes this database, and its key.

    The server's lock outlives a killed process until its session has ended: what that one sent
    last is committed or rolled back when we have the lock.
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
    """One transaction was committed or was not: a single value of it in the catalog tells."""
    change = journal.unfinished(key)
    if change is None:
        return None
    undoing = change.undoes is not None
    off = _off(conn, change.entries, [one.after for one in change.entries])
    if change.entries and len(off) == len(change.entries):
        journal.note(change, State.REVERTED, "found not in force")
        return Outcome(did="nothing" if undoing else "reverted", change=change.id)
    journal.note(change, State.VERIFIED, "found in force")
    return Outcome(
        did="undone" if undoing else "finished",
        change=change.id,
        changed=_names(change.entries),
        left=off,
    )


def _key(conn: Connection) -> str:
    """Which database this is; another key than the server's own, whose settings others change."""
    row = conn.execute(query("vacuum_identity", conn.info.server_version)).fetchone()
    assert row is not None  # noqa: S101 - a function gives one row
    return f"storage parameters of {row[1]} in {row[0]}"


def _change(conn: Connection, key: str, entries: Sequence[Entry]) -> Change:
    info = conn.info
    return Change(
        server=key,
        address=f"{info.host}:{info.port}/{info.dbname}",
        method="storage parameters",
        entries=tuple(entries),
        restarts=False,
    )


class _Writing(Steps):
    """One change on its way into the catalog."""

    def __init__(self, conn: Connection, journal: Journal, change: Change, at: Observer) -> None:
        self.conn = conn
        self.journal = journal
        self.change = change
        self.at = at

    def carry_out(self) -> None:
        """Write and verify; ApplyError with nothing changed when the server refuses."""
        import psycopg

        entries = self.change.entries
        try:
            self._write()
        except psycopg.Error as error:
            if self.conn.closed:
                raise  # committed or not: the next run looks
            self._note(State.REVERTED, "rolled back")
            raise _refused(error) from error
        with self._step(State.WRITTEN, "verify"):
            if off := _off(self.conn, entries, [one.after for one in entries]):
                raise ApplyError(
                    f"somebody has changed {', '.join(off)} meanwhile", "Look, then run again."
                )
        self._note(State.VERIFIED, "verified")

    def _write(self) -> None:
        """All tables in one transaction, which ends with the step that commits it."""
        with self._step(State.WRITING, "commit"), self.conn.transaction():
            for relation, of_table in groupby(self.change.entries, key=_relation):
                self._tell(f"alter {relation}")
                for statement in _statements(tuple(of_table)):
                    self.conn.execute(statement.encode())


def _refused(error: psycopg.Error) -> ApplyError:
    from psycopg import errors

    hints = {
        errors.LockNotAvailable: "A vacuum or another ALTER holds the table: run again later.",
        errors.InsufficientPrivilege: "Connect as the owner of the tables or as a superuser.",
        errors.OutOfMemory: "Raise max_locks_per_transaction, or run --format sql in parts.",
    }
    said = str(error).partition("\n")[0]
    hint = next((text for kind, text in hints.items() if isinstance(error, kind)), None)
    return ApplyError(f"nothing was changed: {said}", hint or "Look at it, then run again.")


def _statements(entries: Sequence[Entry]) -> Iterator[str]:
    """SET for what gets a value, RESET for what becomes unset; all of one table."""
    relation = _relation(entries[0])
    put = [f"{_split(one.name)[1]} = {one.after}" for one in entries if one.after is not None]
    drop = [_split(one.name)[1] for one in entries if one.after is None]
    if put:
        yield f"ALTER TABLE {relation} SET ({', '.join(put)})"
    if drop:
        yield f"ALTER TABLE {relation} RESET ({', '.join(drop)})"


def _off(
    conn: Connection, entries: Sequence[Entry], expected: Sequence[str | None]
) -> tuple[str, ...]:
    """The names of what is not as expected."""
    now = _values(conn, _names(entries))
    return tuple(
        one.name for one, value in zip(entries, expected, strict=True) if now[one.name] != value
    )


def _values(conn: Connection, names: Collection[str]) -> dict[str, str | None]:
    """What is set for each "table" parameter now; None where it is not, or the table is gone."""
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


def _split(name: str) -> tuple[str, str]:
    """A quoted table and its parameter; no parameter's name has a space."""
    relation, _, parameter = name.rpartition(" ")
    return relation, parameter


def _relation(entry: Entry) -> str:
    return _split(entry.name)[0]


def _names(entries: Sequence[Entry]) -> tuple[str, ...]:
    return tuple(one.name for one in entries)
