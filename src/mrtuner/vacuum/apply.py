"""Storage parameters as one journalled change: all of them set and verified, or none.

ALTER TABLE is transactional, so all tables of a change are altered in one transaction and there is
no state in between. The journal knows of it before, so that a run that was killed around the
commit is told apart by the next one, and `undo` puts back exactly what was there: a parameter
that was unset becomes unset again. Server settings are the main job's (`mrtuner apply`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Final, Literal

from mrtuner.errors import ApplyError
from mrtuner.journal.record import Change, Entry, State
from mrtuner.journal.store import Journal
from mrtuner.postgres.connect import connect, translated
from mrtuner.postgres.sql import query
from mrtuner.vacuum.sql import qualified

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection
    from mrtuner.vacuum.answer import Vacuum

Direction = Literal["before", "after"]

#: ALTER TABLE waits behind a vacuum or another ALTER; it must not wait for long.
_PATIENCE: Final = b"SET lock_timeout = '5s'"
_TOAST: Final = "toast."


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What has become of a change; `changed` and `left` are "table" parameter."""

    did: Literal["nothing", "applied", "undone", "finished", "reverted"]
    change: int | None = None  # its number in the journal
    changed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()  # undo: what somebody has changed since, or whose table is gone


def apply(dsn: str, found: Vacuum, journal: Journal) -> Outcome:
    """Set what was advised for tables. ApplyError when the server refuses: nothing is changed then.

    An interrupted change of this database is cleared up first.
    """
    with connect(dsn) as conn, translated():
        key = _key(conn)
        with journal.hold(key):
            _recover(conn, journal, key)
            entries = tuple(_wanted(conn, found))
            if not entries:
                return Outcome(did="nothing")
            change = journal.begin(_change(conn, key, entries))
            _carry_out(conn, journal, change)
            return Outcome(did="applied", change=change.id, changed=_names(entries))


def undo(dsn: str, journal: Journal) -> Outcome:
    """Take the last change of this database back; what others have set since is left to them."""
    with connect(dsn) as conn, translated():
        key = _key(conn)
        with journal.hold(key):
            _recover(conn, journal, key)
            last = journal.last(key)
            if last is None:
                return Outcome(did="nothing")
            ours = tuple(one for one in last.entries if _value(conn, one.name) == one.after)
            left = tuple(one.name for one in last.entries if one not in ours)
            back = tuple(replace(one, before=one.after, after=one.before) for one in ours)
            change = journal.begin(replace(_change(conn, key, back), undoes=last.id))
            _carry_out(conn, journal, change)
            return Outcome(did="undone", change=change.id, changed=_names(back), left=left)


def recover(dsn: str, journal: Journal) -> Outcome | None:
    """Clear up a change of this database that was interrupted; None when there is none."""
    with connect(dsn) as conn, translated():
        key = _key(conn)
        with journal.hold(key):
            return _recover(conn, journal, key)


def _recover(conn: Connection, journal: Journal, key: str) -> Outcome | None:
    """One transaction was committed or was not: the catalog tells which."""
    change = journal.unfinished(key)
    if change is None:
        return None
    if not _off(conn, change.entries, "after"):
        journal.note(change, State.VERIFIED, "found in force")
        return Outcome(did="finished", change=change.id, changed=_names(change.entries))
    journal.note(change, State.REVERTED, "found not in force")
    return Outcome(did="reverted", change=change.id)


def _key(conn: Connection) -> str:
    """Which database this is; another key than the server's own, whose settings others change."""
    row = conn.execute(query("vacuum_identity", conn.info.server_version)).fetchone()
    assert row is not None  # noqa: S101 - a function gives one row
    return f"storage parameters of {row[1]} in {row[0]}"


def _change(conn: Connection, key: str, entries: tuple[Entry, ...]) -> Change:
    info = conn.info
    return Change(
        server=key,
        address=f"{info.host}:{info.port}/{info.dbname}",
        method="storage parameters",
        entries=entries,
        restarts=False,
    )


def _wanted(conn: Connection, found: Vacuum) -> Iterator[Entry]:
    """The advice against what is set now, not what was set when the advice was made."""
    for one in found.tables:
        for item in one.advice:
            name = f"{qualified(one.table)} {item.name}"
            now = _value(conn, name)
            if now != item.value:
                yield Entry(
                    name=name, before=now, after=item.value, restart=False, in_force=now or ""
                )


def _carry_out(conn: Connection, journal: Journal, change: Change) -> None:
    import psycopg

    number = len(change.entries)
    change = journal.note(change, State.WRITING, f"alter {number} parameters in one transaction")
    try:
        _write(conn, change.entries)
    except psycopg.Error as error:
        if conn.closed:
            raise  # committed or not: the next run looks
        journal.note(change, State.REVERTED, "rolled back")
        raise ApplyError(
            f"nothing was changed: {str(error).partition(chr(10))[0]}",
            "A vacuum or another ALTER may hold the table: run again later.",
        ) from error
    if off := _off(conn, change.entries, "after"):
        raise ApplyError(
            f"somebody has changed {', '.join(off)} meanwhile", "Look at it, then run again."
        )
    journal.note(change, State.VERIFIED, "verified")


def _write(conn: Connection, entries: Sequence[Entry]) -> None:
    with conn.transaction():
        conn.execute(_PATIENCE.replace(b"SET ", b"SET LOCAL "))
        for relation, of_table in groupby(entries, key=lambda one: _split(one.name)[0]):
            for statement in _statements(relation, tuple(of_table)):
                conn.execute(statement.encode())


def _statements(relation: str, entries: Sequence[Entry]) -> Iterator[str]:
    """SET for what gets a value, RESET for what becomes unset."""
    put = [f"{_split(one.name)[1]} = {one.after}" for one in entries if one.after is not None]
    drop = [_split(one.name)[1] for one in entries if one.after is None]
    if put:
        yield f"ALTER TABLE {relation} SET ({', '.join(put)})"
    if drop:
        yield f"ALTER TABLE {relation} RESET ({', '.join(drop)})"


def _off(conn: Connection, entries: Sequence[Entry], direction: Direction) -> list[str]:
    """The names of what is not as it should be."""
    return [one.name for one in entries if _value(conn, one.name) != getattr(one, direction)]


def _value(conn: Connection, name: str) -> str | None:
    """What is set for a table's parameter now; None where it is not, or the table is gone."""
    relation, parameter = _split(name)
    row = conn.execute(_OPTIONS, (relation,)).fetchone()
    if row is None:
        return None
    own, toast = (_options(given) for given in row)
    if parameter.startswith(_TOAST):
        return toast.get(parameter.removeprefix(_TOAST))
    return own.get(parameter)


_OPTIONS: Final = (
    "SELECT c.reloptions, t.reloptions FROM pg_catalog.pg_class AS c "
    "LEFT JOIN pg_catalog.pg_class AS t ON t.oid = c.reltoastrelid "
    "WHERE c.oid = to_regclass(%s::text)"
)


def _options(given: Sequence[str] | None) -> Mapping[str, str]:
    return {name: value for name, _, value in (text.partition("=") for text in given or ())}


def _split(name: str) -> tuple[str, str]:
    """A quoted table and its parameter; no parameter's name has a space."""
    relation, _, parameter = name.rpartition(" ")
    return relation, parameter


def _names(entries: Sequence[Entry]) -> tuple[str, ...]:
    return tuple(one.name for one in entries)
