"""How often detection is right: precision and recall over cases whose truth is known.

A finding is right if a limiter of the same resource, at a level within 3 per cent, held the load
down and, for a ceiling in the tables, the name is right too. A limiter should be found if it held
for 30 points, 15 of them in a row (`generate.WORTH_FINDING`); reporting a shorter one is neither
right nor wrong.

Cases come from `generate.case` or from another source, such as `lab.scenarios.scenario`, which was
written without knowledge of the detector.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal, Protocol

from limits_generate import case
from limits_truth import Case

from mrtuner.limits.ceilings import CeilingKind, ceilings
from mrtuner.limits.examples.simulate import Limiter
from mrtuner.limits.reached import Pegged, reached_ceilings

NEAR = 0.03
#: Classes of time at a limit: lower bound [h], and name.
LENGTHS: Final = (
    (8, "over 8 h"), (4, "4 to 8 h"), (2, "2 to 4 h"), (1, "1 to 2 h"),
    (0.75, "45 to 59 min"), (0.5, "30 to 44 min"), (0.25, "15 to 29 min"), (0, "under 15 min"),
)  # fmt: skip


class Source(Protocol):
    """A source of cases."""

    def __call__(self, seed: int, /, *, days: int = ...) -> Case: ...


class Detection(StrEnum):
    """What a finding, or a limiter that should be found, turned out to be."""

    RIGHT = "right"
    WRONG = "wrong"
    MISSED = "missed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One finding, or one limiter that was missed."""

    outcome: Detection
    seed: int
    kind: str  # of case
    ceiling: str  # "instance throughput, burst"; "unknown iops"
    length: str  # one of LENGTHS: total time at the limit


@dataclass(slots=True)
class Accuracy:
    """Counts by kind of case."""

    cases: int = 0
    right: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    misnamed: int = 0
    mistakes: list[str] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)

    @property
    def precision(self) -> float:
        """Share of the reported findings that are right."""
        reported = self.right.total() + self.wrong.total()
        return self.right.total() / reported if reported else 1.0

    @property
    def recall(self) -> float:
        """Share of the limiters to be found that were found."""
        there = self.right.total() + self.missed.total()
        return self.right.total() / there if there else 1.0

    def by(self, what: Literal["kind", "ceiling", "length"]) -> Mapping[str, Counter[Detection]]:
        """Right, wrong and missed by kind of case, by ceiling or by time at the limit."""
        found: dict[str, Counter[Detection]] = {}
        for entry in self.entries:
            found.setdefault(getattr(entry, what), Counter())[entry.outcome] += 1
        order = [name for _, name in reversed(LENGTHS)] if what == "length" else sorted(found)
        return {name: found[name] for name in order if name in found}


def measure(
    seeds: Iterable[int], *, days: int | None = None, source: Source = case
) -> Accuracy:  # fmt: skip
    """Draw cases, detect, count; without `days` each case is as long as its source makes it."""
    counted = Accuracy()
    for seed in seeds:
        one = source(seed) if days is None else source(seed, days=days)
        count(counted, one, reached_ceilings(one.series, ceilings(one.instance, one.volume)).pegged)
    return counted


def count(into: Accuracy, one: Case, found: Sequence[Pegged]) -> None:
    """Add one case's findings."""
    into.cases += 1
    left = list(one.truths)
    for pegged in found:
        real = [truth for truth in one.truths if _same(pegged, truth)]
        if real and _named(pegged, real):
            into.right[one.kind] += 1
            into.entries.append(_of_truth(Detection.RIGHT, one, real[0]))
            left = [truth for truth in left if truth not in real]
        elif not real and any(_same(pegged, hint) for hint in one.hints):
            continue
        else:
            into.misnamed += bool(real)
            into.wrong[one.kind] += 1
            into.entries.append(_of_finding(one, pegged))
            into.mistakes.append(f"{one.seed} {one.kind}: {_description(pegged)} is none")
            left = [truth for truth in left if truth not in real]
    for truth in left:
        into.missed[one.kind] += 1
        into.entries.append(_of_truth(Detection.MISSED, one, truth))
        what = f"{truth.part} {truth.resource} {truth.level:.4g}"
        lasted = one.series.minutes(int(truth.minutes.sum()))
        into.mistakes.append(f"{one.seed} {one.kind}: {what} missed, {lasted:.0f} min")


def report(counted: Accuracy) -> list[str]:
    """Lines: right, wrong and missed by kind of case, ceiling and length; then every mistake."""
    lines = [
        f"{counted.cases} cases: precision {counted.precision:.3f}, recall {counted.recall:.3f}, "
        f"{counted.misnamed} misnamed"
    ]
    for what in ("kind", "ceiling", "length"):
        lines += ["", f"{what:<44} right wrong missed"]
        lines += [
            f"{name:<44} {row[Detection.RIGHT]:5d} {row[Detection.WRONG]:5d} "
            f"{row[Detection.MISSED]:6d}"
            for name, row in counted.by(what).items()
        ]
    return [*lines, "", *counted.mistakes]


def length(minutes: float) -> str:
    """Name the class of a time at a limit.

    >>> length(29), length(30), length(60), length(480)
    ('15 to 29 min', '30 to 44 min', '1 to 2 h', 'over 8 h')
    """
    return next(name for hours, name in LENGTHS if minutes >= 60 * hours)


def ceiling_of(one: Case, truth: Limiter) -> str:
    """The name of the known ceiling at a limiter's level; if none, its part and resource."""
    near = [
        known
        for known in ceilings(one.instance, one.volume)
        if (known.part, known.resource) == (truth.part, truth.resource)
        and abs(known.value / truth.level - 1) < NEAR
    ]
    best = min(near, key=lambda known: abs(known.value / truth.level - 1), default=None)
    return best.name if best else f"{truth.part} {truth.resource}"


def _of_truth(outcome: Detection, one: Case, truth: Limiter) -> Entry:
    lasted = one.series.minutes(int(truth.minutes.sum()))
    return Entry(
        outcome=outcome, seed=one.seed, kind=one.kind, ceiling=ceiling_of(one, truth),
        length=length(lasted),
    )  # fmt: skip


def _of_finding(one: Case, pegged: Pegged) -> Entry:
    lasted = one.series.minutes(pegged.plateau.points)
    name = pegged.ceiling.name if pegged.ceiling else f"unknown {pegged.resource}"
    return Entry(
        outcome=Detection.WRONG, seed=one.seed, kind=one.kind, ceiling=name, length=length(lasted)
    )  # fmt: skip


def _same(pegged: Pegged, truth: Limiter) -> bool:
    near = abs(pegged.plateau.level / truth.level - 1) < NEAR
    return pegged.resource is truth.resource and near


def _named(pegged: Pegged, real: Sequence[Limiter]) -> bool:
    """Whether a limiter matches the ceiling's name; a former limit is the instance's."""
    if pegged.ceiling is None:
        return any(truth.part == "unknown" for truth in real)
    if pegged.ceiling.kind is CeilingKind.FORMER:
        return any(truth.part == "instance" for truth in real)
    parts = {one.part for one in (pegged.ceiling, *pegged.others)}
    return any(truth.part in parts for truth in real)


def _description(pegged: Pegged) -> str:
    name = pegged.ceiling.name if pegged.ceiling else "unknown"
    return f"{pegged.resource} {pegged.plateau.level:.4g} ({name}, {pegged.plateau.points} points)"
