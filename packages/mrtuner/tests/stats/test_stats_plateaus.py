"""Flat levels are found by their shape; peaks, means and single maxima are not reported."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from mrtuner.stats.plateaus import inside, plateaus, runs

DAY = 1440
Values = NDArray[np.float64]


def noisy(minutes: int, rough: float = 0.2, level: float = 100.0, seed: int = 1) -> Values:
    return level * np.random.default_rng(seed).lognormal(0, rough, minutes)


def clipped(demand: Values, ceiling: float, wobble: float = 0.003) -> Values:
    """The measured load when a demand meets a ceiling."""
    shaken = np.random.default_rng(7).normal(1, wobble, len(demand))
    return np.asarray(np.minimum(demand, ceiling) * shaken)


def test_a_ceiling_is_found_at_its_level_and_in_its_hours() -> None:
    """By hand: demand of 300 from minute 600 to 840 under 213, of 60 elsewhere."""
    demand = noisy(DAY, 0.1, 60.0)
    demand[600:840] = noisy(240, 0.1, 300.0, seed=2)
    (found,) = plateaus(clipped(demand, 213.0))
    assert found.level == pytest.approx(213, rel=0.002)
    assert found.spans == ((600, 840),)
    assert found.points == pytest.approx(240, abs=5)
    assert found.calm < 0.2


def test_a_burst_ceiling_and_the_baseline_below_it_are_two_levels() -> None:
    demand = noisy(2 * DAY, 0.1, 40.0)
    demand[100:160], demand[1500:1900] = 900.0, 900.0
    ceiling = np.full(2 * DAY, 443.0)
    ceiling[1500:] = 213.0
    shaken = np.random.default_rng(3).normal(1, 0.003, 2 * DAY)
    levels = [one.level for one in plateaus(np.minimum(demand, ceiling) * shaken)]
    assert levels == pytest.approx([443, 213], rel=0.003)


@pytest.mark.parametrize("rough", [0.03, 0.1, 0.4])
def test_a_busy_mean_is_no_plateau(rough: float) -> None:
    assert plateaus(noisy(14 * DAY, rough)) == []


def test_the_top_of_a_smooth_day_is_no_plateau() -> None:
    hours = np.arange(7 * DAY) / 60
    wave = 100 * (1 + 0.6 * np.sin(hours / 24 * 2 * np.pi))
    shaken = np.random.default_rng(5).normal(1, 0.01, len(wave))
    assert plateaus(wave * shaken) == []


def test_one_maximum_however_high_is_no_plateau() -> None:
    values = noisy(DAY)
    values[700:703] = 5000.0
    assert plateaus(values) == []


def test_gaps_and_single_dips_do_not_cut_a_stretch_in_two() -> None:
    demand = noisy(DAY, 0.1, 60.0)
    demand[600:840] = 500.0
    values = clipped(demand, 213.0)
    values[650:652] = np.nan
    values[700] = 0.0
    (found,) = plateaus(values)
    assert found.spans == ((600, 840),)
    assert found.points == 237


def test_a_gap_of_an_hour_does() -> None:
    demand = noisy(DAY, 0.1, 60.0)
    demand[600:840] = 500.0
    values = clipped(demand, 213.0)
    values[660:720] = np.nan
    (found,) = plateaus(values)
    assert found.spans == ((600, 660), (720, 840))


@pytest.mark.parametrize("values", [np.full(500, np.nan), np.zeros(500), np.empty(0)])
def test_nothing_measured_has_no_plateau(values: Values) -> None:
    assert plateaus(values) == []


def test_background_below_a_given_level_is_not_looked_at() -> None:
    values = np.full(DAY, 1.0)
    values[::7] = noisy(DAY, 0.5)[::7]
    assert plateaus(values, at_least=10.0) == []


def test_runs_bridge_holes_and_drop_what_is_short() -> None:
    mask = np.array([1, 1, 0, 1, 0, 0, 0, 1, 1, 1, 1], dtype=bool)
    assert runs(mask) == [(0, 2), (3, 4), (7, 11)]
    assert runs(mask, hole=1) == [(0, 4), (7, 11)]
    assert runs(mask, hole=1, shortest=5) == []
    assert inside([(0, 2), (7, 11)], 11).tolist() == [1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1]
