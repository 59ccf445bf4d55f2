"""What happened between two samples, or two servers: kind and detail of an event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from mrtuner.history.moments import moment
from mrtuner.history.recording.growth import Key, counters_of
from mrtuner.history.recording.source import Kind, Type
from mrtuner.history.store.layout import MICRO

if TYPE_CHECKING:
    from mrtuner.history.recording.sampler import Identity, Row
    from mrtuner.history.recording.source import Source

#: Its entries come and go one by one, which is no reset; STORE tells when all were reset.
STATEMENTS: Final = "statements"
#: What pg_stat_statements says of itself.
STORE: Final = "statements_info"
#: Names in one event.
_NAMED: Final = 3
#: How far the clocks of a server and of the recorder may differ [µs].
_CLOCKS: Final = 600 * MICRO


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Why counters of two servers, or of one before and after, cannot be compared."""

    kind: str
    detail: str
    at: int | None = None  # microseconds since 1970; None: it is only known to have happened


def change_of(before: Identity, now: Identity, last: int | None) -> Change | None:
    """Return why counters of these two cannot be compared; None if they can.

    `last`: when `before` was last sampled [µs since 1970], if it was.

    Source: xlog.c, StartupXLOG: a server that was not shut down discards its statistics.
    """
    started = microseconds(now.started)
    if before.version_num // 10000 != now.version_num // 10000:
        versions = f"{before.version_num // 10000} to {now.version_num // 10000}"
        return Change(kind="upgrade", detail=versions, at=started)
    if _known_to_differ(before.system, now.system):
        return Change(kind="replaced", detail="another cluster responds under this name")
    if before.standby != now.standby:
        role = "a primary responds" if before.standby else "a standby responds"
        promoted = before.standby and before.started == now.started
        return Change(kind="failover", detail="it was promoted" if promoted else role)
    if before.started != now.started:
        return _started(before, now, last)
    if _known_to_differ(before.checkpointer, now.checkpointer):
        return Change(
            kind="crash", at=microseconds(now.checkpointer),
            detail="a process crashed, so all sessions ended; recovery began at "
            f"{_clock(now.checkpointer)}",
        )  # fmt: skip
    return None


def _started(before: Identity, now: Identity, last: int | None) -> Change:
    """Tell a restart from another server of the cluster: an address can lead to several.

    That one ran already when the first was started, or when it was last sampled.
    """
    started, earlier = microseconds(now.started), microseconds(before.started)
    known = [one for one in (earlier, None if last is None else last - _CLOCKS) if one is not None]
    if started is not None and known and started < max(known):
        return Change(
            kind="replaced",
            detail=f"another server responds; it was started at {_clock(now.started)}",
        )
    if now.recovered:
        return Change(
            kind="crash", at=started,
            detail=f"it had not been shut down; started at {_clock(now.started)} and recovered",
        )  # fmt: skip
    return Change(kind="restart", detail=f"started at {_clock(now.started)}", at=started)


def microseconds(text: str | None) -> int | None:
    """Convert a time as the server wrote it to µs since 1970; None if it is not a time."""
    try:
        return None if text is None else round(datetime.fromisoformat(text).timestamp() * MICRO)
    except ValueError:
        return None


def _clock(text: str | None) -> str:
    """Return a time as the server wrote it in the form of all sentences."""
    at = microseconds(text)
    return str(text) if at is None else f"{moment(at):%Y-%m-%d %H:%M:%S} UTC"


def _known_to_differ(before: str | None, now: str | None) -> bool:
    """Whether two values differ; None is one that the role may not see."""
    return before is not None and now is not None and before != now


def events_between(
    source: Source, before: Mapping[Key, Row] | None, after: Mapping[Key, Row]
) -> Iterator[tuple[str, str]]:
    """Yield what two samples of a source tell: its statistics were reset, statements evicted."""
    if before is None or source.program is not None or source.name == STATEMENTS:
        return
    again = [key for key, row in after.items() if key in before
             and _all_reset(source, before[key], row)]  # fmt: skip
    if again:
        yield "reset", f"statistics of {source.name} were reset{_named(source, again)}"
    elif source.name == STORE:
        for key, row in after.items():
            evicted = _evicted(source, before.get(key), row)
            if evicted:
                yield "eviction", f"pg_stat_statements evicted statements {evicted} times"


def _all_reset(source: Source, before: Row, after: Row) -> bool:
    """Whether a row's statistics were reset, by what the source says of it or by most counters.

    A single counter may go down for another reason: the scans of a table's indexes, if one of them
    is dropped.
    """
    if before.reset is not None and after.reset not in (None, before.reset):
        return True
    pairs = list(zip(counters_of(source, before), counters_of(source, after), strict=True))
    counted = [(old, new) for old, new in pairs if old and new is not None]
    return 2 * len([new for old, new in counted if new < old]) > len(counted)


def _evicted(source: Source, before: Row | None, after: Row) -> int:
    (now,) = counters_of(source, after)
    (then,) = counters_of(source, before) if before is not None else (0,)
    return int(now) - int(then)


def _named(source: Source, keys: list[Key]) -> str:
    """Return what the rows are about, the first ones by name; nothing if there is only one row."""
    shown = [one.type is Type.TEXT for one in source.of(Kind.KEY)]
    if not shown:
        return ""
    names = [
        ".".join(str(part) for part, text in zip(key, shown, strict=True) if text and part)
        for key in keys[:_NAMED]
    ]
    more = f" and {len(keys) - _NAMED} others" if len(keys) > _NAMED else ""
    return f": {', '.join(name or '(shared)' for name in names)}{more}"
