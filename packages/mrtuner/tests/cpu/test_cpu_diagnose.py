"""Causes named from accounts written by hand, and from the reference's emulated guest."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cpu_records import CALM, LINUX, of_cpus, on_siblings, record, trial, worker

from mrtuner.cpu.advice import advice
from mrtuner.cpu.diagnose import Cause, CpuDiagnosis, diagnose
from mrtuner.cpu.model import CpuPair, Record, Trial

FOUR = ((0, 1), (2, 3))


def causes(found: CpuDiagnosis) -> list[tuple[int, Cause]]:
    return [(bend.at, bend.cause) for bend in found.bends]


def twice(*trials: Trial) -> list[Trial]:
    return [*trials, *trials]


def advised(seen: Record) -> str:
    return " ".join(advice(seen, diagnose(seen)))


def test_the_emulated_guest_has_its_knee_after_two_cores_by_siblings() -> None:
    """CPU times per worker as the reference measured them: 2 cores x 2 threads, N = 1 to 4."""
    guest = twice(
        trial(worker(0.81)),
        trial(worker(0.94), worker(0.92)),
        trial(worker(2.76), worker(2.82), worker(0.94)),
        trial(worker(1.80), worker(2.98), worker(2.99), worker(1.74, delay=0.05)),
    )
    found = diagnose(record(guest, usable=of_cpus(4), cores=FOUR, threads=2))
    assert causes(found) == [(2, Cause.SIBLINGS)]
    three = next(each for each in found.levels if each.count == 3)
    assert three.spread == pytest.approx(2.82 / 0.94 - 1)  # the reference's 201 % to rounding
    assert three.slow_share == pytest.approx(2 / 3)
    assert three.uneven


def test_siblings_off_line_leave_saturation() -> None:
    """The same guest with one thread a core: run delay grows, CPU time does not."""
    guest = twice(
        trial(worker(0.9)),
        trial(worker(0.91), worker(1.06)),
        trial(worker(0.9, delay=0.45), worker(0.9, delay=0.46), worker(0.9, delay=0.44)),
        trial(*[worker(0.9, delay=0.9)] * 4),
    )
    found = diagnose(record(guest, usable=of_cpus(2), cores=((0,), (1,))))
    assert causes(found) == [(2, Cause.SATURATION)]


def test_eight_cores_of_two_threads_show_both_knees() -> None:
    """Each thread 0.6 of a core: 8 + 8 x 0.2 = 9.6 effective cores, siblings, then saturation."""
    trials = [on_siblings(n, 8, 0.6) for n in range(1, 33) for _ in range(2)]
    cores = tuple((n, n + 8) for n in range(8))
    found = diagnose(record(trials, usable=of_cpus(16), cores=cores, threads=2))
    assert causes(found) == [(8, Cause.SIBLINGS), (16, Cause.SATURATION)]
    assert found.effective_cores == pytest.approx(9.6)


def test_pairs_show_siblings_that_the_kernel_hides() -> None:
    trials = [on_siblings(n, 2, 0.6) for n in range(1, 9) for _ in range(2)]
    pairs = tuple(
        CpuPair(
            first=a, second=b, inflation=1.6 if (a, b) in FOUR else 1.0, siblings=(a, b) in FOUR
        )
        for a in range(4)
        for b in range(a + 1, 4)
    )
    flat = ((0,), (1,), (2,), (3,))
    seen = record(trials, usable=of_cpus(4), cores=flat, threads=1, pairs=pairs)
    found = diagnose(seen)
    assert found.bends[0].cause is Cause.SIBLINGS
    assert found.threads.per_core == 2
    assert found.threads.hidden
    assert found.threads.pairs == FOUR
    without = diagnose(replace(seen, pairs=()))
    assert without.bends[0].cause is Cause.UNEQUAL  # two of three take 1.67 times as long
    said = " ".join(advice(replace(seen, pairs=()), without))
    assert "All workers slow down equally" not in said
    assert "Some workers slow down more than others" in said


def test_a_quota_is_told_from_saturation_by_its_throttled_periods() -> None:
    """Two CPUs' worth of time on four CPUs: three workers wait, and periods are throttled."""
    stopped = replace(CALM, throttled=9)
    trials = twice(
        trial(worker(1.0)),
        trial(worker(1.0), worker(1.0)),
        trial(*[worker(1.0, delay=0.5)] * 3, weather=stopped),
        trial(*[worker(1.0, delay=1.0)] * 4, weather=stopped),
    )
    seen = record(trials, usable=of_cpus(4, bound="quota", worth=2.0))
    assert causes(diagnose(seen)) == [(2, Cause.QUOTA)]
    assert "CPUQuota=" in advised(seen)
    assert "resources.limits.cpu" in advised(
        replace(seen, place=replace(LINUX, platform="kubernetes"))
    )


