"""JDBC URLs, read as pgjdbc reads them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from conftest import PASSWORD
from failover_grid import KERNEL, LAN

from mrtuner.cli import main
from mrtuner.failover.predict.jdbc_url import JdbcUrl
from mrtuner.failover.settings.advice import settings

if TYPE_CHECKING:
    from conftest import NewCluster


def run(url: str, *more: str) -> Result:
    return CliRunner().invoke(main, ["failover", "predict", url, *more])


def predicted(url: str, *more: str) -> dict[str, Any]:
    done = run(url, "--rtt", "1ms", "--json", *more)
    assert done.exit_code == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_the_url_that_settings_writes_is_predicted_within_its_bound() -> None:
    made = settings("pgjdbc", 20, KERNEL, LAN, hosts=2, longest_query=10)
    url = made.text.splitlines()[0]
    assert url.startswith("jdbc:postgresql://db1,db2/shop?")
    document = predicted(url)
    assert document["client"]["name"] == "pgjdbc"
    connect, idle, flight, frozen, stale = document["cases"]
    assert connect["span"]["high"] == 2 * 3  # by hand: 20 s / 3 / 2 hosts, whole seconds
    assert [case["span"]["high"] for case in (flight, frozen)] == [19, 19]
    assert idle["span"]["high"] <= 19
    assert frozen["decided_by"] == "read_timeout = 19 (JDBC URL)"
    assert "targetServerType = primary" in stale["decided_by"]


def test_what_the_url_does_not_say_is_pgjdbcs_default() -> None:
    """pgjdbc 42.7: connectTimeout 10, no socketTimeout, no keepalive; 0 is no limit."""
    client = JdbcUrl.read("jdbc:postgresql://db/shop").client("libpq")
    assert (client.connect_timeout, client.read_timeout, client.keepalives) == (10, None, False)
    client = JdbcUrl.read("jdbc:postgresql://db/shop?connectTimeout=0&loginTimeout=7").client(
        "pgjdbc"
    )
    assert client.connect_timeout == 7
    assert client.origin["connect_timeout"] == "loginTimeout of the JDBC URL"
    known = JdbcUrl.read("jdbc:postgresql://db/shop?gssResponseTimeout=5000").client("pgjdbc")
    assert known.ignored == ()
    assert (
        JdbcUrl.read("jdbc:postgresql://db/?connectTimeout=0").client("pgjdbc").connect_timeout
        is None
    )


def test_a_stale_name_lasts_for_its_ttl_and_the_jvms_cache() -> None:
    """By hand: 5 + 30 s; 60 + 30. Without --dns-ttl, the name's time to live is assumed."""
    url = "jdbc:postgresql://db/shop?targetServerType=primary"
    stale = predicted(url)["cases"][4]
    assert stale["span"]["high"] == 35
    assert (
        "TTL = 5 s (assumed) and networkaddress.cache.ttl = 30 (default of the JVM)"
        in (stale["decided_by"])
    )
    stale = predicted(url, "--dns-ttl", "60s")["cases"][4]
    assert stale["span"]["high"] == 90
    assert "TTL = 60 s (command line)" in stale["decided_by"]


@pytest.mark.parametrize(
    ("properties", "login"),
    [
        ("sslmode=disable", "forever"),
        ("sslmode=disable&socketTimeout=30", "30 s"),
        ("sslmode=disable&loginTimeout=7", "7 s"),
        ("sslmode=disable&loginTimeout=7&socketTimeout=4", "4 s"),
        ("", "5 s"),  # pgjdbc asks for TLS first, and waits 5,000 ms for an answer to that
        ("sslmode=require&sslResponseTimeout=2000", "2 s"),
        ("sslmode=allow&connectTimeout=3", "forever"),
    ],
)
def test_a_login_at_a_frozen_server_is_not_ended_by_connect_timeout(
    properties: str, login: str
) -> None:
    frozen = predicted(f"jdbc:postgresql://db/shop?{properties}")["cases"][3]
    assert f"a new connection's login hangs {login}" in frozen["steps"]


def test_hosts_and_ports_are_those_of_the_url() -> None:
    url = JdbcUrl.read("jdbc:postgresql://a:6543,[2001:db8::1],c/shop%20two?user=app")
    assert url.hosts == ("a", "2001:db8::1", "c")
    assert url.ports == ("6543", "5432", "5432")
    assert url.database == "shop two"
    assert JdbcUrl.read("jdbc:postgresql:shop").hosts == ("localhost",)


def test_a_unit_and_a_misspelt_property_are_said() -> None:
    document = predicted("jdbc:postgresql://db/shop?socketTimeout=30000&conectTimeout=3")
    said = "socketTimeout = 30000 is 8.33 h: pgjdbc counts seconds"
    assert said in document["cases"][1]["traps"]
    assert (
        "conectTimeout: ignored by pgjdbc, which knows connectTimeout"
        in (document["client"]["ignored"])
    )


@pytest.mark.parametrize(
    ("url", "more", "message"),
    [
        ("jdbc:mysql://db/shop", [], "cannot read the JDBC URL"),
        ("jdbc:postgresql://db:x/shop?password=hunter2", [], "cannot read the JDBC URL"),
        ("jdbc:postgresql://db/?connectTimeout=3s", [], "connectTimeout = '3s' is not a whole"),
        ("jdbc:postgresql://db/shop", ["--client", "psycopg"], "does not read a JDBC URL"),
    ],
)
def test_what_pgjdbc_cannot_use_is_refused_in_one_sentence(
    url: str, more: list[str], message: str
) -> None:
    done = run(url, "--rtt", "1ms", *more)
    assert done.exit_code == 2
    assert message in done.stderr
    assert "hunter2" not in done.stderr


def test_the_round_trip_is_measured_over_the_same_address(new_cluster: NewCluster) -> None:
    port = new_cluster(listen=True).port
    url = f"jdbc:postgresql://127.0.0.1:{port}/postgres?user=postgres&password={PASSWORD}"
    done = run(url, "--json")
    assert 0 < json.loads(done.stdout)["path"]["rtt"] < 0.1
    assert PASSWORD not in done.stdout
