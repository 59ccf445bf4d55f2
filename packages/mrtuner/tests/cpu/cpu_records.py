"""Records written by hand, and a computed machine: cores of two threads."""

from __future__ import annotations

from collections.abc import Iterable

from mrtuner.cpu.model import (
    CpuPair,
    CpuPlace,
    CpuPlan,
    CpuTopology,
    Mode,
    Record,
    Trial,
    TrialWeather,
    Usable,
    Worker,
)

CALM = TrialWeather(foreign=0.0, steal=0.0, throttled=0, mhz=None)
LINUX = CpuPlace(platform="linux", model=None, architecture="x86_64", evidence="nothing")


def worker(cpu: float, delay: float = 0.0, rest: float = 0.0, pieces: int = 20) -> Worker:
    """A worker with this CPU time, run delay and rest [s], in pieces of equal length."""
    wall = cpu + delay + rest
    return Worker(
        pieces=(wall / pieces,) * pieces, cpu=cpu, delay=delay, switches=0, cpus=(0,) * pieces
    )


def trial(*workers: Worker, weather: TrialWeather = CALM, rejected: str | None = None) -> Trial:
    return Trial(count=len(workers), workers=workers, weather=weather, rejected=rejected)


def of_cpus(count: int, bound: str | None = None, worth: float | None = None) -> Usable:
    return Usable(
        cpus=tuple(range(count)), may_run_on=count, count=worth or count, online=count,
        bound=bound, source="by hand",
    )  # fmt: skip


def record(
    trials: Iterable[Trial],
    *,
    usable: Usable,
    cores: tuple[tuple[int, ...], ...] = (),
    threads: int | None = 1,
    pairs: tuple[CpuPair, ...] = (),
    place: CpuPlace = LINUX,
    mode: Mode = Mode.INTEGER,
) -> Record:
    done = tuple(trials)
    counts = tuple(sorted({each.count for each in done}))
    return Record(
        began="2026-01-02T03:04:05+00:00",
        plan=CpuPlan(
            mode=mode, counts=counts, repeats=2, seconds=1.0, pieces=20, seed=7,
            pairs=bool(pairs), forced=False,
        ),
        usable=usable,
        topology=CpuTopology(cores=cores, threads=threads, source="by hand"),
        place=place,
        kernel="6.1",
        solo=0.5 if pairs else None,
        pairs=pairs,
        trials=done,
        notes=(),
    )  # fmt: skip


def on_siblings(count: int, cores: int, share: float) -> Trial:
    """`count` workers of 1 s on `cores` of two threads: a shared core gives each `share`.

    With more workers than threads all of them take turns.
    """
    threads = 2 * cores
    if count > threads:
        turns = count / threads
        return trial(*[worker(1 / share, delay=(turns - 1) / share)] * count)
    shared = 2 * max(0, count - cores)
    return trial(*[worker(1 / share)] * shared, *[worker(1.0)] * (count - shared))