def test_steal_is_the_rest_that_the_hypervisor_counts() -> None:
    taken = replace(CALM, steal=0.3)
    trials = twice(
        trial(worker(1.0)),
        trial(*[worker(1.0, rest=1.0)] * 2, weather=taken),
        trial(*[worker(1.0, rest=2.0)] * 3, weather=taken),
    )
    seen = record(trials, usable=of_cpus(4))
    assert causes(diagnose(seen)) == [(1, Cause.STEAL)]
    asleep = [replace(each, weather=CALM) for each in trials]
    assert causes(diagnose(record(asleep, usable=of_cpus(4)))) == [(1, Cause.UNKNOWN)]


def test_a_clock_that_falls_for_all_alike_is_no_matter_of_siblings() -> None:
    trials = twice(*(trial(*[worker(max(1.0, n / 2))] * n) for n in range(1, 5)))
    seen = record(trials, usable=of_cpus(4), cores=((0,), (1,), (2,), (3,)))
    assert causes(diagnose(seen)) == [(2, Cause.FREQUENCY)]


def test_a_pool_may_grow_to_where_throughput_does_whatever_the_cause() -> None:
    """Eight cores whose clock falls beyond four: n workers do 1 to 4, then 4.6, 5.2, 5.8, 6.4."""
    done = [1, 2, 3, 4, 4.6, 5.2, 5.8, 6.4]
    trials = twice(*(trial(*[worker(n / x)] * n) for n, x in enumerate(done, 1)))
    seen = record(trials, usable=of_cpus(8), cores=tuple((n,) for n in range(8)))
    assert causes(diagnose(seen)) == [(4, Cause.FREQUENCY)]
    assert "beyond 4 active sessions each takes longer" in advised(seen)
    assert "throughput grows up to 8" in advised(seen)
    elsewhere = replace(seen, trials=tuple(
        replace(each, workers=tuple(replace(one, cpu=None, delay=None) for one in each.workers))
        for each in seen.trials
    ))  # fmt: skip
    assert causes(diagnose(elsewhere)) == [(4, Cause.UNKNOWN)]
    assert "throughput grows up to 8" in advised(elsewhere)


def test_delay_without_too_many_workers_is_other_work() -> None:
    loud = replace(CALM, foreign=0.4)
    trials = twice(
        trial(worker(1.0)),
        trial(*[worker(1.0)] * 2),
        trial(*[worker(1.0, delay=0.6)] * 3, weather=loud),
        trial(*[worker(1.0, delay=1.1)] * 4, weather=loud),
    )
    assert causes(diagnose(record(trials, usable=of_cpus(4)))) == [(2, Cause.OTHERS)]


def test_elapsed_time_alone_names_no_cause() -> None:
    def blind(wall: float) -> Trial:
        return trial(*[replace(worker(wall), cpu=None, delay=None)] * round(wall))

    trials = twice(*(blind(float(n)) for n in range(1, 4)))
    found = diagnose(record(trials, usable=of_cpus(1)))
    assert causes(found) == [(1, Cause.UNKNOWN)]
    assert found.identity is None


def test_even_cores_have_no_knee_and_need_no_advice() -> None:
    trials = twice(*(trial(*[worker(1.0)] * n) for n in range(1, 5)))
    seen = record(trials, usable=of_cpus(4))
    found = diagnose(seen)
    assert found.bends == ()
    assert found.effective_cores == pytest.approx(4.0)
    assert advice(seen, found) == ()


def test_trials_that_were_spoilt_do_not_count() -> None:
    spoilt = trial(worker(5.0), worker(5.0), rejected="other work took 40% of our CPUs' time")
    good = [trial(worker(1.0)), trial(worker(1.0), worker(1.0))]
    found = diagnose(record([spoilt, *good], usable=of_cpus(2)))
    assert found.levels[1].wall == pytest.approx(1.0)
    assert found.incomplete == ()
    only = diagnose(record([good[0], spoilt], usable=of_cpus(2)))
    assert only.incomplete == (2,)


def test_the_identity_is_judged_by_its_largest_rest() -> None:
    """0.02 of a wall of 1.02: 1.96 %."""
    found = diagnose(record([trial(worker(1.0, rest=0.02))], usable=of_cpus(1)))
    assert found.identity == pytest.approx(0.02 / 1.02)


def on(platform: str) -> Record:
    trials = [on_siblings(n, 2, 0.6) for n in range(1, 9) for _ in range(2)]
    place = replace(LINUX, platform=platform)
    return record(trials, usable=of_cpus(4), cores=FOUR, threads=2, place=place)


def test_on_rds_graviton_is_advised_and_never_to_switch_threads_off() -> None:
    for platform in ("rds", "aurora"):
        said = advised(on(platform))
        assert "Graviton" in said
        assert "ThreadsPerCore" not in said
        assert "smt/control" not in said


def test_on_ec2_threads_per_core_is_an_option() -> None:
    assert "ThreadsPerCore=1" in advised(on("ec2"))
    assert "smt/control" not in advised(on("ec2"))


def test_on_a_machine_of_ones_own_siblings_can_be_switched_off() -> None:
    assert "smt/control" in advised(on("linux"))


def test_the_pool_is_sized_by_cores_and_by_where_throughput_ends() -> None:
    """Two cores of two threads at 0.6: equal times up to 2, throughput up to 4."""
    said = advised(on("linux"))
    assert "up to 2 active sessions" in said
    assert "throughput grows up to 4" in said
