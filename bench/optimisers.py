"""Which optimiser finds more on a simulated surface, in so many minutes of search?

    python bench/optimisers.py                                # what the search uses, and chance
    python bench/optimisers.py --grid docs/search-grid.json --minutes 30 --minutes 60
    python bench/optimisers.py --sampler cmaes                # pip install cmaes
    python bench/optimisers.py --sampler gp --seeds 30        # pip install torch

Printed for each: the gain of what is proposed for confirmation, without noise, over the seeds. The
surface has an invented form (packages/mrtuner/tests/search/search_surface.py), or with --grid that
of a recorded grid: what each value gained, straight lines between, and the sum over the settings,
since a grid does not show what settings gain together. This compares optimisers and promises
nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import log
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import optuna

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "packages" / "mrtuner" / "tests" / "search"))

from search_surface import ADVICE, SERVER, Surface, new_search, procedure, truth  # noqa: E402

from mrtuner.search.model import Settings  # noqa: E402
from mrtuner.search.optimiser import Optimiser  # noqa: E402

SAMPLERS: dict[str, Callable[[int], Any]] = {
    "tpe": lambda seed: optuna.samplers.TPESampler(seed=seed, n_startup_trials=5),
    "random": lambda seed: optuna.samplers.RandomSampler(seed=seed),
    "qmc": lambda seed: optuna.samplers.QMCSampler(seed=seed),
    "cmaes": lambda seed: optuna.samplers.CmaEsSampler(seed=seed, n_startup_trials=5),
    "gp": lambda seed: optuna.samplers.GPSampler(
        seed=seed, n_startup_trials=5, deterministic_objective=False
    ),
}


@dataclass(frozen=True, slots=True)
class Simulated:
    """A server whose throughput is known: the logarithm of it, and of the noise of a run."""

    advice: Settings
    form: Callable[[Settings], float]
    noise: float

    def gain(self, seed: int, minutes: float) -> float:
        search = new_search(seed, minutes, self.advice)
        procedure(search, Surface(seed, self.form, self.noise)).run()
        return self.form(search.side(search.candidate or 0)) - self.form(self.advice)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sampler", action="append", choices=SAMPLERS)
    parser.add_argument("--minutes", action="append", type=float)
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--grid", type=Path, help="recorded by search_grid.py --runs")
    parser.add_argument("--noise", type=float, help="of a run; usual: 0.03, or the grid's")
    options = parser.parse_args()
    server = _recorded(options.grid) if options.grid else Simulated(ADVICE, truth, 0.03)
    if options.noise is not None:
        server = Simulated(server.advice, server.form, options.noise)
    for minutes in options.minutes or (60,):
        for name in options.sampler or ("tpe", "random"):
            with _proposing(SAMPLERS[name]):
                seeds = range(101, 101 + options.seeds)
                gains = [server.gain(seed, minutes) for seed in seeds]
            sys.stdout.write(
                f"{minutes:g} min, {name:7} median {median(gains):.3f}  mean {fmean(gains):.3f}  "
                f"worst {min(gains):.3f}\n"
            )
            sys.stdout.flush()


def _recorded(path: Path) -> Simulated:
    """The server of the grid whose runs vary least, of those that `small_volume.py` measured."""
    grids = [one for one in json.loads(path.read_text())["grids"] if one.get("blocks")]
    grid = min(grids, key=lambda one: one["spread"])
    advice = {}
    gains: dict[str, dict[str, float]] = defaultdict(dict)
    for cell in (one for one in grid["cells"] if one["name"]):
        name, now = cell["name"], cell["advice"]
        if now != "the default":
            advice[name] = now
        gains[name][SERVER.default(name) if now == "the default" else now] = 0.0
        gains[name][cell["value"]] = log(cell["ratio"])

    def form(settings: Settings) -> float:
        return sum(
            _between(name, known, settings.get(name, SERVER.default(name)))
            for name, known in gains.items()
        )

    return Simulated(advice, form, grid["spread"])


def _between(name: str, known: Mapping[str, float], text: str) -> float:
    """The gain of a value: as measured, else between its neighbours, by its logarithm."""
    parameter = SERVER.parameters[name]
    by = {parameter.parse(each): gain for each, gain in known.items()}
    value = parameter.parse(text)
    if value in by or isinstance(value, str):
        return by[value]
    numbers = sorted((float(each), gain) for each, gain in by.items() if float(each) > 0)
    places = [log(each) for each, _ in numbers]
    return float(np.interp(log(value), places, [gain for _, gain in numbers]))


@contextmanager
def _proposing(sampler: Callable[[int], Any]) -> Iterator[None]:
    """Let searches propose by another sampler."""
    before = Optimiser.__init__

    def init(self: Optimiser, box: Any, seed: int, *more: Any, **named: Any) -> None:
        before(self, box, seed, *more, **named)
        self.study.sampler = sampler(seed)

    try:
        Optimiser.__init__ = init  # type: ignore[method-assign]
        yield
    finally:
        Optimiser.__init__ = before  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
