"""When the next ceiling is reached: a trend with its uncertainty, or that none shows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from mrtuner.limits import Findings, MetricSeries, Resource, limits
from mrtuner.limits.ceilings import sustained
from mrtuner.limits.forecast import Forecast, forecasts

START = datetime(2026, 3, 1, tzinfo=UTC)


def growing(days: int, daily: float, first: float = 100e6, seed: int = 1) -> MetricSeries:
    """Throughput whose level rises by `daily` a day, with noise."""
    random = np.random.default_rng(seed)
    level = first + daily * np.repeat(np.arange(days), 1440)
    values = level * random.lognormal(0, 0.15, days * 1440)
    metrics = {"ReadThroughput": values * 0.7, "WriteThroughput": values * 0.3}
    return MetricSeries(start=START, step=60, metrics=metrics)


def of(series: MetricSeries) -> list[Forecast]:
    return list(limits(series, class_name="db.r5.2xlarge").forecasts)


def test_steady_growth_is_carried_on_to_the_ceiling() -> None:
    """By hand: the average is 1.0113 x the level (e^(0.15² / 2)), so it rises by 5.06 MB/s a day
    from 101.1; the baseline of 287.5 MB/s is reached 36.86 days after noon of the first."""
    (found,) = of(growing(20, 5e6))
    assert found.expected is not None
    assert found.earliest is not None
    assert found.latest is not None
    assert (found.average, found.ceiling) == (True, 287.5e6)
    assert found.daily == pytest.approx(5.06e6, rel=0.1)
    assert found.earliest < found.expected < found.latest
    assert abs(found.expected - (START + timedelta(days=37.36))) < timedelta(days=1)


def test_nine_in_ten_intervals_hold_the_true_day() -> None:
    """The true day is where the rising average meets 287.5 MB/s, by the same arithmetic."""
    truth = START + timedelta(days=0.5 + (287.5e6 / 1.0113 - 100e6) / 3e6)
    found = [each for seed in range(60) for each in of(growing(20, 3e6, seed=seed))]
    held = [
        one.earliest <= truth <= one.latest for one in found if one.earliest and one.latest
    ]  # fmt: skip
    assert len(held) == 60
    assert 48 <= sum(held) <= 60


def test_bursts_above_the_baseline_are_what_credits_are_for() -> None:
    """By hand: each day has 20 minutes at 450 MB/s, so its 99th percentile is above the baseline;
    its average is 1.0113 x (1420/1440 x (100 + 2 MB/s a day) + 6.25): 287.5 MB/s on day 90.98."""
    random = np.random.default_rng(1)
    day, minute = np.divmod(np.arange(20 * 1440), 1440)
    level = np.where(minute < 20, 450e6, 100e6 + 2e6 * day)
    values = level * random.lognormal(0, 0.15, len(level))
    metrics = {"ReadThroughput": values * 0.7, "WriteThroughput": values * 0.3}
    (found,) = of(MetricSeries(start=START, step=60, metrics=metrics))
    assert (found.average, found.ceiling) == (True, 287.5e6)
    assert found.busy == pytest.approx(144e6, rel=0.02)
    assert found.expected is not None
    assert abs(found.expected - (START + timedelta(days=91.48))) < timedelta(days=3)


def test_the_bounds_are_those_of_a_single_day() -> None:
    """By hand: 100 + 10 MB/s a day, 50 less on even days and 50 more on odd ones. The line rises by
    10.752 a day through 195 at day 9.5, with a deviation of 52.5. Of single days, nine in ten are
    within 1.734 x 52.5 x sqrt(1 + 1/20 + (day - 9.5)² / 665): 593.75 is met on days 34.6 to 67.5.
    """
    days = np.arange(20)
    values = np.repeat(100e6 + 10e6 * days + np.where(days % 2, 50e6, -50e6), 24).astype(np.float64)
    series = MetricSeries(
        start=START, step=3600, metrics={"ReadThroughput": values, "WriteThroughput": 0 * values}
    )
    known = [sustained(Resource.THROUGHPUT, "instance", 593.75e6, "by hand")]
    (found,) = forecasts(series, known, Findings(pegged=(), steady=()))
    assert not found.average
    assert found.earliest is not None
    assert found.latest is not None
    assert abs(found.earliest - (START + timedelta(days=35.1))) < timedelta(days=0.3)
    assert abs(found.latest - (START + timedelta(days=68.0))) < timedelta(days=0.5)


def test_no_growth_gives_no_day() -> None:
    (found,) = of(growing(20, 0.0))
    assert (found.earliest, found.expected, found.latest) == (None, None, None)
    assert found.because == "no growth shown over 20 days"


def test_a_week_is_too_short() -> None:
    assert of(growing(7, 5e6)) == []
