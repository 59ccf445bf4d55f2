"""A connection string is proved to lead to the instance before anything is changed.

Two real servers behind two instances of the lab, both on 127.0.0.1 as on one private network: only
the port distinguishes them. Cases without a server use addresses from RFC 5737.
"""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mrtuner.aws import rds
from mrtuner.aws.rows import GroupUse, Instance, Scope
from mrtuner.aws.session import client as aws_client
from rdstune.cli import rdstune
from rdstune.lab import Lab
from rdstune.live.identity import Session, proof
from rdstune.live.target import Target

STAGING = "staging.abc.eu-west-1.rds.amazonaws.com"
PRODUCTION = "production.abc.eu-west-1.rds.amazonaws.com"
ADDRESSES = {STAGING: "192.0.2.10", PRODUCTION: "192.0.2.20", "db.internal": "192.0.2.10"}


def resolved(host: str) -> frozenset[str]:
    return frozenset({ADDRESSES[host]} if host in ADDRESSES else ())


def target(major: int = 17) -> Target:
    instance = Instance(
        identifier="staging", arn="arn", resource_id="db-1", class_name="db.m7g.large",
        engine="postgres", engine_version=f"{major}.4", status="available",
        groups=(GroupUse(name="shop", status="in-sync"),), host=STAGING, port=5432,
    )  # fmt: skip
    return Target(
        scope=Scope.INSTANCE, region="eu-west-1", identifier="staging", arn="arn",
        engine="postgres", group="shop", members=(instance,),
        statuses={"staging": "in-sync"}, own_status="available",
    )  # fmt: skip


def seen(**more: Any) -> Session:
    """A session straight to staging's endpoint, with changes."""
    straight: dict[str, Any] = {
        "host": STAGING, "address": "192.0.2.10", "port": 5432, "verified": False,
        "server_address": "192.0.2.10", "server_port": 5432, "major": 17, "aurora_instance": None,
    }  # fmt: skip
    return Session(**straight | more)


THROUGH_A_TUNNEL = {"host": "localhost", "address": "127.0.0.1", "port": 5433}


@pytest.mark.parametrize(
    "session",
    [
        seen(),
        seen(host="db.internal"),
        seen(host="192.0.2.10", server_address="10.0.0.7"),
        seen(**THROUGH_A_TUNNEL),
        seen(**(THROUGH_A_TUNNEL | {"host": STAGING}), verified=True, server_address="10.0.0.7"),
        seen(host=PRODUCTION, address="192.0.2.20", aurora_instance="staging"),
    ],
    ids=["endpoint", "alias", "address", "tunnel", "tunnel-with-tls", "aurora"],
)
def test_a_session_with_the_instance_is_proved(session: Session) -> None:
    assert proof(session, target(), resolved) is not None


@pytest.mark.parametrize(
    "session",
    [
        seen(host=PRODUCTION, address="192.0.2.20", server_address="192.0.2.20"),
        seen(**THROUGH_A_TUNNEL, server_address="192.0.2.20"),
        seen(**THROUGH_A_TUNNEL, server_port=5434),
        seen(**THROUGH_A_TUNNEL, server_address="127.0.0.1"),
        # the endpoint's name alone proves nothing when hostaddr says where to go
        seen(address="127.0.0.1", port=5433, server_address="192.0.2.20"),
        seen(host="/var/run/postgresql", address="", server_address=None, server_port=None),
        seen(port=6432, server_port=6432),
        seen(major=16),
    ],
    ids=["other", "tunnel", "tunnel-port", "loopback", "hostaddr", "socket", "port", "major"],
)
def test_a_session_with_anything_else_is_not(session: Session) -> None:
    assert proof(session, target(), resolved) is None


def make(client: Any, lab: Lab, name: str) -> None:
    client.create_db_instance(
        DBInstanceIdentifier=name, DBInstanceClass="db.t4g.small", Engine="postgres",
        EngineVersion="18", AllocatedStorage=100, MasterUsername="master",
        MasterUserPassword="not a secret at all",
    )  # fmt: skip
    lab.settle()
    client.get_waiter("db_instance_available").wait(
        DBInstanceIdentifier=name, WaiterConfig={"Delay": 1}
    )


@pytest.fixture
def two(server_lab: Lab) -> Lab:
    client = aws_client("rds")
    for name in ("production", "staging"):
        make(client, server_lab, name)
    server_lab.forget_calls()
    return server_lab


def run(tmp_path: Path, command: str, dsn: str, *more: str) -> Result:
    words = [command, "staging", "--connect", dsn, "--connections", "30", *more]
    words += ["--journal", str(tmp_path), "--poll", "0.05"] if command == "apply" else []
    return CliRunner().invoke(rdstune, words, prog_name="rdstune")


def changes(lab: Lab) -> list[str]:
    return [action for _, action in lab.calls if not action.startswith("Describe")]


def test_a_dsn_of_another_server_is_refused_before_anything_changes(
    two: Lab, tmp_path: Path
) -> None:
    """Both instances have the same class and group, hence the same settings."""
    for more in (["--reboot", "now", "--yes"], ["--yes", "--json"]):
        result = run(tmp_path, "apply", two.dsn("production"), *more)
        assert result.exit_code == 4, result.stderr
        assert "cannot be verified to be staging" in result.stderr
        assert result.stdout == ""
    assert run(tmp_path, "diff", two.dsn("production")).exit_code == 4
    assert changes(two) == []
    with forwarding(two, "production") as port:
        through = two.dsn("production").replace(
            f"port={two.instance('production').port}", f"port={port}"
        )
        assert run(tmp_path, "apply", through, "--yes").exit_code == 4
    assert changes(two) == []


def test_an_alias_and_a_tunnel_of_the_instance_are_proved(two: Lab, tmp_path: Path) -> None:
    dsn = two.dsn("staging")
    assert run(tmp_path, "diff", dsn.replace("host=127.0.0.1", "host=localhost")).exit_code == 0
    with forwarding(two, "staging") as port:
        through = dsn.replace(f"port={two.instance('staging').port}", f"port={port}")
        assert through != dsn
        result = run(tmp_path, "apply", through, "--yes")
    assert result.exit_code == 0, result.stderr
    assert rds.instance(aws_client("rds"), "staging").groups[0].name == "mrtuner-staging"


@pytest.mark.parametrize("dsn", ["", "  "])
@pytest.mark.parametrize("command", ["apply", "diff"])
def test_an_empty_dsn_is_refused(lab: Lab, tmp_path: Path, command: str, dsn: str) -> None:
    """An unset variable gives this; libpq would connect to a server on this machine."""
    result = run(tmp_path, command, dsn)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: the connection string is empty")
    assert not lab.calls


@contextmanager
def forwarding(lab: Lab, name: str) -> Iterator[int]:
    """A local port that leads to an instance's server, as with ssh -L."""
    there = ("127.0.0.1", lab.instance(name).port)

    class Forward(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection(there) as far:
                back = threading.Thread(target=pump, args=(far, self.request))
                back.start()
                pump(self.request, far)
                back.join()

    class Tunnel(socketserver.ThreadingTCPServer):
        daemon_threads = False  # server_close waits for them

    with Tunnel(("127.0.0.1", 0), Forward) as tunnel:
        threading.Thread(target=tunnel.serve_forever, daemon=True).start()
        yield tunnel.server_address[1]
        tunnel.shutdown()


def pump(one: socket.socket, other: socket.socket) -> None:
    """Copy from one end to the other until one hangs up."""
    with suppress(OSError):
        while data := one.recv(65536):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)
