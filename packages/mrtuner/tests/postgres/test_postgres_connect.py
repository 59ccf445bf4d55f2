"""What prevents a connection, and how it is reported: on real servers and a real pgbouncer."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import PASSWORD, NewCluster
from psycopg import Error

import mrtuner
from machine import program
from mrtuner.errors import ConnectError, MrTunerError, UsageError
from mrtuner.postgres.cluster import Cluster, free_port
from mrtuner.postgres.connect import connect, masked, translated
from mrtuner.postgres.explain import explaining
from mrtuner.postgres.server_user import scratch_directory
from servers import sql


def failure(dsn: str) -> MrTunerError:
    """Return the error of a connection that must fail; it must have a hint."""
    with pytest.raises(MrTunerError) as raised, connect(dsn, timeout=3):
        pass
    assert raised.value.hint
    return raised.value


def test_a_session_says_who_it_is_and_commits_by_itself(embedded: Cluster) -> None:
    with connect(embedded.dsn()) as conn:
        assert conn.autocommit
        assert conn.execute("SHOW application_name").fetchone() == ("mrtuner",)
    assert conn.closed


PLANTED = (
    "CREATE DATABASE planted",
    "ALTER DATABASE planted SET search_path = evil, pg_catalog",
)
SIGNATURES = (
    "pg_backend_pid() RETURNS int", "current_database() RETURNS name", "now() RETURNS timestamptz",
    "pg_is_in_recovery() RETURNS bool", "current_setting(text) RETURNS text",
    "current_setting(text, bool) RETURNS text", "set_config(text, text, bool) RETURNS text",
    "to_regclass(text) RETURNS regclass", "inet_client_port() RETURNS int",
    "pg_postmaster_start_time() RETURNS timestamptz",
)  # fmt: skip


def test_what_others_created_under_the_name_of_a_function_is_never_called(
    embedded: Cluster,
) -> None:
    """The owner of a database may put a schema before pg_catalog in search_path: CVE-2018-1058."""
    sql(embedded.dsn(), *PLANTED)
    dsn = embedded.dsn("planted")
    body = "LANGUAGE plpgsql AS $$BEGIN RAISE 'planted'; END$$"
    try:
        sql(
            dsn, "CREATE SCHEMA evil", "CREATE TABLE evil.orders (id int PRIMARY KEY, note text)",
            *(f"CREATE FUNCTION evil.{one} {body}" for one in SIGNATURES),
            "CREATE VIEW evil.pg_settings AS SELECT evil.now() AS name, evil.now() AS setting",
        )  # fmt: skip
        with pytest.raises(Error, match="planted"):
            sql(dsn, "SELECT now()")
        with connect(dsn) as conn:
            row = conn.execute("SELECT now() IS NULL, count(*) > 300 FROM pg_settings").fetchone()
            assert row == (False, True)
        found = mrtuner.check(dsn)
        assert not [one for one in found.unjudged if "planted" in one.why]
        assert mrtuner.tune(dsn)["shared_buffers"].value
        with connect(dsn) as conn, explaining(conn, trusted=True) as explainer:
            lines = explainer.text("SELECT * FROM orders")  # in the path of the statement's role
            assert "Seq Scan on orders" in lines[0]
            assert explainer.in_force(["work_mem"]) == {"work_mem": "4MB"}
        with connect(dsn, own_search_path=True) as conn:
            assert conn.execute("SHOW search_path").fetchone() == ("evil, pg_catalog",)
    finally:
        sql(embedded.dsn(), "DROP DATABASE planted WITH (FORCE)")


def test_the_password_may_come_from_the_environment(
    new_cluster: NewCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = new_cluster(listen=True)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    with connect(cluster.dsn(tcp=True)) as conn:
        assert conn.execute("SELECT 1").fetchone() == (1,)


def test_a_wrong_password_is_said_and_never_echoed(new_cluster: NewCluster) -> None:
    cluster = new_cluster(listen=True)
    error = failure(f"postgresql://postgres:hunter2@127.0.0.1:{cluster.port}/postgres")
    assert isinstance(error, ConnectError)
    assert error.message.startswith("the password was not accepted")
    assert "hunter2" not in f"{error.message} {error.hint} {error!r} {error.__cause__}"


def test_a_password_that_was_not_given_is_asked_for(new_cluster: NewCluster) -> None:
    error = failure(new_cluster(listen=True).dsn(tcp=True))
    assert "PGPASSWORD" in str(error.hint)


def test_nothing_listening_is_told_from_a_missing_host() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # taken, but not listening
        error = failure(f"host=127.0.0.1 port={held.getsockname()[1]}")
    assert error.message.startswith("nothing is listening there")
    assert failure("host=no-such-host.invalid").message.startswith("there is no such host")


def test_a_port_that_accepts_and_says_nothing_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        error = failure(f"host=127.0.0.1 port={mute.getsockname()[1]} connect_timeout=2")
    assert error.message.startswith("the server does not respond")


def test_a_missing_database_and_a_missing_role_are_named(embedded: Cluster) -> None:
    assert 'database "shop" does not exist' in failure(embedded.dsn("shop")).message
    assert 'role "app" does not exist' in failure(embedded.dsn(user="app")).message


def test_tls_that_the_server_lacks_is_named(new_cluster: NewCluster) -> None:
    error = failure(new_cluster(listen=True).dsn(tcp=True) + " sslmode=require")
    assert error.message.startswith("no TLS connection could be made")


def test_a_full_server_is_told_from_a_dead_one(new_cluster: NewCluster) -> None:
    few = {"max_connections": 1, "superuser_reserved_connections": 0, "max_wal_senders": 0}
    cluster = new_cluster(settings={**few, "reserved_connections": 0})
    with connect(cluster.dsn()):
        error = failure(cluster.dsn())
    assert error.message.startswith("the server has no free connection")


def test_a_client_without_a_line_in_pg_hba_is_told_so(new_cluster: NewCluster) -> None:
    cluster = new_cluster(listen=True)
    (cluster.data / "pg_hba.conf").write_text("local all all trust\n")
    sql(cluster.dsn(), "SELECT pg_reload_conf()")
    deadline = time.monotonic() + 10
    while "pg_hba" not in (error := failure(cluster.dsn(tcp=True))).message:
        assert time.monotonic() < deadline, error
        time.sleep(0.05)
    assert error.message.startswith("the server rejects this user")


@pytest.mark.parametrize(
    "dsn",
    [
        "host=db password=hunter2 hunter2",
        "postgresql://app:hunter2@db?hunter2",
        "postgresql://app:hunter2@db:hunter2/shop",
        "postgresql://app:p@hunter2@127.0.0.1/shop",
        "postgresql://app:p@hunter2/x@db/shop",
        "postgresql://app:p@hunter2:x@db/shop",
        "postgresql://app:hunter2/x@db/shop",
        "mysql://app:hunter2@db",
        "host=db password=hunter2 hosst=hunter2",
        "host=127.0.0.1 password=hunter2 sslmode=hunter2",
        "host=127.0.0.1 password=hunter2 connect_timeout=hunter2",
    ],
)
def test_a_string_that_cannot_be_read_is_a_usage_error_without_its_text(dsn: str) -> None:
    error = failure(dsn)
    assert isinstance(error, UsageError)
    assert "hunter2" not in f"{error.message} {error.hint} {error!r}"


@pytest.mark.parametrize(
    ("dsn", "shown"),
    [
        ("postgresql://app:hunter2@db:5432/shop", "postgresql://app:***@db:5432/shop"),
        ("postgres://app:a@b:c@db/shop", "postgres://app:***@db/shop"),
        ("postgresql://app@db:5432/shop", "postgresql://app@db:5432/shop"),
        ("postgresql://db/shop?user=a&password=b%20c", "postgresql://db/shop?user=a&password=***"),
        ("host=db password = hunter2 user=app", "host=db password = *** user=app"),
        (r"host=db password='it\'s so' user=app", "host=db password=*** user=app"),
        (r"password=a\ b sslpassword=c", "password=*** sslpassword=***"),
        ("service=shop", "service=shop"),
    ],
)
def test_a_string_is_shown_without_its_secrets(dsn: str, shown: str) -> None:
    assert masked(dsn) == shown


def test_a_server_that_stops_meanwhile_asks_to_run_again(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    with connect(cluster.dsn()) as conn:
        cluster.stop("immediate")
        with pytest.raises(ConnectError, match="was lost") as raised, translated():
            conn.execute("SELECT 1")
    assert "run again" in str(raised.value.hint)


def test_a_session_that_an_administrator_ends_says_so(embedded: Cluster) -> None:
    with connect(embedded.dsn()) as conn:
        sql(embedded.dsn(), f"SELECT pg_terminate_backend({conn.info.backend_pid})")
        with pytest.raises(ConnectError, match="an administrator ended the session"), translated():
            conn.execute("SELECT 1")


def test_a_session_that_dies_with_a_killed_process_says_what_may_have_happened(
    new_cluster: NewCluster,
) -> None:
    """As the kernel kills one for memory: the server ends all sessions without a word."""
    cluster = new_cluster()
    with connect(cluster.dsn()) as conn, connect(cluster.dsn()) as other:
        os.kill(other.info.backend_pid, signal.SIGKILL)
        with pytest.raises(ConnectError, match="as after a crash") as raised, translated():
            conn.execute("SELECT pg_sleep(20)")
    assert "killed by signal 9 was probably out of memory" in str(raised.value.hint)


@dataclass(frozen=True)
class Bouncer:
    """A running pgbouncer in front of a server."""

    port: int

    def dsn(self, dbname: str = "postgres", user: str = "postgres") -> str:
        return f"host=127.0.0.1 port={self.port} user={user} dbname={dbname}"


@pytest.fixture(params=["session", "transaction", "statement"])
def bouncer(asks: None, request: pytest.FixtureRequest, embedded: Cluster) -> Iterator[Bouncer]:
    bouncer = program("pgbouncer")
    directory = scratch_directory()
    port = free_port()
    config = directory / "pgbouncer.ini"
    config.write_text(_config(embedded, directory, port, request.param))
    config.chmod(0o644)
    who = {"user": embedded.user.uid, "group": embedded.user.gid} if embedded.user else {}
    process = subprocess.Popen([bouncer, "-q", str(config)], **who)  # type: ignore[call-overload]
    try:
        _wait_for(port)
        yield Bouncer(port)
    finally:
        process.terminate()
        process.wait(10)
        shutil.rmtree(directory)


def _config(server: Cluster, directory: Path, port: int, mode: str) -> str:
    (directory / "users").write_text('"postgres" ""\n"app" ""\n')
    (directory / "users").chmod(0o644)
    return f"""
