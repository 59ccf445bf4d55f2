"""How near an instance is to each limit: over time for a screen, in its last hour for the fleet.

Limits that are recorded with their use come from `history.analysis.headroom`. What disk and CPU
carried is divided by the ceiling that held at that moment, one of four:

- the class, the volume or the control group sets it;
- the burst sets it while more than the baseline was carried;
- the class set it before December 2019, and `limits` found that the instance still has it;
- nobody published it, and `limits` found the level that holds the load down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Final

from mrtuner.answers.ceilings import LONGEST, Judged, judged, known_ceilings
from mrtuner.answers.host_charts import HOST_CHARTS
from mrtuner.history.analysis import headroom
from mrtuner.history.analysis.changes import machine_changes
from mrtuner.history.analysis.period import HistoryPeriod
from mrtuner.history.analysis.series import ChartLine, Grid
from mrtuner.history.reading import History
from mrtuner.history.recorded.host_metrics import ceiling_changes
from mrtuner.limits.assess import Limits
from mrtuner.limits.ceilings import Ceiling, CeilingKind, Resource
from mrtuner.limits.levels import HIGH
from mrtuner.limits.reached import Pegged
from mrtuner.limits.sentences import quantity

#: What is divided by a ceiling: its name among the shares, the chart whose lines add up to it, and
#: the resource.
CARRIED: Final = (
    ("requests to the disk", "iops", Resource.IOPS),
    ("throughput of the disk", "throughput", Resource.THROUGHPUT),
    ("CPU", "cpu", Resource.CPU),
)
#: Changes of these alone change an instance's ceilings.
_SETS_CEILINGS: Final = frozenset(
    {"class_name", "storage_type", "allocated_storage", "iops", "storage_throughput"}
)
#: Only this many configurations are judged, the last ones: each takes as long as a whole screen.
_MOST_JUDGED: Final = 8


@dataclass(frozen=True, slots=True)
class Share:
    """The share of a limit over time, and what the limit is."""

    series: ChartLine
    limit: str


def over_time(
    history: History, over: Grid, carried: Mapping[str, Sequence[ChartLine]],
    parts: Sequence[Configuration],
) -> list[Share]:  # fmt: skip
    """Return the share of each limit.

    `carried` has the lines of the host's charts, by name; `parts` is what `configurations` found.
    """
    meaning = {one.name: one.meaning for one in headroom.LIMITS}
    found = [Share(one, meaning[one.name]) for one in headroom.shares(history, over)]
    known = {one.series.name for one in found}
    return found + [
        one for one in _of_ceilings(over, carried, parts) if one.series.name not in known
    ]


def _of_ceilings(
    over: Grid, carried: Mapping[str, Sequence[ChartLine]], parts: Sequence[Configuration]
) -> Iterator[Share]:
    """Yield what disk and CPU carried, as a share of what they could carry at that moment."""
    for name, chart, resource in (one for one in CARRIED if carried.get(one[1])):
        per_unit = 1 / next(one.scale for one in HOST_CHARTS if one.name == chart)
        held = [one.ceilings(resource) for one in parts]
        values: list[float | None] = []
        labels = Counter[str]()
        steps = zip(*(one.values for one in carried[chart]), strict=True)
        for at, step in zip(over.times, steps, strict=True):
            level = _sum(step, per_unit)
            middle = at + over.step / 2
            now = next((one for one in held if middle < one.end), held[-1])
            ceiling = None if level is None else now.at(level, at, at + over.step)
            values.append(None if level is None or ceiling is None else level / ceiling.value)
            labels.update([] if ceiling is None else [ceiling.label])
        if labels:
            yield Share(
                ChartLine(name, values), "; ".join(text for text, _ in labels.most_common())
            )


def _sum(values: Sequence[float | None], scale: float) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) * scale if len(known) == len(values) else None


def label(resource: Resource, name: str, value: float) -> str:
    """Return the label of a ceiling in charts and tables."""
    return f"{name} {quantity(resource, value)}"


@dataclass(frozen=True, slots=True)
class CeilingHeld:
    """A ceiling that held at a moment, in its own unit."""

    value: float
    label: str


@dataclass(frozen=True, slots=True)
class CeilingRange:
    """The sustained ceiling, and that of the burst, which is the same if there is no burst."""

    baseline: CeilingHeld
    burst: CeilingHeld

    def at(self, level: float) -> CeilingHeld:
        """Return the ceiling that holds at a level: that of the burst above the baseline."""
        return self.baseline if level <= HIGH * self.baseline.value else self.burst


def ceiling_range(
    known: Iterable[Ceiling], resource: Resource, *, former: bool
) -> CeilingRange | None:
    """Return the ceilings of a resource; None if none is known.

    `former`: the instance still has its limits from before December 2019.
    """
    parts: dict[str, list[Ceiling]] = {}
    for one in known:
        if one.resource is resource:
            parts.setdefault(one.part, []).append(one)
    if not parts:
        return None
    kept = [
        [one for one in own if (one.kind is CeilingKind.FORMER) == former] or own
        for own in parts.values()
    ]
    # Of several parts, the one that allows least decides.
    lowest = min((min(own, key=_value) for own in kept), key=_value)
    highest = min((max(own, key=_value) for own in kept), key=_value)
    return CeilingRange(_held(lowest), _held(highest))


def _value(of: Ceiling) -> float:
    return of.value


def _held(of: Ceiling) -> CeilingHeld:
    return CeilingHeld(of.value, label(of.resource, of.name, of.value))


def is_former(found: Iterable[Pegged], resource: Resource) -> bool:
    """Whether a limit from before December 2019 was reached: the instance then has all of them."""
    return any(
        one.resource is resource
        and one.ceiling is not None
        and one.ceiling.kind is CeilingKind.FORMER
        for one in found
    )


# Over time.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ceilings:
    """The ceilings of one resource in one configuration."""

    end: float  # of the configuration, seconds since 1970
    known: CeilingRange | None
    learnt: Sequence[tuple[float, float, CeilingHeld]]  # when an unpublished one held, from and to

    def at(self, level: float, begin: float, end: float) -> CeilingHeld | None:
        """Return the learnt ceiling that held for half of this time or more, else the known one."""
        for held in {one[2]: None for one in self.learnt}:
            spans = [(first, last) for first, last, of in self.learnt if of is held]
            inside = sum(max(0.0, min(end, last) - max(begin, first)) for first, last in spans)
            if inside >= (end - begin) / 2:
                return held
        return None if self.known is None else self.known.at(level)


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A time in which an instance had one class and volume, and what `limits` found in it."""

    end: float  # seconds since 1970
    known: Sequence[Ceiling]
    judged: Judged | None  # None: too many changes came later

    @property
    def limits(self) -> Limits | None:
        return None if self.judged is None else self.judged.limits

    def ceilings(self, resource: Resource) -> _Ceilings:
        pegged = () if self.limits is None else self.limits.pegged
        known = ceiling_range(self.known, resource, former=is_former(pegged, resource))
        return _Ceilings(end=self.end, known=known, learnt=list(self._learnt(resource)))

    def _learnt(self, resource: Resource) -> Iterator[tuple[float, float, CeilingHeld]]:
        if self.limits is None:
            return
        for one in self.limits.pegged:
            if one.resource is resource and one.ceiling is None:
                level = one.plateau.level
                held = CeilingHeld(level, label(resource, f"unknown {resource} ceiling", level))
                for span in one.plateau.spans:
                    first, last = (self.limits.series.at(point).timestamp() for point in span)
                    yield first, last, held


def configurations(history: History, about: HistoryPeriod) -> Iterator[Configuration]:
    """Yield the configurations of a period, oldest first; one if nothing was changed."""
    cuts = _cuts(history, replace(about, begin=about.begin - LONGEST))
    begins = [about.begin, *(at for at in cuts if about.begin < at < about.end)]
    earliest = max((at for at in cuts if at <= about.begin), default=None)
    for place, (begin, end) in enumerate(pairwise([*begins, about.end])):
        within = replace(about, begin=begin, end=end)
        late = place >= len(begins) - _MOST_JUDGED
        found = judged(history, within, since=begin if place else earliest) if late else None
        limits = None if found is None else found.limits
        yield Configuration(
            end=end.timestamp(), judged=found,
            known=known_ceilings(history, within) if limits is None else limits.ceilings,
        )  # fmt: skip


def _cuts(history: History, about: HistoryPeriod) -> list[datetime]:
    changed = {one.at for one in machine_changes(history, about) if one.name in _SETS_CEILINGS}
    return sorted(changed | ceiling_changes(history, about))
