"""The journal's file: its tables, how it is opened, and how an older one is upgraded.

Rollback journal and synchronous=FULL: what is committed survives a crash of the machine.
Source: https://www.sqlite.org/pragma.html#pragma_synchronous
"""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mrtuner.errors import UsageError

if TYPE_CHECKING:
    import sqlite3

#: Version 2 no longer stores the text of postgresql.auto.conf, which may contain a password.
#: Version 3 has documents. Version 4 names the instance whose reboot was accepted in a step.
SCHEMA_VERSION: Final = 4

_DOCUMENT: Final = """
CREATE TABLE document (
    name     TEXT PRIMARY KEY,
    at       TEXT NOT NULL,
    contents TEXT NOT NULL -- JSON
);
"""

_SCHEMA: Final = f"""{_DOCUMENT}
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
    rebooting TEXT, -- RDS: the instance whose reboot was accepted
    PRIMARY KEY (change, number)
);
"""

_WITHOUT_TEXTS: Final = """
UPDATE change SET contents = json_set(contents, '$.text_before', NULL)
WHERE json_extract(contents, '$.method') = 'alter system'
"""

_REBOOTING: Final = "ALTER TABLE step ADD COLUMN rebooting TEXT"

#: The statements that upgrade a journal from this version to the next.
_UPGRADES: Final = {1: _WITHOUT_TEXTS, 2: _DOCUMENT, 3: _REBOOTING}


def opened(directory: Path, path: Path) -> sqlite3.Connection:
    """Open the journal; create it or upgrade its schema if necessary.

    Raises UsageError if a newer MrTuner wrote it, OSError or sqlite3.Error if it cannot be used.
    """
    import sqlite3

    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Created before SQLite opens it: SQLite itself would use the umask's mode.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    db = sqlite3.connect(path, timeout=5, isolation_level=None)
    try:
        db.row_factory = sqlite3.Row
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA secure_delete = ON")  # overwrite what is deleted
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
        upgrades = (_UPGRADES[older] for older in range(version, SCHEMA_VERSION) if older)
        for statement in _SCHEMA.split(";\n") if version == 0 else upgrades:
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    db.execute("COMMIT")
