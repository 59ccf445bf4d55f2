"""What SQL alone changes, as one journalled change: either all of it is set and verified, or none.

ALTER is transactional, so everything is altered in one transaction and there is no intermediate
state. The change is journalled first, so that the next run can find out whether one that was killed
around the commit took effect, and `undo` restores exactly what was there: what was unset becomes
unset again. A subclass knows one kind of object: how to read its values, and how to alter it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, ClassVar, Final

from mrtuner.change.journal import Journal, busy, refuse_other
from mrtuner.change.record import Change, Method, Outcome, ParameterChange, State
from mrtuner.change.settings.live import LOCK
from mrtuner.change.transaction import Observer, Transaction, unobserved
from mrtuner.errors import ApplyError, UsageError
from mrtuner.postgres.connect import connect, translated, use_role_search_path
from mrtuner.postgres.missing_grants import refused
from mrtuner.postgres.sql import query

if TYPE_CHECKING:
    import psycopg

    from mrtuner.postgres.connect import Connection

#: Values and the reasons for them, by ``object parameter``.
Wanted = Mapping[str, tuple[str, str]]
#: ALTER waits for a vacuum or another ALTER; it must not wait for long.
_PATIENCE: Final = "SET lock_timeout = '5s'"
_LOOK_AGAIN: Final = "Run again: that checks whether it was committed, and finishes or reverts it."


class CatalogTransaction(Transaction):
    """A change of objects in the catalog in progress. An entry is named ``object parameter``."""

    METHOD: ClassVar[Method]
    #: Whose changes these are, for messages: "this database's tables".
    WHOSE: ClassVar[str]
    #: What to do about an error, by its SQLSTATE.
    HINTS: ClassVar[Mapping[str, str]]

    # What a subclass must implement.

    @staticmethod
    @abstractmethod
    def key(system: str, database: str) -> str:
        """Return the key of these changes in the journal: not the server's, used for settings."""

    @staticmethod
    @abstractmethod
    def values(conn: Connection, names: Collection[str]) -> dict[str, str | None]:
        """Return the present value of each ``object parameter``; None: unset, or no such object."""

    @staticmethod
    @abstractmethod
    def alter(owner: str, entries: Sequence[ParameterChange]) -> Iterator[bytes]:
        """Yield the statements that set entries of one object to `after`; None becomes unset."""

    @staticmethod
    def lock(conn: Connection) -> None:
        """Lock this database for the session; Refused if another process holds it."""
        from psycopg import errors

        try:
            conn.execute("SELECT pg_advisory_lock(%s)", (LOCK,))
        except errors.LockNotAvailable:
            raise busy() from None

    # The way there and back, for callers.

    @classmethod
    def planned(cls, dsn: str, wanted: Wanted) -> tuple[ParameterChange, ...]:
        """Return the changes that `wanted` requires, without what is already set."""
        with connect(dsn) as conn, translated():
            now = cls.values(conn, wanted)
        return tuple(
            ParameterChange(
                name=name, before=now[name], after=value, restart=False, in_force=now[name] or ""
            )
            for name, (value, _) in wanted.items()
            if now[name] != value
        )

    @classmethod
    def apply(
        cls,
        dsn: str,
        entries: Sequence[ParameterChange],
        journal: Journal,
        *,
        at: Observer = unobserved,
    ) -> Outcome:
        """Set what was planned. ApplyError if the server refuses; nothing is changed then.

        An interrupted change of the same kind is cleaned up first.
        """
        with cls._alone(dsn, journal) as (conn, key):
            cls._recover(conn, journal, key)
            if not entries:
                return Outcome(result="nothing")
            if off := cls._off(conn, entries, [one.before for one in entries]):
                raise ApplyError(
                    f"nothing was changed: {', '.join(off)} changed since the plan was made",
                    "Run again for a new plan.",
                )
            change = journal.begin(cls._begun(conn, key, entries))
            cls(conn, journal, change, at).carry_out()
            return Outcome(result="applied", change=change.id, changed=change.names)

    @classmethod
    def last(cls, dsn: str, journal: Journal) -> Change | None:
        """The change that `undo` would revert, or None."""
        with connect(dsn) as conn, translated():
            return journal.last(cls._key(conn))

    @classmethod
    def undo(
        cls, dsn: str, journal: Journal, *, only: int | None = None, at: Observer = unobserved
    ) -> Outcome:
        """Undo the last change, keeping what others have set since.

        UsageError if the journal has none; Refused if it does not have the number `only`.
        """
        with cls._alone(dsn, journal) as (conn, key):
            cls._recover(conn, journal, key)
            done = journal.last(key)
            if done is None:
                raise UsageError(
                    f"there is nothing to undo: the journal has no change of {cls.WHOSE}",
                    "If it was made with another journal, name that with --journal.",
                )
            refuse_other(done, only)
            left = cls._off(conn, done.entries, [one.after for one in done.entries])
            back = [turned(one) for one in done.entries if one.name not in left]
            change = journal.begin(replace(cls._begun(conn, key, back), undoes=done.id))
            cls(conn, journal, change, at).carry_out()
            return Outcome(result="undone", change=change.id, changed=change.names, left=left)

    @classmethod
    def finish_or_revert_interrupted(cls, dsn: str, journal: Journal) -> Outcome | None:
        """Clean up an interrupted change of this kind; None if there is none."""
        with cls._alone(dsn, journal) as (conn, key):
            return cls._recover(conn, journal, key)

    # Within one session.

    @classmethod
    @contextmanager
    def _alone(cls, dsn: str, journal: Journal) -> Iterator[tuple[Connection, str]]:
        """Open a session that keeps other MrTuner processes out; yield it and its key.

        The server's lock outlives a killed process until its session has ended: once we have the
        lock, whatever that session sent last has been committed or rolled back.
        """
        with connect(dsn) as conn, translated():
            key = cls._key(conn)
            with journal.hold(key):
                conn.execute(_PATIENCE)
                cls.lock(conn)
                yield conn, key

    @classmethod
    def _recover(cls, conn: Connection, journal: Journal, key: str) -> Outcome | None:
        change = journal.unfinished(key)
        if change is None:
            return None
        outcome = cls(conn, journal, change, unobserved).finish_or_revert()
        if outcome.result == "reverted":
            return outcome
        off = cls._off(conn, change.entries, [one.after for one in change.entries])
        return replace(outcome, left=off)

    @classmethod
    def _key(cls, conn: Connection) -> str:
        row = conn.execute(query("catalog_identity", conn.info.server_version)).fetchone()
        assert row is not None  # noqa: S101 - a function gives one row
        return cls.key(*row)

    @classmethod
    def _begun(cls, conn: Connection, key: str, entries: Sequence[ParameterChange]) -> Change:
        info = conn.info
        return Change(
            server=key,
            address=f"{info.host}:{info.port}/{info.dbname}",
            method=cls.METHOD,
            entries=tuple(entries),
            restarts=False,
        )

    @classmethod
    def _off(
        cls, conn: Connection, entries: Sequence[ParameterChange], expected: Sequence[str | None]
    ) -> tuple[str, ...]:
        """The names of entries that differ from what is expected."""
        now = cls.values(conn, tuple(one.name for one in entries))
        return tuple(
            one.name for one, value in zip(entries, expected, strict=True) if now[one.name] != value
        )

    # One change.

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
            if off := self._off(self.conn, self.change.entries, self._after()):
                raise ApplyError(
                    f"{', '.join(off)} changed in the meantime",
                    "Check who changed it, then run again.",
                )
        self._note(State.VERIFIED, "verified")

    def at_target(self) -> bool:
        """Whether the one transaction was committed, as a single value in the catalog shows."""
        entries = self.change.entries
        return not entries or len(self._off(self.conn, entries, self._after())) < len(entries)

    def back(self) -> tuple[str, ...]:
        """Put back the values that are still ours, again in one transaction."""
        if self.conn.closed:
            raise ApplyError("the connection was lost", _LOOK_AGAIN)
        off = self._off(self.conn, self.change.entries, self._after())
        ours = [one for one in self.change.entries if one.name not in off]
        if ours:
            with self._step(State.REVERTING, "commit the previous values"):
                self._alter([turned(one) for one in ours])
        self._note(State.REVERTED, "reverted")
        return ()

    def as_before(self, waiting: Sequence[str]) -> str:  # noqa: ARG002 - none needs a restart
        return "nothing was changed"

    def _after(self) -> list[str | None]:
        return [one.after for one in self.change.entries]

    def _alter(self, entries: Sequence[ParameterChange]) -> None:
        """Alter everything in one transaction, which ends with the step that commits it."""
        import psycopg

        try:
            with self.conn.transaction():
                use_role_search_path(self.conn)  # the user's event triggers run inside
                for owner, its_own in groupby(entries, key=owner_of):
                    self._tell(f"alter {owner}")
                    for statement in self.alter(owner, tuple(its_own)):
                        self.conn.execute(statement)
        except psycopg.Error as error:
            raise self._refused(error) from error

    def _refused(self, error: psycopg.Error) -> ApplyError:
        return ApplyError(
            refused(error), self.HINTS.get(error.sqlstate or "", "Resolve this, then run again.")
        )


def turned(entry: ParameterChange) -> ParameterChange:
    """Return the entry that takes this one back."""
    return replace(entry, before=entry.after, after=entry.before)


def owner_of(entry: ParameterChange) -> str:
    """Return the object whose parameter an entry is."""
    return split(entry.name)[0]


def split(name: str) -> tuple[str, str]:
    """Split into object and parameter; a parameter's name contains no space."""
    owner, _, parameter = name.rpartition(" ")
    return owner, parameter


def by_name(given: Sequence[str] | None) -> dict[str, str]:
    """Return a catalog's array of ``name=value`` by name."""
    return {name: value for name, _, value in (text.partition("=") for text in given or ())}
