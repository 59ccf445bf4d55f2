"""What limited a load: CPU, storage, locks or the load itself, by CPU time and wait events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from mrtuner.bench.verdict.meanwhile import SeenMeanwhile

#: If this share of all CPUs is busy, the CPU is the limit.
_CPU_FULL: Final = 0.85
#: What at least this share of the active sessions waits for is the limit.
_MOST: Final = 0.4
#: Wait events by their cause; LWLock:WALWrite waits for another session's flush.
#: Source: PostgreSQL's documentation, 27.2.3, tables of wait events.
_STORAGE: Final = ("IO:", "LWLock:WALWrite", "IPC:Checkpoint")
_LOCKS: Final = ("Lock:", "LWLock:")
_RUNNING: Final = "running"


#: What limited a load; rate: the requested rate; nothing: no limit was found.
BoundKind = Literal["cpu", "storage", "locks", "rate", "nothing"]


@dataclass(frozen=True, slots=True)
class Bound:
    """What limited a load, and the evidence."""

    kind: BoundKind
    words: str


def bound(seen: SeenMeanwhile, cpus: int, *, rated: bool) -> Bound:
    """Find the limit from what was seen during the runs of one side on this many CPUs.

    `rated` says that a rate was requested, which is the limit if nothing else is.
    """
    shares = _shares({one.event: one.share for one in seen.events})
    busy = None if seen.cpus is None else seen.cpus / cpus
    where = f", {seen.cpus:.1f} of {cpus} CPUs busy" if seen.cpus is not None else ""
    kind, share = max(shares.items(), key=lambda item: item[1])
    if busy is not None and busy >= _CPU_FULL:
        return Bound("cpu", f"CPU: {min(busy, 1):.0%} of {cpus} busy")
    if share >= _MOST and kind == "cpu":
        return Bound("cpu", f"CPU: {share:.0%} of active sessions ran{where}")
    if share >= _MOST:
        return Bound(kind, f"{kind}: {share:.0%} of active sessions waited for it{where}")
    if rated:
        return Bound("rate", f"the requested rate{where}")
    return Bound("nothing", f"nothing in particular{where}")


def _shares(events: Mapping[str, float]) -> dict[BoundKind, float]:
    """Shares of the active sessions seen: running, waiting for storage, waiting for locks."""
    shares: dict[BoundKind, float] = {
        "cpu": events.get(_RUNNING, 0.0),
        "storage": 0.0,
        "locks": 0.0,
    }
    for name, share in events.items():
        if name.startswith(_STORAGE):
            shares["storage"] += share
        elif name.startswith(_LOCKS):
            shares["locks"] += share
    return shares
