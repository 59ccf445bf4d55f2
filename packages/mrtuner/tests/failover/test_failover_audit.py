"""Settings in force, read from live sockets: ours, another process's, a real server's."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from conftest import PASSWORD
from failover_clients import lead
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from machine import needs
from mrtuner.errors import MrTunerError, UsageError
from mrtuner.failover.audit.check import audit, judged
from mrtuner.failover.audit.connections import Connection, of_process, parsed, to_port
from mrtuner.failover.audit.session import look
from mrtuner.failover.predict.kernel import Kernel
from mrtuner.failover.predict.tcp_timers import Keepalive
from mrtuner.failover.sockets import Options, options

pytestmark = pytest.mark.timed

if TYPE_CHECKING:
    from conftest import NewCluster

KERNEL = Kernel(release=(6, 18), hz=250)
#: What a pgjdbc connection has by default.
BARE = Options(
    keepalives=False, idle=7200, interval=75, count=9, user_timeout=0,
    rto=0.204, rtt=0.0001,
)  # fmt: skip
CHILD = """
import socket, sys
sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 11)
sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 8500)
print("open", flush=True)
sys.stdin.read()
"""


@contextmanager
def child_connected() -> Iterator[tuple[int, int]]:
    """The pid of another process with a connection, and the port that it is connected to."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        with subprocess.Popen(
            [sys.executable, "-c", CHILD, str(port)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as child:  # fmt: skip
            assert child.stdout is not None
            assert child.stdout.readline() == "open\n"
            accepted, _ = listening.accept()
            with accepted:
                yield child.pid, port
            with suppress(BrokenPipeError):
                child.communicate(timeout=20)


def test_the_options_of_a_socket_are_what_was_set() -> None:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 3)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 5)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 9000)
        seen = options(sock.fileno())
        assert (seen.keepalives, seen.idle, seen.interval, seen.count) == (True, 30, 3, 5)
        assert seen.user_timeout == 9000
        assert sock.fileno() >= 0  # still open for its owner


@needs("ss")
def test_another_processs_connection_is_read_from_its_socket() -> None:
    with child_connected() as (pid, port):
        for found in (of_process(pid), to_port(port)):
            (one,) = found
            assert (one.pid, one.timer) == (pid, "keepalive")
            if one.options is None:
                pytest.skip("this kernel lets us not look into another process")
            assert (one.options.keepalives, one.options.idle) == (True, 11)
            assert one.options.user_timeout == 8500
            assert 0.2 <= one.options.rto < 0.3


def test_a_process_that_is_not_there_is_said() -> None:
    with pytest.raises(MrTunerError, match="process 4194305 does not exist"):
        of_process(4194305)


def test_a_connection_that_several_inherited_is_that_of_each() -> None:
    users = 'users:(("app",pid=4194305,fd=7),("app",pid=4194306,fd=8))'
    row = f"0 0 10.0.0.1:40000 10.0.0.2:5432 {users}"
    assert [one.pid for one in parsed(row, 4194306)] == [4194306]
    assert [one.pid for one in parsed(row)] == [4194305]


def test_a_descriptor_that_is_another_connection_by_now_is_not_judged() -> None:
    with socket.socket() as server, socket.socket() as client, Path("/dev/null").open() as file:
        server.bind(("127.0.0.1", 0))
        server.listen()
        client.connect(server.getsockname())
        port = client.getsockname()[1]
        row = '0 0 127.0.0.1:{} 127.0.0.1:5432 users:(("me",pid={},fd={}))'
        for local, descriptor, known in (
            (port, client.fileno(), True), (port + 1, client.fileno(), False),
            (port, file.fileno(), False),
        ):  # fmt: skip
            (one,) = parsed(row.format(local, os.getpid(), descriptor))
            assert (one.options is not None) is known


def test_somebody_elses_connection_without_a_timer_hangs_for_ever() -> None:
    (one,) = parsed("0 0 10.0.0.1:40000 10.0.0.2:5432")
    assert one == Connection(local="10.0.0.1:40000", peer="10.0.0.2:5432")
    assert judged(one, KERNEL, 60).findings == (
        "query in flight: forever, no keepalive timer is armed",
    )
    (armed,) = parsed("0 0 10.0.0.1:40000 10.0.0.2:5432 timer:(keepalive,1min58sec,0)")
    assert judged(armed, KERNEL, 60).findings == ()


def test_a_connection_without_limits_has_both_findings() -> None:
    bare = Connection(local="a", peer="b", process="java", pid=1, options=BARE)
    idle, flight = judged(bare, KERNEL, 60).findings
    # 937.7 to 939.7 s, calculated by the reference; 0.2 s sooner for a request of several segments
    assert idle.startswith("idle connection, then a query: 15 min 37 s to 15 min 40 s")
    assert flight.startswith("query in flight: forever")


def test_a_connection_with_limits_has_none() -> None:
    seen = replace(BARE, keepalives=True, idle=3, interval=2, count=3, user_timeout=8500)
    done = audit([Connection(local="a", peer="b", options=seen)], KERNEL, 10)
    assert not done.found


