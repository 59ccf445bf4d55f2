"""`mrtuner failover`: what it prints, how it ends, and that its JSON satisfies its schema."""

from __future__ import annotations

import json
import socket
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from conftest import PASSWORD
from jsonschema import ValidationError  # type: ignore[import-untyped]

import command_line
from json_schemas import assert_valid
from machine import needs
from mrtuner.cli import main

if TYPE_CHECKING:
    from conftest import NewCluster

COMMANDS = ("predict", "settings", "audit", "self-test")
SYSCTL = "net.ipv4.tcp_retries2 = 5\nkernel.osrelease = 6.18.0\n"


run = partial(command_line.run, "failover")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_leads_with_examples_and_speaks_json(name: str) -> None:
    shown = run(name, "--help")
    assert shown.exit_code == 0
    assert f"  mrtuner failover {name}" in shown.output
    assert shown.output.index("Examples:") < shown.output.index("Options:")
    assert "--json" in shown.output
    assert "--debug" in shown.output


def test_a_prediction_names_what_decides_each_case(tmp_path: Path) -> None:
    listing = tmp_path / "app-host.txt"
    listing.write_text(SYSCTL)
    done = run("predict", "--sysctl", str(listing), "--hz", "250", "--rtt", "0.1ms")
    assert done.exit_code == 0
    query = next(row for row in done.stdout.splitlines() if row.startswith("idle connection"))
    assert "13.1 to 13.5 s" in query  # measured: 13.28 to 13.53; 0.2 s sooner in several segments
    assert query.endswith(f"tcp_retries2 = 5 ({listing})")


def test_what_a_listing_lacks_is_assumed_aloud(tmp_path: Path) -> None:
    listing = tmp_path / "app-host.txt"
    listing.write_text(SYSCTL)
    assert "HZ is not in" in run("predict", "--sysctl", str(listing)).stderr


@pytest.mark.parametrize("option", [("--kernel", "5.14"), ("--hz", "1000"), ("--hz", "0")])
def test_another_machine_needs_its_listing(option: tuple[str, str]) -> None:
    done = run("predict", *option)
    assert done.exit_code == 2
    assert "--kernel and --hz describe another machine" in done.stderr
    assert "Give its --sysctl FILE too." in done.stderr


def test_no_kernel_has_no_ticks(tmp_path: Path) -> None:
    listing = tmp_path / "app-host.txt"
    listing.write_text(SYSCTL)
    done = run("predict", "--sysctl", str(listing), "--hz", "0")
    assert done.exit_code == 2
    assert "HZ 0 is not a tick rate of any kernel" in done.stderr


def test_a_predictions_json_satisfies_its_schema() -> None:
    done = run("predict", "postgresql://app@db/shop?tcp_user_timeout=8500", "--rtt", "1ms",
               "--away", "169s", "--json")  # fmt: skip
    document = json.loads(done.stdout)
    assert document["schema"] == "mrtuner.failover.predict/1"
    assert document["client"]["tcp_user_timeout"] == 8500
    assert [case["case"] for case in document["cases"]] == [
        "connect", "idle", "flight", "frozen", "stale"
    ]  # fmt: skip
    assert_valid(document, "mrtuner.failover.predict/1")
    with pytest.raises(ValidationError, match="lunch"):
        assert_valid(document | {"cases": [{"case": "lunch"}]}, "mrtuner.failover.predict/1")


def test_limits_given_as_options_decide(tmp_path: Path) -> None:
    done = run("predict", "--client", "pgjdbc", "--read-timeout", "30s", "--json")
    idle, flight, frozen = json.loads(done.stdout)["cases"][1:4]
    for case in (idle, flight, frozen):
        assert case["span"]["high"] == 30
        assert case["decided_by"] == "read_timeout = 30 (command line)"


def test_a_live_server_tells_its_round_trip(new_cluster: NewCluster) -> None:
    dsn = new_cluster(listen=True).dsn(tcp=True)
    done = CliRunner(env={"PGPASSWORD": PASSWORD}).invoke(
        main, ["failover", "predict", dsn, "--json"]
    )
    path = json.loads(done.stdout)["path"]
    assert 0 < path["rtt"] < 0.1
    assert 0.19 < path["rto"] < 0.5
    audited = CliRunner(env={"PGPASSWORD": PASSWORD}).invoke(
        main, ["failover", "audit", dsn, "--check", "--json"]
    )
    document = json.loads(audited.stdout)
    assert audited.exit_code == 3  # 15 minutes and two hours by default
    assert document["connections"][0]["options"]["keepalives"] is True
    assert_valid(document, "mrtuner.failover.audit/1")


def test_settings_go_to_stdout_and_their_price_to_stderr() -> None:
    done = run("settings", "--stack", "psycopg", "--within", "20s")
    assert done.exit_code == 0
    compile(done.stdout, "snippet", "exec")
    assert "what it costs" in done.stderr
    assert "not bounded" in done.stderr


def test_the_json_of_settings_satisfies_its_schema() -> None:
    done = run("settings", "--stack", "pgjdbc", "--within", "20s", "--json")
    document = json.loads(done.stdout)
    assert document["schema"] == "mrtuner.failover.settings/1"
    assert_valid(document, "mrtuner.failover.settings/1")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["settings", "--stack", "libpq", "--within", "1s"], 4, "whole seconds"),
        (["settings", "--stack", "jdbc", "--within", "20s"], 2, "unknown stack 'jdbc'"),
        (["predict", "--client", "jdbc"], 2, "unknown client 'jdbc'"),
        (["predict", "--sysctl", "not-there"], 1, "cannot read not-there"),
        (["predict", "dbname=app", "--rtt", "1ms"], 2, "which no network outage affects"),
        (["predict", "nonsense"], 2, "cannot read the connection string"),
        (["predict", "host=db keepalives_idle=x", "--rtt", "1ms"], 2, "is not a whole number"),
        (["audit"], 2, "nothing to audit"),
        pytest.param(
            ["audit", "--port", "1"],
            1,
            "no open TCP connection to port 1 on this machine",
            marks=needs("ss"),
        ),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(
    arguments: list[str], code: int, message: str
) -> None:
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (code, "")
    assert message in done.stderr.splitlines()[-2]
    assert done.stderr.splitlines()[-1].startswith("HINT: ")


def test_a_password_in_a_bad_string_is_not_repeated() -> None:
    done = run("predict", "host=db password='open")
    assert done.exit_code == 2
    assert "open" not in done.stderr


@needs("ss")
def test_an_unbounded_connection_of_this_machine_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            assert run("audit", "--port", str(port)).exit_code == 0
            done = run("audit", "--port", str(port), "--check")
            assert done.exit_code == 3
            assert "query in flight: forever" in done.stdout
            client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in (
                (socket.TCP_KEEPIDLE, 3), (socket.TCP_KEEPINTVL, 2), (socket.TCP_KEEPCNT, 3),
                (socket.TCP_USER_TIMEOUT, 8500),
            ):  # fmt: skip
                client.setsockopt(socket.IPPROTO_TCP, option, value)
            done = run("audit", "--port", str(port), "--within", "10s", "--check")
            assert (done.exit_code, done.stdout.splitlines()[-1]) == (
                0,
                "no case hangs longer than 10 s",
            )
