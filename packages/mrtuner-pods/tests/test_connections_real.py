"""At the computed ceiling a real server accepts every session; one more is refused."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import psycopg
import pytest
from conftest import NewCluster

from machine import program
from mrtuner.postgres.cluster import Cluster, free_port
from mrtuner.postgres.connect import connect
from mrtuner.postgres.server_user import scratch_directory
from mrtuner.tuning.gather import Flags
from mrtuner_pods.connections import (
    Check,
    Database,
    Fleet,
    Given,
    Manifest,
    PgBouncer,
    RolloutStage,
    check,
)
from mrtuner_pods.connections.database import of_server
from servers import sql
from sizing_manifests import deployment

pytestmark = pytest.mark.usefixtures("asks")

#: Small, so that a test can take every slot. Autovacuum would take one of a database's limit.
FEW: dict[str, str | int | float] = {
    "max_connections": 14, "superuser_reserved_connections": 2, "max_wal_senders": 0,
    "max_worker_processes": 0, "max_parallel_workers": 0, "autovacuum": "off",
}  # fmt: skip


def limits_of(cluster: Cluster) -> Database:
    with connect(cluster.dsn()) as connection:
        return of_server(connection, Flags())


def opened(stack: ExitStack, dsn: str, number: int) -> list[psycopg.Connection[Any]]:
    """Sessions that stay open; the slot of a closed one may take a moment to become free."""
    return [stack.enter_context(_patiently(dsn)) for _ in range(number)]


def _patiently(dsn: str) -> psycopg.Connection[Any]:
    end = time.monotonic() + 60
    while True:
        try:
            return psycopg.connect(dsn, autocommit=True)
        except psycopg.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def await_alone(dsn: str) -> None:
    """Wait until no other session is left: a closed one keeps its slot until its backend exits."""
    end = time.monotonic() + 60
    with psycopg.connect(dsn, autocommit=True) as conn:
        query = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
        while conn.execute(query).fetchone() != (1,):
            assert time.monotonic() < end
            time.sleep(0.05)


def refusal(dsn: str) -> str:
    with pytest.raises(psycopg.OperationalError) as raised, psycopg.connect(dsn):
        pass
    return str(raised.value)


def fits_exactly(database: Database, ceiling: int, role: str | None = "app") -> Check:
    """Assert that one pod with the ceiling fits and one connection more does not."""
    given = Given(role=role, dbname="shop")
    done = check(database, fleet=Fleet(pods=1, pool=ceiling), given=given, stage=RolloutStage.REST)
    more = check(
        database, fleet=Fleet(pods=1, pool=ceiling + 1), given=given, stage=RolloutStage.REST
    )
    assert done.fits
    assert not more.fits
    return more


def prepared(cluster: Cluster, *statements: str) -> None:
    sql(cluster.dsn(), "CREATE ROLE app LOGIN", "CREATE DATABASE shop", *statements)
    await_alone(cluster.dsn())


def test_every_ordinary_session_up_to_the_ceiling_is_accepted(
    new_cluster: NewCluster, each_major: int
) -> None:
    """14 - 2 for superusers are 12; from 16 on 3 more are reserved, which leaves 9."""
    reserved = {"reserved_connections": 3} if each_major >= 16 else {}
    cluster = new_cluster(each_major, {**FEW, **reserved})
    prepared(cluster)
    ceiling = 9 if each_major >= 16 else 12
    assert fits_exactly(limits_of(cluster), ceiling).first.name == "max_connections"
    await_alone(cluster.dsn())
    with ExitStack() as stack:
        opened(stack, cluster.dsn("shop", user="app"), ceiling)
        assert "remaining connection slots are reserved" in refusal(cluster.dsn("shop", user="app"))
        opened(stack, cluster.dsn(), 14 - ceiling)  # a superuser gets the reserved slots
        assert "too many clients" in refusal(cluster.dsn())


def test_a_role_that_may_use_reserved_connections_has_more(new_cluster: NewCluster) -> None:
    """14 - 2 for superusers alone."""
    cluster = new_cluster(18, {**FEW, "reserved_connections": 3})
    prepared(cluster, "GRANT pg_use_reserved_connections TO app")
    fits_exactly(limits_of(cluster), 12)
    await_alone(cluster.dsn())
    with ExitStack() as stack:
        opened(stack, cluster.dsn("shop", user="app"), 12)
        assert "SUPERUSER" in refusal(cluster.dsn("shop", user="app"))


def test_a_superuser_has_every_place_and_a_warning(new_cluster: NewCluster) -> None:
    cluster = new_cluster(18, {**FEW, "reserved_connections": 3})
    prepared(cluster, "ALTER ROLE app SUPERUSER CONNECTION LIMIT 1")
    more = fits_exactly(limits_of(cluster), 14)
    assert "app is a superuser" in more.warnings[0]
    await_alone(cluster.dsn())
    with ExitStack() as stack:
        opened(stack, cluster.dsn("shop", user="app"), 14)
        assert "too many clients" in refusal(cluster.dsn())


@pytest.mark.parametrize(
    ("statement", "ceiling", "name", "said"),
    [
        ("ALTER ROLE app CONNECTION LIMIT 4", 4, "limit of role app", 'for role "app"'),
        ("ALTER DATABASE shop CONNECTION LIMIT 5", 5, "limit of database shop", 'for database "sh'),
    ],
)
def test_limits_of_a_role_and_of_a_database_give_first(
    new_cluster: NewCluster, each_major: int, statement: str, ceiling: int, name: str, said: str
) -> None:
    cluster = new_cluster(each_major, FEW)
    prepared(cluster, statement)
    assert fits_exactly(limits_of(cluster), ceiling).first.name == name
    await_alone(cluster.dsn())
    with ExitStack() as stack:
        opened(stack, cluster.dsn("shop", user="app"), ceiling)
        assert said in refusal(cluster.dsn("shop", user="app"))


def test_a_limit_counts_for_the_role_that_a_connection_string_names(
    new_cluster: NewCluster,
) -> None:
    """Deployment of 2 pods with a pool of 5: 10 for shop, whose limit is 9."""
    cluster = new_cluster(18, FEW)
    prepared(cluster, "CREATE ROLE shop LOGIN CONNECTION LIMIT 9")
    manifest = Manifest(deployment(replicas=2), "app.yaml")
    done = check(limits_of(cluster), [manifest], stage=RolloutStage.REST)
    assert (done.reachable(), done.first.name) == (10, "limit of role shop")
    assert done.database.open_now == 0


# PgBouncer.


@contextmanager
def bouncer(cluster: Cluster, settings: str, databases: str = "") -> Iterator[tuple[str, int]]:
    """Run a real PgBouncer; yield its configuration and its port."""
    pgbouncer = program("pgbouncer")
    directory = scratch_directory()
    port = free_port()
    users = directory / "users"
    users.write_text('"app" ""\n"other" ""\n')
    users.chmod(0o644)
    where = f"host={cluster.directory} port={cluster.port}"
    text = (
        f"[databases]\nshop = {where} {databases}\nstock = {where}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = trust\n"
        f"auth_file = {users}\nunix_socket_dir =\npool_mode = transaction\n{settings}"
    )
    config = directory / "pgbouncer.ini"
    config.write_text(text)
    config.chmod(0o644)
    who: dict[str, Any] = (
        {"user": cluster.user.uid, "group": cluster.user.gid} if cluster.user else {}
    )
    process = subprocess.Popen([pgbouncer, "-q", str(config)], stderr=subprocess.DEVNULL, **who)
    try:
        _await_port(port)
        yield text, port
    finally:
        process.terminate()
        process.wait(30)
        shutil.rmtree(directory)


def _await_port(port: int) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise AssertionError("pgbouncer does not listen")


def through(
    text: str, database: Database, clients: Sequence[str], each: int = 3, pods: int = 1
) -> Check:
    """Check a workload for each ``user@database``, all through the pooler."""
    manifests = [
        Manifest(
            deployment(
                f"w{number}", 1,
                env={"DATABASE_URL": f"postgres://{who.replace('@', '@pooler/')}?pool={each}"},
            ),
            f"w{number}.yaml",
        )
        for number, who in enumerate(clients)
    ]  # fmt: skip
    return check(
        database, manifests, pgbouncer=PgBouncer(text=text, pods=pods), stage=RolloutStage.REST
    )


def in_transactions(stack: ExitStack, port: int, users: Sequence[str], number: int) -> None:
    """Start clients that each need a server connection; those that get none wait."""
    for who in users:
        user, _, database = who.partition("@")
        for _ in range(number):
            dsn = f"host=127.0.0.1 port={port} user={user} dbname={database}"
            conn = stack.enter_context(psycopg.connect(dsn))
            conn.pgconn.send_query(b"BEGIN")
            stack.callback(conn.close)


def servers_in_use(cluster: Cluster) -> int:
    ((number,),) = sql(
        cluster.dsn(),
        "SELECT count(*) FROM pg_stat_activity WHERE usename IN ('app', 'other')",
    )
    return int(number)


@pytest.mark.parametrize(
    ("settings", "entry", "expected"),
    [
        # app@shop, app@stock, other@shop: three pools of 2, each with 1 in reserve.
        ("default_pool_size = 2\nreserve_pool_size = 1\nreserve_pool_timeout = 1\n", "", 9),
        # shop's two pools of 3 within 4, and stock's pool of 3.
        ("default_pool_size = 3\nmax_db_connections = 4\n", "", 7),
        # shop's pools are of 1, stock's of 3.
        ("default_pool_size = 3\n", "pool_size=1", 5),
        # app's two pools of 3 within 4, and other's pool of 3.
        ("default_pool_size = 3\n[users]\napp = max_user_connections=4\n", "", 7),
    ],
)
def test_a_pooler_opens_as_many_server_connections_as_computed(
    new_cluster: NewCluster, settings: str, entry: str, expected: int
) -> None:
    cluster = new_cluster(18, FEW)
    prepared(cluster, "CREATE DATABASE stock", "CREATE ROLE other LOGIN")
    users = ("app@shop", "app@stock", "other@shop")
    with bouncer(cluster, settings, entry) as (text, port):
        done = through(text, limits_of(cluster), users, each=5)
        assert done.reachable() == expected
        with ExitStack() as stack:
            in_transactions(stack, port, users, 5)
            end = time.monotonic() + 60
            while servers_in_use(cluster) < expected:
                assert time.monotonic() < end, servers_in_use(cluster)
                time.sleep(0.1)
            # The reserve is used after a second; no more than computed may open.
            watched = time.monotonic() + 2
            while time.monotonic() < watched:
                assert servers_in_use(cluster) == expected
                time.sleep(0.1)


def test_each_process_of_a_pooler_has_pools_of_its_own(new_cluster: NewCluster) -> None:
    """Two processes, each with 2 for app@shop and 2 for app@stock."""
    cluster = new_cluster(18, FEW)
    prepared(cluster, "CREATE DATABASE stock")
    users = ("app@shop", "app@stock")
    settings = "default_pool_size = 2\n"
    with bouncer(cluster, settings) as (text, first), bouncer(cluster, settings) as (_, second):
        done = through(text, limits_of(cluster), users, each=5, pods=2)
        assert done.reachable() == 8
        with ExitStack() as stack:
            for port in (first, second):
                in_transactions(stack, port, users, 3)
            end = time.monotonic() + 60
            while servers_in_use(cluster) < 8:
                assert time.monotonic() < end, servers_in_use(cluster)
                time.sleep(0.1)
            assert servers_in_use(cluster) == 8


def test_a_pooler_admits_as_many_clients_as_computed(new_cluster: NewCluster) -> None:
    """max_client_conn = 7: seven clients, not eight."""
    cluster = new_cluster(18, FEW)
    prepared(cluster)
    with bouncer(cluster, "max_client_conn = 7\ndefault_pool_size = 2\n") as (text, port):
        assert through(text, limits_of(cluster), ["app@shop"], each=7).fits
        eight = through(text, limits_of(cluster), ["app@shop"], each=8)
        assert (eight.fits, eight.first.name) == (False, "max_client_conn of PgBouncer")
        dsn = f"host=127.0.0.1 port={port} user=app dbname=shop"
        with ExitStack() as stack:
            opened(stack, dsn, 7)
            assert "no more connections allowed" in refusal(dsn)
