"""Flat levels beside a ceiling that was reached, and what shows that requests waited there."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from mrtuner.catalog.classes import instance_class
from mrtuner.catalog.volumes import volume_of
from mrtuner.limits import MetricSeries, Resource
from mrtuner.limits.ceilings import ceilings
from mrtuner.limits.reached import reached_ceilings


def at_night(night: np.ndarray, usual: float, held: float) -> np.ndarray:
    """Five days: `usual` by day with a third of noise, `held` where a job runs."""
    random = np.random.default_rng(7)
    return np.where(night, held, usual * random.lognormal(0, 0.3, len(night)))


def job(begin: int, minutes: int) -> np.ndarray:
    mask = np.zeros(5 * 1440, dtype=bool)
    mask[begin : begin + minutes] = True
    return mask


def served(
    operations: np.ndarray, size: np.ndarray, waits: np.ndarray, took: float = 0.0035
) -> MetricSeries:
    """Metrics of these operations a second of these bytes: 1 ms each, `took` where they wait."""
    random = np.random.default_rng(8)
    latency = np.where(waits, took, 0.001) * random.lognormal(0, 0.03, len(waits))
    return MetricSeries(
        start=datetime(2026, 3, 2, tzinfo=UTC), step=60,
        metrics={
            "ReadIOPS": operations / 2, "WriteIOPS": operations / 2,
            "ReadThroughput": operations * size / 2, "WriteThroughput": operations * size / 2,
            "ReadLatency": latency, "WriteLatency": latency,
            "DiskQueueDepth": operations * latency,
        },
    )  # fmt: skip


GP3 = ceilings(instance_class("db.r6g.4xlarge"), volume_of("gp3", 300))  # 3,000 IOPS, 125 MiB/s


def test_an_echo_of_one_ceiling_at_the_value_of_another_is_named_as_such() -> None:
    """By hand: 131.07 MB/s in operations of 44,000 bytes are 2,979 IOPS, 0.7 % below 3,000."""
    random = np.random.default_rng(9)
    night = job(1500, 50)
    size = np.where(night, 44_000 * random.lognormal(0, 0.004, len(night)), 16_384.0)
    level = 131_072_000 * random.normal(1, 0.002, len(night))
    operations = np.where(night, level / size, at_night(night, 300, 0))
    found = reached_ceilings(served(operations, size, night), GP3)
    assert [(one.resource, one.ceiling and one.ceiling.part) for one in found.pegged] == [
        (Resource.THROUGHPUT, "volume")
    ]
    [echo] = [one for one in found.steady if one.because.startswith("an echo")]
    assert echo.resource is Resource.IOPS


def test_minutes_that_pauses_do_not_fill_are_no_unknown_ceiling() -> None:
    """By hand: a job that pauses for 4 s of each minute at 3,000 IOPS does 2,800 on average."""
    random = np.random.default_rng(10)
    full, paused = job(1500, 180), job(3000, 180)
    level = np.where(full, 3000.0, 2800.0) * random.normal(1, 0.002, len(full))
    operations = np.where(full | paused, level, at_night(full, 300, 0))
    size = np.full(len(full), 8192.0)
    found = reached_ceilings(served(operations, size, full | paused), GP3)
    assert [one.ceiling and one.ceiling.name for one in found.pegged] == ["volume iops"]
    assert any("pauses" in one.because for one in found.steady)


def test_a_job_that_pauses_for_two_minutes_of_eight_is_at_its_ceiling_in_the_other_six() -> None:
    """By hand: 20 times six minutes at 3,000 IOPS, and two at 900 in between: 120 minutes."""
    random = np.random.default_rng(15)
    works = job(1500, 160)
    full = works & ((np.arange(len(works)) - 1500) % 8 < 6)
    level = np.where(full, 3000.0, 900.0) * random.normal(1, 0.002, len(full))
    operations = np.where(works, level, at_night(works, 300, 0))
    (found,) = reached_ceilings(served(operations, np.full(len(full), 8192.0), full), GP3).pegged
    assert found.ceiling is not None
    assert (found.ceiling.name, found.plateau.points) == ("volume iops", 120)


def test_a_level_below_a_known_ceiling_that_was_never_reached_stays_unknown() -> None:
    random = np.random.default_rng(10)
    held = job(3000, 180)
    operations = np.where(held, 2800.0 * random.normal(1, 0.002, len(held)), at_night(held, 300, 0))
    found = reached_ceilings(served(operations, np.full(len(held), 8192.0), held), GP3)
    assert [one.ceiling for one in found.pegged] == [None]


def test_what_a_ceiling_leaves_of_an_unknown_level_must_be_one_by_itself() -> None:
    """By hand: 3,000 operations of 16 kB are 48 MB/s, and so are 2,400 of 20 kB for 25 minutes."""
    random = np.random.default_rng(11)
    pegged, other = job(1500, 40), job(3000, 25)
    size = np.where(other, 20_000.0, 16_000.0)
    level = np.where(other, 2400.0, 3000.0) * random.normal(1, 0.002, len(size))
    operations = np.where(pegged | other, level, at_night(pegged, 300, 0))
    found = reached_ceilings(served(operations, size, pegged | other), GP3)
    assert [one.ceiling and one.ceiling.name for one in found.pegged] == ["volume iops"]


@pytest.mark.parametrize(
    ("size", "level", "flat", "rough", "named"),
    [
        # 1,500 IOPS are half of the ceiling of IOPS, 12.3 MB/s a tenth of that of throughput.
        (8192.0, 1500.0, Resource.THROUGHPUT, 0.001, Resource.IOPS),
        # 500 IOPS are a sixth, 65.5 MB/s half.
        (131_072.0, 500.0, Resource.IOPS, 0.001, Resource.THROUGHPUT),
        # Sizes that scatter by 1 % leave 12.3 MB/s alone as flat as 0.2 %.
        (8192.0, 1500.0, Resource.THROUGHPUT, 0.01, Resource.THROUGHPUT),
    ],
)
def test_of_two_equally_flat_unknown_levels_that_nearer_to_its_known_ceiling_counts(
    size: float, level: float, flat: Resource, rough: float, named: Resource
) -> None:
    """By hand, of 3,000 IOPS and 131 MB/s; sizes scatter by `rough`, `flat` by 0.2 %."""
    random = np.random.default_rng(14)
    held = job(1500, 120)
    sizes = np.where(held, size * random.lognormal(0, rough, len(held)), 16_384.0)
    even = level * random.normal(1, 0.002, len(held))
    even = even * size / sizes if flat is Resource.THROUGHPUT else even
    operations = np.where(held, even, at_night(held, 300, 0))
    (found,) = reached_ceilings(served(operations, sizes, held, took=0.02), GP3).pegged
    assert (found.resource, found.ceiling) == (named, None)


def test_larger_requests_explain_no_more_time_than_their_bytes_take() -> None:
    """By hand: 246 kB more at 200 MB/s take 1.23 ms; 3.5 ms are 1.57 times 2.23 ms."""
    random = np.random.default_rng(12)
    held = job(1500, 120)
    size = np.where(held, 262_144.0, 16_384.0)
    operations = np.where(held, 500 * random.normal(1, 0.002, len(held)), at_night(held, 300, 0))
    (found,) = reached_ceilings(served(operations, size, held), GP3).pegged
    assert found.ceiling is not None
    assert found.ceiling.name == "volume throughput"
    assert found.evidence[0].ratio == pytest.approx(1.57, abs=0.03)


@pytest.mark.parametrize(
    ("minutes", "took", "counts"),
    [(120, 0.00135, True), (20, 0.00135, False), (120, 0.0011, False), (20, 0.002, True)],
)
def test_a_rough_level_counts_if_it_lasts_or_if_requests_clearly_wait(
    minutes: int, took: float, counts: bool
) -> None:
    random = np.random.default_rng(13)
    held = job(1500, minutes)
    operations = np.where(held, 3000 * random.normal(1, 0.014, len(held)), at_night(held, 300, 0))
    found = reached_ceilings(served(operations, np.full(len(held), 16_384.0), held, took), GP3)
    assert [one.resource for one in found.pegged] == [Resource.IOPS] * counts
