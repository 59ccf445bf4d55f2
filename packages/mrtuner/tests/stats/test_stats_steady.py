"""Where warm-ups end and whether runs are steady; expected values worked out by hand."""

from __future__ import annotations

import pytest

from mrtuner.stats.steady import (
    half_run_drift,
    mser5,
    robust_cv,
    settled,
    settling_seconds,
    warm_up_seconds,
)


@pytest.mark.parametrize(("run", "warm_up"), [(10, 15), (60, 15), (150, 15), (151, 16), (600, 60)])
def test_the_warm_up_is_fifteen_seconds_or_a_tenth_of_the_run(run: int, warm_up: int) -> None:
    assert warm_up_seconds(run) == warm_up


def test_a_slow_start_is_cut_off_where_it_ends() -> None:
    """Batches of five: 10, 50, 100 x 6. From the third on the sum of squares is zero."""
    assert mser5([10] * 5 + [50] * 5 + [100] * 30) == 10


def test_a_steady_series_loses_nothing() -> None:
    """Batches 100, 102, 100, 102: cut 0 gives 4/16, cut 1 (2/3 + 2)/9 = 0.296, cut 2 2/4."""
    assert mser5([100] * 5 + [102] * 5 + [100] * 5 + [102] * 5) == 0


def test_a_series_that_changes_at_its_end_never_settles() -> None:
    """Batches 1, 2, 4, 8, 16, 32, 32, 32: the best cut is the sixth batch, beyond the half."""
    series = [value for value in (1, 2, 4, 8, 16, 32, 32, 32) for _ in range(5)]
    assert mser5(series) is None


@pytest.mark.parametrize("series", [[], [1, 2, 3], [5] * 9])
def test_too_short_a_series_is_left_as_it_is(series: list[float]) -> None:
    assert mser5(series) == 0


@pytest.mark.parametrize(
    ("batches", "seconds", "told"),
    [
        ((1, 2, 4, 8), 20, False),  # of four batches no cut lies beyond the second
        ((7, 7, 7, 7, 7), 24, False),  # one second too few
        ((7, 7, 7, 7, 7), 25, True),
        ((1, 2, 4, 8, 8), 25, False),  # the best cut is the fourth batch, beyond the half
    ],
)
def test_a_short_series_has_not_settled(batches: tuple[int, ...], seconds: int, told: bool) -> None:
    series = [value for value in batches for _ in range(5)]
    assert settled(series[:seconds]) is told


@pytest.mark.parametrize(("length", "seconds"), [(1, 1), (14, 14), (15, 30), (25, 50), (26, 26)])
def test_a_warm_up_goes_on_until_it_can_tell(length: int, seconds: int) -> None:
    """Of 26 s, 25 are not its first or last."""
    assert settling_seconds(length) == seconds


def test_drift_compares_the_halves() -> None:
    assert half_run_drift([100, 100, 120, 120]) == pytest.approx(0.2)
    assert half_run_drift([100, 100, 7, 80, 80]) == pytest.approx(-0.2)  # the middle is in neither
    assert half_run_drift([100]) is None
    assert half_run_drift([0, 0, 5, 5]) is None


def test_the_robust_cv_does_not_mind_one_wild_run() -> None:
    """Median 100, distances 2, 1, 0, 1, 900: their median 1."""
    assert robust_cv([98, 99, 100, 101, 1000]) == pytest.approx(0.014826)
    assert robust_cv([1, 2]) is None
    assert robust_cv([0, 0, 0]) is None
