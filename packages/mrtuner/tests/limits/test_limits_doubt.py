"""Flat lines that are no ceiling, and ceilings that other days hide: cases made by hand.

Rates, sizes and times are written out here as the physics gives them; nothing is taken from the
package's own generators.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mrtuner.limits import CeilingKind, Limits, MetricSeries, Resource, limits

Values = NDArray[np.float64]
START = datetime(2026, 3, 2, tzinfo=UTC)
DAY = 1440
#: Sustained and burst throughput of a db.r6g.large: 630 and 4,750 Mbps.
BASELINE, BURST = 78.75e6, 593.75e6


def judged(columns: dict[str, Any], name: str = "db.r6g.large", **options: Any) -> Limits:
    return limits(MetricSeries(start=START, step=60, metrics=columns), class_name=name, **options)


def columns(parts: list[tuple[Values, float, Values | float]]) -> dict[str, Values]:
    """CloudWatch's metrics of streams, given as bytes/s, bytes a request and seconds a request."""
    carried = np.sum([rate for rate, _, _ in parts], axis=0)
    operations = np.sum([rate / size for rate, size, _ in parts], axis=0)
    queue = np.sum([rate / size * took for rate, size, took in parts], axis=0)
    return {
        "ReadThroughput": carried * 0.6, "WriteThroughput": carried * 0.4,
        "ReadIOPS": operations * 0.6, "WriteIOPS": operations * 0.4,
        "DiskQueueDepth": queue,
    }  # fmt: skip


def small_pages(random: Any, minutes: int, rate: float = 4e6, rough: float = 0.15) -> Values:
    """OLTP: a daily wave and noise."""
    wave = 1 + 0.4 * np.sin(np.arange(minutes) / DAY * 2 * np.pi)
    return np.asarray(rate * wave * random.lognormal(0, rough, minutes))


@pytest.mark.parametrize("kilobytes", [4, 32, 128, 256, 512, 1024])
@pytest.mark.parametrize("workers", [1, 4])
def test_an_even_job_of_large_requests_is_not_accused(kilobytes: int, workers: int) -> None:
    """Each worker has one request in flight: 1 ms and its bytes at 150 MB/s, then the next.

    By hand: 256 KiB take 1 + 1.75 = 2.75 ms, which is 2.75 times a page's 1 ms; nothing waits.
    """
    random = np.random.default_rng(kilobytes + workers)
    size = kilobytes * 1024.0
    took = 1e-3 + size / 150e6
    job = np.zeros(4 * DAY)
    for day in range(4):
        at = slice(day * DAY + 120, day * DAY + 300)
        job[at] = workers * size / took * random.normal(1, 0.003, 180)
    if kilobytes == 4:
        job *= 4  # so that the job stands out from the background load
    found = judged(
        columns([(small_pages(random, 4 * DAY, 1e6), 8192.0, 1e-3), (job, size, took)]),
        name="db.r6g.8xlarge",
    )
    assert found.pegged == ()


def test_a_known_ceiling_under_large_requests_is_still_found() -> None:
    """By hand: 64 workers with 256 KiB each behind 593.75 MB/s wait 28 ms a request."""
    random = np.random.default_rng(5)
    size, job, took = 262_144.0, np.zeros(2 * DAY), np.full(2 * DAY, 1e-3)
    job[600:900] = 593.75e6 * random.normal(1, 0.003, 300)
    took[600:900] = 64 * size / 593.75e6
    base = small_pages(random, 2 * DAY)
    base[600:900] = 0.0
    (found,) = judged(columns([(base, 8192.0, 1e-3), (job, size, took)]), "db.r6g.4xlarge").pegged
    assert found.ceiling is not None
    assert found.ceiling.value == 593.75e6
    assert found.confirmed


