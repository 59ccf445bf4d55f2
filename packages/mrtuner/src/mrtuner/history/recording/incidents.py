"""What happened between two samples, or two servers: kind and detail of an event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from mrtuner.history.recording.growth import Key, counters_of
from mrtuner.history.recording.source import Kind, Type

if TYPE_CHECKING:
    from mrtuner.history.recording.sampler import Identity, Row
    from mrtuner.history.recording.source import Source

#: Its entries come and go one by one, which is no reset; STORE tells when all were reset.
STATEMENTS: Final = "statements"
#: What pg_stat_statements says of itself.
STORE: Final = "statements_info"
#: Names in one event.
_NAMED: Final = 3


def change_of(before: Identity, now: Identity) -> tuple[str, str] | None:
    """Return why counters of these two cannot be compared; None if they can.

    Source: xlog.c, StartupXLOG: a server that was not shut down discards its statistics.
    """
    if before.version_num // 10000 != now.version_num // 10000:
        return "upgrade", f"{before.version_num // 10000} to {now.version_num // 10000}"
    if _known_to_differ(before.system, now.system):
        return "replaced", "another cluster responds under this name"
    if before.standby != now.standby:
        return "failover", "a primary responds" if before.standby else "a standby responds"
    if before.started != now.started:
        return _started(now)
    if _known_to_differ(before.checkpointer, now.checkpointer):
        return "crash", f"a process crashed, so all sessions ended; recovered at {now.checkpointer}"
    return None


def _started(now: Identity) -> tuple[str, str]:
    if now.recovered:
        return "crash", f"it had not been shut down; started at {now.started} and recovered"
    return "restart", f"started at {now.started}"


def _known_to_differ(before: str | None, now: str | None) -> bool:
    """Whether two values differ; None is one that the role may not see."""
    return before is not None and now is not None and before != now


def incidents(
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
    """Whether a row's statistics were reset, by their own time of it or by most of its counters.

    A single counter may go down for another reason: the scans of a table's indexes, if one of them
    is dropped.
    """
    if before.reset is not None and after.reset is not None:
        return before.reset != after.reset
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
