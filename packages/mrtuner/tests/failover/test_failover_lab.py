"""The parts of the lab that need no namespaces: verdicts, the resolver, typed options."""

from __future__ import annotations

import json
import socket
import struct

import pytest
from click.testing import Result

from command_line import run
from json_schemas import assert_valid
from mrtuner.documents import as_builtins, convert
from mrtuner.errors import BadValue, UsageError
from mrtuner.failover.lab.control import Request, sysctl
from mrtuner.failover.lab.dns_resolver import Resolver
from mrtuner.failover.lab.document import (
    CountedWrites,
    PlayedCase,
    PlayedScenario,
    ProbedKind,
    played_case,
)
from mrtuner.failover.lab.lab import dsn, explained
from mrtuner.failover.lab.run import union
from mrtuner.failover.lab.scenarios import SCENARIOS, FaultMoment, scenario
from mrtuner.failover.lab.text import lines, measured
from mrtuner.failover.predict import hang_times
from mrtuner.failover.predict.client import configured
from mrtuner.failover.predict.hang_times import Case, Prediction, Situation
from mrtuner.failover.predict.kernel import Kernel
from mrtuner.failover.predict.path import Path
from mrtuner.failover.predict.timer_wheel import Band

LAB = "mrtuner.failover.lab/1"


def row(predicted: Band | None, *hangs: float | None, watched: float = 10.0) -> PlayedCase:
    return played_case("a case", predicted, "x", hangs, watched=watched)


def test_a_hang_fits_in_its_band_and_a_tenth_of_a_second_beside_it() -> None:
    band = Band(5.0, 5.1, 5.2)
    assert row(band, 5.0, 5.2, 5.29, 4.91).fits
    assert row(band, 5.1, 5.31).fits is False
    assert row(band, 4.89).fits is False


def test_an_immediate_end_is_measured_too() -> None:
    assert row(Band.exactly(0.0), 0.0, 0.05).fits
    assert row(Band.exactly(3.0), 0.0).fits is False


def test_for_ever_fits_only_what_never_ended() -> None:
    assert row(None, None, None).fits
    assert row(None, None, 7.0).fits is False


def test_a_hang_longer_than_anybody_waited_is_neither_right_nor_wrong() -> None:
    assert row(Band(900.0, 930.0, 940.0), None, watched=180.0).fits is None
    assert row(Band(5.0, 5.1, 5.2), None, watched=10.0).fits is False


def test_bands_of_several_attempts_are_held_together() -> None:
    assert union([Band(1.0, 2.0, 3.0), Band(0.5, 1.0, 2.0)]) == Band(0.5, 2.0, 3.0)
    assert union([Band(1.0, 2.0, 3.0), None]) is None


def test_measured_hangs_are_said_with_their_number() -> None:
    assert measured([9.034, 9.207], 20.0) == "9.03 to 9.21 s (2)"
    assert measured([None, None, None], 20.0) == "over 20 s (3)"
    assert measured([9.0, None], 20.0) == "9.00 to 9.00 s (1), 1 over 20 s"


def test_an_outcome_is_said_from_its_document_alone() -> None:
    outcome = PlayedScenario(
        scenario="frozen", words="it froze", release="6.18", hz=250,
        parameters={"connect_timeout": "2"}, fits=True,
        sysctls={"net.ipv4.tcp_retries2": 5}, cases=[row(None, None, watched=8.0)],
        probes=[ProbedKind(kind="new connection, read", outage=None, failed=3, late=2, stale=1)],
        writes=CountedWrites(acknowledged=9, lost=4), fenced=8.25,
    )  # fmt: skip
    told = json.loads(json.dumps(as_builtins(outcome)))
    assert_valid({"schema": LAB, "scenarios": [told]}, LAB)
    text = "\n".join(lines(convert(told, PlayedScenario)))
    assert "frozen: it froze" in text
    assert "Linux 6.18, HZ 250; connect_timeout=2 net.ipv4.tcp_retries2=5" in text
    assert "forever    over 8 s (1)  fits" in text
    assert "to the end" in text
    assert "the old primary was killed 8.2 s after the fault" in text
    assert "9 acknowledged writes, 4 of them lost" in text


