"""`mrtuner record` in a process of its own, and what it has stored so far."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from mrtuner.errors import UsageError
from mrtuner.history.reading import open_history
from mrtuner.history.store import opening

PROGRAM = "from mrtuner.cli import main; main()"
#: Long enough for a busy machine.
WAIT = 90.0


def rows(directory: Path, text: str) -> list[tuple[Any, ...]]:
    with open_history(directory) as history:
        return history.table(text)[1]


@contextmanager
def recorder(
    directory: Path, dsn: str, *more: str, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """`mrtuner record` in a process of its own."""
    command = [sys.executable, "-c", PROGRAM, "record", dsn, "--dir", str(directory), *more]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def samples(directory: Path, source: str) -> int:
    """Return the number of samples of a source; 0 if there is no store yet.

    Asks only SQLite as long as nothing is in files, to leave the CPUs to the recorder.
    """
    with suppress(UsageError), closing(opening.for_reading(directory)) as db:
        if not opening.listed(db):
            found = db.execute("SELECT count(*) FROM recent_samples WHERE source = ?", (source,))
            return int(found.fetchone()[0])
        return int(rows(directory, f"SELECT count(*) FROM samples WHERE source = '{source}'")[0][0])
    return 0
