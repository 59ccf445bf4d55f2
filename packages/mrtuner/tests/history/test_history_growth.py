"""What is kept of two samples: growth, never negative, and null instead of 0 if unknown."""

from __future__ import annotations

import itertools

from history_data import queue, row
from hypothesis import given
from hypothesis import strategies as st

from mrtuner.history.recording.growth import by_key, grown
from mrtuner.history.recording.sampler import Row

SOURCE = queue()


def kept(before: list[Row] | None, *after: Row) -> list[tuple[object, ...]]:
    known = None if before is None else by_key(SOURCE, before)
    return sorted(grown(SOURCE, known, by_key(SOURCE, after)), key=repr)


def test_counters_are_kept_as_growth_and_gauges_as_they_are() -> None:
    assert kept([row("mail", 100, 5.5, 3)], row("mail", 130, 7.75, 9)) == [("mail", 30, 2.25, 9)]


def test_of_the_first_sample_only_the_state_is_known() -> None:
    assert kept(None, row("mail", 100, 5.5, 3)) == [("mail", None, None, 3)]


def test_what_did_not_change_is_left_out() -> None:
    assert kept([row("mail", 100, 5.5, 3)], row("mail", 100, 5.5, 3)) == []


def test_what_was_not_there_before_has_grown_from_zero() -> None:
    assert kept([], row("mail", 4, 0.5, 0)) == [("mail", 4, 0.5, 0)]


def test_a_counter_that_went_down_makes_the_growth_of_all_unknown() -> None:
    """An unseen reset: 4 jobs since then, while busy_ms is higher than before."""
    assert kept([row("mail", 100, 5.5, 3)], row("mail", 4, 6.0, 3)) == [("mail", None, None, 3)]


def test_another_time_of_reset_makes_growth_unknown_even_where_all_is_higher() -> None:
    before, after = row("mail", 1, 0.1, 0, reset="10:00"), row("mail", 9, 0.9, 0, reset="11:00")
    assert kept([before], after) == [("mail", None, None, 0)]


def test_what_is_gone_gets_one_row_of_nulls() -> None:
    assert kept([row("mail", 100, 5.5, 3)]) == [("mail", None, None, None)]


def test_a_counter_that_is_not_counted_stays_unknown() -> None:
    assert kept([row("mail", None, 1.0, 0)], row("mail", 5, 2.0, 0)) == [("mail", None, 1.0, 0)]


@given(st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 10**9)), min_size=1, max_size=30))
def test_growth_adds_up_to_the_last_value_less_the_first(steps: list[tuple[int, int]]) -> None:
    """For counters that never fall; times have three decimals, as a sample rounds them."""
    done, busy = 0, 0
    rows = []
    for more_done, more_busy in steps:
        done, busy = done + more_done, busy + more_busy
        rows.append(row("mail", done, round(busy / 1000, 3), 0))
    total_done, total_busy = 0, 0.0
    for before, after in itertools.pairwise(rows):
        for _, grew, took, _ in kept([before], after):
            assert isinstance(grew, int)
            assert isinstance(took, float)
            assert grew >= 0
            assert took >= 0
            total_done += grew
            total_busy = round(total_busy + took, 3)
    assert total_done == done - steps[0][0]
    assert total_busy == round(rows[-1].values[2] - rows[0].values[2], 3)
