"""Server settings with which autovacuum keeps up with the dead rows of all tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Annotated, Final

from mrtuner.described import Doc
from mrtuner.units import pretty_duration
from mrtuner.vacuum.model import ServerSetting, TableKind, TableReport, Work
from mrtuner.vacuum.pace import cost_settings

COST_LIMIT: Final = "autovacuum_vacuum_cost_limit"
#: Without these, autovacuum does not run.
SWITCHES: Final = frozenset({"autovacuum", "track_counts"})
#: Share of the cost limit to use: the rest is for peaks, freezing and backlog.
ROOM: Final = 0.5
#: The server's maximum. Source: guc_parameters.dat.
_MOST: Final = 10_000
#: A vacuum longer than this occupies a worker while others wait [s].
_LONG: Final = 600.0
_MOST_WORKERS: Final = 10
#: From this many dead rows per nap on, a shorter nap [s] is worth the launcher's work.
_SWAMP: Final = 10_000
_NAP: Final = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumCapacity:
    """The vacuum work of the whole database compared with what the cost limit allows."""

    used: Annotated[
        float | None, Doc("share of the cost limit that vacuum needs; null without a throttle")
    ]
    used_then: Annotated[float | None, Doc("the same with the advice in force")]
    limit: Annotated[float, Doc("the cost limit that is advised")]
    delay_ms: Annotated[float, Doc("the cost delay in milliseconds")]
    keeps_up: Annotated[bool, Doc("whether vacuum keeps up with the advice in force")]
    words: Annotated[str, Doc("the same in a sentence")]


def capacity(
    reports: Sequence[TableReport], toast_then: Sequence[Work], settings: Mapping[str, str]
) -> tuple[VacuumCapacity, tuple[ServerSetting, ...]]:
    """Whether autovacuum keeps up, and the server settings to change."""
    now = [one.now for one in reports] + [one.toast_now for one in reports if one.toast_now]
    then = [one.then for one in reports] + list(toast_then)
    prices = cost_settings(settings, {})
    if prices.speed is None:
        words = "autovacuum_vacuum_cost_delay is 0: vacuum is not throttled"
        free = VacuumCapacity(
            used=None, used_then=None, limit=prices.limit, delay_ms=0, keeps_up=True, words=words
        )
        others = (*_switched_off(settings), *_workers(then, settings, None))
        return free, (*others, *_naptime(reports, settings))
    used, used_then = (_spent(work) / prices.speed for work in (now, then))
    limit = _cost_limit(used_then, prices.limit)
    workers = list(_workers(then, settings, prices.speed * limit / prices.limit))
    if workers:
        limit = max(limit, _as_the_workers(prices.limit, workers[0]))
    after = used_then * prices.limit / limit
    found = VacuumCapacity(
        used=used,
        used_then=after,
        limit=limit,
        delay_ms=prices.delay_ms,
        keeps_up=after <= ROOM,
        words=_capacity_text(used, after, limit),
    )
    return found, (
        *_raise_cost_limit(prices.limit, limit, used_then),
        *_switched_off(settings),
        *workers,
        *_naptime(reports, settings),
    )


def _as_the_workers(limit: float, workers: ServerSetting) -> float:
    """The limit at which no worker slows down when others join, since all of them share it."""
    return min(_MOST, max(limit, ceil(limit * int(workers.value) / int(workers.now or 1))))


def _spent(work: Sequence[Work]) -> float:
    """Cost units per second that vacuum needs of the limit that is shared."""
    return sum(one.cost / one.produce for one in work if one.produce and one.shared)


def _cost_limit(used: float, limit: float) -> float:
    if used <= ROOM:
        return limit
    return min(_MOST, max(limit, 100 * ceil(limit * used / ROOM / 100)))


def _capacity_text(used: float, after: float, limit: float) -> str:
    if used == after == 0:
        return "no table that shares the cost limit produced enough dead rows for a vacuum"
    said = f"vacuum needs {_share(used)} of what the cost limit allows"
    if after <= ROOM:
        return f"{said}; {_share(after)} with the advice"
    return (
        f"{said}; even at a limit of {limit:,.0f} it would be {after:.0%}: lower "
        "autovacuum_vacuum_cost_delay, write less, or partition"
    )


def _share(part: float) -> str:
    return f"{part:.2%}" if part >= 5e-5 or part == 0 else "less than 0.01%"


def _raise_cost_limit(limit: float, wanted: float, used: float) -> Iterator[ServerSetting]:
    if wanted > limit:
        yield ServerSetting(
            name=COST_LIMIT,
            now=f"{limit:.0f}",
            value=f"{wanted:.0f}",
            because=_because(used),
            restart=False,
        )


def _because(used: float) -> str:
    if used <= ROOM:
        return "all workers share it, so it grows with their number"
    return (
        f"all workers share it: {used:.0%} of what it allows is needed, and half should stay free"
    )


def _switched_off(settings: Mapping[str, str]) -> Iterator[ServerSetting]:
    if settings.get("autovacuum") == "off":
        because = (
            "without it, dead rows stay until VACUUM is run manually, and the advice below has no "
            "effect"
        )
        yield ServerSetting(
            name="autovacuum", now="off", value="on", because=because, restart=False
        )
    if settings.get("track_counts") == "off":
        because = "without it, autovacuum does not see dead rows, and runs only against wraparound"
        yield ServerSetting(
            name="track_counts", now="off", value="on", because=because, restart=False
        )


def _workers(
    then: Sequence[Work], settings: Mapping[str, str], speed: float | None
) -> Iterator[ServerSetting]:
    """One worker for each vacuum that takes long, and one that is free for the small tables.

    `speed` [cost units/s] is that with the advice in force; None: no throttling.
    """

    def alone(one: Work) -> float:
        if not one.shared:
            return one.vacuum or 0.0
        return one.cost / speed if speed else 0.0

    took = [max(alone(one), one.measured or 0.0) for one in then]
    long = sum(1 for seconds in took if seconds >= _LONG)
    busy = sum(
        seconds / one.produce for seconds, one in zip(took, then, strict=True) if one.produce
    )
    now = int(settings.get("autovacuum_max_workers", 3))
    wanted = min(_MOST_WORKERS, max(ceil(busy), long) + 1)
    if wanted <= now:
        return
    slots = settings.get("autovacuum_worker_slots")  # 18 and later
    few = slots is not None and wanted > int(slots)
    yield ServerSetting(
        name="autovacuum_max_workers",
        now=str(now),
        value=str(wanted),
        because=f"{long} vacuums take longer than {pretty_duration(_LONG)}; one worker stays free",
        restart=slots is None or few,
    )
    if slots is not None and few:
        yield ServerSetting(
            name="autovacuum_worker_slots",
            now=slots,
            value=str(wanted),
            because="no more workers start than there are slots",
            restart=True,
        )


def _naptime(
    reports: Sequence[TableReport], settings: Mapping[str, str]
) -> Iterator[ServerSetting]:
    """A shorter nap if, between two checks, a queue fills with dead rows."""
    now = float(settings.get("autovacuum_naptime", 60))
    swamped = [
        one
        for one in reports
        if one.kind in {TableKind.QUEUE, TableKind.SHORT_LIVED}
        and one.rates.dead * now >= max(_SWAMP, one.table.live)
    ]
    if now > _NAP and swamped:
        worst = max(swamped, key=lambda one: one.rates.dead)
        yield ServerSetting(
            name="autovacuum_naptime",
            now=f"{now:.0f}",
            value=f"{_NAP}",  # services take seconds without a unit
            because=(
                f"between two checks {worst.rates.dead * now:,.0f} rows of {worst.table.name} "
                f"die, which has {worst.table.live:,} live rows"
            ),
            restart=False,
        )
