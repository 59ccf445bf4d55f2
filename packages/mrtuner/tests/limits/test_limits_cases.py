"""Exports whose right answer is known: at a ceiling most of the time, Unlimited, odd points."""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path

import numpy as np
import pytest

from mrtuner.limits import limits
from mrtuner.limits.assess import Limits
from mrtuner.limits.ceilings import Resource
from mrtuner.limits.metrics.series import MetricSeries

CASES = Path(__file__).parent / "cases"
IO1 = "io1:200GB,2000iops"


@pytest.fixture
def judged(tmp_path: Path):  # type: ignore[no-untyped-def]
    def made(name: str, class_name: str, storage: str) -> Limits:
        file = tmp_path / f"{name}.csv"
        file.write_bytes(gzip.decompress((CASES / f"{name}.csv.gz").read_bytes()))
        return limits(file, class_name=class_name, storage=storage)

    return made


@pytest.mark.parametrize(("name", "share"), [("S75_10", 0.75), ("S97_10", 0.97)])
def test_a_ceiling_that_holds_most_of_the_time_is_found(judged, name: str, share: float) -> None:  # type: ignore[no-untyped-def]
    """With 1 % noise at 2,000 IOPS; what is compared with is what carries less, not the rest."""
    (found,) = judged(name, "db.r5.large", IO1).pegged
    assert found.ceiling is not None
    assert (found.resource, found.ceiling.part) == (Resource.IOPS, "volume")
    assert found.plateau.share == pytest.approx(share, abs=0.015)


def held(
    share: float, noise: float, *, waits: float = 20.0, minutes: int = 2880, level: float = 2000.0
) -> MetricSeries:
    """At a level of IOPS for a share of each day, then 400; 1 ms an operation if none waits."""
    from datetime import UTC, datetime

    random = np.random.default_rng(7)
    at = np.arange(minutes) % 1440 < share * 1440
    rate = np.where(at, level, 400.0) * random.normal(1, noise, minutes)
    took = np.where(at, waits, 1.0) * 1e-3 * random.normal(1, 0.1, minutes)
    return MetricSeries(
        start=datetime(2026, 3, 2, tzinfo=UTC), step=60,
        metrics={
            "ReadIOPS": rate * 0.4, "WriteIOPS": rate * 0.6,
            "ReadThroughput": rate * 0.4 * 8192, "WriteThroughput": rate * 0.6 * 8192,
            "DiskQueueDepth": rate * took,
        },
    )  # fmt: skip


@pytest.mark.parametrize("noise", [0.003, 0.01])
@pytest.mark.parametrize("share", [0.3, 0.5, 0.9, 1.0])
def test_the_whole_time_at_a_ceiling_is_counted(share: float, noise: float) -> None:
    (found,) = limits(held(share, noise), class_name="db.r5.large", storage=IO1).pegged
    assert found.confirmed
    assert found.plateau.share == pytest.approx(share, abs=0.02)
    assert found.plateau.longest <= found.plateau.points


def test_an_instance_at_its_ceiling_most_of_two_weeks_is_found() -> None:
    """By hand: 1,052 of 1,440 minutes a day are 73 %, 13 days have 18,720 and 13,676 at 3,600."""
    series = held(0.73, 0.01, minutes=18_720, level=3600.0)
    (found,) = limits(series, class_name="db.r5.large", storage="io1:1000GB,20000iops").pegged
    assert found.ceiling is not None
    assert found.ceiling.name == "instance iops"
    assert found.confirmed
    assert series.minutes(found.plateau.points) == pytest.approx(13_676, rel=0.02)


@pytest.mark.parametrize("waits", [1.0, 20.0])
@pytest.mark.parametrize("minutes", [18, 45])
def test_a_short_and_rough_time_at_a_ceiling_is_found_if_requests_wait(
    minutes: int, waits: float
) -> None:
    """One time at 2,000 IOPS with 1.5 % of noise, in a day at 400 with 1.5 %."""
    series = held(minutes / 1440, 0.015, waits=waits, minutes=1440)
    found = limits(series, class_name="db.r5.large", storage=IO1).pegged
    assert [one.ceiling and one.ceiling.name for one in found] == ["volume iops"] * (waits > 1)
    assert all(abs(one.plateau.points - minutes) <= 2 for one in found)


def test_an_even_load_just_below_a_ceiling_is_none() -> None:
    """All day at 98 % of the ceiling, each operation in 1 ms: two in flight, and none waits."""
    series = held(1.0, 0.003, waits=1.0)
    even = {name: values * 0.98 for name, values in series.metrics.items()}
    found = limits(
        MetricSeries(start=series.start, step=60, metrics=even),
        class_name="db.r5.large",
        storage=IO1,
    )
    assert not any(one.confirmed for one in found.pegged)


def test_unlimited_has_no_baseline_but_costs(judged) -> None:  # type: ignore[no-untyped-def]
    """By hand: the file's CPU adds up to 7,587 %·minutes above 20 %; 2 vCPUs, 7.5 cents an hour.

    7,587 / 100 x 2 / 60 = 2.53 vCPU hours, x 0.075 = 19 cents.
    """
    found = judged("t3_unl", "db.t3.medium", "gp3:100GB")
    assert found.pegged == ()
    assert "baseline applied" not in found.verdict
    assert "2.53 vCPU hours of surplus credits" in found.verdict
    assert "$0.19" in found.verdict
    assert any("no baseline applied" in note for note in found.notices)


def test_minutes_without_requests_are_no_warning(judged) -> None:  # type: ignore[no-untyped-def]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert judged("warn", "db.r5.large", "gp3:100GB").verdict


@pytest.mark.parametrize(
    ("name", "class_name", "storage"),
    [("B_gp2_20GB", "db.r5.large", "gp2:20GB"), ("C_t3_byte", "db.t3.medium", "gp3:500GB"),
     ("E_t2_cpu", "db.t2.medium", "gp2:100GB")],
)  # fmt: skip
def test_what_suffices_carries_all_that_was_seen(  # type: ignore[no-untyped-def]
    judged, name: str, class_name: str, storage: str
) -> None:
    found = judged(name, class_name, storage)
    (pegged,) = found.pegged
    assert pegged.plateau.longest <= pegged.plateau.points
    assert found.candidates
    for one in found.candidates:
        assert all(room >= 1 for room in one.headroom.values()), one.instance.name


def test_a_burstable_class_must_carry_the_busiest_cpu_by_its_baseline(judged) -> None:  # type: ignore[no-untyped-def]
    """92 % of 2 vCPUs are 1.85; db.t3.xlarge keeps up 40 % of 4, which is 1.6."""
    found = judged("E_t2_cpu", "db.t2.medium", "gp2:100GB")
    names = [one.instance.name for one in found.candidates]
    assert names[0] == "db.m5.xlarge"
    assert not {"db.t3.xlarge", "db.t4g.xlarge"} & set(names)
