"""When the next ceiling is reached: a trend with its uncertainty, or that none shows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from mrtuner.limits import MetricSeries, limits
from mrtuner.limits.forecast import Forecast

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
    """By hand: the 99th percentile is 1.4176 x the level (e^(2.3263 x 0.15)), so it rises by 7.09
    MB/s a day from 141.8; 287.5 MB/s are reached 20.56 days after noon of the first."""
    (found,) = of(growing(20, 5e6))
    assert found.expected is not None
    assert found.earliest is not None
    assert found.latest is not None
    assert found.daily == pytest.approx(7.09e6, rel=0.1)
    assert found.earliest < found.expected < found.latest
    assert abs(found.expected - (START + timedelta(days=21.06))) < timedelta(days=1)


def test_nine_in_ten_intervals_hold_the_true_day() -> None:
    """The true day is where the rising 99th percentile meets 287.5 MB/s, by the same arithmetic."""
    truth = START + timedelta(days=0.5 + (287.5e6 / 1.4176 - 100e6) / 3e6)
    found = [each for seed in range(60) for each in of(growing(20, 3e6, seed=seed))]
    held = [
        one.earliest <= truth <= one.latest for one in found if one.earliest and one.latest
    ]  # fmt: skip
    assert len(held) == 60
    assert 48 <= sum(held) <= 60


def test_no_growth_gives_no_day() -> None:
    (found,) = of(growing(20, 0.0))
    assert (found.earliest, found.expected, found.latest) == (None, None, None)
    assert found.because == "no growth shown over 20 days"


def test_a_week_is_too_short() -> None:
    assert of(growing(7, 5e6)) == []
