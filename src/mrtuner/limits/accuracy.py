"""How often detection is right: precision and recall over cases whose truth is known.

A finding is right when a limiter of the same resource, at a level within 3 per cent, held the
load down, and when a ceiling that a table knows bears its right name. A limiter is to be found
when it held for 30 points, 15 of them in one go (`generate.WORTH_FINDING`); shorter ones are
neither right nor wrong to report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mrtuner.limits.ceilings import Kind, ceilings
from mrtuner.limits.findings import Pegged, find
from mrtuner.limits.generate import Case, case
from mrtuner.limits.simulate import Limiter

NEAR = 0.03


@dataclass(slots=True)
class Accuracy:
    """Counts by kind of case."""

    cases: int = 0
    right: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    misnamed: int = 0
    mistakes: list[str] = field(default_factory=list)

    @property
    def precision(self) -> float:
        """Of what was reported, the share that is right."""
        reported = self.right.total() + self.wrong.total()
        return self.right.total() / reported if reported else 1.0

    @property
    def recall(self) -> float:
        """Of what was to be found, the share that was."""
        there = self.right.total() + self.missed.total()
        return self.right.total() / there if there else 1.0


def measure(seeds: Iterable[int], *, days: int = 4) -> Accuracy:
    """Generate, look, count."""
    counted = Accuracy()
    for seed in seeds:
        one = case(seed, days=days)
        count(counted, one, find(one.series, ceilings(one.instance, one.volume)).pegged)
    return counted


def count(into: Accuracy, one: Case, found: Sequence[Pegged]) -> None:
    """Add one case's findings."""
    into.cases += 1
    left = list(one.truths)
    for pegged in found:
        real = [truth for truth in one.truths if _same(pegged, truth)]
        if real and _named(pegged, real):
            into.right[one.kind] += 1
            left = [truth for truth in left if truth not in real]
        elif not real and any(_same(pegged, hint) for hint in one.hints):
            continue
        else:
            into.misnamed += bool(real)
            into.wrong[one.kind] += 1
            into.mistakes.append(f"{one.seed} {one.kind}: {_words(pegged)} is none")
            left = [truth for truth in left if truth not in real]
    for truth in left:
        into.missed[one.kind] += 1
        what = f"{truth.part} {truth.resource} {truth.level:.4g}"
        into.mistakes.append(f"{one.seed} {one.kind}: {what} missed, {truth.minutes.sum()} min")


def _same(pegged: Pegged, truth: Limiter) -> bool:
    near = abs(pegged.plateau.level / truth.level - 1) < NEAR
    return pegged.resource is truth.resource and near


def _named(pegged: Pegged, real: Sequence[Limiter]) -> bool:
    """Whether one of them is what the ceiling says; a former limit is the instance's."""
    if pegged.ceiling is None:
        return any(truth.part == "unknown" for truth in real)
    if pegged.ceiling.kind is Kind.FORMER:
        return any(truth.part == "instance" for truth in real)
    parts = {one.part for one in (pegged.ceiling, *pegged.others)}
    return any(truth.part in parts for truth in real)


def _words(pegged: Pegged) -> str:
    name = pegged.ceiling.name if pegged.ceiling else "unknown"
    return f"{pegged.resource} {pegged.plateau.level:.4g} ({name}, {pegged.plateau.points} points)"
