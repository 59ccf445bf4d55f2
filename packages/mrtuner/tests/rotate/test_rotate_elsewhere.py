"""What stands between the server and its clients: a pooler, a replica, a server that trusts."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from rotating import ADMIN, IMPATIENT, admin, login, may_login, rotate, running, unused

from machine import program
from mrtuner import rotate as face
from mrtuner.errors import ConnectError, Refused
from mrtuner.postgres.cluster import Cluster, free_port
from mrtuner.postgres.server_user import scratch_directory
from mrtuner.rotate import RotationStep
from servers import sql, standby_of

pytestmark = [pytest.mark.timed, pytest.mark.usefixtures("asks")]

LOOKUP = (
    "CREATE FUNCTION public.lookup(name text, OUT usename name, OUT passwd text)"
    " LANGUAGE sql SECURITY DEFINER AS"
    " $$ SELECT usename, passwd FROM pg_catalog.pg_shadow WHERE usename = name $$"
)


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with running({"fsync": "off"}) as cluster:
        sql(cluster.dsn(), LOOKUP)
        yield cluster


@contextmanager
def pgbouncer(server: Cluster, directory: Path, users: str, settings: str) -> Iterator[int]:
    """The port of a pgbouncer that asks for passwords."""
    port = free_port()
    (directory / "users").write_text(users)
    (directory / "pgbouncer.ini").write_text(f"""
