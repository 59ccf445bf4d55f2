"""What a history tells of the last day. Only with --history."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from mrtuner.checks.areas.connections import slots
from mrtuner.checks.areas.storage import DATABASES_BY_SIZE
from mrtuner.checks.catalogue import HISTORY, CannotJudge, check, known_part
from mrtuner.checks.state import Recorded, State
from mrtuner.findings import Finding, Severity
from mrtuner.limits.sentences import level
from mrtuner.postgres.quoting import identifier
from mrtuner.units import pretty_bytes, pretty_duration
from mrtuner.wording import as_name, plural

if TYPE_CHECKING:
    from mrtuner.history.analysis.free_space import FreeSpace
    from mrtuner.history.analysis.incidents import Incident
    from mrtuner.limits import Limits

#: A history that ends longer before now is not one of now [s].
_STILL: Final = 600.0
#: An incident that was seen in the last sample of a source, each minute or so, may still go on.
_LAST: Final = timedelta(seconds=90)
#: These are to do for the whole day, the others only while they may go on.
_GRAVE: Final = frozenset({"crash", "sessions refused"})
#: What is shown of the time around an incident.
_AROUND: Final = timedelta(minutes=10)
#: A volume that is full within this time deserves a plan, and haste [s]; chosen, not measured.
_WEEK: Final = 7 * 86_400.0
_DAY: Final = 86_400.0
#: A forecast reaches no further ahead than so many times what was seen; chosen, not measured.
_AHEAD: Final = 7
_SHOWN: Final = 5


def _recorded(state: State) -> Recorded:
    return known_part(state, HISTORY, state.recorded)


@check(
    "incident",
    judged="a lock queue of 5 s, twice the usual sessions or all that may be, refused sessions, "
    "deadlocks, a statement at twice its usual time, three checkpoints before their time, a "
    "restart or a crash within a day",
    source="the history; the thresholds are chosen",
    remedy="Open its minute in the viewer, and end what caused it.",
    needs=(HISTORY,),
)
def incident(state: State) -> Iterator[Finding]:
    """Something went wrong within the last day, as the history tells. Only with --history."""
    found = _recorded(state)
    now = state.at - found.end.timestamp() <= _STILL
    for one in found.incidents:
        still = now and one.end > one.begin and found.end - one.end <= _LAST
        yield Finding(
            id="incident",
            severity=Severity.TO_DO if still or one.kind in _GRAVE else Severity.TO_KNOW,
            text=f"{_when(one)} UTC: {one.text}",
            consequence="it may go on" if still else "it may come again",
            since=one.begin.timestamp(),
            basis=f"recorded by mrtuner record since {found.begin:%Y-%m-%d %H:%M:%S} UTC",
            remedy=(_shown(found, one),),
        )
    lacking = list(found.not_looked_for)
    if not now:
        lacking.insert(0, f"the history ends at {found.end:%Y-%m-%d %H:%M:%S} UTC")
    if lacking:
        status = shlex.join(["mrtuner", "history", "status", "--dir", found.store])
        raise CannotJudge("; ".join(lacking), f"See {status}")


def _when(one: Incident) -> str:
    begin, end = f"{one.begin:%H:%M:%S}", f"{one.end:%H:%M:%S}"
    return begin if begin == end else f"{begin} to {end}"


def _shown(found: Recorded, one: Incident) -> str:
    """Return the command that shows an incident, and ten minutes before and after it."""
    until = min(one.end + _AROUND, found.end)
    minutes = math.ceil((until - one.begin + _AROUND).total_seconds() / 60)
    return shlex.join([
        "mrtuner", "history", "show", "--dir", found.store, "--instance", found.instance,
        "--since", f"{minutes}min", "--until", f"{until:%Y-%m-%dT%H:%M:%S}",
    ])  # fmt: skip


@check(
    "volume-fills",
    judged="a volume is full within a week (danger: a day) at the pace of the last day; no further "
    "ahead than seven times what was recorded",
    source="the history; the times are chosen",
    remedy="Enlarge the volume, or remove what grows.",
    needs=(HISTORY,),
)
def volume_fills(state: State) -> Iterator[Finding]:
    """A volume of the server's host fills up at the pace of the last day. Only with --history."""
    found = _recorded(state).filesystems
    if not found:
        raise CannotJudge(
            "the volumes of the server's host were not recorded",
            "Run mrtuner record on the server's host, or skip it: --skip volume-fills.",
        )
    yield from filling("volume-fills", found)


