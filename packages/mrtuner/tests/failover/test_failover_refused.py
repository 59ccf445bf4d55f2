"""The prediction refuses what libpq and the kernel refuse, and accepts what they accept."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

import psycopg
import pytest
from conftest import PASSWORD
from failover_clients import lead
from failover_grid import KERNEL
from failover_pair import PgBouncer
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from command_line import run
from machine import needs
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
        told = run(*arguments)
        document = json.loads(run(*arguments, "--json").stdout)
    assert told.stdout.splitlines()[1].startswith("a pooler answers in place of the server")
    assert "behind PgBouncer, use --client pgbouncer" in told.stdout.splitlines()[2]
    assert document["between"] == "a pooler"


@pytest.mark.parametrize(
    ("parameter", "case", "said"),
    [
        ("connect_timeout=5000", 0, "connect_timeout = 5000 is 83.3 min: libpq counts seconds"),
        ("tcp_user_timeout=10", 0, "tcp_user_timeout = 10 is 10 ms, not seconds"),
        ("tcp_user_timeout=10", 1, "tcp_user_timeout = 10 is 10 ms, not seconds"),
        ("keepalives_idle=30000", 2, "keepalives_idle = 30000 is 8.33 h: libpq counts seconds"),
    ],
)
def test_a_value_whose_unit_looks_mistaken_is_said(parameter: str, case: int, said: str) -> None:
    """By hand: 5,000 s are 83 1/3 minutes, 30,000 s are 8 1/3 hours."""
    arguments = ["failover", "predict", f"host=db {parameter}", "--rtt", "1ms"]
    document = json.loads(run(*arguments, "--json").stdout)
    assert said in document["cases"][case]["traps"]
    assert said in run(*arguments).stdout


@pytest.mark.parametrize(
    "parameters",
    ["connect_timeout=10", "tcp_user_timeout=8500", "keepalives_idle=7200", "tcp_user_timeout=0"],
)
def test_usual_values_raise_no_doubt(parameters: str) -> None:
    assert configured("libpq", conninfo_to_dict(f"host=db {parameters}")).doubts == {}


@pytest.mark.parametrize("attrs", ["readwrite", "READ-WRITE", "master"])
def test_target_session_attrs_is_refused_where_libpq_refuses_it(attrs: str, dsn: str) -> None:
    said = refusal(f"{dsn} target_session_attrs={attrs}")
    assert said is not None
    assert "invalid target_session_attrs value" in said
    assert predicted(f"target_session_attrs={attrs}") is not None
    done = run("failover", "predict", f"host=db target_session_attrs={attrs}", "--rtt", "1ms")
    assert done.exit_code == 2
    assert (
        "HINT: Use any, read-write, read-only, primary, standby or prefer-standby." in done.stderr
    )


def test_target_session_attrs_is_accepted_where_libpq_accepts_it(dsn: str) -> None:
    for attrs in ("any", "read-write", "primary", "prefer-standby"):
        assert refusal(f"{dsn} target_session_attrs={attrs}") is None
        assert predicted(f"target_session_attrs={attrs}") is None


@pytest.mark.parametrize(
    "text", ["host=db conect_timeout=3", "postgresql://db/shop?conect_timeout=3"]
)
def test_a_misspelt_parameter_is_named_with_the_closest_one(text: str) -> None:
    done = run("failover", "predict", text, "--rtt", "1ms")
    assert done.exit_code == 2
    assert "there is no parameter conect_timeout" in done.stderr
    assert "HINT: Write connect_timeout" in done.stderr


def test_what_may_be_part_of_a_password_is_not_named() -> None:
    done = run("failover", "predict", "host=db password=my hunter2=3")
    assert done.exit_code == 2
    assert "hunter2" not in done.stderr
