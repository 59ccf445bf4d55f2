"""What a live server's counters say of a window, and when one ends at once: by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mrtuner.search.guard import trip
from mrtuner.search.window import Window, grown, speeds, unlike, vanished

#: 1,000 transactions in 10 s; a statement of 2 ms was called 500 times, one of 4 ms 250 times.
QUIET = Window(
    seconds=10, commits=1000, rollbacks=0,
    statements={(10, 1): (500.0, 1000.0), (10, 2): (250.0, 1000.0)}, behind=0.0,
)  # fmt: skip
#: The same without pg_stat_statements.
COUNTED = replace(QUIET, statements=None)
MIB = 1024 * 1024


def test_speed_is_that_of_the_statements_that_ran_in_all_windows() -> None:
    """Tried: 1 ms and 4 ms; by calls untouched, 2 to 1: (2 x 2 + 4) / 3 against (2 x 1 + 4) / 3."""
    tried = replace(QUIET, statements={
        (10, 1): (4000.0, 4000.0),  # called more often, which makes no difference
        (10, 2): (250.0, 1000.0),
        (10, 3): (10.0, 100.0),  # it ran in this window alone
    })  # fmt: skip
    assert speeds([QUIET, tried, QUIET]) == pytest.approx([375, 500, 375])


def test_other_statements_in_a_window_leave_the_speed_unknown() -> None:
    """100 of 2,100 ms are in common."""
    tried = replace(QUIET, statements={(10, 1): (50.0, 100.0), (10, 3): (10.0, 2000.0)})
    assert speeds([QUIET, tried, QUIET]) is None
    assert speeds([QUIET, replace(QUIET, statements=None), QUIET]) is None


def test_a_statement_that_no_longer_ends_in_a_window_is_no_gain() -> None:
    """It has 300 of 2,300 ms around the tried window, 13 %; 200 of 2,200 ms are 9 %."""
    for ms, why in ((300.0, "statements with 13% of the time of the windows"), (200.0, "")):
        around = replace(QUIET, statements={**(QUIET.statements or {}), (10, 3): (2.0, ms)})
        assert speeds([around, QUIET, around]) == pytest.approx([375, 375, 375])
        assert (vanished([around, QUIET, around]) or "").startswith(why)
        assert bool(vanished([around, QUIET, around])) is bool(why)
        assert vanished([around, around, around]) is None


@pytest.mark.parametrize(
    ("commits", "after", "why"),
    [
        (1000, 100.0, None),
        (1090, 109.0, None),
        (1110, 100.0, "throughputs"),
        (890, 100.0, "throughputs"),
        (1000, 112.0, "mean statement times"),
        (0, 100.0, "no transaction ended"),
    ],
)
def test_windows_around_that_differ_by_over_a_tenth_show_nothing(
    commits: int, after: float, why: str | None
) -> None:
    found = unlike([COUNTED, replace(COUNTED, commits=commits)], [100.0, 500.0, after])
    assert found == why or (why is not None and why in str(found))


def test_a_reset_of_counters_shows_nothing() -> None:
    assert unlike([QUIET, replace(QUIET, lost=True)], [1.0, 1.0]) == (
        "counters were reset meanwhile"
    )
    assert grown({(10, 1): (500.0, 9.0)}, {(10, 1): (3.0, 1.0)}) is None
    assert grown(None, {}) is None
    before = {(10, 1): (500.0, 900.0), (10, 2): (7.0, 9.0), (10, 3): (5.0, 5.0)}
    after = {(10, 1): (600.0, 1100.0), (10, 2): (1.0, 1.0), (10, 3): (6.0, 7.0)}
    assert grown(before, after) == {(10, 1): (100.0, 200.0), (10, 3): (1.0, 2.0)}, "one was evicted"
    assert grown({(10, 1): (5.0, 9.0)}, {(10, 1): (8.0, 12.0), (10, 2): (1.0, 2.0)}) == {
        (10, 1): (3.0, 3.0),
        (10, 2): (1.0, 2.0),
    }


@pytest.mark.parametrize(
    ("so_far", "why"),
    [
        ({"seconds": 5, "commits": 500}, None),
        # 3 of 103 were rolled back: too few to say; 12 of 112 are 10.7 %
        ({"seconds": 1, "commits": 100, "rollbacks": 3}, None),
        ({"seconds": 1, "commits": 100, "rollbacks": 12}, "10.7% of its transactions were rolled"),
        # 225 calls are expected in 3 s; in the first seconds, nothing is said yet
        ({"seconds": 1, "commits": 0, "statements": {}}, None),
        ({"seconds": 3, "commits": 120, "statements": {(10, 3): (90.0, 9.0)}},
         "its throughput fell to 40%"),
        # 2 ms became 4 ms: over 1.5 times
        ({"seconds": 3, "commits": 300, "statements": {(10, 1): (100.0, 400.0),
          (10, 2): (50.0, 400.0)}}, "its statements took 2.0 times as long"),
        # 12 of 112 elsewhere
        ({"seconds": 3, "commits": 300, "others": (100.0, 12.0)},
         "10.7% of the transactions of other databases were rolled back"),
        # 1.5 times 1 s, and 5 s
        ({"seconds": 3, "commits": 300, "overdue": [(6.4, 1.0)]}, None),
        ({"seconds": 3, "commits": 300, "overdue": [(6.4, 1.0), (6.6, 1.0)]},
         "a statement has run for 7 s, and never took more than 1.0 s"),
        ({"seconds": 3, "commits": 300, "behind": 65.0 * MIB}, "a standby is 65 MB behind"),
        ({"seconds": 3, "commits": 300, "behind": 63.0 * MIB}, None),
    ],
)  # fmt: skip
def test_what_hurts_ends_a_window_at_once(so_far: dict[str, Any], why: str | None) -> None:
    found = trip(QUIET, replace(QUIET, **so_far))
    assert found == why or (why is not None and why in str(found))


def test_transactions_are_counted_where_statements_are_not() -> None:
    """300 are expected in 3 s."""
    few = replace(COUNTED, seconds=3, commits=120)
    assert trip(COUNTED, few) == "its throughput fell to 40% of the untouched server's"
    assert trip(COUNTED, replace(few, commits=160)) is None
    assert trip(QUIET, few) == trip(COUNTED, few), "where the calls are lost, transactions count"


def test_throughput_is_that_of_calls_which_are_counted_at_once() -> None:
    fewer = replace(QUIET, statements={(10, 1): (440.0, 880.0), (10, 2): (220.0, 880.0)})
    assert (
        unlike([QUIET, fewer], [1.0, 1.0])
        == "throughputs of the windows around it differ by over 10%"
    )
    assert unlike([QUIET, replace(QUIET, commits=500)], [1.0, 1.0]) is None
