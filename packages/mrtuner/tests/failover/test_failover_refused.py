"""The prediction refuses what libpq and the kernel refuse, and accepts what they accept."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

import psycopg
import pytest
from click.testing import CliRunner
from conftest import PASSWORD
from failover_clients import lead
from failover_grid import KERNEL
from failover_pair import PgBouncer
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from machine import needs
from mrtuner.cli import main
from mrtuner.errors import BadValue
from mrtuner.failover.audit.session import met
from mrtuner.failover.predict.client import configured

if TYPE_CHECKING:
    from conftest import NewCluster

#: What Linux takes at most for TCP_KEEPIDLE, TCP_KEEPINTVL and TCP_KEEPCNT (linux/tcp.h).
MOST = {"keepalives_idle": 32_767, "keepalives_interval": 32_767, "keepalives_count": 127}


@pytest.fixture
def dsn(new_cluster: NewCluster) -> str:
    return f"{new_cluster(listen=True).dsn(tcp=True)} password='{PASSWORD}'"


def refusal(dsn: str) -> str | None:
    """libpq's error, if it does not connect."""
    try:
        psycopg.connect(dsn).close()
    except psycopg.OperationalError as error:
        return str(error)
    return None


def predicted(parameter: str) -> str | None:
    """The error, if the prediction refuses it."""
    try:
        configured("libpq", {**conninfo_to_dict(f"host=db {parameter}")})
    except BadValue as error:
        return error.message
    return None


@pytest.mark.parametrize("name", MOST)
def test_a_keepalive_number_is_refused_where_real_libpq_does_not_connect(
    name: str, dsn: str
) -> None:
    """0 too: libpq's manual calls it the system's default, Linux says Invalid argument."""
    for value, works in ((0, False), (1, True), (MOST[name], True), (MOST[name] + 1, False)):
        parameter = f"{name}={value}"
        said = refusal(f"{dsn} {parameter}")
        assert (said is None) is works, parameter
        assert said is None or "Invalid argument" in said
        assert (predicted(parameter) is None) is works, parameter


def test_without_keepalive_its_numbers_do_not_matter(dsn: str) -> None:
    psycopg.connect(f"{dsn} keepalives=0 keepalives_idle=0").close()
    client = configured("libpq", {"host": "db", "keepalives": "0", "keepalives_idle": "0"})
    assert client.keepalive(KERNEL) is None


def test_a_user_timeout_of_0_is_none(dsn: str) -> None:
    psycopg.connect(f"{dsn} tcp_user_timeout=0").close()
    assert configured("libpq", {"host": "db", "tcp_user_timeout": "0"}).user_timeout == 0


@pytest.mark.parametrize(
    ("parameter", "hint"),
    [
        ("tcp_user_timeout", "Give it in milliseconds."),
        ("connect_timeout", "Give it in seconds."),
        ("keepalives_idle", "Give it in seconds."),
        ("keepalives_count", "Give a number of probes."),
    ],
)  # fmt: skip
def test_the_hint_names_the_unit_that_libpq_takes(parameter: str, hint: str) -> None:
    for text in ("abc", "10s", "1_000", "٣"):
        with pytest.raises(BadValue, match="is not a whole number") as refused:
            configured("libpq", {"host": "db", parameter: text})
        assert refused.value.hint == hint


def test_who_stands_in_between_is_found_at_predicting(dsn: str) -> None:
    """With our relay in between, the server sees another port than our socket has."""
    where = conninfo_to_dict(dsn)
    assert met(dsn)[1] is None
    proxy = socket.create_server(("127.0.0.1", 0))
    lead(proxy, (str(where["host"]), int(str(where["port"]))))
    through = make_conninfo(**{**where, "port": proxy.getsockname()[1]})
    assert met(through)[1] == "a proxy or address translation"
    proxy.shutdown(socket.SHUT_RDWR)


@needs("pgbouncer")
def test_predict_through_pgbouncer_says_so_and_how_to_predict_what_is_behind(
    new_cluster: NewCluster,
) -> None:
    with PgBouncer(new_cluster()) as pooler:
        arguments = ["failover", "predict", pooler.dsn()]
        told = CliRunner().invoke(main, arguments)
        document = json.loads(CliRunner().invoke(main, [*arguments, "--json"]).stdout)
    assert told.stdout.splitlines()[1].startswith("a pooler answers in place of the server")
    assert "behind PgBouncer, use --client pgbouncer" in told.stdout.splitlines()[2]
    assert document["between"] == "a pooler"