def filling(name: str, volumes: Iterable[FreeSpace]) -> Iterator[Finding]:
    """Yield the volumes that are full soon, as findings of the check `name`."""
    for one in volumes:
        if one.full_in is None or one.full_in > min(_WEEK, one.seen * _AHEAD):
            continue
        lost = one.free / one.full_in * _DAY
        yield Finding(
            id=name,
            severity=Severity.DANGER if one.full_in <= _DAY else Severity.TO_DO,
            text=f"{one.mount} has {pretty_bytes(one.free)} free of {pretty_bytes(one.size)} and "
            f"loses {pretty_bytes(round(lost))} a day",
            consequence="when it is full, statements fail and the server may stop",
            harm_in=one.full_in,
            cost=1 - one.free / one.size,
            basis=f"a line through the free space of {pretty_duration(one.seen)}",
            remedy=(
                "Enlarge the volume, or find what grows: the viewer's screen I/O, or:",
                DATABASES_BY_SIZE,
            ),
        )


@check(
    "ceiling-reached",
    judged="the load of a day ran flat at a hard limit of the host, or at a level that no known "
    "limit explains",
    source="mrtuner limits: docs, Find the limit",
    remedy="A larger class or volume, or less load, as mrtuner limits compares them.",
    needs=(HISTORY,),
)
def ceiling_reached(state: State) -> Iterator[Finding]:
    """A hard limit of the host or of its volume held the load down. Only with --history."""
    found = _recorded(state)
    if found.limits is None or not found.limits.series.points:
        raise CannotJudge(found.no_limits)
    yield from ceiling("ceiling-reached", found.limits, "recorded by mrtuner record")


def ceiling(name: str, found: Limits, source: str) -> Iterator[Finding]:
    """Yield the ceilings that were reached, as one finding of the check `name`."""
    reached = found.pegged
    if reached:
        yield Finding(
            id=name,
            severity=Severity.TO_DO,
            text=found.verdict,
            consequence="statements wait for it, and settings cannot help",
            cost=reached[0].plateau.share,
            evidence=tuple(
                f"{one.resource} at {level(one)}"
                + (
                    f", the limit of {one.ceiling.name}: {one.ceiling.note or one.ceiling.source}"
                    if one.ceiling
                    else ""
                )
                for one in reached[:_SHOWN]
            ),
            basis=source
            + ("" if any(one.confirmed for one in reached) else "; nothing else confirms it"),
            remedy=found.advice,
        )
    if found.unjudged:
        lacking = [f"{one.name}: {one.why}" for one in found.unjudged]
        raise CannotJudge("; ".join(lacking), found.unjudged[0].supply)


@check(
    "pools-exceed-limit",
    judged="the highest numbers of sessions that each role had within a day add up to more than "
    "ordinary roles may open",
    source="documentation: Connections and Authentication, max_connections",
    remedy="Smaller pools, or a CONNECTION LIMIT for each role.",
    needs=(HISTORY,),
)
def pools_exceed_limit(state: State) -> Iterator[Finding]:
    """Pools of several roles can together open more sessions than there are: each did so within the
    last day, at another time than the others. Only with --history.
    """
    peaks = _recorded(state).role_peaks
    if peaks is None:
        raise CannotJudge("sessions were not counted by role", "GRANT pg_read_all_stats.")
    most, together = slots(state), sum(one.sessions for one in peaks)
    if together <= most or len(peaks) < 2:
        return
    first = peaks[0]
    yield Finding(
        id="pools-exceed-limit",
        severity=Severity.TO_KNOW,
        text=f"{plural(len(peaks), 'role')} had {together:,} sessions at their peaks of a day, "
        f"added up; there are {most:,}",
        consequence="if they peak at the same time, the server refuses new sessions",
        cost=1 - most / together,
        evidence=tuple(
            f"role {as_name(one.role)}: {plural(one.sessions, 'session')} at {one.at:%H:%M:%S} UTC"
            for one in peaks[:_SHOWN]
        ),
        basis="recorded by mrtuner record, once a minute",
        remedy=(
            f"Smaller pools that fit together, or ALTER ROLE {identifier(first.role)} CONNECTION "
            "LIMIT for each, so that one cannot take what another needs",
        ),
    )