def burst_class(days: int, peg: slice, seed: int = 1) -> dict[str, Values]:
    """Load that exceeds the baseline daily on burst credits, and runs out of them once."""
    random = np.random.default_rng(seed)
    rate = BASELINE * (1 + 0.35 * np.sin(np.arange(days * DAY) / DAY * 2 * np.pi))
    rate *= random.lognormal(0, 0.08, days * DAY)
    took = random.lognormal(np.log(1e-3), 0.1, days * DAY)
    rate[peg] = BASELINE * random.normal(1, 0.003, peg.stop - peg.start)
    took[peg] = 60 * 16_384 / BASELINE  # sixty sessions wait
    return columns([(rate, 16_384.0, took)])


@pytest.mark.parametrize("minutes", [30, 45, 59, 90, 200])
@pytest.mark.parametrize("days", [1, 3, 11, 14, 30])
def test_a_short_peg_is_found_however_many_other_days_there_are(minutes: int, days: int) -> None:
    (found,) = judged(burst_class(days, slice(700, 700 + minutes))).pegged
    assert found.ceiling is not None
    assert (found.ceiling.kind, found.ceiling.value) == (CeilingKind.SUSTAINED, BASELINE)
    assert found.plateau.points == pytest.approx(minutes, abs=4)


def evenly(level: float, balance: float, waits: float) -> Limits:
    random = np.random.default_rng(3)
    rate, took = small_pages(random, DAY), np.full(DAY, 1e-3)
    rate[300:900] = level * random.normal(1, 0.003, 600)
    took[300:900] *= waits
    metrics = columns([(rate, 16_384.0, took)])
    metrics["EBSByteBalance%"] = np.full(DAY, np.nan)
    metrics["EBSByteBalance%"][::5] = 100.0
    metrics["EBSByteBalance%"][300:900:5] = balance
    return judged(metrics)


def test_a_full_balance_refutes_a_baseline_even_where_requests_wait() -> None:
    """At 98.5 % of the baseline the bucket stays full, and a full bucket lets more through."""
    found = evenly(0.985 * BASELINE, 100.0, waits=3)
    assert found.pegged == ()
    assert any(
        "EBSByteBalance%: 100 % left, so the baseline does not apply" in one.because
        for one in found.findings.steady
    )


def test_an_empty_balance_shows_a_baseline() -> None:
    (found,) = evenly(BASELINE, 0.0, waits=3).pegged
    assert found.ceiling is not None
    assert found.ceiling.value == BASELINE


def test_an_empty_balance_shows_a_baseline_that_other_load_blurs() -> None:
    """Minutes between 97 and 102 % of the baseline: too wide for a level, not for a bucket."""
    random = np.random.default_rng(4)
    rate = small_pages(random, DAY)
    rate[300:500] = BASELINE * random.uniform(0.972, 1.018, 200)
    metrics = columns([(rate, 16_384.0, 1e-3)])
    del metrics["DiskQueueDepth"]
    metrics["EBSByteBalance%"] = np.full(DAY, 90.0)
    metrics["EBSByteBalance%"][300:500] = 0.0
    (found,) = judged(metrics).pegged
    assert found.confirmed
    assert found.plateau.points > 100


def test_the_verdict_does_not_contradict_the_balance() -> None:
    """Credits ran out for six hours, while the load stayed below every sustained ceiling."""
    random = np.random.default_rng(6)
    metrics = columns([(small_pages(random, DAY), 16_384.0, 1e-3)])
    metrics["EBSByteBalance%"] = np.full(DAY, 80.0)
    metrics["EBSByteBalance%"][:360] = 0.0
    found = judged(metrics)
    assert found.pegged == ()
    assert found.verdict.startswith("burst credits ran out (EBSByteBalance% for 6 h)")


def test_a_level_above_every_published_limit_is_not_called_a_slow_volume() -> None:
    """By hand: 2.25 GB/s of 16 kB are 137,700 IOPS, 6.9 times what a db.r6g.large has."""
    random = np.random.default_rng(7)
    rate, took = small_pages(random, DAY, 40e6), np.full(DAY, 1e-3)
    rate[300:600] = 3.8 * BURST * random.normal(1, 0.003, 300)
    took[300:600] = 20e-3
    found = judged(columns([(rate, 16_384.0, took)]))
    assert [one.ceiling for one in found.pegged] == [None]
    (text,) = (line for line in found.advice if line.startswith("Unknown ceiling"))
    assert "slower than it should" not in text
    assert "above every published limit" in text
    assert "20,000 IOPS" in text


