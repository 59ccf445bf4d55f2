"""Opening the SQLite database of a store, for the one writer or for any reader."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from mrtuner.errors import MrTunerError, Refused, UsageError
from mrtuner.history.recording.sampler import Identity
from mrtuner.history.recording.source import Source, parse
from mrtuner.history.store import layout
from mrtuner.history.store.own_sources import OWN
from mrtuner.history.store.parquet import File
from mrtuner.postgres.sql import OLDEST

#: How long a statement waits for another one's lock [s]; a reader never holds one for long.
_PATIENCE: Final = 30.0
#: A commit that returned survives the machine, not only the process.
_DURABLE: Final = "PRAGMA synchronous = FULL"


def make_directory(directory: Path) -> None:
    """Create the directory of a store, accessible only to its owner.

    Raises:
        UsageError: it cannot be created.
    """
    try:
        (directory / layout.LAKE).mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot keep history in {directory}: {error.strerror}",
            "Name a writable directory with --dir.",
        ) from None


def for_writing(path: Path, sources: Iterable[Source]) -> sqlite3.Connection:
    """Open the database, and create the tables that it lacks.

    Raises:
        Refused: it is of a newer version.
        UsageError: it is not a MrTuner store, is damaged, or cannot be written.
    """
    with explained(path.parent):
        db = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)
        try:
            _close_to_others(path)
            _check(db, path, new=True)
            db.execute("PRAGMA journal_mode = WAL")
            db.execute(_DURABLE)
            db.execute("BEGIN IMMEDIATE")
            _make_tables(db, (*sources, *OWN))
            db.execute("COMMIT")
        except BaseException:
            db.close()
            raise
    return db


def _close_to_others(path: Path) -> None:
    """Let the database be read by those who may read the lake; SQLite's other files follow it."""
    lake = (path.parent / layout.LAKE).stat().st_mode
    mode = 0o600 | (lake & 0o060) | (lake & 0o006)
    for file in (path, *(path.with_name(f"{path.name}-{end}") for end in ("wal", "shm"))):
        with suppress(FileNotFoundError):
            file.chmod(stat.S_IMODE(file.stat().st_mode) & mode)


def again(path: Path) -> sqlite3.Connection:
    """Open a second connection to a database that this process has open for writing.

    Raises:
        sqlite3.OperationalError: the disk is full, or the like. It may be tried again.
    """
    db = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)
    db.execute(_DURABLE)
    return db


def for_reading(directory: Path) -> sqlite3.Connection:
    """Open the database of a store without changing anything; a writer may be running.

    Raises:
        UsageError: there is no store, or it is damaged.
        Refused: it is of a newer version.
    """
    path = directory / layout.DATABASE
    if not path.is_file():
        raise UsageError(
            f"there is no history in {directory}",
            "Record some with mrtuner record, or name its directory with --dir.",
        )
    with explained(path.parent):
        db = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_PATIENCE,
            isolation_level=None,
            # The viewer's requests take turns with it, each in a thread of its own.
            check_same_thread=False,
        )  # fmt: skip
        try:
            _check(db, path, new=False)
        except BaseException:
            db.close()
            raise
    return db


def sources(db: sqlite3.Connection) -> Iterator[Source]:
    """Yield the sources of a store, as they were declared when it was last written."""
    yield from OWN
    for name, text in db.execute("SELECT name, declaration FROM source ORDER BY name"):
        yield parse(name, {OLDEST: text})


def listed(db: sqlite3.Connection) -> list[File]:
    """The Parquet files on the list of a store, in the order of their numbers."""
    names = ("number", "view", "path", "first", "last", "rows", "bytes", "sha256")
    rows = db.execute(
        f"SELECT {', '.join(names)} FROM file "
        "WHERE retired IS NULL AND broken IS NULL ORDER BY number"
    )
    return [File(**dict(zip(names, row, strict=True))) for row in rows]


def last_identity(db: sqlite3.Connection, instance: str) -> Identity | None:
    """The server that answered last for an instance; None if none ever did."""
    found = db.execute("SELECT * FROM last_identity WHERE instance = ?", (instance,))
    row = found.fetchone()
    if row is None:
        return None
    known = dict(zip((column[0] for column in found.description), row, strict=True))
    return Identity(
        version_num=known["version_num"], started=known["started"], system=known["system"],
        standby=bool(known["standby"]), checkpointer=known.get("checkpointer"),
    )  # fmt: skip


def _check(db: sqlite3.Connection, path: Path, *, new: bool) -> None:
    application = db.execute("PRAGMA application_id").fetchone()[0]
    version = _format(db)
    empty = not db.execute("SELECT 1 FROM sqlite_master").fetchone()
    if empty and not new:
        raise UsageError(f"there is no history in {path.parent} yet", "Wait for the first sample.")
    if application != layout.APPLICATION and not empty:
        raise UsageError(f"{path} is not a MrTuner store", "Give another directory with --dir.")
    if version > layout.FORMAT:
        raise Refused(
            f"{path.parent} was written by a newer MrTuner (format {version}; this one knows "
            f"{layout.FORMAT})",
            "Update MrTuner: pip install --upgrade mrtuner.",
        )


def _format(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _make_tables(db: sqlite3.Connection, sources: Iterable[Source]) -> None:
    if _format(db) == 0:
        db.execute(f"PRAGMA application_id = {layout.APPLICATION}")
        db.execute(f"PRAGMA user_version = {layout.FORMAT}")
        for statement in layout.TABLES:
            db.execute(statement)
    if "checkpointer" not in _columns(db, "last_identity"):  # of an earlier version
        db.execute("ALTER TABLE last_identity ADD COLUMN checkpointer TEXT")
    for source in sources:
        if source.declaration:
            db.execute(
                "INSERT OR REPLACE INTO source VALUES (?, ?)", (source.name, source.declaration)
            )
        db.execute(layout.create_table(source))
        table = layout.hot_table(source)
        have = _columns(db, table)
        for name, _ in layout.stored_columns(source):
            if name not in have:
                db.execute(f'ALTER TABLE {table} ADD COLUMN "{name}"')


def _columns(db: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in db.execute(f"PRAGMA table_info({table})")}


@contextmanager
def explained(directory: Path) -> Iterator[None]:
    """Turn SQLite's errors about a store's database into ours, which name the file."""
    path = directory / layout.DATABASE
    try:
        yield
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            raise MrTunerError(
                f"cannot open {path}: {error}", "Check its permissions and the space on the disk."
            ) from None
        raise UsageError(
            f"{path} is damaged: {error}",
            "Move it away: recording starts a new one, and the Parquet files stay readable.",
        ) from None


def require_instance(instance: str, known: Collection[str]) -> None:
    """Raise UsageError unless the store has an instance of this name."""
    if instance not in known:
        raise UsageError(
            f"the store has no instance {instance}",
            f"It has {', '.join(known)}." if known else "Record one first.",
        )
