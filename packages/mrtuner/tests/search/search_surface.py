"""A simulated server for searches: throughput as a stated function of the settings, with noise.

Its form is invented. The logarithm of the throughput is a sum of

- saturation: max_wal_size, 15 % at most, two thirds of it at 2 GB;
- a cliff: shared_buffers saturates too, but from 2.5 GB on half of the throughput is lost;
- a peak beside a special value: commit_delay, best at 150 µs, 6 % below that at 0;
- one of several words: wal_compression = pglz gains 5 %;
- an interaction: effective_io_concurrency helps (8 %) only with as many io_workers;
- nothing: every other setting.

Each run has log-normal noise; runs of a pair share the drift of the machine, a random walk.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from math import exp, log2
from pathlib import Path
from random import Random

from mrtuner.catalog import parameters
from mrtuner.search.model import BindingEvidence, Costs, Search, SearchedLoad, Settings
from mrtuner.search.procedure import Procedure
from mrtuner.search.profile import mechanisms
from mrtuner.search.race import Raced
from mrtuner.search.record import save
from mrtuner.search.schedule import schedule
from mrtuner.search.space import Server
from mrtuner.stats.comparison import FEWEST_BLOCKS, Verdict, compare

ADVICE = {
    "shared_buffers": "1GB", "max_wal_size": "1GB", "effective_io_concurrency": "32",
    "wal_buffers": "16MB",
}  # fmt: skip
SERVER = Server(parameters=parameters(18), accepted={"wal_compression": ("off", "on", "pglz")})
#: What a pair takes, as the schedule expects it [s].
PAIR_S = 20.0
_GB = 131_072  # pages of 8 kB


def truth(settings: Settings) -> float:
    """The logarithm of the throughput, without noise."""

    def value(name: str) -> float:
        known = SERVER.parameters[name]
        return float(known.parse(settings.get(name, SERVER.default(name))))

    buffers = value("shared_buffers") / _GB
    delay = value("commit_delay")
    at_once = max(value("effective_io_concurrency"), 1)
    reads = log2(at_once / 64) ** 2 + log2(value("io_workers") / 8) ** 2
    return (
        0.15 * (1 - exp(-value("max_wal_size") / 2048))
        + 0.10 * (1 - exp(-buffers))
        - 0.70 * (buffers > 2.5)
        - (0.06 if delay == 0 else 0.05 * log2(delay / 150) ** 2)
        + 0.05 * (settings.get("wal_compression") in {"pglz", "on"})
        + 0.08 * exp(-reads / 2)
    )


def flat(_settings: Settings) -> float:
    """An A/A surface: no setting matters."""
    return 0.0


class Surface:
    """Measures a surface; `killed_at` interrupts the race of that number, from 1."""

    postpones = False

    def __init__(
        self, seed: int, form: Callable[[Settings], float] = truth, noise: float = 0.03,
        killed_at: int | None = None,
    ) -> None:  # fmt: skip
        self.chance, self.form, self.noise = Random(seed), form, noise
        self.drift, self.races, self.killed_at = 0.0, 0, killed_at

    def restarts(self, first: Settings, second: Settings) -> bool:
        return SERVER.restarts(first, second)

    def race(
        self, first: Settings, second: Settings, pairs: int, enough: Callable[[Raced], bool],
        title: str,
    ) -> Raced:  # fmt: skip
        self.races += 1
        if self.races == self.killed_at:
            raise KeyboardInterrupt
        taken = list[tuple[float, float]]()
        for pair in itertools.islice(self._pairs(first, second), pairs):
            taken.append(pair)
            if enough(Raced(pairs=taken)):
                break
        seen = compare(taken)
        return Raced(
            pairs=taken, seconds=PAIR_S * len(taken), evidence=tuple(all_binds()),
            verdict=seen.verdict if len(taken) >= FEWEST_BLOCKS else Verdict.UNDECIDED,
        )  # fmt: skip

    def _pairs(self, first: Settings, second: Settings) -> Iterator[tuple[float, float]]:
        while True:
            self.drift += self.chance.gauss(0, 0.02)
            a, b = (
                1000 * exp(self.form(side) + self.drift + self.chance.gauss(0, self.noise))
                for side in (first, second)
            )
            yield a, b


def all_binds() -> Iterator[BindingEvidence]:
    """Evidence that every mechanism holds the load back."""
    for one in mechanisms():
        yield BindingEvidence(
            mechanism=one.name, meaning=one.meaning, value=10 * one.least, least=one.least
        )


def new_search(seed: int, minutes: float = 60, advice: Settings = ADVICE) -> Search:
    """A search on the simulated server; a trial takes 80 s if it is not stopped."""
    return Search(
        mrtuner="0", postgres="18.0", started="2026-01-01T00:00:00.000+00:00",
        load=SearchedLoad(
            builtin="tpcb", scripts=(), scale=1, clients=1, memory=None, iops=None
        ),
        machine={}, keep=(), seed=seed, schedule=schedule(minutes * 60), advice=dict(advice),
        baselines={"default": {}},
    )  # fmt: skip


def procedure(
    search: Search, surface: Surface, place: Path | None = None, **more: bool
) -> Procedure:
    """What carries it out; with a `place` it keeps its record there."""
    return Procedure(
        search=search, measuring=surface, server=SERVER, fits=fits,
        costs=lambda _side: Costs(memory=None, replay=None),
        keep=(lambda now: save(now, place)) if place else (lambda _now: None),
        tell=lambda _text: None, **more,
    )  # fmt: skip


def fits(side: Settings) -> bool:
    """The memory budget of the simulated server: 4 GB for shared_buffers."""
    known = SERVER.parameters["shared_buffers"]
    return float(known.parse(side.get("shared_buffers", "128MB"))) <= 4 * _GB