# Predictions for a scenario.


def expected(name: str, case: Case, *, fault: float = 0.0, takeover: float = 3.0) -> Prediction:
    """The prediction for psycopg on Linux 6.18 at HZ 250, with a first RTO of 204 ms."""
    limits = {"connect_timeout": "2", "keepalives_idle": "1", "keepalives_interval": "1"}
    client = configured("psycopg", {"host": "a", "keepalives_count": "3", **limits})
    kernel = Kernel(release=(6, 18), hz=250, tcp_retries2=5)
    situation = Situation(kernel=kernel, client=client, path=Path(rtt=0.0001, rto=0.204))
    moment = FaultMoment(situation=situation, within=6.0, fault=fault, takeover=takeover)
    return scenario(name).expected(case, moment)


def test_a_crash_is_noticed_when_it_happens() -> None:
    for case in (Case.CONNECT, Case.IDLE):
        assert expected("crash", case).span == Band.exactly(0.0)
    assert expected("crash", Case.FLIGHT, fault=0.2).span == Band.exactly(0.2)


def test_silent_loss_is_what_predict_says() -> None:
    """13.27 to 13.53 s: measured with tcp_retries2=5 on 6.18 (docs/concepts/failover.md). A request
    of several segments ends 0.2 s sooner: its tail loss probe goes out at once."""
    span = expected("silent-loss", Case.IDLE).span
    assert span is not None
    assert (round(span.low, 2), round(span.high, 2)) == (13.07, 13.53)


def test_a_frozen_server_is_bounded_at_connecting_alone() -> None:
    assert expected("frozen", Case.CONNECT).span == Band.exactly(2.0)
    assert expected("frozen", Case.IDLE).span is None
    assert expected("frozen", Case.FLIGHT).span is None


def test_a_moved_address_is_found_at_the_next_timer() -> None:
    """Timers fire at about 0.2, 0.4, 0.8, 1.6, 3.3 s, and the first after 3 s counts; for a request
    of several segments all fire 0.2 s sooner."""
    span = expected("address-move", Case.IDLE, takeover=3.0).span
    assert span is not None
    assert 3.0 < span.low <= span.high < 3.6


def test_a_move_that_comes_too_late_changes_nothing() -> None:
    late = expected("address-move", Case.IDLE, takeover=60.0)
    assert late.span == expected("silent-loss", Case.IDLE).span


def test_every_scenario_predicts_each_of_its_cases() -> None:
    for one in SCENARIOS.values():
        for case in one.cases:
            assert expected(one.name, case, takeover=30.0).decided_by, one.name


def test_an_unknown_scenario_is_refused_with_those_there_are() -> None:
    with pytest.raises(BadValue, match="unknown scenario 'fire'") as refused:
        scenario("fire")
    assert "silent-loss" in (refused.value.hint or "")


def test_slack_is_that_of_the_self_test() -> None:
    assert hang_times.SLACK == 0.1


# The resolver.


def query(name: bytes, kind: int) -> bytes:
    """RFC 1035, 4.1: header of one question, the name as labels, type and class IN."""
    return struct.pack(">6H", 0x1234, 0x0100, 1, 0, 0, 0) + name + struct.pack(">2H", kind, 1)


DB_LAB = b"\x02db\x03lab\x00"


def test_the_resolver_answers_with_address_and_ttl() -> None:
    resolver = Resolver("10.77.2.2", 5.0)
    reply = resolver.answer(query(DB_LAB, 1))
    assert reply[:12] == struct.pack(">6H", 0x1234, 0x8180, 1, 1, 0, 0)
    assert reply[12 : 12 + len(DB_LAB) + 4] == DB_LAB + b"\x00\x01\x00\x01"
    record = reply[12 + len(DB_LAB) + 4 :]
    assert record[:6] == b"\xc0\x0c\x00\x01\x00\x01"
    assert 4 <= struct.unpack(">I", record[6:10])[0] <= 5
    assert record[10:] == b"\x00\x04\x0a\x4d\x02\x02"


