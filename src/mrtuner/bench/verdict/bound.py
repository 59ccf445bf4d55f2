"""What limited a load: CPU, storage, locks or the load itself, by CPU time and wait events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from mrtuner.bench.verdict.meanwhile import Meanwhile

#: From this share of all CPUs on there is none left.
_CPU_FULL: Final = 0.85
#: What at least so many of the active sessions were seen in is what they wait for.
_MOST: Final = 0.4
#: Wait events by what stands behind them; LWLock:WALWrite waits for another session's flush.
#: Source: PostgreSQL's documentation, 27.2.3, tables of wait events.
_STORAGE: Final = ("IO:", "LWLock:WALWrite", "IPC:Checkpoint")
_LOCKS: Final = ("Lock:", "LWLock:")
_RUNNING: Final = "running"


#: What held a load up; rate: what was asked for; nothing: nothing was found.
BoundKind = Literal["cpu", "storage", "locks", "rate", "nothing"]


@dataclass(frozen=True, slots=True)
class Bound:
    """What held a load up, and what shows it."""

    kind: BoundKind
    words: str


def bound(seen: Meanwhile, cpus: int, *, rated: bool) -> Bound:
    """From what was seen beside the runs of one side on so many CPUs.

    `rated` says that a rate was asked for, which binds where nothing else does.
    """
    shares = _shares(dict(seen.events))
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
    """Of the active sessions seen: running, waiting for storage, waiting for each other."""
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
