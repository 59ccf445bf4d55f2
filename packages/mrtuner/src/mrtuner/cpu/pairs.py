"""Find CPUs that are threads of one core, by running work on two of them at a time.

The same work takes more CPU time while the sibling is busy, whatever topology the hypervisor
reports. CPUs of different cores slow one another little, and all pairs equally (frequency,
cache).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from statistics import fmean, median
from typing import Final

from mrtuner.cpu.crew import crew, steps_per_second
from mrtuner.cpu.model import CpuPair, Mode

SECONDS: Final = 0.5
PIECES: Final = 5
#: Published slowdowns by a busy sibling start at 1.3; frequency alone rarely reaches 1.2.
INFLATED: Final = 1.2
#: All pairs of this many CPUs take a minute; with more, only pairs with the first few are tried.
MOST_FOR_ALL: Final = 16
_FIRST: Final = 4
#: The time for two workers to start [s].
_START: Final = 0.1

TwoCpus = tuple[int, int]


def to_try(cpus: Sequence[int]) -> list[TwoCpus]:
    """Return the pairs that show how many threads a core has."""
    if len(cpus) <= MOST_FOR_ALL:
        return list(combinations(cpus, 2))
    return [pair for pair in combinations(cpus, 2) if pair[0] in cpus[:_FIRST]]


def seconds_expected(cpus: Sequence[int]) -> float:
    """Return about how long it takes to try these pairs [s]."""
    return (len(to_try(cpus)) + len(cpus[:_FIRST])) * (SECONDS * (1 + 1 / PIECES) + _START)


def judge(solo: float, together: Mapping[TwoCpus, float]) -> tuple[CpuPair, ...]:
    """Return all pairs; siblings are those that stand out from one CPU alone and from most pairs.

    `solo` and `together` are CPU seconds of the same work. With four CPUs or more, most pairs are
    of different cores, so their median shows the cost of merely running two at a time.
    """
    usual = median(together.values()) if len(together) >= _MANY else solo
    least = INFLATED * max(solo, usual)
    return tuple(
        CpuPair(first=first, second=second, inflation=took / solo, siblings=took > least)
        for (first, second), took in together.items()
    )


_MANY: Final = 6  # pairs of four CPUs


def tried(
    mode: Mode, cpus: Sequence[int], *, tell: Callable[[str], None]
) -> tuple[float, tuple[CpuPair, ...]]:
    """Return CPU seconds of the work alone, and all pairs judged; conspicuous ones are tried twice.

    With one CPU, there are no pairs.
    """
    count = max(1, round(steps_per_second(mode) * SECONDS / PIECES))
    solo = median(_took(mode, (cpu,), count) for cpu in cpus[:_FIRST])
    pairs = to_try(cpus)
    tell(f"pairs of CPUs to try: {len(pairs)}")
    together = {pair: _took(mode, pair, count) for pair in pairs}
    for pair in ((each.first, each.second) for each in judge(solo, together) if each.siblings):
        together[pair] = min(together[pair], _took(mode, pair, count))
    return solo, judge(solo, together)


def _took(mode: Mode, cpus: Sequence[int], count: int) -> float:
    """Return the mean CPU seconds of one worker on each of these CPUs, all working together."""
    with crew(mode, len(cpus), cpus) as workers:
        workers.run(1, count, expected=SECONDS)  # one piece to warm up
        done = workers.run(PIECES, count, expected=SECONDS)
    return fmean(worker.cpu or worker.wall for worker in done)
