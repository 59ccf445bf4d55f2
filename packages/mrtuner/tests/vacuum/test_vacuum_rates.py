"""Rates from samples: sums over intervals, resets left out."""

from __future__ import annotations

import pytest
from vacuum_tables import sample, table, toast

from mrtuner.vacuum.rates import since_made, since_reset, watched


def test_rates_are_what_grew_over_the_time_that_was_seen() -> None:
    before = table(inserted=100, updated=200, hot_updated=100, deleted=10)
    after = table(inserted=400, updated=1_200, hot_updated=850, deleted=70)
    found = watched([sample(0.0, before), sample(10.0, after)])[1]
    assert (found.inserts, found.updates, found.deletes) == (30, 100, 6)
    assert found.hot_share == 0.75
    assert found.events == 1_360
    assert found.dead == pytest.approx(100 * 0.25 + 6)


def test_an_interval_in_which_a_counter_fell_is_left_out() -> None:
    """30 and 50 updates in the two whole intervals of 10 s; the reset one is not counted."""
    samples = [
        sample(0.0, table(updated=1_000)),
        sample(10.0, table(updated=1_030)),
        sample(20.0, table(updated=5)),
        sample(30.0, table(updated=55)),
    ]
    found = watched(samples)[1]
    assert (found.gaps, found.seconds, found.updates) == (1, 20, 4)


def test_a_reset_that_the_counters_have_outgrown_is_seen_by_its_time() -> None:
    samples = [
        sample(0.0, table(updated=10), reset_at=None),
        sample(10.0, table(updated=500), reset_at=5.0),
    ]
    found = watched(samples)[1]
    assert (found.gaps, found.seconds, found.updates) == (1, 0, 0)


def test_a_falling_toast_counter_is_a_gap_too() -> None:
    samples = [
        sample(0.0, table(updated=10, toast=toast(deleted=60))),
        sample(10.0, table(updated=20, toast=toast(deleted=0))),
    ]
    assert watched(samples)[1].gaps == 1


def test_a_table_made_during_the_watch_counts_from_when_it_was_seen() -> None:
    samples = [
        sample(0.0),
        sample(10.0, table(inserted=1_000)),
        sample(20.0, table(inserted=1_500)),
    ]
    found = watched(samples)[1]
    assert (found.seconds, found.inserts, found.gaps) == (10, 50, 0)


def test_a_table_dropped_during_the_watch_is_not_told() -> None:
    assert watched([sample(0.0, table()), sample(10.0)]) == {}


def test_without_a_watch_rates_are_averages_since_the_reset() -> None:
    """4,000 rows in the 2,000 s from 500 to 2,500."""
    found = since_reset(sample(2_500.0, table(inserted=4_000), reset_at=500.0))[1]
    assert (found.seconds, found.inserts) == (2_000, 2)


def test_a_table_may_have_lived_through_its_share_of_the_transactions_alone() -> None:
    """A thousand transaction IDs of at most 100,000 in 2,000 s: 20 s, and 25 rows a second. Without
    a reset, of the million since the oldest table was made: 2 s."""
    tables = (
        table(oid=1, made=1_000_000, inserted=500),
        table(oid=2, made=1_000, inserted=500),
        table(oid=3, made=50_000, inserted=500),  # half of them
        table(oid=4, made=-7, inserted=500),  # older than the counter is long
    )
    found = since_made(sample(2_500.0, *tables, reset_at=500.0, transactions=100_000))
    assert {oid: (one.seconds, one.inserts) for oid, one in found.items()} == {2: (20, 25)}
    busy = sample(2_500.0, *tables, reset_at=500.0, transactions=100_000, elsewhere=900_000)
    assert {oid: one.seconds for oid, one in since_made(busy).items()} == {2: 2, 3: 100}
    never = since_made(sample(2_000.0, *tables, reset_at=None, transactions=5))
    assert {oid: one.seconds for oid, one in never.items()} == {2: 2, 3: 100}


def test_a_vacuum_takes_the_mean_of_those_that_were_seen() -> None:
    samples = [
        sample(0.0, table(vacuums=2, vacuum_seconds=10.0)),
        sample(10.0, table(vacuums=4, vacuum_seconds=16.0)),
    ]
    assert watched(samples)[1].vacuum_seconds == 3
