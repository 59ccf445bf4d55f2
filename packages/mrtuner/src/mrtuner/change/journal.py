"""The journal on disk: one SQLite file, synced to disk at every step.

Once `note` returns, the step survives a crash of the machine. A server can have only one
unfinished change; the database enforces that.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from mrtuner.change.journal_schema import SCHEMA_VERSION, opened
from mrtuner.change.record import Change, GroupChange, ParameterChange, State
from mrtuner.errors import ApplyError, Refused

if TYPE_CHECKING:
    import sqlite3

_UNFINISHED: Final = "state NOT IN ('verified', 'reverted')"


class JournalError(ApplyError):
    """The journal cannot be read or written."""


def journal_directory(given: Path | None = None) -> Path:
    """The journal's directory: `given`, else MRTUNER_STATE_DIR, else the user's state directory."""
    if given is not None:
        return given
    if from_environment := os.environ.get("MRTUNER_STATE_DIR"):
        return Path(from_environment)
    import platformdirs

    return Path(platformdirs.user_state_dir("mrtuner"))


def _utc() -> datetime:
    return datetime.now(UTC)


class Journal:
    """The changes that one user has made to any server from one machine.

    It stores only the entries that a change writes, not the rest of the server's files, which may
    contain a password (primary_conninfo). Only its owner can read it. Every failure to read or
    write raises JournalError.
    """

    def __init__(
        self, directory: Path | None = None, *, clock: Callable[[], datetime] = _utc
    ) -> None:
        self._clock = clock
        self.directory = journal_directory(directory)
        self.path = self.directory / "journal.sqlite3"
        with self._translated():
            self._db = opened(self.directory, self.path)

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(self, change: Change) -> Change:
        """Record a new change as planned; return it with its number and time."""
        change = replace(change, state=State.PLANNED, began=self._now())
        row = (change.server, change.address, change.state, change.began, change.undoes)
        with self._transaction() as db:
            number = db.execute(
                "INSERT INTO change (server, address, state, began, undoes, contents)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (*row, json.dumps({k: v for k, v in asdict(change).items() if k not in _COLUMNS})),
            ).lastrowid
            _add_step(db, number or 0, self._now(), State.PLANNED, "planned")
        return replace(change, id=number or 0)

    def note(
        self, change: Change, state: State, step: str, *, rebooting: str | None = None
    ) -> Change:
        """Record that a step is about to be taken or, for a finished state, that it was taken.

        `rebooting`: the instance whose reboot RDS has just accepted.
        """
        with self._transaction() as db:
            db.execute("UPDATE change SET state = ? WHERE id = ?", (state, change.id))
            _add_step(db, change.id, self._now(), state, step, rebooting)
            if state is State.VERIFIED and change.undoes is not None:
                db.execute(
                    "UPDATE change SET state = ? WHERE id = ?", (State.REVERTED, change.undoes)
                )
        return replace(change, state=state)

    def unfinished(self, server: str) -> Change | None:
        """The interrupted change of a server, or None."""
        return self._one(f"server = ? AND {_UNFINISHED}", server)

    def unfinished_at(self, address: str) -> Change | None:
        """The latest interrupted change of the server reached at this address, or None."""
        return self._one(f"address = ? AND {_UNFINISHED}", address)

    def last(self, server: str) -> Change | None:
        """The latest change in force at a server: the one to undo; None if there is none."""
        return self._one("server = ? AND state = 'verified' AND undoes IS NULL", server)

    def measured(self, server: str) -> Change | None:
        """The latest change in force that a measurement made; others may have been made since."""
        made = [one for one in self.changes(server) if one.proof and one.undoes is None]
        return next((one for one in reversed(made) if one.state is State.VERIFIED), None)

    def changes(self, server: str | None = None) -> tuple[Change, ...]:
        """All changes to one server, or to every server, oldest first."""
        with self._translated():
            rows = self._db.execute(
                "SELECT * FROM change WHERE ?1 IS NULL OR server = ?1 ORDER BY id", (server,)
            ).fetchall()
        return tuple(_change(row) for row in rows)

    def steps(self, change: Change) -> tuple[str, ...]:
        """The recorded steps of a change, oldest first."""
        with self._translated():
            rows = self._db.execute(
                "SELECT step FROM step WHERE change = ? ORDER BY number", (change.id,)
            ).fetchall()
        return tuple(row["step"] for row in rows)

    def rebooted(self, change: Change) -> frozenset[str]:
        """The instances whose reboot RDS has accepted for a change."""
        with self._translated():
            rows = self._db.execute(
                "SELECT rebooting FROM step WHERE change = ? AND rebooting IS NOT NULL",
                (change.id,),
            ).fetchall()
        return frozenset(row["rebooting"] for row in rows)

    def keep(self, name: str, contents: Mapping[str, Any]) -> None:
        """Store a document under a name: the progress of something that is not a list of entries.

        It replaces an earlier document of that name.
        """
        with self._transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO document VALUES (?, ?, ?)",
                (name, self._now(), json.dumps(contents)),
            )

    def kept(self, name: str) -> dict[str, Any] | None:
        """The document stored under a name, or None."""
        with self._translated():
            row = self._db.execute(
                "SELECT contents FROM document WHERE name = ?", (name,)
            ).fetchone()
        found: dict[str, Any] | None = None if row is None else json.loads(row["contents"])
        return found

    @contextmanager
    def hold(self, server: str) -> Iterator[None]:
        """Lock a server against other processes that use this journal; Refused if it is locked.

        The lock belongs to the process and ends with it, however it ends. Unlike a lock in the
        server, it also holds while the server restarts.
        """
        with self._translated():
            lock = os.open(self._lock_file(server), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise busy() from None
            yield
        finally:
            os.close(lock)

    def _now(self) -> str:
        return self._clock().isoformat(timespec="milliseconds")

    def _lock_file(self, server: str) -> Path:
        return self.directory / f"{sha256(server.encode()).hexdigest()[:16]}.lock"

    def _one(self, condition: str, value: str) -> Change | None:
        with self._translated():
            row = self._db.execute(
                f"SELECT * FROM change WHERE {condition} ORDER BY id DESC LIMIT 1",  # noqa: S608
                (value,),
            ).fetchone()
        return None if row is None else _change(row)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._translated():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _translated(self) -> Iterator[None]:
        import sqlite3

        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise unusable(self.path, error) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of a change, as it was recorded."""

    at: datetime
    state: State
    step: str


