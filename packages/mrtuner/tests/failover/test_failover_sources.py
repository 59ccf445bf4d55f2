"""What libpq takes from elsewhere than the connection string: services and PG* variables."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from conftest import PASSWORD
from psycopg import pq

import command_line
from mrtuner.bench.server.scratch import read_only
from mrtuner.change.settings.apply import address_of
from mrtuner.errors import ConnectError, UsageError
from mrtuner.failover.audit.session import met
from mrtuner.failover.predict.client import client_with
from mrtuner.postgres.connect import address, connect, resolved

if TYPE_CHECKING:
    from conftest import NewCluster

    from mrtuner.postgres.cluster import Cluster


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A service file that libpq reads; a test writes it."""
    file = tmp_path / "pg_service.conf"
    monkeypatch.setenv("PGSERVICEFILE", str(file))
    return file


run = partial(command_line.run, "failover")


def predicted(dsn: str) -> dict[str, Any]:
    """The document of a prediction that must work."""
    done = run("predict", dsn, "--rtt", "1ms", "--json")
    assert done.exit_code == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_the_service_that_settings_writes_is_predicted_as_one_string(service: Path) -> None:
    """The same parameters in the string itself give the same limits."""
    section = run("settings", "--stack", "libpq", "--within", "20s").stdout
    service.write_text(f"{section}host=db.example.org\n")
    rows = [line for line in section.splitlines() if "=" in line and not line.startswith("#")]
    one = predicted("service=failover")
    other = predicted(f"host=db.example.org {' '.join(rows)}")
    assert [case["span"] for case in one["cases"]] == [case["span"] for case in other["cases"]]
    assert "(service failover)" in one["cases"][0]["decided_by"]
    added = predicted("host=another.example.org service=failover")
    assert [case["span"] for case in added["cases"]] == [case["span"] for case in one["cases"]]


def test_variables_count_where_the_string_says_nothing(
    service: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGHOST", "a.example.org,b.example.org")
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "4")
    monkeypatch.setenv("PGTARGETSESSIONATTRS", "read-write")
    client = client_with("libpq", "")
    assert (client.connect_timeout, client.addresses, client.read_write) == (4, 2, True)
    assert client.origin["connect_timeout"] == "PGCONNECT_TIMEOUT"
    assert client_with("libpq", "connect_timeout=3").connect_timeout == 3
    service.write_text("[failover]\nconnect_timeout=7\ntcp_user_timeout=8500\n")
    monkeypatch.setenv("PGSERVICE", "failover")
    client = client_with("libpq", "")
    assert (client.connect_timeout, client.user_timeout) == (7, 8500)  # a service beats variables


def test_the_socket_that_a_service_opens_has_the_options_that_are_predicted(
    service: Path, new_cluster: NewCluster
) -> None:
    cluster = new_cluster(listen=True)
    service.write_text(
        f"[failover]\nport={cluster.port}\nuser=postgres\ndbname=postgres\npassword={PASSWORD}\n"
        "keepalives_idle=7\nkeepalives_interval=2\nkeepalives_count=3\ntcp_user_timeout=18000\n"
    )
    dsn = "host=127.0.0.1 service=failover"
    live, _ = met(dsn)
    client = client_with("libpq", dsn)
    assert (client.idle, client.interval, client.count) == (7, 2, 3)
    assert (live.idle, live.interval, live.count) == (7, 2, 3)
    assert client.user_timeout == live.user_timeout == 18_000


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)
        yield server


@pytest.mark.timed
def test_psycopg_does_not_see_a_services_connect_timeout_and_libpq_does(
    service: Path, silent: socket.socket
) -> None:
    port = silent.getsockname()[1]
    service.write_text(f"[failover]\nhost=127.0.0.1\nport={port}\nconnect_timeout=2\n")
    began = time.monotonic()
    pq.PGconn.connect(b"service=failover")
    assert time.monotonic() - began < 3
    assert client_with("libpq", "service=failover").connect_timeout == 2
    psycopg_client = client_with("psycopg", "service=failover")
    assert psycopg_client.connect_timeout == 130
    assert psycopg_client.ignored == ("connect_timeout: ignored by psycopg 3 in service failover",)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: psycopg.connect("service=failover").close())
        with pytest.raises(NotYet):
            waiting.result(timeout=4)
        silent.accept()[0].close()  # libpq's
        silent.accept()[0].close()  # psycopg's: ends its wait
        with pytest.raises(psycopg.OperationalError):
            waiting.result(timeout=5)


@pytest.mark.timed
def test_our_own_sessions_obey_a_services_connect_timeout(
    service: Path, silent: socket.socket
) -> None:
    port = silent.getsockname()[1]
    service.write_text(f"[failover]\nhost=127.0.0.1\nport={port}\nconnect_timeout=2\n")
    began = time.monotonic()
    with pytest.raises(ConnectError):
        connect("service=failover", timeout=20)
    assert 1.5 < time.monotonic() - began < 5


def test_a_server_is_called_by_the_address_that_libpq_finds(
    service: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.write_text("[shop]\nhost=db.example.org\nport=6543\n")
    assert address("service=shop") == address_of("service=shop") == "db.example.org:6543"
    assert address("hostaddr=10.0.0.1") == "10.0.0.1:5432"
    monkeypatch.setenv("PGPORT", "7777")
    assert address("host=db") == address_of("host=db") == "db:7777"


def test_options_from_elsewhere_survive_ours(
    embedded: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=7MB")
    with connect(read_only(embedded.dsn())) as conn:
        assert conn.execute("SHOW work_mem").fetchone() == ("7MB",)
        assert conn.execute("SHOW default_transaction_read_only").fetchone() == ("on",)


def test_no_secret_is_among_what_was_found(service: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service.write_text("[shop]\nhost=db.example.org\npassword=hunter2\n")
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    for dsn in ("service=shop", "host=db password=hunter2 sslpassword=hunter2"):
        assert "hunter2" not in str(resolved(dsn))


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("[another]\nhost=db\n", "there is no such service"),
        ("[shop]\nhost=db\nconect_timeout=3\n", "there is no such service"),
    ],
)
def test_a_service_that_cannot_be_read_is_an_error(
    section: str, message: str, service: Path
) -> None:
    service.write_text(section)
    with pytest.raises(ConnectError, match=message) as raised:
        resolved("service=shop")
    assert "PGSERVICEFILE" in str(raised.value.hint)


def test_what_libpq_would_refuse_before_it_connects_is_refused() -> None:
    for dsn in ("host=a,b port=1,2,3", "host=db sslmode=maybe"):
        with pytest.raises(UsageError, match="cannot read the connection string"):
            resolved(dsn)
