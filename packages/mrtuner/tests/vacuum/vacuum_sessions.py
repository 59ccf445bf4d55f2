"""Sessions that may keep dead rows, and a VACUUM that tells whether they do."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from mrtuner.postgres.cluster import Cluster
from mrtuner.vacuum.model import HorizonBlocker
from servers import sql

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

#: The wording of VACUUM (VERBOSE): until 14, and since.
KEPT = r"(\d+) (?:dead row versions cannot be removed yet|are dead but not yet removable)"
DEAD = 100


def die(cluster: Cluster) -> None:
    """Create rows and delete them."""
    made = f"CREATE TABLE dead AS SELECT generate_series(1, {DEAD}) AS n"
    sql(cluster.dsn(), "DROP TABLE IF EXISTS dead", made, "DELETE FROM dead")


def kept(cluster: Cluster, table: str = "dead") -> int:
    """Run VACUUM; the number of dead rows that it cannot remove, as the server counts them."""
    import psycopg

    said: list[str] = []
    with psycopg.connect(cluster.dsn(), autocommit=True) as conn:
        conn.add_notice_handler(
            lambda told: said.append(f"{told.message_primary} {told.message_detail}")
        )
        conn.execute(f"VACUUM (VERBOSE) {table}".encode())
    found = re.findall(KEPT, "\n".join(said))
    assert found, said
    return sum(map(int, found))


@contextmanager
def session(cluster: Cluster, database: str = "postgres") -> Iterator[Connection]:
    """A session whose transaction is rolled back when the block ends."""
    import psycopg

    conn = psycopg.connect(cluster.dsn(database))
    try:
        yield conn
    finally:
        with suppress(psycopg.OperationalError):  # it may have been ended
            conn.rollback()
        conn.close()


@contextmanager
def reading(cluster: Cluster, database: str = "postgres") -> Iterator[Connection]:
    """A session with a snapshot of its own."""
    with session(cluster, database) as conn:
        look(conn)
        yield conn


def look(conn: Connection) -> None:
    """Take a fresh snapshot, kept until the transaction ends."""
    conn.rollback()
    conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    conn.execute("SELECT 1")


@contextmanager
def writing(cluster: Cluster, database: str) -> Iterator[Connection]:
    """A session with a transaction ID, and no snapshot while it is idle."""
    with session(cluster, database) as conn:
        conn.execute("INSERT INTO written VALUES (1)")
        yield conn


def end(cluster: Cluster, one: HorizonBlocker, conn: Connection) -> None:
    """End a session by the SQL of the finding, and wait until it is gone."""
    assert one.sql == f"SELECT pg_terminate_backend({conn.info.backend_pid});"
    sql(cluster.dsn(), one.sql)
    while sql(cluster.dsn(), f"SELECT 1 FROM pg_stat_activity WHERE pid = {conn.info.backend_pid}"):
        time.sleep(0.05)


@contextmanager
def prepared(cluster: Cluster, database: str) -> Iterator[None]:
    """A prepared transaction."""
    dsn = cluster.dsn(database)
    sql(dsn, "BEGIN; INSERT INTO written VALUES (1); PREPARE TRANSACTION 'lost'")
    try:
        yield
    finally:
        sql(dsn, "ROLLBACK PREPARED 'lost'")