def test_a_real_servers_settings_against_ghosts_are_judged(new_cluster: NewCluster) -> None:
    cluster = new_cluster(listen=True)
    dsn = f"{cluster.dsn(tcp=True)} password='{PASSWORD}' keepalives_idle=7 tcp_user_timeout=4000"
    seen = look(dsn)
    assert seen.between is None
    assert seen.settings["client_connection_check_interval"] == "0"
    assert seen.settings["tcp_keepalives_idle"] == "7200"
    assert seen.connection.options is not None
    assert seen.connection.options.user_timeout == 4000
    done = audit([seen.connection], KERNEL, 2000, server=seen.settings, between=seen.between)
    assert [finding.split(" = ")[0] for finding in done.findings] == [
        "client_connection_check_interval",
        "tcp_keepalives_idle",
    ]


def test_a_proxy_is_found_by_the_port_it_comes_from(new_cluster: NewCluster) -> None:
    """With our relay in between, the server sees another port than our socket has."""
    cluster = new_cluster(listen=True)
    where = conninfo_to_dict(cluster.dsn(tcp=True))
    proxy = socket.create_server(("127.0.0.1", 0))
    lead(proxy, (str(where["host"]), int(str(where["port"]))))
    through = {**where, "port": proxy.getsockname()[1], "password": PASSWORD}
    assert look(make_conninfo(**through)).between == "a proxy or address translation"
    proxy.shutdown(socket.SHUT_RDWR)


@needs("/proc", "unshare")
def test_a_server_behind_a_tunnel_is_not_measured_as_if_it_ran_here(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    """Its far end comes from the server's own address. A namespace hides the server's processes."""
    elsewhere = ("unshare", "--pid", "--fork", "--mount-proc")
    if subprocess.run([*elsewhere, "true"], capture_output=True, check=False).returncode:
        pytest.skip("may not make namespaces here")
    cluster = new_cluster(listen=True)
    direct = {**conninfo_to_dict(cluster.dsn(tcp=True)), "password": PASSWORD}
    tunnel = socket.create_server(("127.0.0.1", 0))
    lead(tunnel, (str(direct["host"]), int(str(direct["port"]))))
    through = {**direct, "port": tunnel.getsockname()[1]}
    program = (
        "import sys; from mrtuner.bench.server.session import is_local; "
        "from mrtuner.postgres.connect import connect; "
        "print(is_local(connect(sys.argv[1]).__enter__()))"
    )

    def local(where: Mapping[str, str | int | None], *before: str) -> bool:
        asked = [*before, sys.executable, "-c", program, make_conninfo("", **where)]
        done = subprocess.run(asked, capture_output=True, text=True, check=True)
        return {"True": True, "False": False}[done.stdout.strip()]

    assert local(direct)
    assert local(direct, *elsewhere)
    assert local(through)  # the server's process is seen
    assert not local(through, *elsewhere)
    tunnel.shutdown(socket.SHUT_RDWR)
    tmp_path.chmod(0o755)
    beside = socket.socket(socket.AF_UNIX)  # ssh -L forwards a socket as well
    beside.bind(str(tmp_path / ".s.PGSQL.5432"))
    beside.listen()
    lead(beside, (str(direct["host"]), int(str(direct["port"]))))
    over_it = {**direct, "host": str(tmp_path), "port": 5432}
    assert local(over_it)
    assert not local(over_it, *elsewhere)
    beside.shutdown(socket.SHUT_RDWR)


def test_a_server_that_looks_after_its_clients_has_no_finding(new_cluster: NewCluster) -> None:
    cluster = new_cluster(
        settings={
            "client_connection_check_interval": "1s", "tcp_user_timeout": "10s",
            "tcp_keepalives_idle": 60, "tcp_keepalives_interval": 10,
        },
        listen=True,
    )  # fmt: skip
    seen = look(f"{cluster.dsn(tcp=True)} password='{PASSWORD}'")
    assert audit([], KERNEL, 60, server=seen.settings).findings == ()


@pytest.mark.parametrize(
    ("idle", "interval", "count", "user", "stays", "told"),
    [
        (7200, 75, 9, 10_000, 7200 + 75, "2.02 h"),  # the first probe, and the look after it
        (240, 75, 9, 0, 240 + 9 * 75, "15.2 min"),
        (60, 75, 9, 30_000, 60 + 75, None),
        (60, 10, 9, 95_000, 60 + 4 * 10, None),  # 35 s are left then: more than three intervals
        (300, 30, 2, 0, 300 + 2 * 30, "6 min"),  # RDS's defaults
    ],
)
def test_a_backend_outlives_its_client_until_the_keepalives_give_it_up(
    idle: int, interval: int, count: int, user: int, stays: int, told: str | None
) -> None:
    """A user timeout replaces the count, and is looked at only when a probe is out."""
    keepalive = Keepalive(idle=idle, interval=interval, count=count)
    assert keepalive.ends_after(user) == stays
    server = {
        "tcp_keepalives_idle": str(idle), "tcp_keepalives_interval": str(interval),
        "tcp_keepalives_count": str(count), "tcp_user_timeout": str(user),
        "client_connection_check_interval": "1000",
    }  # fmt: skip
    besides = f", tcp_user_timeout = {user // 1000} s" if user else ""
    said = (
        f"tcp_keepalives_idle = {idle} s, _interval = {interval} s, _count = {count}{besides} at "
        f"the server: backends stay {told} after their clients vanished"
    )
    assert audit([], KERNEL, 60, server=server).findings == (() if told is None else (said,))


def test_a_unix_socket_is_refused_for_no_network_can_cut_it() -> None:
    with pytest.raises(UsageError, match="which no network outage affects"):
        look("host=/var/run/postgresql dbname=app")
