"""Latencies that can be merged; expected values counted by hand."""

from __future__ import annotations

import pytest

from mrtuner.errors import BadValue
from mrtuner.stats.histogram import Histogram, histogram, merged, needed


def test_values_keep_three_significant_digits() -> None:
    seen = histogram({5: 1, 999: 1, 1234: 2, 1226: 1, 987_654: 1})
    assert seen.counts == ((5, 1), (999, 1), (1230, 3), (988_000, 1))
    assert seen.total == 6


def test_merging_adds_counts_and_never_averages_percentiles() -> None:
    """90 fast and 10 slow runs, twice: p50 of all is 1, p95 is 100; the mean of p95s is no p95."""
    quick, slow = Histogram(((1, 300),)), Histogram(((100, 100),))
    both = merged([quick, slow])
    assert both.counts == ((1, 300), (100, 100))
    assert both.percentile(0.5) == 1
    assert both.percentile(0.75) == 1
    assert both.percentile(0.76) == 100


@pytest.mark.parametrize(
    ("share", "count"), [(0.5, 20), (0.9, 100), (0.99, 1000), (0.999, 10_000), (0.9999, 100_000)]
)
def test_a_percentile_needs_ten_values_beyond_it(share: float, count: int) -> None:
    assert needed(share) == count
    assert Histogram(((7, count - 1),)).percentile(share) is None
    assert Histogram(((7, count),)).percentile(share) == 7


def test_the_percentile_is_by_nearest_rank() -> None:
    """Of 1,000 values the 990th is the least that 99 % do not exceed."""
    assert Histogram(((1, 990), (2, 10))).percentile(0.99) == 1
    assert Histogram(((1, 989), (2, 11))).percentile(0.99) == 2


def test_the_mean_weighs_by_count() -> None:
    assert Histogram(((10, 3), (50, 1))).mean == 20


def test_nothing_has_neither_mean_nor_percentile() -> None:
    assert Histogram().percentile(0.5) is None
    with pytest.raises(BadValue, match="no mean"):
        _ = Histogram().mean
    with pytest.raises(BadValue, match="between 0 and 1"):
        Histogram().percentile(1.0)
