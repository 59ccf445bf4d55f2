"""The laboratory agrees with calculations by hand: buckets, closed loops, Little's law."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from limits_accuracy import (
    Accuracy,
    Detection,
    Entry,
    ceiling_of,
    count,
    length,
    measure,
    report,
)
from limits_lab.hardware import hidden, limits_of
from limits_lab.observed import held, longest, observe
from limits_lab.physics import STEP, Limit, Run, levels, run, wait_for
from limits_lab.scenarios import KINDS, QUIET, minutes, scenario
from limits_lab.workload import Disk, Job, Stream, paced
from limits_truth import Case
from numpy.typing import NDArray

from mrtuner.catalog.classes import instance_class
from mrtuner.catalog.volumes import volume
from mrtuner.limits import Resource
from mrtuner.limits.examples.simulate import Limiter

HOUR = 3600 // STEP
DISK = Disk(base=0.001, single=100e6)


class Middle:
    """A random generator that draws the middle of a range, or the first of its options."""

    def uniform(self, low: float, high: float) -> float:
        return (low + high) / 2

    def random(self) -> float:
        return 0.5

    def choice(self, options: Any) -> Any:
        return options[0]

    def standard_normal(self, size: Any) -> NDArray[np.float64]:
        return np.zeros(size)


def idle(steps: int, **changed: Any) -> Stream:
    """A stream without operations, apart from what is given."""
    given: dict[str, Any] = {"arrivals": np.zeros(steps), "size": np.full(steps, 8192.0)}
    rest: dict[str, Any] = {"reads": np.full(steps, 0.5), "latency": 0.001, "sessions": 100.0}
    return Stream(**{**given, **rest, **changed})


def job(**changed: Any) -> Job:
    """1,000 workers of 1 ms: a million operations a second of 100 kB."""
    given: dict[str, Any] = {"start": 0, "work": 1e12, "workers": 1000, "latency": 0.001}
    given["size"] = 100e3
    return Job(**{**given, **changed})


def iops(rate: float, **rest: Any) -> Limit:
    return Limit(resource=Resource.IOPS, part="volume", rate=rate, **rest)


def throughput(rate: float, **rest: Any) -> Limit:
    return Limit(resource=Resource.THROUGHPUT, part="instance", rate=rate, **rest)


BUCKET = throughput(100e6, burst=200e6, capacity=100e6 * 1800, metric="EBSByteBalance%")


def seen(ran: Run, limits: list[Limit], step: int = 60) -> dict[str, Any]:
    return observe(ran, limits, step=step, vcpus=2, random=Middle())


def test_a_bucket_gives_its_burst_for_thirty_minutes_and_then_its_rate() -> None:
    """By hand: 200 less the 100 that come in drain 100 x 1800 in 1,800 s, 180 steps."""
    ran = run([BUCKET], idle(2 * HOUR), [job()])
    assert ran.bytes[:180] == pytest.approx(200e6)
    assert ran.bytes[180:] == pytest.approx(100e6)
    truth = {one.level: int(one.whole.sum()) for one in held(ran, [BUCKET], 60)}
    assert truth == {200e6: 30, 100e6: 90}


def test_a_balance_falls_and_is_filled_by_the_baseline_that_is_left() -> None:
    """By hand: at the burst for 30 min, empty; then idle, half full after 15 min, full after 30.

    The job has work for those 30 min: 200 MB/s x 1,800 s of 100 kB are 3.6 million operations.
    """
    ran = run([BUCKET], idle(2 * HOUR), [job(work=3.6e6)])
    assert ran.ends == (180,)
    (balance,) = ran.balances
    assert balance is not None
    assert balance[[89, 179, 269, 359]] == pytest.approx([0.5, 0.0, 0.5, 1.0])
    told = seen(ran, [BUCKET])["EBSByteBalance%"]
    assert np.isfinite(told[::5]).all()
    assert np.isnan(np.delete(told, np.s_[::5])).all()
    # The first value is the mean over the 30 steps of five minutes: 1/180 is gone after the
    # first, 30/180 after the last, 15.5/180 on average.
    assert told[0] == pytest.approx(100 * (1 - 15.5 / 180))


def test_gp2_of_100_gib_has_3000_iops_for_2000_seconds() -> None:
    """By hand: 5.4 million credits / (3,000 - 300) = 2,000 s; the source says the same."""
    limits = limits_of(Middle(), instance_class("db.r5.4xlarge"), volume("gp2:100GB"))
    (credits_,) = (one for one in limits if one.burst)
    assert credits_.capacity == pytest.approx(5.4e6)
    ran = run([iops(300, burst=3000, capacity=5.4e6)], idle(HOUR), [job(size=8192.0)])
    assert ran.operations[:200] == pytest.approx(3000)
    assert ran.operations[200:] == pytest.approx(300)


def test_limits_are_off_by_the_middle_of_minus_1_and_plus_1_3_per_cent() -> None:
    """By hand: 0.15 % above 2,300 and 4,750 Mbps; former 1,700 and 3,500."""
    r5 = instance_class("db.r5.2xlarge")
    storage = volume("io1:400GB,20000iops")
    now = limits_of(Middle(), r5, storage)[0]
    then = limits_of(Middle(), r5, storage, former=True)[0]
    assert (now.rate, now.burst) == pytest.approx((287.5e6 * 1.0015, 593.75e6 * 1.0015))
    assert (then.rate, then.burst) == pytest.approx((212.5e6 * 1.0015, 437.5e6 * 1.0015))
    assert now.capacity == (593.75e6 - 287.5e6) * 1800


def test_a_closed_loop_is_its_workers_over_its_cycle() -> None:
    """By hand: 4 workers of 1 ms and 3 ms of thinking: 1,000 a second, 1 in flight on average."""
    ran = run([iops(2000)], idle(HOUR), [job(workers=4, think=0.003, work=9e5)])
    assert ran.operations[:90] == pytest.approx(1000)
    assert ran.busy[:90] == pytest.approx(1.0)
    assert ran.ends == (90,)  # 900,000 operations take 900 s
    assert (ran.code == -1).all()


def test_a_throttled_job_takes_longer_and_its_requests_wait() -> None:
    """By hand: 500 of the 1,000: twice as long; a cycle of 4 / 500 = 8 ms, of which 5 in the disk.

    In flight are 500 x 5 ms = 2.5; the other 1.5 workers are thinking.
    """
    ran = run([iops(500)], idle(HOUR), [job(workers=4, think=0.003, work=9e5)])
    assert ran.operations[:180] == pytest.approx(500)
    assert ran.ends == (180,)
    assert ran.wait[:180] == pytest.approx(0.004)
    assert ran.busy[:180] == pytest.approx(2.5)
    told = seen(ran, [iops(500)])
    assert told["ReadLatency"][:30] == pytest.approx(0.005)
    assert told["DiskQueueDepth"][:30] == pytest.approx(2.5)
    assert told["DiskQueueDepth"][30:] == pytest.approx(0.0)


def test_jobs_wait_equally_long_and_so_share_by_their_workers() -> None:
    """By hand: 4 / (1 ms + wait) = 1,000: 3 ms; 1 and 3 workers get 250 and 750."""
    few = job(workers=1, reads=1.0, size=8192.0)
    many = job(workers=3, reads=0.0, size=8192.0)
    ran = run([iops(1000)], idle(10), [few, many])
    assert ran.wait == pytest.approx(0.003)
    assert ran.reads == pytest.approx(250)
    assert wait_for(1000, [(1, 0.001, 1.0), (3, 0.001, 1.0)]) == pytest.approx(0.003)


def test_loops_of_different_cycles_are_solved_together() -> None:
    """By hand: 2 / (1 + w) + 6 / (3 + w) = 2 a second; multiplied out, the w cancel.

    2(3 + w) + 6(1 + w) = 2(1 + w)(3 + w) is 12 + 8w = 6 + 8w + 2w^2, so w^2 = 3.
    """
    assert wait_for(2.0, [(2, 1.0, 1.0), (6, 3.0, 1.0)]) == pytest.approx(3**0.5)


def test_a_stream_keeps_its_pace_beside_a_job_while_there_is_room() -> None:
    """By hand: 1,000 less 400 leave 600 to 30 workers: 50 ms, so 400 x 0.05 = 20 of its own."""
    ran = run([iops(1000)], idle(10, arrivals=np.full(10, 400.0)), [job(workers=30, size=8192.0)])
    assert ran.operations == pytest.approx(1000)
    assert ran.wait == pytest.approx(0.049)
    assert ran.busy == pytest.approx(50.0)


def test_a_stream_has_no_more_in_flight_than_its_sessions() -> None:
    """By hand: 2,000 a second before 1,000: 50 sessions wait 50 / 1,000 = 50 ms each."""
    ran = run([iops(1000)], idle(10, arrivals=np.full(10, 2000.0), sessions=50.0))
    assert ran.operations == pytest.approx(1000)
    assert ran.busy == pytest.approx(50.0)
    assert seen(ran, [iops(1000)], step=10)["WriteLatency"] == pytest.approx(0.05)


def test_what_a_stream_puts_off_comes_back_over_five_minutes() -> None:
    """By hand: six steps 1,000 a second too many are 60,000 operations put off.

    Then 500 arrive, and 60,000 / 300 = 200 come back; 58,000 / 300 in the next step.
    """
    arrivals = np.array([2000.0] * 6 + [500.0] * 600)
    ran = run([iops(1000)], idle(606, arrivals=arrivals, sessions=50.0, patience=1e9))
    assert ran.operations[:6] == pytest.approx(1000)
    assert ran.operations[6:8] == pytest.approx([700, 500 + 58_000 / 300])
    assert ran.operations[-1] == pytest.approx(500)
    assert ran.operations.sum() * STEP == pytest.approx(arrivals.sum() * STEP, abs=1.0)


def test_the_smaller_limit_in_series_binds_and_only_it() -> None:
    """By hand: 100 MB/s of 100 kB are 1,000 operations, which 2,000 IOPS let through."""
    limits = [throughput(100e6), iops(2000)]
    ran = run(limits, idle(60), [job()])
    assert ran.operations == pytest.approx(1000)
    (only,) = held(ran, limits, 60)
    assert (only.resource, only.part, only.level) == (Resource.THROUGHPUT, "instance", 100e6)
    small = run(limits, idle(60), [job(size=8192.0)])
    assert small.bytes == pytest.approx(2000 * 8192)
    assert [one.resource for one in held(small, limits, 60)] == [Resource.IOPS]


def test_processors_bind_without_a_wait_at_the_disk() -> None:
    """By hand: 2 vCPUs, 4 ms each operation: 500 a second, 500 x 1 ms in flight."""
    cpu = Limit(resource=Resource.CPU, part="instance", rate=2.0, unit=50.0)
    ran = run([cpu], idle(60), [job(workers=10, think=0.004, cpu=0.004)])
    assert ran.operations == pytest.approx(500)
    assert ran.busy == pytest.approx(0.5)
    assert seen(ran, [cpu])["CPUUtilization"] == pytest.approx(100.0)
    (only,) = held(ran, [cpu], 60)
    assert only.level == 100.0
    assert only.whole.all()


def test_littles_law_holds_in_every_point_of_a_case() -> None:
    """In flight = operations a second x seconds of one, reads and writes together."""
    stream = idle(HOUR, arrivals=np.linspace(0, 900, HOUR), reads=np.linspace(0.1, 0.9, HOUR))
    jobs = [job(start=60, workers=7, work=2e5, reads=0.2), job(start=90, workers=3, work=1e5)]
    limits = [iops(1200, burst=2000, capacity=1e5)]
    told = seen(run(limits, stream, jobs), limits)
    flight = told["ReadIOPS"] * told["ReadLatency"] + told["WriteIOPS"] * told["WriteLatency"]
    assert told["DiskQueueDepth"] == pytest.approx(flight)
    assert told["DiskQueueDepth"].max() > 5


def test_only_points_that_were_cut_in_every_step_count() -> None:
    """By hand: steps 3 to 20 at the limit; only the point from 12 to 17 was cut in all six."""
    arrivals = np.full(30, 500.0)
    arrivals[3:21] = 1500.0
    arrivals[9] = 1000.9  # 0.09 % above the limit only grazes it
    limits = [iops(1000)]
    (one,) = held(run(limits, idle(30, arrivals=arrivals), []), limits, 60)
    assert one.whole.tolist() == [False, False, True, False, False]
    assert one.partly.tolist() == [True, True, True, True, False]
    assert longest(one.whole) == 1
    assert longest(np.array([1, 1, 0, 1, 1, 1], dtype=bool)) == 3
    assert longest(np.zeros(3, dtype=bool)) == 0


def test_a_server_that_is_down_does_nothing_and_its_jobs_go_on_afterwards() -> None:
    """By hand: 1,000 a second, 20 steps of work, 5 steps down in between: 25 steps."""
    down = np.zeros(60, dtype=bool)
    down[10:15] = True
    busy = job(workers=1, work=2e5)
    ran = run([iops(2000)], idle(60, arrivals=np.full(60, 100.0)), [busy], down=down)
    assert ran.operations[10:15] == pytest.approx(0.0)
    assert ran.ends == (25,)
    assert ran.operations[25:] == pytest.approx(100)


def test_a_long_request_is_several_operations() -> None:
    """By hand: 1 MiB is 4 of 256 KiB; 1 ms and 1 MiB at 100 MB/s are 11.48576 ms."""
    one = paced(Middle(), DISK, 2**20, start=0, pace=100.0, seconds=60, vcpus=2)
    assert (one.size, one.work) == (2**18, 6000)
    assert one.latency == pytest.approx(0.01148576)
    # 100 operations are 25 requests: 0.287 of one worker's time, the rest is thinking.
    assert one.workers == 4
    assert one.think == pytest.approx(0.04 - 0.01148576)
    assert run([], idle(6), [one]).operations == pytest.approx(100, rel=0.02)


def test_a_hidden_cap_is_near_no_known_ceiling() -> None:
    r5, storage = instance_class("db.r5.2xlarge"), volume("io1:400GB,20000iops")
    random = np.random.default_rng(1)
    limits = limits_of(random, r5, storage)
    for _ in range(50):
        cap = hidden(random, r5, storage, limits, Resource.THROUGHPUT)
        assert 0.4 * limits[0].rate <= cap.rate <= 0.9 * limits[0].rate
        assert abs(cap.rate / 212.5e6 - 1) > 0.06  # the baseline of before December 2019


def test_a_scenario_is_the_same_for_the_same_seed() -> None:
    first, second = scenario(7, days=4), scenario(7, days=4)
    assert first.kind == second.kind
    assert first.series.points == second.series.points
    for name, values in first.series.metrics.items():
        np.testing.assert_array_equal(values, second.series.metrics[name])


def test_quiet_kinds_hold_nothing_and_the_others_mostly_something() -> None:
    """The physics decides what is held down; a kind only makes it likely."""
    cases = [scenario(seed, days=4) for seed in range(40)]
    assert [one.seed for one in cases if one.kind in QUIET and one.truths] == []
    loud = [one for one in cases if one.kind not in QUIET]
    assert sum(bool(one.truths) for one in loud) > 0.7 * len(loud)
    for one in cases:
        for truth in one.truths:
            in_all, in_one_go = minutes(truth, one.series.step)
            assert in_all >= 30
            assert in_one_go >= 15


def test_the_kinds_weights_are_a_whole() -> None:
    assert sum(KINDS.values()) == pytest.approx(1.0)
    assert set(QUIET) < set(KINDS)


def test_every_level_has_its_number() -> None:
    assert [level for _, level in levels([iops(5), BUCKET])] == [5, None, 100e6, 200e6]


def test_results_are_told_by_kind_ceiling_and_length() -> None:
    counted = Accuracy(cases=2)
    for outcome, kind, lasted in (
        (Detection.RIGHT, "volume", 500), (Detection.MISSED, "volume", 45),
        (Detection.WRONG, "even", 90),
    ):  # fmt: skip
        counted.entries.append(
            Entry(outcome=outcome, seed=1, kind=kind, ceiling="volume iops", length=length(lasted))
        )
    right, wrong, missed = Detection.RIGHT, Detection.WRONG, Detection.MISSED
    assert counted.by("kind") == {"even": {wrong: 1}, "volume": {right: 1, missed: 1}}
    assert list(counted.by("length")) == ["45 to 59 min", "1 to 2 h", "over 8 h"]
    assert any(line.split() == ["volume", "iops", "1", "1", "1"] for line in report(counted))


def test_a_limiters_ceiling_is_named_by_its_level() -> None:
    one = scenario(0, days=4)
    at = np.ones(1, dtype=bool)
    r5 = Case(
        seed=1, kind="volume", instance=instance_class("db.r5.2xlarge"),
        volume=volume("gp2:100GB"), series=one.series, truths=(), hints=(),
    )  # fmt: skip

    names = [
        ceiling_of(r5, Limiter(resource=resource, part=part, level=level, minutes=at))
        for resource, part, level in (
            (Resource.IOPS, "volume", 303.0),
            (Resource.THROUGHPUT, "instance", 594e6),
            (Resource.THROUGHPUT, "instance", 213e6),
            (Resource.IOPS, "unknown", 250.0),
        )
    ]
    assert names == [
        "volume iops", "instance throughput, burst",
        "instance throughput, before December 2019", "unknown iops",
    ]  # fmt: skip


def test_near_the_baseline_means_near_it_with_full_balances() -> None:
    """The busiest hours are at 90 to 99 % of a baseline that is itself off by up to 1.3 %."""
    for seed in range(8):
        one = scenario(seed, days=4, kind="near baseline")
        metrics, instance = one.series.metrics, one.instance
        for name in {"EBSByteBalance%", "EBSIOBalance%"} & set(metrics):
            assert np.nanmin(metrics[name]) > 99
        share = max(
            float(np.nanquantile(metrics[f"Read{what}"] + metrics[f"Write{what}"], 0.998)) / most
            for what, most in (
                ("Throughput", (instance.ebs_baseline_mbps or 0) * 125_000),
                ("IOPS", instance.ebs_baseline_iops or 0),
            )
        )
        assert 0.88 < share < 1.01


def test_jobs_that_nothing_held_down_did_not_wait() -> None:
    """Latency is the base of 0.4 to 2 ms and the transfer of 1 MiB at 60 MB/s at most: 20 ms."""
    for kind in ("even", "same number", "near baseline"):
        metrics = scenario(3, days=4, kind=kind).series.metrics
        assert np.nanmax(metrics["ReadLatency"]) < 0.030


def test_a_limiter_that_nobody_reports_is_missed_with_its_ceiling_and_length() -> None:
    counted = Accuracy()
    one = scenario(1, days=4, kind="volume")
    count(counted, one, [])
    assert len(one.truths) > 0
    assert [entry.outcome for entry in counted.entries] == [Detection.MISSED] * len(one.truths)
    assert {entry.ceiling.split()[0] for entry in counted.entries} == {"volume"}
    assert counted.recall == 0
    assert measure([], source=scenario).cases == 0