[databases]
* = host=127.0.0.1 port={server.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {directory}/users
{settings}
""")
    for name in ("users", "pgbouncer.ini"):
        (directory / name).chmod(0o644)
    who = {"user": server.user.uid, "group": server.user.gid} if server.user else {}
    process = subprocess.Popen(  # type: ignore[call-overload]
        [program("pgbouncer"), "-q", str(directory / "pgbouncer.ini")],
        stderr=subprocess.DEVNULL,
        **who,
    )
    try:
        deadline = time.monotonic() + 20
        while not _answers(port):
            assert time.monotonic() < deadline, "pgbouncer does not start"
            time.sleep(0.02)
        yield port
    finally:
        process.terminate()
        process.wait(10)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def place() -> Iterator[Path]:
    directory = scratch_directory()
    yield directory
    shutil.rmtree(directory)


def through(secret: Path, port: int) -> None:
    """Make the secret point applications to the pooler."""
    found = json.loads(secret.read_text())
    secret.write_text(json.dumps(found | {"port": port}))


@pytest.mark.parametrize("mode", [pytest.param("session", marks=pytest.mark.slow), "transaction"])
def test_a_pooler_that_asks_the_server_serves_both_roles(
    server: Cluster, tmp_path: Path, place: Path, mode: str
) -> None:
    secret, group = tmp_path / "secret", unused("pooled")
    rotate(admin(server), group, secret)
    users = f'"postgres" "{ADMIN}"\n'
    asks = (
        f"pool_mode = {mode}\nauth_user = postgres\n"
        "auth_query = SELECT usename, passwd FROM public.lookup($1)\nserver_idle_timeout = 1\n"
    )
    with pgbouncer(server, place, users, asks) as port:
        through(secret, port)
        assert sql(login(secret), "SELECT session_user, current_user") == [(f"{group}_blue", group)]
        patience = face.Patience(wait=60, quiet=0.2)  # the pooler's own sessions have to end
        assert rotate(admin(server), group, secret, patience).rotation.step is RotationStep.DONE
        assert json.loads(secret.read_text())["port"] == port
        for _ in range(3):
            shown = sql(login(secret), "SELECT session_user, current_user")
            assert shown == [(f"{group}_green", group)]


def test_a_pooler_that_does_not_know_the_new_role_stops_the_rotation(
    server: Cluster, tmp_path: Path, place: Path
) -> None:
    secret, group = tmp_path / "secret", unused("listed")
    rotate(admin(server), group, secret)
    before = json.loads(secret.read_text())
    users = f'"{group}_blue" "{before["password"]}"\n"postgres" "{ADMIN}"\n'
    with pgbouncer(server, place, users, "") as port:
        through(secret, port)
        assert sql(login(secret), "SELECT session_user") == [(f"{group}_blue",)]
        with pytest.raises(ConnectError, match=r"blue is unchanged\): 127") as caught:
            rotate(admin(server), group, secret)
        assert "auth_query" in str(caught.value.hint)
        assert sql(login(secret), "SELECT session_user") == [(f"{group}_blue",)]
        with pytest.raises(ConnectError, match="connected through a pooler"):
            rotate(f"{admin(server)} port={port}", group, secret)


def test_a_server_that_trusts_proves_nothing_and_one_that_asks_in_clear_gets_nothing(
    tmp_path: Path,
) -> None:
    with running({"fsync": "off"}) as trusting:
        rules = trusting.data / "pg_hba.conf"
        rules.write_text("local all all trust\nhost all all 127.0.0.1/32 trust\n")
        sql(trusting.dsn(), "SELECT pg_reload_conf()")
        outcome = rotate(admin(trusting), "open", tmp_path / "secret")
        rules.write_text("local all all trust\nhost all all 127.0.0.1/32 password\n")
        sql(trusting.dsn(), "SELECT pg_reload_conf()")
        with pytest.raises(ConnectError, match="server requested a cleartext password"):
            rotate(admin(trusting), "open", tmp_path / "secret")
    assert outcome.rotation.step is RotationStep.DONE
    assert "without asking for a password" in outcome.notices[0]


def test_a_rule_that_names_the_role_and_not_the_group_stops_the_rotation(tmp_path: Path) -> None:
    with running({"fsync": "off"}) as strict:
        sql(strict.dsn(), "CREATE ROLE shut LOGIN PASSWORD 's'")
        rules = strict.data / "pg_hba.conf"
        one = "host all {} 127.0.0.1/32 scram-sha-256\n"
        rules.write_text("local all all trust\n" + one.format("postgres") + one.format("shut"))
        sql(strict.dsn(), "SELECT pg_reload_conf()")
        with pytest.raises(ConnectError, match=r"shut_blue cannot log in \(shut is") as caught:
            rotate(admin(strict), "shut", tmp_path / "secret")
        assert "+shut" in str(caught.value.hint)
        assert not (tmp_path / "secret").exists()
        rules.write_text("local all all trust\n" + one.format("postgres") + one.format("+shut"))
        sql(strict.dsn(), "SELECT pg_reload_conf()")
        assert rotate(admin(strict), "shut", tmp_path / "secret").rotation.step is RotationStep.DONE


def test_sessions_on_a_replica_hold_a_rotation_up(server: Cluster, tmp_path: Path) -> None:
    secret, state, group = tmp_path / "secret", tmp_path / "state", unused("read")
    rotate(admin(server), group, secret)
    with standby_of(server, port=free_port()) as standby:
        replica = admin(standby)
        with pytest.raises(Refused, match="this server is a standby"):
            rotate(replica, group, secret)
        reader = f"{login(secret)} port={standby.port} application_name=reports"
        with psycopg.connect(reader):
            outcome = face.rotate(
                admin(server), group, patience=IMPATIENT, replicas=[replica], journal=state
            )
            assert outcome.rotation.step is RotationStep.WAITING
            (holder,) = outcome.holders
            where = f"reports from 127.0.0.1 on postgres at 127.0.0.1:{standby.port}, pid "
            assert holder.words.startswith(where)
        ended = face.rotate(
            admin(server), group, patience=IMPATIENT, replicas=[replica], journal=state
        )
        assert ended.rotation.step is RotationStep.DONE
        unseen = rotate(admin(server), group, secret)
        assert unseen.notices == (
            "1 replication client of this server, 0 given with --replica: sessions on the "
            "others are not seen",
        )
    assert may_login(server, group) == {f"{group}_blue"}