def test_nobody_is_told_to_stop_an_instance_because_of_an_unknown_level() -> None:
    random = np.random.default_rng(8)
    rate, took = small_pages(random, DAY), np.full(DAY, 1e-3)
    rate[300:600] = 45e6 * random.normal(1, 0.003, 300)
    took[300:600] = 20e-3
    found = judged(columns([(rate, 16_384.0, took)]))
    assert [one.ceiling for one in found.pegged] == [None]
    text = " ".join(found.advice)
    assert "stop" not in text.lower()
    assert "If the total rises" in text


def test_a_level_at_which_the_device_is_idle_at_times_is_no_ceiling() -> None:
    """Half a request in flight on average: a device at its ceiling always has at least one."""
    random = np.random.default_rng(9)
    rate, took = small_pages(random, DAY, 1e6), np.full(DAY, 2e-4)
    rate[300:600] = BASELINE * random.normal(1, 0.003, 300)
    took[300:600] = 0.5 * 131_072 / BASELINE  # two and a half times as long, for larger requests
    found = judged(columns([(rate, 131_072.0, took)]))
    assert found.pegged == ()


@pytest.mark.parametrize(
    ("storage", "pegged_iops", "wanted"),
    [
        ("gp2:20GB", 100, "gp3:20GB,3000iops,125MiB/s"),
        ("gp2:100GB", 300, "gp3:100GB,3000iops,125MiB/s"),
        ("gp2:300GB", 900, "gp3:300GB,3000iops,125MiB/s"),
    ],
)
def test_the_way_out_of_gp2_keeps_its_size(storage: str, pegged_iops: int, wanted: str) -> None:
    """gp3 has 3,000 IOPS and 125 MiB/s at any size: ten to thirty times the limit here."""
    random = np.random.default_rng(10)
    operations = 0.2 * pegged_iops * random.lognormal(0, 0.2, DAY)
    operations[300:900] = pegged_iops * random.normal(1, 0.003, 600)
    took = np.full(DAY, 1e-3)
    took[300:900] = 20 / pegged_iops
    metrics = columns([(operations * 8192, 8192.0, took)])
    found = judged(metrics, storage=storage)
    (one,) = found.pegged
    assert (one.resource, one.ceiling and one.ceiling.part) == (Resource.IOPS, "volume")
    assert any(f"change the volume to {wanted}." in text for text in found.advice)


def quiet(random: Any, minutes: int) -> dict[str, Values]:
    return columns([(small_pages(random, minutes, 0.02 * BASELINE, 0.2), 16_384.0, 1e-3)])


@pytest.mark.parametrize("seed", range(12))
def test_adding_quiet_days_never_loses_a_finding(seed: int) -> None:
    random = np.random.default_rng([11, seed])
    starts, lasts = int(random.integers(0, 1200)), int(random.integers(30, 200))
    few = burst_class(2, slice(starts, starts + lasts), seed)
    before = judged(few).pegged
    assert before
    for days_before, days_after in ((0, 5), (5, 0), (9, 19)):
        first, last = quiet(random, days_before * DAY), quiet(random, days_after * DAY)
        many = {name: np.concatenate([first[name], few[name], last[name]]) for name in few}
        after = judged(many).pegged
        assert {(one.resource, one.ceiling) for one in before} <= {
            (one.resource, one.ceiling) for one in after
        }