def test_names_are_alike_in_any_case_and_have_no_ipv6_address() -> None:
    resolver = Resolver("10.77.2.2", 5.0)
    assert resolver.answer(query(b"\x02DB\x03Lab\x00", 1))[6:8] == b"\x00\x01"
    assert resolver.answer(query(DB_LAB, 28))[2:8] == b"\x81\x80\x00\x01\x00\x00"


def test_another_name_is_not_known() -> None:
    assert Resolver("10.77.2.2", 5.0).answer(query(b"\x05other\x00", 1))[2:4] == b"\x81\x83"


def test_a_cached_address_is_given_until_its_ttl_ends() -> None:
    now = [100.0]
    resolver = Resolver("10.77.2.2", 5.0, clock=lambda: now[0])
    assert resolver.look() == ("10.77.2.2", 5.0)
    resolver.switch("10.77.3.2")
    now[0] = 104.5
    assert resolver.look() == ("10.77.2.2", 0.5)
    now[0] = 105.0
    assert resolver.look() == ("10.77.3.2", 5.0)


def test_it_is_reached_over_a_real_socket() -> None:
    port = Resolver("10.77.2.2", 5.0).start(port=0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(20)
        client.sendto(query(DB_LAB, 1), ("127.0.0.1", port))
        assert client.recv(512)[-4:] == socket.inet_aton("10.77.2.2")


# Options as typed.


def test_sysctls_are_taken_with_and_without_their_prefix() -> None:
    assert sysctl("tcp_retries2=5") == sysctl("net.ipv4.tcp_retries2 = 5".replace(" ", ""))


@pytest.mark.parametrize(
    "text", ["tcp_retries2", "ip_forward=1", "tcp_retries2=x", "tcp_/../x=1", "tcp_retries2=-1"]
)
def test_what_is_no_tcp_setting_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a TCP setting"):
        sysctl(text)


def test_a_request_is_one_line() -> None:
    line = Request(scenario="crash", parameters={"connect_timeout": "2"}).to_json()
    assert "\n" not in line
    assert json.loads(line)["parameters"] == {"connect_timeout": "2"}


def test_several_hosts_are_asked_for_one_that_takes_writes() -> None:
    assert dsn("a,b").endswith(" target_session_attrs=read-write")
    assert "target_session_attrs" not in dsn("a")


def test_every_command_of_the_open_lab_is_explained() -> None:
    for shown, words in explained():
        assert words.endswith("."), shown


def lab(*arguments: str) -> Result:
    return run("failover", "lab", *arguments)


def test_the_list_names_every_scenario() -> None:
    done = lab("--list")
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(SCENARIOS)
    document = json.loads(lab("--list", "--json").stdout)
    assert [one["name"] for one in document["known"]] == list(SCENARIOS)
    assert_valid(document, LAB)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--scenario", "fire"], "unknown scenario 'fire'"),
        (["--scenario", "crash", "--scenario", "fire"], "unknown scenario 'fire'"),
        (["--scenario", "crash", "--sysctl", "retries=5"], "'retries=5' is not a TCP setting"),
        (["--scenario", "crash", "--client", "nonsense"], "cannot read the connection string"),
        (["--scenario", "crash", "--client", "host=db"], "host cannot be given"),
        (["--scenario", "crash", "--client", "tcp_user_timeout=x"], "is not a whole number"),
        (["--scenario", "crash", "--html", "/none/x.html"], "no directory /none"),
        (["--html", "x.html"], "nothing to report"),
    ],
)
def test_mistyped_wishes_end_with_2_before_anything_starts(arguments: list[str], said: str) -> None:
    done = lab(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr
    assert "starting" not in done.stderr
