"""Conclusions from attempts: worked out by hand on short runs, triggered at second 2."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain, repeat
from typing import Any

import pytest

from json_schemas import assert_valid
from mrtuner.documents import as_builtins
from mrtuner.failover.predict.client import host_names
from mrtuner.failover.predict.hang_times import Case, Prediction
from mrtuner.failover.predict.timer_wheel import Band
from mrtuner.failover.rehearse.dns import Names
from mrtuner.failover.rehearse.document import rehearsal_document
from mrtuner.failover.rehearse.hangs import hangs, longest
from mrtuner.failover.rehearse.paths import ClientPath
from mrtuner.failover.rehearse.report import (
    Rehearsed,
    findings,
    headline,
    moments,
    rehearsed,
)
from mrtuner.failover.rehearse.takeover import RehearsalEffect, outcome, stale
from mrtuner.rehearsal.observation import (
    READ_ONLY,
    Attempt,
    Observation,
    ProbeKind,
    ServerIdentity,
    balanced,
    primaries,
)
from mrtuner.rehearsal.probes import Schedule
from mrtuner.rehearsal.run import Run

ONE = datetime(2026, 1, 1, tzinfo=UTC)
TWO = datetime(2026, 1, 2, tzinfo=UTC)
OLD = ServerIdentity(ONE, False, "10.0.0.9", "10.0.0.1:5432", 1, 7)
AGAIN = ServerIdentity(TWO, False, "10.0.0.9", "10.0.0.1:5432", 1, 7)
STANDBY = ServerIdentity(TWO, True, "10.0.0.9", "10.0.0.2:5432", None, 7)
NEW = ServerIdentity(TWO, False, "10.0.0.9", "10.0.0.2:5432", 2, 7)
ASKED = 2.0


def good(
    at: float, server: ServerIdentity, kind: ProbeKind = ProbeKind.READ, **more: Any
) -> Attempt:
    return Attempt(
        kind=kind, due=at, sent=at, asked=at, ended=at + 0.1, server=server, **more
    )  # fmt: skip


def bad(at: float, took: float, kind: ProbeKind = ProbeKind.READ, **more: Any) -> Attempt:
    return Attempt(kind=kind, due=at, sent=at, ended=at + took, error="refused", **more)


def seen(*attempts: Attempt, rows: Iterable[int] = (1, 2, 3)) -> Observation:
    return Observation(
        began=ONE, seconds=20, interval=1, timeout=30, kinds=tuple(ProbeKind), attempts=attempts,
        skipped=0, ledger=balanced(3, {1, 2, 3}, list(rows)),
    )  # fmt: skip


def judged(observation: Observation, *, settled: bool = True) -> Rehearsed:
    prediction = Prediction(
        case=Case.CONNECT, span=Band.exactly(3), decided_by="connect_timeout = 3", steps=()
    )
    way = ClientPath(
        dsn="", place="db:5432/shop", parameters={}, between=None, standby=False, may_create=True,
        free=100, predictions=(prediction,),
    )  # fmt: skip
    run = Run(asked=ASKED, accepted=2.1, settled=settled, observation=observation, marks=())
    return rehearsed("direct", way, run)


def said(one: Rehearsed, within: float | None = None) -> str:
    return " ".join(findings(one, within))


# The resolver's answers.


def test_a_name_that_leads_elsewhere_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = chain(["10.0.0.1"], repeat("10.0.0.2"))

    def resolve(*_: object, **__: object) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), 0))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    heard: list[str] = []
    with Names(("orders.example.org",)) as names:
        end = time.monotonic() + 30
        while not heard and time.monotonic() < end:
            heard += [news.text for news in names.news()]
            time.sleep(0.05)
        assert list(names.news()) == []
    assert heard == ["orders.example.org is 10.0.0.2, was 10.0.0.1"]


def test_only_names_of_a_connection_string_are_resolved() -> None:
    assert host_names({"host": "db.example.org,10.0.0.1,::1,/run/x"}) == ("db.example.org",)
    assert host_names({"host": "db.example.org", "hostaddr": "10.0.0.1"}) == host_names({}) == ()


# Who took over.


def test_another_address_and_timeline_is_a_move() -> None:
    assert outcome(seen(good(1, OLD), bad(3, 0.1), good(4, NEW)), ASKED) is RehearsalEffect.MOVED


def test_another_start_time_at_the_same_address_is_a_restart() -> None:
    assert (
        outcome(seen(good(1, OLD), bad(3, 0.1), good(4, AGAIN)), ASKED) is RehearsalEffect.RESTARTED
    )


def test_errors_without_another_server_are_an_interruption() -> None:
    assert (
        outcome(seen(good(1, OLD), bad(3, 0.1), good(4, OLD)), ASKED) is RehearsalEffect.INTERRUPTED
    )


def test_answers_of_the_same_server_throughout_are_nothing() -> None:
    one = judged(seen(good(1, OLD), good(3, OLD), good(4, OLD)))
    assert one.outcome is RehearsalEffect.NOTHING
    assert not one.failed_over
    assert "No outage was measured" in said(one, 20)
    assert " s:" not in said(one, 20)


def test_a_standby_that_answered_before_is_no_new_primary() -> None:
    attempts = (good(1, OLD, ProbeKind.WRITE), good(1, STANDBY), good(3, STANDBY), good(4, STANDBY))
    assert outcome(seen(*attempts), ASKED) is RehearsalEffect.NOTHING


def test_a_standby_promoted_in_place_is_a_move() -> None:
    """It keeps the start time and address that it had as a standby."""
    attempts = (good(1, OLD, ProbeKind.WRITE), good(1, STANDBY), good(4, NEW, ProbeKind.WRITE))
    assert outcome(seen(*attempts), ASKED) is RehearsalEffect.MOVED


def test_two_primaries_at_once_are_counted() -> None:
    attempts = [good(1, OLD), good(5, NEW), good(5.5, OLD), good(6, STANDBY)]
    assert primaries(attempts, since=4) == {OLD, NEW}
    assert primaries(attempts, since=5.8) == set()


def test_one_primary_by_two_addresses_is_one() -> None:
    """Over another address it also calls itself by another one."""
    by_name = replace(OLD, address="127.0.0.1", own="127.0.0.1:5432")
    found = primaries([good(5, OLD), good(5.5, by_name)], since=4)
    assert len(found) == 2
    assert len({one.who for one in found}) == 1
    assert len({one.who for one in (OLD, AGAIN, STANDBY, NEW)}) == 4
    assert outcome(seen(good(1, OLD), good(3, by_name)), ASKED) is RehearsalEffect.NOTHING


def test_the_new_primary_by_another_address_is_not_the_wrong_server() -> None:
    by_name = replace(NEW, address="10.0.0.2", own="10.0.0.8:5432")
    found = stale(seen(good(1, OLD), good(4, NEW), good(5, by_name, ProbeKind.HELD_WRITE)), ASKED)
    assert (found.reads, found.writes) == (0, 0)


# Who asked the wrong server.


def test_answers_of_the_old_primary_count_from_the_new_ones_first() -> None:
    """New at 4.1: the read at 3 was right, the read at 5 and the write at 6 were not."""
    found = stale(
        seen(
            good(1, OLD),
            good(3, OLD),
            good(4, NEW),
            good(5, OLD),
            good(6, OLD, ProbeKind.HELD_WRITE),
        ),
        ASKED,
    )
    assert (found.reads, found.writes, found.refused) == (1, 1, 0)
    assert found.until == pytest.approx(6.1)


def test_a_new_primary_that_is_replaced_in_its_turn_is_old_from_then_on() -> None:
    """It fails over and, restarted, back: what answers at 7 and 8 is right, at 9 it is not."""
    back = replace(OLD, started=TWO, timeline=3)
    found = stale(
        seen(
            good(1, OLD), good(4, NEW), good(6, back), good(7, back, ProbeKind.HELD_WRITE),
            good(8, back), good(9, NEW, ProbeKind.HELD_WRITE),
        ),
        ASKED,
    )  # fmt: skip
    assert (found.reads, found.writes) == (0, 1)
    assert found.until == pytest.approx(9.1)


def test_a_gap_before_the_trigger_is_no_part_of_the_outage() -> None:
    """The first login took two seconds, then all was well; the outage itself is from 3 to 4.1."""
    slow = replace(good(-3, OLD), ended=-0.9)
    one = judged(seen(slow, good(1, OLD), bad(3, 0.1), good(4, NEW)))
    (client,) = one.clients
    assert (client.gaps, client.failed, client.late) == (1, 1, 0)
    assert client.least == 0
    assert client.most == pytest.approx(3.0)  # from the answer at 1.1 on
    assert client.first_failure == pytest.approx(1.1)


def test_if_nothing_happened_nothing_has_to_recover() -> None:
    """As by hand, where somebody did not set it off within --timeout."""
    one = judged(seen(good(1, OLD), good(3, OLD), good(4, OLD)), settled=False)
    assert "Nothing failed over" in headline(one, 20)
    assert "recovered" not in said(one, 20)


def test_a_kind_that_was_led_to_standbys_before_may_be_led_there_afterwards() -> None:
    before = (good(1, OLD, ProbeKind.WRITE), good(1, STANDBY))
    found = stale(seen(*before, good(4, NEW, ProbeKind.WRITE), good(5, STANDBY)), ASKED)
    assert (found.reads, found.writes) == (0, 0)


def test_writes_refused_as_read_only_are_counted_by_their_sqlstate() -> None:
    refused = bad(3, 0.1, ProbeKind.HELD_WRITE, sqlstate=READ_ONLY)
    found = stale(seen(good(1, OLD), refused, bad(4, 0.1, ProbeKind.WRITE), good(5, NEW)), ASKED)
    assert found.refused == 1
    assert found.until == pytest.approx(3.1)


# How long one client waited.


def test_each_case_has_its_longest_wait() -> None:
    """By hand: a new connection 3 s; idle 4 s from its query; in flight 2.5 s from its query."""
    attempts = seen(
        good(1, OLD),
        bad(2.5, 3, ProbeKind.WRITE),
        bad(3, 1, ProbeKind.READ),
        bad(3, 4, ProbeKind.HELD, fresh=False, asked=3.0),
        bad(3, 3.5, ProbeKind.HELD, fresh=True),
        bad(3, 2.7, ProbeKind.FLIGHT, asked=3.2),
        good(9, NEW),
    )
    found = {one.case: one for one in hangs(attempts, ASKED)}
    assert found[Case.CONNECT].longest == pytest.approx(3.5)
    assert found[Case.IDLE].longest == pytest.approx(4)
    assert found[Case.FLIGHT].longest == pytest.approx(2.5)
    assert found[Case.CONNECT].met == 3
    worst = longest(list(found.values()))
    assert worst is not None
    assert worst.case is Case.IDLE


def test_what_failed_before_it_was_set_off_does_not_count() -> None:
    assert all(one.longest is None for one in hangs(seen(bad(0, 1)), ASKED))


def test_a_wait_that_we_ended_is_never_within_the_bound() -> None:
    (one, _, _) = hangs(seen(bad(3, 10, given_up=True), bad(4, 12)), ASKED)
    assert (one.longest, one.at_least) == (12, False)
    (one, _, _) = hangs(seen(bad(3, 10, given_up=True)), ASKED)
    assert one.at_least
    assert one.within(60) is False


def test_the_bound_is_kept_or_not_in_words() -> None:
    """With a bound of 20 s: 3 s is within it, 25 s is not."""
    quick = judged(seen(good(1, OLD), bad(3, 3), good(7, NEW)))
    assert quick.kept(20)
    assert "Within 20 s: no client waited longer than 3.0 s (new connection)." in said(quick, 20)
    slow = judged(seen(good(1, OLD), bad(3, 25), good(29, NEW)))
    assert not slow.kept(20)
    assert "NOT within 20 s: a client waited 25.0 s (new connection)." in said(slow, 20)
    assert slow.kept(None)
    assert headline(slow, 20).startswith("NOT within 20 s")
    assert "The longest wait of a client was 25.0 s" in said(slow)


def test_lost_writes_break_any_bound() -> None:
    one = judged(seen(good(1, OLD), bad(3, 0.1), good(4, NEW), rows=(1, 3)))
    assert not one.kept(None)
    assert "1 write was LOST" in said(one)
    assert headline(one, 20).startswith("1 write was LOST")


def test_a_write_found_twice_is_told() -> None:
    one = judged(seen(good(1, OLD), bad(3, 0.1), good(4, NEW), rows=(1, 2, 2, 3)))
    ledger = one.run.observation.ledger
    assert ledger is not None
    assert ledger.duplicated == (2,)
    assert ledger.found == 3
    assert not one.kept(None)
    assert "found more than once" in said(one)


def test_writes_that_nobody_could_count_are_not_taken_for_kept() -> None:
    one = judged(replace(seen(good(1, OLD), bad(3, 0.1), good(4, NEW)), ledger=None))
    assert not one.kept(None)
    assert headline(one, None).startswith("Writes could not be counted")


def test_what_has_not_ended_is_no_failover() -> None:
    one = judged(seen(good(1, OLD), bad(3, 0.1), good(4, NEW)), settled=False)
    assert not one.failed_over
    assert "had not recovered" in said(one)


def test_the_turning_points_count_from_the_trigger() -> None:
    """Triggered at 2: last answer 1.1 (-0.9), failed at 3.5 (1.5), reconnected at 6.1 (4.1)."""
    attempts = seen(
        good(1, OLD),
        bad(3, 0.5),
        bad(3, 0.6, ProbeKind.HELD, fresh=False, asked=3.0),
        good(6, NEW, ProbeKind.HELD, fresh=True),
        good(7, NEW),
    )
    found = moments(judged(attempts))
    assert found["last_success"] == pytest.approx(-0.9)
    assert found["first_failure"] == pytest.approx(1.5)
    assert found["reconnect"] == pytest.approx(4.1)
    assert found["first_read"] == pytest.approx(5.1)


def test_the_document_carries_both_measured_and_predicted() -> None:
    told = rehearsal_document(
        [judged(seen(good(1, OLD), bad(3, 3), good(7, NEW)))], trigger="run it", within=20.0
    )
    assert_valid(as_builtins(told), "mrtuner.failover.rehearsal/1")
    assert (told.failed_over, told.kept, told.within) == (True, True, 20.0)
    (connect, *_) = told.ways[0].hangs
    assert connect.longest == 3.0
    assert connect.predicted is not None
    assert connect.predicted.span is not None
    assert connect.predicted.span.high == 3.0


def test_a_schedule_knows_how_many_sessions_it_may_need() -> None:
    """Three kinds with 4 new ones at once, two with 6 held; 1 s in flight every 0.2 s is 5 more."""
    schedule = Schedule(interval=0.2, kinds=tuple(ProbeKind), held=6, at_once=4, flight=1.0)
    assert schedule.sessions == 3 * 4 + 2 * 6 + 5
