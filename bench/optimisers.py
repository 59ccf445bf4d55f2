"""Which optimiser finds more on the simulated surface of the tests, in so many minutes of search?

    python bench/optimisers.py                                # what the search uses, and chance
    python bench/optimisers.py --sampler cmaes                # pip install cmaes
    python bench/optimisers.py --sampler gp --seeds 30        # pip install torch

Printed for each: the gain of what is proposed for confirmation, without noise, over the seeds. The
surface has an invented form (packages/mrtuner/tests/search/search_surface.py), so this compares
optimisers and promises nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean, median
from typing import Any

import optuna

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "packages" / "mrtuner" / "tests" / "search"))

from search_surface import ADVICE, Surface, new_search, procedure, truth  # noqa: E402

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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sampler", action="append", choices=SAMPLERS)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seeds", type=int, default=60)
    options = parser.parse_args()
    for name in options.sampler or ("tpe", "random"):
        with _proposing(SAMPLERS[name]):
            gains = [_gain(seed, options.minutes) for seed in range(101, 101 + options.seeds)]
        sys.stdout.write(
            f"{name:7} median {median(gains):.3f}  mean {fmean(gains):.3f}  "
            f"worst {min(gains):.3f}\n"
        )
        sys.stdout.flush()


def _gain(seed: int, minutes: float) -> float:
    search = procedure(new_search(seed, minutes), Surface(seed)).run()
    return truth(search.side(search.candidate or 0)) - truth(ADVICE)


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
