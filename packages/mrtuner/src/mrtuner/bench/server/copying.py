"""A copy of a database on a server of ours, by pg_dump and pg_restore."""

from __future__ import annotations

import subprocess
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Final

from mrtuner.bench.load.pgbench import split_secrets
from mrtuner.bench.server.session import one_row
from mrtuner.errors import MrTunerError
from mrtuner.postgres.connect import connect
from mrtuner.units import Bytes

if TYPE_CHECKING:
    from pathlib import Path

    from mrtuner.postgres.binaries import Binaries

#: What belongs to a server rather than to its data; and we do not wait behind an ALTER TABLE.
_DUMP: Final = (
    "--format=custom", "--compress=0", "--no-owner", "--no-privileges", "--no-tablespaces",
    "--no-publications", "--no-subscriptions", "--no-security-labels", "--lock-wait-timeout=5s",
)  # fmt: skip


def database_size(dsn: str) -> Bytes:
    """Return what a database takes on disk; a copy takes no more."""
    with connect(dsn) as session:
        return Bytes(one_row(session, "SELECT pg_database_size(current_database())")[0])


def copy_database(source: str, target: str, binaries: Binaries) -> None:
    """Fill the empty database `target` with what the database of `source` has, as one snapshot.

    Once it is filled, foreign servers and dblink are dropped from it. Materialized views are filled
    before, and read from them.
    Raises MrTunerError with the program's message.
    """
    words, environment = split_secrets(source)
    dump: list[str | Path] = [binaries.program("pg_dump"), *_DUMP, f"--dbname={words}"]
    words, own = split_secrets(target)
    restore: list[str | Path] = [
        binaries.program("pg_restore"), "--exit-on-error", "--no-owner", "--no-privileges",
        f"--dbname={words}",
    ]  # fmt: skip
    # To a file: a program whose messages nobody reads would wait for ever.
    with (
        TemporaryFile() as told,
        subprocess.Popen(dump, env=environment, stdout=subprocess.PIPE, stderr=told) as dumping,
    ):
        restoring = subprocess.run(
            restore, env=own, stdin=dumping.stdout, capture_output=True, check=False
        )
        if dumping.stdout is not None:
            dumping.stdout.close()  # so that pg_dump ends if pg_restore did
        dumping.wait()
        told.seek(0)
        said = told.read()
    # If one of them fails, the other complains of the pipe: an input too short, or a broken pipe.
    if dumping.returncode or restoring.returncode:
        first = dumping.returncode > 0 and b"Broken pipe" not in said
        why = _complaint(said if first else restoring.stderr)
        raise MrTunerError(
            f"the database cannot be copied: {why}",
            "The copy needs a server of the same or a newer version, with the extensions that "
            "the database uses: --server-bin DIR.",
        )
    _cut_off(target)


def _cut_off(dsn: str) -> None:
    from psycopg import sql

    with connect(dsn) as session:
        for (name,) in session.execute("SELECT srvname FROM pg_foreign_server").fetchall():
            session.execute(sql.SQL("DROP SERVER {} CASCADE").format(sql.Identifier(name)))
        session.execute("DROP EXTENSION IF EXISTS dblink CASCADE")


def _complaint(stderr: bytes) -> str:
    """The first line that names an error; later ones may quote rows."""
    lines = stderr.decode(errors="replace").splitlines()
    return next((one for one in lines if "error:" in one), "no reason given")
