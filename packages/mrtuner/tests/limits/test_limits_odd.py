"""Metrics of every odd shape are answered without a warning, as JSON, as lines and as a page."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from mrtuner.limits import MetricSeries, limits
from mrtuner.limits.document import limits_document
from mrtuner.limits.metrics.series import UNITS
from mrtuner.limits.page import page
from mrtuner.limits.text import lines


def holey(random: Any, points: int) -> Any:
    values = random.lognormal(15, 0.5, points)
    values[random.random(points) < 0.5] = np.nan
    return values


SHAPES: list[Callable[[Any, int], Any]] = [
    lambda random, points: np.zeros(points),
    lambda random, points: np.full(points, np.nan),
    lambda random, points: np.full(points, float(10 ** random.integers(0, 10))),
    lambda random, points: random.lognormal(10, 2, points),
    lambda random, points: np.minimum(random.lognormal(15, 1, points), 3e6),
    lambda random, points: random.integers(0, 3, points).astype(float),
    holey,
]


@pytest.mark.parametrize("seed", range(60))
def test_odd_metrics_are_answered(seed: int) -> None:
    random = np.random.default_rng(seed)
    points = int(random.integers(120, 3000))
    metrics = {
        name: SHAPES[random.integers(len(SHAPES))](random, points)
        for name in UNITS
        if name == "CPUUtilization" or random.random() < 0.7
    }
    series = MetricSeries(
        start=datetime(2026, 3, 1, 5, 7, tzinfo=UTC),
        step=int(random.choice([1, 60, 300, 3600])),
        metrics=metrics,
    )
    found = limits(series, class_name=str(random.choice(["db.r5.2xlarge", "db.t2.micro"])))
    assert json.dumps(found.to_dict(), allow_nan=False)
    assert list(lines(limits_document(found)))
    if seed % 10 == 0:
        assert "</html>" in page(found)
