"""A fleet's pending maintenance, as lines for a terminal: no I/O, no colour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, tzinfo
from textwrap import wrap
from typing import Final

from mrtuner.text_tables import aligned
from rdstune.fleet.maintenance import Upkeep, Work
from rdstune.fleet.maintenance_windows import Occurrence, Window
from rdstune.fleet.stagger import Move, WindowClash

#: Line width without a terminal.
WIDE: Final = 100
_INDENT: Final = " " * 15


def upkeep_lines(
    item: Upkeep, zone: tzinfo | None, now: datetime, width: int = WIDE
) -> Iterator[str]:
    """Yield one instance: its windows in time zone `zone` (None: this machine's), and its work."""
    instance = item.instance
    engine = f"{instance.engine} {instance.engine_version}".strip()
    yield (
        f"{item.identifier}  {instance.class_name}, {engine}, {item.deployment}, {instance.status}"
    )
    yield from _windows(item, zone, now, width)
    if not item.work:
        yield "  nothing pending"
    for work in item.work:
        yield from _work(work, zone, now, width)


def _field(label: str, text: str, width: int) -> list[str]:
    """Return a label, and its text in a separate column."""
    return wrap(
        text, width, initial_indent=f"{label:<{len(_INDENT)}}", subsequent_indent=_INDENT,
        break_on_hyphens=False,
    )  # fmt: skip


def _windows(item: Upkeep, zone: tzinfo | None, now: datetime, width: int) -> Iterator[str]:
    if item.window is None or item.next_window is None:
        yield "  window       none"
    else:
        coming = f"{_next(item.next_window, zone, now)} ({item.window} UTC)"
        yield from _field("  window", coming, width)
    if item.backup is not None:
        daily = item.backup.at_or_after(now).local(zone)
        yield f"  backup       {_hours(daily)} daily ({item.backup} UTC)"
    if item.windows_collide:
        yield "               the windows overlap, which AWS does not allow: move one"


def _next(window: Occurrence, zone: tzinfo | None, now: datetime) -> str:
    local = window.local(zone)
    hours = f"{local.start:%a %d %b} {_hours(local)}"
    return f"{hours}, open now" if window.start <= now else f"{hours}, {_ahead(window.start, now)}"


def _hours(local: Occurrence) -> str:
    return f"{local.start:%H:%M}-{local.end:%H:%M} {local.end:%Z}".rstrip()


def _work(work: Work, zone: tzinfo | None, now: datetime, width: int) -> Iterator[str]:
    named = work.what in work.description
    what = work.description if named else f"{work.what}: {work.description}"
    yield from _field("  pending", what, width)
    yield from _field("    when", _when(work, zone, now), width)
    for place, date in enumerate(_dates(work, zone)):
        yield from _field("" if place else "    dates", date, width)
    figure = f", {work.outage.figure}" if work.outage.figure else ""
    yield from _field("    outage", f"{work.outage.kind}{figure} [{work.outage.evidence}]", width)
    yield from _field("", work.outage.words, width)
    if work.outage.source:
        yield from _field("", f"source: {work.outage.source}", width)


def _when(work: Work, zone: tzinfo | None, now: datetime) -> str:
    if work.expected is None:
        return work.because
    return f"{_moment(work.expected, zone)}, {_ahead(work.expected, now)}: {work.because}"


def _dates(work: Work, zone: tzinfo | None) -> Iterator[str]:
    """Yield the dates under AWS's names."""
    for name, moment in (
        ("AutoAppliedAfterDate", work.auto_applied_after),
        ("ForcedApplyDate", work.forced_apply),
        ("CurrentApplyDate", work.current_apply),
    ):
        if moment is not None:
            yield f"{name} {_moment(moment, zone)}"
    if work.opt_in:
        yield f"opt-in {work.opt_in}"


def _moment(moment: datetime, zone: tzinfo | None) -> str:
    return f"{moment.astimezone(zone):%a %d %b %Y %H:%M %Z}".rstrip()


def _ahead(moment: datetime, now: datetime) -> str:
    """Return ``in 3 d 4 h``, ``in 2 h 5 min``, ``now``."""
    minutes = int((moment - now) / timedelta(minutes=1))
    if minutes < 1:
        return "now"
    days, hours = minutes // 1440, minutes // 60 % 24
    if days:
        return f"in {days} d {hours} h"
    return f"in {hours} h {minutes % 60} min" if hours else f"in {minutes} min"


def calendar_lines(items: Sequence[Upkeep], zone: tzinfo | None) -> Iterator[str]:
    """Yield the next window of every instance, earliest first, with the amount of work."""
    coming = [(item.next_window, item) for item in items if item.next_window is not None]
    rows = []
    for window, item in sorted(coming, key=lambda one: (one[0].start, one[1].identifier)):
        due = [work.expected for work in item.work if work.expected is not None]
        waits = sum(window.start <= moment < window.end for moment in due)
        what = f"{waits} pending" if waits else "-"
        rows.append((f"  {_moment(window.start, zone)}", item.identifier, what))
    yield from aligned(rows)


def stagger_lines(
    clashes: Sequence[WindowClash], moves: Sequence[Move], zone: tzinfo | None, now: datetime
) -> Iterator[str]:
    """Yield which related instances have maintenance at the same time, and how to stagger them."""
    for clash in clashes:
        how = "at the same time" if clash.apart == 0 else f"{clash.apart} minutes apart"
        yield f"  {clash.first} and {clash.second} ({clash.group}): windows {how}"
    for move in moves:
        if move.to is None:
            yield f"  {move.identifier}: no free time left in the week"
        else:
            yield f"  move {move.identifier} to {_weekly(move.to, zone, now)}:"
            yield f"    {move.command}"


def _weekly(window: Window, zone: tzinfo | None, now: datetime) -> str:
    local = window.beginning_after(now).local(zone)
    return f"{local.start:%a} {_hours(local)}"
