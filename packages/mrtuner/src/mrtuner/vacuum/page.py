"""Vacuum's needs as a report: dead rows over time as a chart, and one HTML page.

Both use only the document ``mrtuner.vacuum/1``, so they can be recreated from the JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mrtuner.escape import printable
from mrtuner.present import figures
from mrtuner.present.axes import grid, plain
from mrtuner.present.html import rendered
from mrtuner.units import pretty_duration
from mrtuner.vacuum.text import age_words, headline, suspected, verdict, wraparound_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mrtuner.vacuum.document import TableEntry, VacuumDocument, VacuumRound

#: Number of tables drawn: those with the most dead rows.
_PANELS: Final = 4
_TALL: Final = 150
#: Vacuum rounds drawn for the slower line, and the most drawn for either.
_ROUNDS, _MOST = 3, 300
#: Time units of an axis, the largest first [s].
_UNITS: Final = ((86_400.0, "days"), (3_600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))


@dataclass(frozen=True, slots=True)
class DeadRowsLine:
    """Dead rows over time [s]."""

    name: str
    at: Sequence[float]
    dead: Sequence[float]


@dataclass(frozen=True, slots=True)
class Panel:
    """One table: dead rows with the current settings, and with ours."""

    title: str
    now: DeadRowsLine
    then: DeadRowsLine


@figures.for_every_screen()
def page(told: VacuumDocument) -> str:
    """Return the answer as one HTML document; the same input gives the same text.

    Raises MissingPart without jinja2 or matplotlib.
    """
    panels = computed(told)
    return rendered(
        Path(__file__).with_suffix(".html"),
        told=told,
        headline=headline(told),
        verdict=verdict(told),
        picture=picture(panels, key="vacuum") if panels else None,
        advised=[one for one in told.tables if one.advice or one.hints],
        suspected=[one for one in told.tables if suspected(one)],
        wraparound=[wraparound_words(one) for one in told.wraparound],
        age_words=age_words,
        duration=pretty_duration,
    )


def computed(told: VacuumDocument) -> list[Panel]:
    """Return predictions for the tables whose threshold is to change, those with most dead rows."""
    changed = [
        one for one in told.tables if one.then.produce and one.then.trigger != one.now.trigger
    ]
    worst = sorted(changed, key=lambda one: -float(one.rates.dead))[:_PANELS]
    return [_computed(one) for one in worst]


def _computed(table: TableEntry) -> Panel:
    rate = table.rates.dead
    span = _ROUNDS * max(table.now.produce or 0.0, table.then.produce or 0.0)
    return Panel(
        printable(f"{table.schema}.{table.name}: {table.kind}"),
        _teeth("current settings", table.now, rate, span),
        _teeth("as advised", table.then, rate, span),
    )


def _teeth(name: str, work: VacuumRound, rate: float, span: float) -> DeadRowsLine:
    """Return dead rows over `span` [s]: a vacuum removes those that were dead when it began.

    If a vacuum takes longer than they need to accumulate, it never catches up: the line only rises.
    With more than `_MOST` rounds, a level line shows the peak.
    """
    every = inf if work.produce is None else work.produce
    takes = max(work.vacuum or 0.0, work.measured or 0.0)
    rounds = int(span / every)
    if takes >= every or rounds > _MOST:
        top = rate * span if takes >= every else rate * (every + takes)
        return DeadRowsLine(name, [0.0, span], [0.0 if takes >= every else top, top])
    at, dead = [0.0], [0.0]
    for number in range(1, rounds + 1):
        at += [number * every + takes] * 2
        dead += [rate * (every + takes), rate * takes]
    since = span + takes - (rounds * every if rounds else 0.0)
    return DeadRowsLine(name, [*at, span + takes], [*dead, rate * since])


def picture(panels: Sequence[Panel], *, key: str) -> str:
    """Draw dead rows over time, one panel per table; `key` becomes part of every id."""
    height = 56 + _TALL * len(panels)
    with figures.canvas(height=height) as figure:
        for place, panel in enumerate(panels):
            bottom = (_TALL * (len(panels) - 1 - place) + 40) / height
            axes = figure.add_axes((0.09, bottom, 0.89, (_TALL - 62) / height))
            _draw(axes, panel, first=place == 0)
        return figures.finish(
            figure,
            key,
            title="Dead rows over time",
            desc="Two lines for each table: dead rows accumulate, then drop when vacuum has run. "
            + "; ".join(
                f"{one.title}: up to {max(one.now.dead):,.0f} with {one.now.name}, "
                f"{max(one.then.dead):,.0f} {one.then.name}"
                for one in panels
            )
            + ".",
        )


def _draw(axes: Axes, panel: Panel, *, first: bool) -> None:
    last = max(panel.now.at[-1], panel.then.at[-1])
    size, unit = next(one for one in _UNITS if last >= 2 * one[0] or one[0] == 1.0)
    for line, colour, style in ((panel.now, "a", (0, (5, 2))), (panel.then, "b", "solid")):
        tone: Any = figures.PALETTE[colour].light
        shape: Any = style
        at = [moment / size for moment in line.at]
        axes.plot(at, line.dead, color=tone, linestyle=shape, label=line.name)
    axes.set_xlim(0, last / size)
    axes.set_ylim(bottom=0)
    soft, ink = figures.PALETTE["soft"].light, figures.PALETTE["ink"].light
    axes.set_title(panel.title, loc="left", fontsize=12, color=ink)
    axes.set_xlabel(unit, color=soft, labelpad=1)
    axes.locator_params(axis="y", nbins=4)
    axes.yaxis.set_major_formatter(lambda value, _position: f"{value:,.0f}")
    grid(axes, "y")
    plain(axes)
    if first:
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.2), ncols=2, frameon=False, borderpad=0,
                    handlelength=2, columnspacing=1.6)  # fmt: skip