@pytest.mark.parametrize("seed", range(24))
def test_adding_an_even_load_below_every_ceiling_never_makes_a_finding(seed: int) -> None:
    """Requests of any size whose workers pause: paced by the application, at any level."""
    random = np.random.default_rng([12, seed])
    base = small_pages(random, 7 * DAY, 0.05 * BASELINE)
    quiet_alone = columns([(base, 8192.0, 1e-3)])
    assert judged(quiet_alone).pegged == ()
    size = float(2 ** random.uniform(12, 20))
    took = 1e-3 + size / float(random.uniform(110e6, 400e6))
    even = np.zeros(7 * DAY)
    start, lasts = int(random.integers(0, 900)), int(random.integers(60, 500))
    level = min(float(random.uniform(0.2, 0.9)) * BASELINE, 0.9 * 3600 * size)
    for day in range(7):
        at = slice(day * DAY + start, day * DAY + start + lasts)
        even[at] = level * random.normal(1, 0.003, lasts)
    assert judged(columns([(base, 8192.0, 1e-3), (even, size, took)])).pegged == ()


def paused(level: float, minutes: int, seed: int = 2) -> dict[str, Values]:
    """Two days of 600 IOPS. From 11:40 on a job asks for all there is, and pauses within every
    third of its minutes, which carry 7 or 14 % less. A request takes 0.6 ms, at the level 5 ms.
    """
    random = np.random.default_rng(seed)
    rate = 600 * random.lognormal(0, 0.15, 2 * DAY)
    took = np.full(2 * DAY, 0.6e-3)
    peg = slice(700, 700 + minutes)
    rate[peg] = level * random.normal(1, 0.002, minutes)
    rate[peg][::3] *= random.choice([0.93, 0.86], len(rate[peg][::3]))
    took[peg] = 5e-3
    size = 8192 * random.lognormal(0, 0.1, 2 * DAY)
    return columns([(rate * size, size, took)])  # type: ignore[list-item]


@pytest.mark.parametrize("minutes", [33, 45, 60, 150])
@pytest.mark.parametrize(("level", "known"), [(3000.0, True), (4321.0, False)])
def test_a_job_that_pauses_within_its_minutes_still_shows_its_ceiling(
    level: float, known: bool, minutes: int
) -> None:
    """A gp3 volume of 200 GB has 3,000 IOPS. Two of three minutes are full."""
    storage = "gp3:200GB" if known else "io1:1000GB,20000iops"
    (found,) = judged(paused(level, minutes), "db.r6g.4xlarge", storage=storage).pegged
    assert found.resource is Resource.IOPS
    assert (found.ceiling is not None) is known
    assert found.plateau.level == pytest.approx(level, rel=0.005)
    assert found.plateau.points == pytest.approx(minutes * 2 / 3, abs=4)


@pytest.mark.parametrize("seed", range(8))
def test_a_load_that_scatters_around_a_ceiling_was_not_cut_off_there(seed: int) -> None:
    """Half of its minutes are above 3,000 IOPS, which a volume of 3,000 cannot give."""
    random = np.random.default_rng(seed)
    metrics = paused(3000.0, 150)
    scattered = (
        3000 * random.normal(1, 0.06, 150) / (metrics["ReadIOPS"] + metrics["WriteIOPS"])[700:850]
    )
    for name in ("ReadIOPS", "WriteIOPS", "ReadThroughput", "WriteThroughput", "DiskQueueDepth"):
        metrics[name][700:850] *= scattered
    assert judged(metrics, "db.r6g.4xlarge", storage="gp3:200GB").pegged == ()


def test_an_unknown_ceiling_of_an_hour_is_found_in_averages_of_five_minutes() -> None:
    """Twelve points, at which a request takes fifty times as long."""
    random, minutes = np.random.default_rng(55), 60
    length, start = 2 * DAY // 5, 140
    rate, took = 600 * random.lognormal(0, 0.15, length), np.full(length, 0.6e-3)
    peg = slice(start, start + minutes // 5)
    rate[peg] = 4321 * random.normal(1, 0.001, minutes // 5)
    took[peg] = 30e-3
    size = 8192 * random.lognormal(0, 0.1, length)
    metrics = columns([(rate * size, size, took)])  # type: ignore[list-item]
    series = MetricSeries(start=START, step=300, metrics=metrics)
    found = limits(series, class_name="db.r6g.4xlarge", storage="io1:1000GB,20000iops").pegged
    assert [round(one.plateau.level, -2) for one in found] == [4300]
