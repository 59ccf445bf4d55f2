"""From attempts to gaps: worked out by hand on short schedules of one attempt a second."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest

from mrtuner.rehearsal.observation import (
    Attempt,
    Observation,
    ProbeKind,
    ServerIdentity,
    WriteLedger,
    balanced,
    gaps,
    steady,
)

BEFORE = ServerIdentity(datetime(2026, 1, 1, tzinfo=UTC), False, "10.0.0.1")
AFTER = ServerIdentity(datetime(2026, 1, 2, tzinfo=UTC), False, "10.0.0.2")
BEGAN = datetime(2026, 1, 3, tzinfo=UTC)


def asked(
    due: float, took: float = 0.01, error: str | None = None, kind: ProbeKind = ProbeKind.READ,
    server: ServerIdentity = BEFORE,
) -> Attempt:  # fmt: skip
    return Attempt(
        kind=kind, due=due, sent=due, ended=due + took, error=error,
        server=None if error else server,
    )  # fmt: skip


def observed(attempts: Iterable[Attempt], ledger: WriteLedger | None = None) -> Observation:
    return Observation(
        began=BEGAN, seconds=10, interval=1, timeout=5, kinds=(ProbeKind.READ,),
        attempts=tuple(attempts), skipped=0, ledger=ledger,
    )  # fmt: skip


def test_no_gap_where_every_attempt_is_answered() -> None:
    assert gaps([asked(0), asked(1), asked(2)], ProbeKind.READ) == ()


def test_refused_attempts_make_a_gap_between_two_answers() -> None:
    """Attempts at 1 and 2 fail, answers come at 0.01 and 3.01: away for 1 to 3 s."""
    attempts = [asked(0), asked(1, error="refused"), asked(2, error="refused"), asked(3)]
    (gap,) = gaps(attempts, ProbeKind.READ)
    assert (gap.last_answer, gap.began, gap.answer) == (0.01, 1, 3.01)
    assert gap.first_failure == pytest.approx(1.01)
    assert gap.least == 1
    assert gap.most == pytest.approx(3.0)
    assert (gap.failed, gap.late, gap.errors) == (2, 0, ("refused",))


def test_answers_that_come_late_are_a_gap_without_a_failure() -> None:
    """A frozen server: asked at 1, 2 and 3, all answered at 4. It was silent from 1 to 4."""
    attempts = [asked(0), asked(1, 3), asked(2, 2), asked(3, 1), asked(4)]
    (gap,) = gaps(attempts, ProbeKind.READ)
    assert (gap.first_failure, gap.failed, gap.late) == (None, 0, 2)
    assert gap.least == 3
    assert gap.most == pytest.approx(4 - 0.01)


def test_the_answer_that_ends_a_gap_may_be_to_a_later_question() -> None:
    """The attempt at 1 is answered at 9, the one at 2 at once."""
    attempts = [asked(0), asked(1, 8), asked(2), asked(3)]
    (gap,) = gaps(attempts, ProbeKind.READ)
    assert gap.answer == 2.01


def test_a_hang_that_ends_in_an_error_counts_from_when_it_was_due() -> None:
    attempts = [asked(0), asked(1, 5, "no answer within 5 s"), asked(2, 4.5, "reset"), asked(7)]
    (gap,) = gaps(attempts, ProbeKind.READ)
    assert (gap.began, gap.first_failure, gap.answer) == (1, 6, 7.01)


def test_two_outages_are_two_gaps() -> None:
    bad = {1, 4, 5}
    attempts = [asked(n, error="refused" if n in bad else None) for n in range(7)]
    assert [(gap.began, gap.answer) for gap in gaps(attempts, ProbeKind.READ)] == [
        (1, 2.01),
        (4, 6.01),
    ]


def test_a_gap_without_an_end_has_no_length() -> None:
    (gap,) = gaps([asked(0), asked(1, error="refused")], ProbeKind.READ)
    assert (gap.answer, gap.most) == (None, None)


def test_a_gap_from_the_first_attempt_on_is_measured_from_that() -> None:
    (gap,) = gaps([asked(1, error="refused"), asked(2)], ProbeKind.READ)
    assert gap.last_answer is None
    assert gap.most == pytest.approx(1.01)


def test_kinds_are_kept_apart() -> None:
    attempts = [asked(0), asked(1, error="refused", kind=ProbeKind.WRITE), asked(1)]
    assert gaps(attempts, ProbeKind.READ) == ()
    assert len(gaps(attempts, ProbeKind.WRITE)) == 1


def test_steady_means_that_every_kind_was_asked_and_answered_well() -> None:
    both = (ProbeKind.READ, ProbeKind.WRITE)
    reads = [asked(5), asked(6)]
    assert not steady(reads, both, since=5)
    assert steady([*reads, asked(5, kind=ProbeKind.WRITE)], both, since=5)
    assert not steady([*reads, asked(5, error="x", kind=ProbeKind.WRITE)], both, since=5)
    assert not steady([*reads, asked(5, 2.5, kind=ProbeKind.WRITE)], both, since=5)


def test_a_server_with_another_start_time_has_restarted() -> None:
    seen = observed([asked(0), asked(1, server=AFTER)])
    assert seen.servers == (BEFORE, AFTER)
    assert seen.restarted
    assert seen.went_away


def test_nothing_went_away_where_every_answer_came_from_the_same_server() -> None:
    seen = observed([asked(0), asked(1)])
    assert not seen.went_away
    assert list(seen.all_gaps()) == []


def test_the_schedules_own_delay_is_reported() -> None:
    late = Attempt(kind=ProbeKind.READ, due=1, sent=1.25, ended=1.3, server=BEFORE)
    assert observed([asked(0), late]).lag == 0.25


def test_a_moment_of_the_clock_has_its_place_on_the_line() -> None:
    assert observed([]).at(BEGAN + timedelta(seconds=2.5)) == 2.5


def test_the_ledger_tells_lost_writes_from_doubtful_ones() -> None:
    """Acknowledged 1, 2, 3; found 1, 3, 4: 2 is lost, 4 was never acknowledged."""
    assert balanced(5, {1, 2, 3}, {1, 3, 4}) == WriteLedger(
        sent=5, acknowledged=3, found=3, lost=(2,), unacknowledged=1
    )
