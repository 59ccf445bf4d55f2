"""An instance by name: class, storage and metrics from the lab and CloudWatch, in few calls."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mrtuner.aws.cloudwatch import Wanted, metric_data, period_for
from mrtuner.aws.session import Account, client
from mrtuner.errors import UsageError
from mrtuner.limits import limits
from mrtuner.limits.metrics.fetch import fetch
from rds_flows import new_slow_instance
from rdstune.lab import Lab

NAMES = ("ReadThroughput", "WriteThroughput", "DiskQueueDepth")
#: Two hours before and after midnight, filled with the week's metrics from 7:30 to 11:30.
SIDE = timedelta(hours=2)
FROM = 7 * 60 + 30
POINTS = 4 * 60


@pytest.fixture
def midnight() -> datetime:
    """The midnight before last; the day before it ended long ago."""
    now = datetime.now(UTC)
    return now.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)


@pytest.fixture
def watched(lab: Lab, midnight: datetime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """An r5.2xlarge with some hours of the example in CloudWatch, and an empty cache."""
    monkeypatch.setenv("MRTUNER_CACHE_DIR", str(tmp_path))
    new_slow_instance(midnight - SIDE, POINTS, NAMES, FROM)
    lab.forget_calls()
    return lab


def asked(lab: Lab) -> list[str]:
    return [action for _, action in lab.calls]


def test_two_calls_bring_class_storage_and_metrics(watched: Lab, midnight: datetime) -> None:
    heard: list[tuple[int, int]] = []
    found = fetch(
        "slow", midnight - SIDE, midnight + SIDE, Account(),
        tell=lambda points, of: heard.append((points, of)),
    )  # fmt: skip
    assert asked(watched) == ["DescribeDBInstances", "GetMetricData"]
    assert (found.class_name, str(found.storage)) == ("db.r5.2xlarge", "io1:1000GB,30000iops")
    assert heard[-1] == (POINTS * len(NAMES), POINTS * len(NAMES))
    assert (found.series.points, found.series.step) == (POINTS, 60)
    answer = limits(found.series, class_name=found.class_name, storage=found.storage)
    levels = [one.plateau.level for one in answer.pegged]
    assert pytest.approx(213e6, rel=0.005) in levels


def test_whole_days_are_asked_for_once(watched: Lab, midnight: datetime) -> None:
    """Only the first of the two days had been over for more than three hours, so it is kept."""
    first = fetch("slow", midnight - SIDE, midnight + 2 * SIDE, Account())
    watched.forget_calls()
    again = fetch("slow", midnight - SIDE, midnight, Account())
    assert asked(watched) == ["DescribeDBInstances"]
    assert (first.series.points, again.series.points) == (POINTS, POINTS // 2)


def test_five_hundred_metrics_go_into_one_call(lab: Lab, midnight: datetime) -> None:
    wanted = [Wanted(instance=f"i{place}", metric="ReadIOPS") for place in range(501)]
    lab.forget_calls()
    metric_data(client("cloudwatch"), wanted, midnight - timedelta(minutes=5), midnight)
    assert asked(lab) == ["GetMetricData"] * 2


def test_an_instance_without_points_is_told_so(watched: Lab, midnight: datetime) -> None:
    with pytest.raises(UsageError, match="CloudWatch has no data for slow"):
        fetch("slow", midnight - timedelta(hours=9), midnight - timedelta(hours=8), Account())


@pytest.mark.parametrize(("days", "period"), [(14, 60), (15, 60), (16, 300), (63, 300), (64, 3600)])
def test_the_period_suits_the_age(days: int, period: int) -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    assert period_for(now - timedelta(days=days), now) == period
