"""The journal on disk: one SQLite file, written through to the disk at every step.

Rollback journal and synchronous=FULL: once `note` returns, the step survives a crash of
the machine. Only one change of a server can be unfinished; the database itself sees to it.
Source: https://www.sqlite.org/pragma.html#pragma_synchronous
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from mrtuner.change.record import Change, Entry, GroupChange, State
from mrtuner.errors import ApplyError, Refused, UsageError

if TYPE_CHECKING:
    import sqlite3
    from types import TracebackType

#: 2: no more texts of postgresql.auto.conf, which may hold a password.
SCHEMA_VERSION: Final = 2

_SCHEMA: Final = """
CREATE TABLE change (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    server   TEXT NOT NULL,
    address  TEXT NOT NULL,
    state    TEXT NOT NULL,
    began    TEXT NOT NULL,
    undoes   INTEGER REFERENCES change,
    contents TEXT NOT NULL -- JSON: the rest of a Change
);
CREATE UNIQUE INDEX one_unfinished_change ON change (server)
    WHERE state NOT IN ('verified', 'reverted');
CREATE TABLE step (
    change INTEGER NOT NULL REFERENCES change,
    number INTEGER NOT NULL,
    at     TEXT NOT NULL,
    state  TEXT NOT NULL,
    step   TEXT NOT NULL,
    PRIMARY KEY (change, number)
);
"""

_WITHOUT_TEXTS: Final = """
UPDATE change SET contents = json_set(contents, '$.text_before', NULL)
WHERE json_extract(contents, '$.method') = 'alter system'
"""

_UNFINISHED: Final = "state NOT IN ('verified', 'reverted')"


class JournalError(ApplyError):
    """The journal cannot be read or written."""


def journal_directory(given: Path | None = None) -> Path:
    """Where the journal is kept: as given, else MRTUNER_STATE_DIR, else the user's state."""
    if given is not None:
        return given
    if from_environment := os.environ.get("MRTUNER_STATE_DIR"):
        return Path(from_environment)
    import platformdirs

    return Path(platformdirs.user_state_dir("mrtuner"))


class Journal:
    """The changes of all servers that one user has changed from one machine.

    It keeps the entries that a change writes and nothing else of the server's files, where a
    password may stand (primary_conninfo). Only its owner can read it. Every failure to read or
    write is a JournalError.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = journal_directory(directory)
        self.path = self.directory / "journal.sqlite3"
        with self._translated():
            self._db = _opened(self.directory, self.path)

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def begin(self, change: Change) -> Change:
        """Write a new change down as planned; the same with its number and time."""
        change = replace(change, state=State.PLANNED, began=_now())
        row = (change.server, change.address, change.state, change.began, change.undoes)
        with self._transaction() as db:
            number = db.execute(
                "INSERT INTO change (server, address, state, began, undoes, contents)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (*row, _contents(change)),
            ).lastrowid
            _add_step(db, number or 0, State.PLANNED, "planned")
        return replace(change, id=number or 0)

    def note(self, change: Change, state: State, step: str) -> Change:
        """Write down that a step is about to be taken, or (a finished state) that it was."""
        with self._transaction() as db:
            db.execute("UPDATE change SET state = ? WHERE id = ?", (state, change.id))
            _add_step(db, change.id, state, step)
            if state is State.VERIFIED and change.undoes is not None:
                db.execute(
                    "UPDATE change SET state = ? WHERE id = ?", (State.REVERTED, change.undoes)
                )
        return replace(change, state=state)

    def unfinished(self, server: str) -> Change | None:
        """The interrupted change of a server, if there is one."""
        return self._one(f"server = ? AND {_UNFINISHED}", server)

    def unfinished_at(self, address: str) -> Change | None:
        """The interrupted change of the server that was reached at this address, the latest."""
        return self._one(f"address = ? AND {_UNFINISHED}", address)

    def last(self, server: str) -> Change | None:
        """The latest change in force at a server: what an undo would take back."""
        return self._one("server = ? AND state = 'verified' AND undoes IS NULL", server)

    def changes(self, server: str | None = None) -> tuple[Change, ...]:
        """Every change, oldest first, of one server or of all."""
        with self._translated():
            rows = self._db.execute(
                "SELECT * FROM change WHERE ?1 IS NULL OR server = ?1 ORDER BY id", (server,)
            ).fetchall()
        return tuple(_change(row) for row in rows)

    def steps(self, change: Change) -> tuple[str, ...]:
        """The steps of a change as they were written down, oldest first."""
        with self._translated():
            rows = self._db.execute(
                "SELECT step FROM step WHERE change = ? ORDER BY number", (change.id,)
            ).fetchall()
        return tuple(row["step"] for row in rows)

    @contextmanager
    def hold(self, server: str) -> Iterator[None]:
        """Keep every other process of this journal away from a server. Refused if one is there.

        The lock belongs to the process, so it ends with it however it ends, and unlike a
        lock in the server it also holds while the server restarts.
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
            raise JournalError(
                f"cannot use the journal {self.path}: {_reason(error)}",
                "Name another directory with --journal or MRTUNER_STATE_DIR.",
            ) from error


def busy() -> Refused:
    """The error for a server that another MrTuner is changing."""
    return Refused(
        "another mrtuner is changing this server now", "Wait until it has ended, then run again."
    )


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def _opened(directory: Path, path: Path) -> sqlite3.Connection:
    import sqlite3

    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Made by us before SQLite sees it: SQLite itself would take the umask's mode.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    db = sqlite3.connect(path, timeout=5, isolation_level=None)
    try:
        db.row_factory = sqlite3.Row
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA secure_delete = ON")  # what is taken out is overwritten
        _ensure_schema(db, path)
    except BaseException:
        db.close()
        raise
    return db


def _ensure_schema(db: sqlite3.Connection, path: Path) -> None:
    db.execute("BEGIN IMMEDIATE")  # also proves that the file can be written
    with closing(db.execute("PRAGMA user_version")) as cursor:
        version = cursor.fetchone()[0]
    if version > SCHEMA_VERSION:
        raise UsageError(
            f"the journal {path} was written by a newer MrTuner (schema {version})",
            "Update MrTuner, or name another directory with --journal.",
        )
    if version < SCHEMA_VERSION:
        for statement in _SCHEMA.split(";\n") if version == 0 else (_WITHOUT_TEXTS,):
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    db.execute("COMMIT")


def _add_step(db: sqlite3.Connection, change: int, state: State, step: str) -> None:
    db.execute(
        "INSERT INTO step SELECT ?1, count(*) + 1, ?2, ?3, ?4 FROM step WHERE change = ?1",
        (change, _now(), state, step),
    )


#: Columns of their own in table change; everything else of a Change is in `contents`.
_COLUMNS: Final = frozenset({"id", "server", "address", "state", "began", "undoes"})


def _contents(change: Change) -> str:
    return json.dumps({k: v for k, v in asdict(change).items() if k not in _COLUMNS})


def _change(row: sqlite3.Row) -> Change:
    contents: dict[str, Any] = json.loads(row["contents"])
    entries = tuple(Entry(**entry) for entry in contents.pop("entries"))
    group = _group(contents.pop("group", None))  # absent: written before there were any
    columns = {name: row[name] for name in _COLUMNS - {"state"}}
    return Change(**columns, **contents, state=State(row["state"]), entries=entries, group=group)


def _group(contents: dict[str, Any] | None) -> GroupChange | None:
    if contents is None:
        return None
    return GroupChange(**{**contents, "reboots": tuple(contents["reboots"])})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
