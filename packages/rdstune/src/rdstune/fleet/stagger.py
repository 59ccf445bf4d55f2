"""A calendar of maintenance windows in which related instances take turns.

Instances are related when they are in one cluster, are a primary and its replicas, or carry the
same value of a tag that the user names. Two of them should not be under maintenance at the same
time, and maintenance may overrun its window: so their windows are kept a gap apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Annotated, Final

from mrtuner.aws.rows import Instance
from mrtuner.catalog.classes import POSTGRES
from mrtuner.described import Doc
from rdstune.fleet.maintenance_windows import WEEK, Window

#: Minutes between the end of one window and the start of the next. One forced patch took 10 to
#: 15 minutes, longer where instances queued; a gap as long as the shortest window is enough.
GAP: Final = 30
_STEP: Final = 30  # minutes between two candidate times


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarEntry:
    """One instance in the calendar; its window must stay clear of others in its `groups`."""

    identifier: str
    groups: frozenset[str]
    window: Window
    backup: Window | None = None
    stays: bool = False  # moved only if it must be: production, primaries
    cluster: bool = False  # a Multi-AZ DB cluster, which has one window for all its instances


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowClash:
    """Two instances that belong together and whose windows are too close."""

    first: Annotated[str, Doc("an instance")]
    second: Annotated[str, Doc("the other one")]
    group: Annotated[str, Doc("why they belong together")]
    apart: Annotated[int, Doc("minutes between the windows; 0: they touch or overlap")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A new window for one instance; None where the week has no room for it."""

    identifier: str
    now: Window
    to: Window | None
    cluster: bool = False

    @property
    def command(self) -> str | None:
        """The command that moves it. This causes no outage unless the new window is now."""
        if self.to is None:
            return None
        kind = "db-cluster" if self.cluster else "db-instance"
        return (
            f"aws rds modify-{kind} --{kind}-identifier {self.identifier}"
            f" --preferred-maintenance-window {self.to}"
        )


def places(
    instances: Iterable[Instance], *, tag: str | None = None, stays: Iterable[str] = ()
) -> tuple[CalendarEntry, ...]:
    """Return the instances that have a window, with their groups; those in `stays` move last.

    The instances of a Multi-AZ DB cluster are one entry: only the cluster can be modified.
    Source: RDS User Guide, "Modifying a Multi-AZ DB cluster".
    """
    keep = frozenset(stays)
    found: dict[str, CalendarEntry] = {}
    for one in instances:
        if not one.maintenance_window:
            continue
        whole = one.cluster if one.engine == POSTGRES else None
        name = whole or one.identifier
        kept = name in keep or one.identifier in keep
        found[name] = CalendarEntry(
            identifier=name,
            groups=frozenset(_groups(one, tag)),
            window=Window.parse(one.maintenance_window),
            backup=Window.parse(one.backup_window) if one.backup_window else None,
            stays=kept or (name in found and found[name].stays),
            cluster=whole is not None,
        )
    return tuple(found.values())


def _groups(instance: Instance, tag: str | None) -> Iterator[str]:
    if instance.cluster:
        yield f"cluster {instance.cluster}"
    if instance.replica_of:
        yield f"replicas of {instance.replica_of.rpartition(':')[2]}"  # an ARN of another region
    if instance.replicas:
        yield f"replicas of {instance.identifier}"
    if tag is not None and tag in instance.tags:
        yield f"{tag} = {instance.tags[tag]}"


def clashes(calendar: Sequence[CalendarEntry], *, gap: int = GAP) -> tuple[WindowClash, ...]:
    """Return every pair within a group that is less than `gap` minutes apart."""
    return tuple(
        WindowClash(
            first=one.identifier,
            second=other.identifier,
            group=min(one.groups & other.groups),
            apart=one.window.distance(other.window),
        )
        for one, other in combinations(calendar, 2)
        if _too_near(one, other, gap)
    )


def _too_near(one: CalendarEntry, other: CalendarEntry, gap: int) -> bool:
    return bool(one.groups & other.groups) and one.window.distance(other.window) < gap


def staggered(calendar: Sequence[CalendarEntry], *, gap: int = GAP) -> tuple[Move, ...]:
    """Return the moves that keep windows apart, placing those with `stays` first, then by name.

    An instance keeps its window if no earlier one is too close; else it moves to the nearest time
    of the week, later before earlier, that is clear of its group and of its own backup.
    """
    settled: list[CalendarEntry] = []
    moves: list[Move] = []
    for place in sorted(calendar, key=lambda one: (not one.stays, one.identifier)):
        found = _nearest(place, settled, gap)
        if found != place.window:
            moves.append(
                Move(
                    identifier=place.identifier, now=place.window, to=found, cluster=place.cluster
                )
            )  # fmt: skip
        settled.append(_at(place, found or place.window))
    return tuple(moves)


def _nearest(place: CalendarEntry, settled: Sequence[CalendarEntry], gap: int) -> Window | None:
    for shift in _shifts():
        candidate = _at(place, place.window.moved(shift))
        if shift and candidate.backup and candidate.window.overlaps(candidate.backup):
            continue
        if not any(_too_near(candidate, other, gap) for other in settled):
            return candidate.window
    return None


def _shifts() -> Iterator[int]:
    """Yield 0, 30, -30, 60, -60 … minutes, once around the week."""
    yield 0
    for distance in range(_STEP, WEEK // 2 + 1, _STEP):
        yield distance
        yield -distance


def _at(place: CalendarEntry, window: Window) -> CalendarEntry:
    return replace(place, window=window)
