"""The answers of the API: a screen over a period, and what a store holds."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from mrtuner import __version__
from mrtuner.answers.overview import overview
from mrtuner.errors import BadValue, UsageError
from mrtuner.history.analysis.period import HistoryPeriod
from mrtuner.history.analysis.series import grid, shifted
from mrtuner.history.reading import History
from mrtuner.history.recording.rounds import PACE
from mrtuner.web import document
from mrtuner.web.journal import attributed_changes
from mrtuner.web.period import earlier, period_of
from mrtuner.web.screens import SCREENS
from mrtuner.web.screens.screen import Chart, Screen, Table, View, highest
from mrtuner.web.story import story

if TYPE_CHECKING:
    from mrtuner.web.document import FleetAnswer, ScreenAnswer

#: Points of a chart unless the address gives a number: about a screen's width.
_POINTS: Final = 400
_MOST_POINTS: Final = 2000
#: A query identifier is an integer of 64 bits.
_IDENTIFIER: Final = re.compile(r"-?\d{1,19}", re.ASCII)
_BEYOND: Final = 2**63


def screen_answer(history: History, name: str, given: Mapping[str, str]) -> ScreenAnswer:
    """Return a screen; the parameters of an address give its period and options.

    Raises:
        UsageError: there is no such screen or instance.
        BadValue: a parameter cannot be used.
    """
    if name not in SCREENS:
        raise UsageError(f"there is no screen {name}", f"There are {', '.join(SCREENS)}.")
    screen = SCREENS[name]
    about = period_of(history, given)
    over = grid(history, about, screen.sources, most=_points(given))
    before = earlier(about, given)
    view = View(
        history=history, grid=over, before=before, statement=statement_of(given),
        change=_number(given, "change"), process=_number(given, "process"),
    )  # fmt: skip
    charts, tables = screen.build(view)
    earlier_charts: Sequence[Chart] = ()
    if before is not None and screen.name != "compare":
        earlier_charts, _ = screen.build(replace(view, grid=shifted(over, before), before=None))
    return _answer(view, screen, charts, tables, earlier_charts)


def _points(given: Mapping[str, str]) -> int:
    text = given.get("points", str(_POINTS))
    if not text.isdecimal() or len(text) > 9 or not 10 <= int(text) <= _MOST_POINTS:
        raise BadValue(f"points={text} is out of range", f"Give 10 to {_MOST_POINTS}.")
    return int(text)


def statement_of(given: Mapping[str, str]) -> int | None:
    """Return the query identifier that an address names; None without one."""
    if not (text := given.get("statement")):
        return None
    if _IDENTIFIER.fullmatch(text) and -_BEYOND <= int(text) < _BEYOND:
        return int(text)
    raise BadValue(
        f"statement={text!r} is not a query identifier", "Give the number that Top SQL shows."
    )


def _number(given: Mapping[str, str], name: str) -> int | None:
    """Return the number of a change or a process that an address names; None without one."""
    text = given.get(name, "")
    if text and not (text.isdecimal() and len(text) < 10):
        listed = "Changes lists them." if name == "change" else "Sessions lists them."
        raise BadValue(f"{name}={text!r} is not the number of a {name}", listed)
    return int(text) if text else None


def _answer(
    view: View, screen: Screen, charts: Sequence[Chart], tables: Sequence[Table],
    earlier_charts: Sequence[Chart],
) -> ScreenAnswer:  # fmt: skip
    before = {one.name: one for one in earlier_charts}
    about, over = view.about, view.grid
    return document.ScreenAnswer(
        screen=screen.name, title=screen.title, instance=about.instance,
        begin=about.begin.timestamp(), end=about.end.timestamp(), last=_last(view.history, about),
        step=over.step, times=over.times,
        charts=[_chart(one, before.get(one.name)) for one in charts],
        tables=[_table(one) for one in tables],
        changes=[
            document.ScreenChange(
                at=one.change.at.timestamp(), what=one.change.what, detail=one.change.detail,
                by=one.by, journal=None if one.entry is None else str(one.entry),
            )
            for one in attributed_changes(view.history, about) if one.change.what != PACE
        ],
        damaged=list(view.history.damaged),
        story=story(view.history, about) if screen.story else None,
    )  # fmt: skip


def _chart(of: Chart, before: Chart | None) -> Any:
    earlier = before.series if before else []
    zero = of.zero if highest((*of.series, *earlier)) == 0 else None
    return document.Chart(
        name=of.name, title=of.title, help=of.help, unit=of.unit, stacked=of.stacked,
        series=of.series, before=earlier,
        limits=[
            document.ChartLimit(name=name, value=float(value), reached=name in of.reached)
            for name, value in of.limits
        ],
        bands=list(of.bands),
        missing=of.missing if of.empty else zero,
    )  # fmt: skip


def _table(of: Table) -> Any:
    return document.ScreenTable(
        name=of.name, title=of.title,
        columns=[document.TableColumn(name=name, title=title, unit=unit)
                 for name, title, unit in of.columns],
        rows=[[_cell(row.get(name)) for name, _, _ in of.columns] for row in of.rows],
        missing=None if of.rows else of.missing,
    )  # fmt: skip


def _cell(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    return value


def _last(history: History, about: HistoryPeriod) -> float | None:
    found = history.last_sample(about.instance)
    return None if found is None else found.replace(tzinfo=UTC).timestamp()


def fleet_answer(
    history: History, *, records: bool = False, login: bool = False,
    servers: Collection[str] = (),
) -> FleetAnswer:  # fmt: skip
    """Return what a store holds: its instances, the one with the least headroom first."""
    return document.FleetAnswer(
        directory=history.name, version=__version__, now=time.time(),
        screens=[
            document.ScreenName(name=one.name, title=one.title, help=one.help)
            for one in SCREENS.values()
        ],
        instances=[
            document.FleetMember(
                instance=one.instance, first=one.first.timestamp(), last=one.last.timestamp(),
                load=one.load, cpus=one.cpus, tightest=one.tightest,
                used=one.used.get(one.tightest or ""), changes=one.changes,
                plans=one.instance in servers,
            )
            for one in overview(history)
        ],
        records=records,
        login=login,
    )  # fmt: skip
