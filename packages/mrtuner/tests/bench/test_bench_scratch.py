"""The databases of a killed proof, while the server still executes its last command."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from conftest import NewCluster

from mrtuner.bench.server import scratch
from mrtuner.postgres.connect import connect
from servers import sql

if TYPE_CHECKING:
    from collections.abc import Iterator

MARK = "mrtuner proof, pid 999999999 on elsewhere since 2026-01-01T00:00:00+00:00; may be dropped"
#: Where a session waits for the checkpoint that copying a database begins with.
COPYING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event ~ 'Checkpoint(Start|Done)'"
#: CREATE DATABASE keeps a lock on its template to the end of its transaction.
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def until(dsn: str, query: str, *running: Future[Any]) -> None:
    deadline = time.monotonic() + 30
    while sql(dsn, query) != [(1,)]:
        for one in running:
            assert not one.done(), one.result()
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("major", [13, 18])
def test_a_copy_that_the_server_still_makes_goes_too(new_cluster: NewCluster, major: int) -> None:
    """The program is dead, and its CREATE DATABASE ends after the cleanup has begun."""
    dsn = new_cluster(major).dsn()
    sql(dsn, "CREATE DATABASE proof", f"COMMENT ON DATABASE proof IS '{MARK}'")
    (checkpointer,) = sql(
        dsn, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'"
    )
    strategy = " STRATEGY FILE_COPY" if major >= 15 else ""
    with ThreadPoolExecutor(2) as pool, connect(dsn) as session:
        with stopped(*checkpointer):
            copying = pool.submit(sql, dsn, f"CREATE DATABASE proof_run TEMPLATE proof{strategy}")
            until(dsn, COPYING, copying)
            dropping = pool.submit(scratch.drop, session, "proof")
            until(dsn, WAITING, copying, dropping)
        assert dropping.result(timeout=60) == ["proof_run", "proof"]
        copying.result(timeout=60)
    assert sql(dsn, "SELECT datname FROM pg_database WHERE datname ~ 'proof'") == []


def test_what_is_settled_may_have_an_index_on_a_function_of_the_user_s(
    new_cluster: NewCluster,
) -> None:
    """Until 17, which brings a path of its own, ANALYZE calls it with the session's."""
    dsn = new_cluster(16).dsn()
    sql(
        dsn, "CREATE FUNCTION inner_(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT -$1'",
        "CREATE FUNCTION outer_(int) RETURNS int IMMUTABLE LANGUAGE plpgsql "
        "AS 'BEGIN RETURN inner_($1); END'",
        "CREATE TABLE t AS SELECT generate_series(1, 9) AS n", "CREATE INDEX ON t (outer_(n))",
    )  # fmt: skip
    scratch.settle(dsn)
    assert sql(dsn, "SELECT count(*) FROM pg_stats WHERE tablename = 't_outer__idx'") == [(1,)]