def changes_with_steps() -> tuple[tuple[Change, tuple[Step, ...]], ...] | None:
    """Read all changes with their steps, oldest first, and write nothing; None without a journal.

    Raises:
        JournalError: it cannot be read, or a newer MrTuner wrote it.
    """
    import sqlite3

    path = journal_directory() / "journal.sqlite3"
    try:
        if not path.exists():
            return None
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            db.row_factory = sqlite3.Row
            db.execute("BEGIN")
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if not 0 < version <= SCHEMA_VERSION:
                raise sqlite3.DatabaseError(f"it has schema {version}")
            steps: dict[int, list[Step]] = {}
            for row in db.execute("SELECT * FROM step ORDER BY change, number"):
                steps.setdefault(row["change"], []).append(
                    Step(
                        at=datetime.fromisoformat(row["at"]), state=State(row["state"]),
                        step=row["step"],
                    )
                )  # fmt: skip
            rows = db.execute("SELECT * FROM change ORDER BY id").fetchall()
            return tuple((_change(row), tuple(steps.get(row["id"], ()))) for row in rows)
    except (sqlite3.Error, OSError, ValueError, TypeError, KeyError) as error:
        raise unusable(path, error) from error


def unusable(path: Path, error: Exception) -> JournalError:
    """The error for a journal, or a file beside it, that cannot be read or written."""
    reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
    return JournalError(
        f"cannot use the journal {path}: {reason}",
        "Name another directory with --journal or MRTUNER_STATE_DIR.",
    )


def busy() -> Refused:
    """The error for a server that another MrTuner process is changing."""
    return Refused(
        "another mrtuner is changing this server now", "Wait until it has finished, then run again."
    )


def refuse_other(done: Change, only: int | None) -> None:
    """Raise Refused if an undo would revert another change than the one of this number."""
    if only is not None and done.id != only:
        raise Refused(
            "another change was made or undone since the question was asked",
            "Run again: that shows what an undo reverts now.",
        )


def _add_step(
    db: sqlite3.Connection, change: int, at: str, state: State, step: str,
    rebooting: str | None = None,
) -> None:  # fmt: skip
    db.execute(
        "INSERT INTO step (change, number, at, state, step, rebooting)"
        " SELECT ?1, count(*) + 1, ?2, ?3, ?4, ?5 FROM step WHERE change = ?1",
        (change, at, state, step, rebooting),
    )


#: The fields that are columns of table change; everything else of a Change is in `contents`.
_COLUMNS: Final = frozenset({"id", "server", "address", "state", "began", "undoes"})


def _change(row: sqlite3.Row) -> Change:
    contents: dict[str, Any] = json.loads(row["contents"])
    entries = tuple(ParameterChange(**entry) for entry in contents.pop("entries"))
    group = _group(contents.pop("group", None))  # absent in records older than this field
    columns = {name: row[name] for name in _COLUMNS - {"state"}}
    return Change(**columns, **contents, state=State(row["state"]), entries=entries, group=group)


def _group(contents: dict[str, Any] | None) -> GroupChange | None:
    if contents is None:
        return None
    return GroupChange(**{**contents, "reboots": tuple(contents["reboots"])})