[databases]
postgres = host={server.directory} port={server.port} dbname=postgres user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {directory}/users
admin_users = postgres
pool_mode = {mode}
logfile = {directory}/pgbouncer.log
"""


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except ConnectionRefusedError:
            assert time.monotonic() < deadline, "pgbouncer does not start"
            time.sleep(0.02)
        else:
            return


@pytest.mark.parametrize("user", ["postgres", "app"])  # app may not see the console
def test_a_pooler_in_between_is_named(bouncer: Bouncer, user: str) -> None:
    error = failure(bouncer.dsn(user=user))
    assert error.message == "connected through a pooler (pgbouncer)"
    assert "Connect to the server itself" in str(error.hint)


def test_the_poolers_own_console_is_no_server(bouncer: Bouncer) -> None:
    for user in ("postgres", "app"):
        assert failure(bouncer.dsn("pgbouncer", user)).message.startswith(
            "connected through a pooler (pgbouncer)"
        )


def test_startup_options_that_a_pooler_rejects_give_it_away(bouncer: Bouncer) -> None:
    error = failure(bouncer.dsn() + " options='-c work_mem=1MB'")
    assert error.message.startswith("connected through a pooler (pgbouncer)")


def test_a_pooler_is_accepted_when_that_is_asked_for(bouncer: Bouncer) -> None:
    with connect(bouncer.dsn(), through_pooler=True) as conn:
        assert conn.execute("SELECT 1").fetchone() == (1,)
