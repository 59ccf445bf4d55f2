"""Time to vacuum against time to produce, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from math import e

import pytest
from vacuum_tables import SETTINGS, rates, table, toast

from mrtuner.vacuum.model import Work
from mrtuner.vacuum.pace import (
    CostSettings,
    Heap,
    cost,
    cost_settings,
    touched,
    trigger,
    work,
    work_of,
    work_of_toast,
)

PRICES = CostSettings(hit=1, miss=2, dirty=20, limit=200, delay_ms=2)


def test_a_vacuum_starts_at_threshold_and_share_and_since_18_at_the_most_allowed() -> None:
    assert trigger(1_000_000, SETTINGS, {}) == 200_050
    own = {"autovacuum_vacuum_scale_factor": "0.01"}
    assert trigger(1_000_000, SETTINGS, own) == 10_050
    eighteen = {**SETTINGS, "autovacuum_vacuum_max_threshold": "100000000"}
    assert trigger(1_000_000_000, eighteen, {}) == 100_000_000
    assert trigger(1_000_000_000, {**eighteen, "autovacuum_vacuum_max_threshold": "-1"}, {}) == (
        200_000_050
    )


def test_the_throttle_is_the_tables_own_then_autovacuums_then_that_of_vacuum() -> None:
    assert cost_settings(SETTINGS, {}).speed == 100_000
    assert cost_settings(SETTINGS, {"autovacuum_vacuum_cost_limit": "1000"}).speed == 500_000
    manual = {**SETTINGS, "autovacuum_vacuum_cost_delay": "-1", "vacuum_cost_delay": "20"}
    assert cost_settings(manual, {}).speed == 10_000
    assert cost_settings(SETTINGS, {"autovacuum_vacuum_cost_delay": "0"}).speed is None
    unset = {**SETTINGS, "autovacuum_vacuum_cost_limit": "0", "vacuum_cost_limit": "400"}
    assert cost_settings(unset, {}).limit == 400


def test_rows_spread_at_random_lie_on_so_many_pages() -> None:
    """As many rows as pages leave 1/e of the pages untouched."""
    assert touched(1_000, 1_000) == pytest.approx(1_000 * (1 - 1 / e))
    assert touched(1_000, 1_000_000) == pytest.approx(1_000)
    assert touched(0, 10) == 0


def test_the_cost_is_heap_read_and_dirtied_twice_visited_and_indexes_read_whole() -> None:
    """All 100 pages: 100 x (2 + 20 + 1); the index: 50 x (2 + 20)."""
    whole = Heap(pages=100, index_pages=50, indexes=1, rows=10**6)
    assert cost(whole, 10**6, PRICES) == pytest.approx(100 * 23 + 50 * 22)
    bare = replace(whole, index_pages=0, indexes=0)
    assert cost(bare, 10**6, PRICES) == pytest.approx(100 * 22)


def test_time_to_vacuum_is_held_against_time_to_produce() -> None:
    """200,050 rows at 100 a second take 2,000.5 s; with nearly every page dirty, 252,000 units
    at 100,000 a second take 2.5 s."""
    heap = Heap(pages=10_000, index_pages=1_000, indexes=1, rows=1_000_000)
    done = work(heap, 100.0, SETTINGS, {})
    assert done.produce == pytest.approx(2_000.5)
    assert done.vacuum == pytest.approx(2.52, abs=0.001)
    assert done.busy == pytest.approx(2.52 / 2_000.5, rel=0.001)


def test_nobody_looks_more_often_than_the_naptime() -> None:
    heap = Heap(pages=10, index_pages=2, indexes=1, rows=100)
    assert work(heap, 1_000.0, SETTINGS, {}).produce == 60


def test_a_vacuum_that_was_measured_longer_counts() -> None:
    one = Work(trigger=100, produce=10.0, vacuum=1.0, measured=20.0, cost=0)
    assert one.busy == 2
    assert replace(one, measured=None).busy == 0.1


def test_nothing_produced_is_nothing_to_do() -> None:
    done = work_of(table(), rates(), SETTINGS)
    assert (done.produce, done.vacuum, done.busy) == (None, None, None)


def test_hot_updates_leave_nothing_for_vacuum() -> None:
    assert rates(updates=100, hot_share=1.0).dead == 0


def test_a_toast_table_takes_its_tables_parameters_unless_it_has_its_own() -> None:
    """All or none: with one of its own, it has the server's for the rest."""
    seen = rates(toast_deletes=10)
    own = {"autovacuum_vacuum_scale_factor": "0.1", "autovacuum_vacuum_threshold": "1000"}
    inherits = work_of_toast(table(options=own, toast=toast()), seen, SETTINGS)
    assert inherits is not None
    assert inherits.trigger == 21_000
    differs = toast(options={"autovacuum_vacuum_scale_factor": "0"})
    has_own = work_of_toast(table(options=own, toast=differs), seen, SETTINGS)
    assert has_own is not None
    assert has_own.trigger == 50
    assert work_of_toast(table(), seen, SETTINGS) is None
