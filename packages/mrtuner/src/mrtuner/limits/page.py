"""Limits as an HTML page with one chart, which needs the series besides the document."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mrtuner.limits.assess import Limits
from mrtuner.limits.ceilings import Ceiling, CeilingKind, Resource, binding, sustained
from mrtuner.limits.document import limits_document
from mrtuner.limits.levels import DIRECTIONS, PARTS
from mrtuner.limits.reached import pegged_mask
from mrtuner.limits.sentences import OPERATIONS, THROUGHPUTS, lasting, quantity
from mrtuner.limits.text import DAYS, demand_words, forecast_words, is_long, steady_words
from mrtuner.present import figures
from mrtuner.present.axes import frame
from mrtuner.present.html import rendered
from mrtuner.stats.plateaus import numpy, runs
from mrtuner.wording import not_judged

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mrtuner.stats.plateaus import Values

#: Columns of the chart: more points than this are not distinguishable.
_COLUMNS: Final = 700
#: A ceiling this far above the observed values is not drawn: it would flatten the series.
_FAR: Final = 1.9
_UNIT: Final = {Resource.THROUGHPUT: "MB/s", Resource.IOPS: "IOPS"}
_TOGETHER: Final = {Resource.THROUGHPUT: THROUGHPUTS, Resource.IOPS: OPERATIONS}
_UNKNOWN: Final = "unknown ceiling"
#: Below this many days the axis shows times instead of dates.
_HOURS_ONLY: Final = 1.5


def picture(answer: Limits, *, key: str = "limits") -> str:
    """Draw throughput and IOPS, reads and writes stacked, with the ceilings as lines.

    Raises MissingPart without matplotlib.
    """
    shown = [
        resource for resource in (Resource.THROUGHPUT, Resource.IOPS) if _has(answer, resource)
    ]
    with figures.canvas(height=40 + 250 * max(len(shown), 1)) as figure:
        for place, resource in enumerate(shown):
            tall = 1 / len(shown)
            axes = figure.add_axes((0.075, 1 - tall * (place + 1) + 0.07, 0.655, tall - 0.13))
            _draw(axes, answer, resource)
        return figures.finish(
            figure,
            key,
            title=f"{answer.instance.name if answer.instance else answer.name}: {answer.verdict}",
            desc="Reads and writes stacked over time, with the ceilings as horizontal lines. The "
            "tables show the same numbers.",
        )


@figures.for_every_screen()
def page(answer: Limits) -> str:
    """Return the answer as an HTML page with its chart.

    Raises MissingPart without jinja2 or matplotlib.
    """
    told = limits_document(answer)
    return rendered(
        Path(__file__).with_suffix(".html"),
        told=told,
        not_judged=not_judged,
        picture=picture(answer) if any(_has(answer, one) for one in _TOGETHER) else "",
        quantity=quantity,
        memory=Resource.MEMORY,
        lasting=lasting,
        hidden=[demand_words(one) for one in told.needs if one.hidden],
        forecasts=[forecast_words(one) for one in told.forecasts],
        steady=[steady_words(one) for one in told.steady],
        days=DAYS if is_long(told) else (),
        hours=[f"#{hour}" for hour in range(24)],
    )


def _has(answer: Limits, resource: Resource) -> bool:
    """Whether there is anything to draw."""
    values = answer.series.total(*PARTS[resource])
    return values is not None and bool((values > 0).any())


def _draw(axes: Axes, answer: Limits, resource: Resource) -> None:
    np = numpy()
    unit = 1e6 if resource is Resource.THROUGHPUT else 1.0
    reads, writes = (answer.series.metrics[name] / unit for name in PARTS[resource])
    columns = _busiest(reads + writes)
    days = columns * answer.series.step / 86_400
    first, second = reads[columns], writes[columns]
    top = float(np.nanmax(reads + writes))
    _shade_pegged(axes, answer, resource)
    axes.fill_between(days, 0, first, color=figures.PALETTE["part-1"].light, linewidth=0,
                      label=f"reads, {_UNIT[resource]}")  # fmt: skip
    axes.fill_between(days, first, first + second, color=figures.PALETTE["a"].light, linewidth=0,
                      label="writes")  # fmt: skip
    drawn = _drawn([*answer.ceilings, *_unknown(answer)], resource, top * unit)
    height = max([top, *(one.value / unit for one in drawn)]) * 1.06
    axes.set_ylim(0, height)
    axes.set_xlim(0, answer.series.points * answer.series.step / 86_400)
    _lines(axes, drawn, unit, height)
    axes.yaxis.set_major_formatter(lambda value, _position: f"{value:,.0f}")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, borderpad=0,
                handlelength=1, columnspacing=1.6)  # fmt: skip
    _dates(axes, answer.series.start, axes.get_xlim()[1])
    frame(axes, "bottom")


def _busiest(total: Values) -> Values:
    """Return the index of the highest point in each chart column, so that stacks show real sums."""
    np = numpy()
    known = np.nan_to_num(total, nan=-1.0)
    edges = np.unique(np.linspace(0, len(total), _COLUMNS + 1).astype(int))
    found: Values = np.array([start + known[start:end].argmax() for start, end in pairwise(edges)])
    return found


def _shade_pegged(axes: Axes, answer: Limits, resource: Resource) -> None:
    """Draw a band behind the hours at a ceiling."""
    series = answer.series
    mask = pegged_mask(answer.findings.pegged, _TOGETHER[resource], series.points)
    hole = max(series.points // _COLUMNS, 1)
    for start, end in runs(mask, hole=hole):
        axes.axvspan(start * series.step / 86_400, end * series.step / 86_400,
                     color=figures.PALETTE["band"].light, linewidth=0)  # fmt: skip


def _drawn(known: Sequence[Ceiling], resource: Resource, top: float) -> list[Ceiling]:
    """Return the ceilings near the observed values; if none is near, the binding one."""
    own = sorted(
        (one for one in known if one.resource in _TOGETHER[resource]), key=lambda one: one.value
    )
    near = [one for one in own if one.value <= _FAR * top]
    least = binding(known, resource)
    return near if least is None or least in near or near else [least]


def _unknown(answer: Limits) -> list[Ceiling]:
    """Return the levels of unknown ceilings, to be drawn like the others."""
    return [
        sustained(one.resource, _UNKNOWN, one.plateau.level, source="")
        for one in answer.pegged
        if one.ceiling is None
    ]


def _lines(axes: Axes, drawn: Sequence[Ceiling], unit: float, height: float) -> None:
    colours = {True: figures.PALETTE["limit"].light, False: figures.PALETTE["soft"].light}
    lowest = 0.0
    for one in drawn:
        at = one.value / unit
        style: Any = "solid" if one.kind is CeilingKind.SUSTAINED else (0, (5, 3))
        colour = colours[one.kind is not CeilingKind.FORMER]
        axes.axhline(at, color=colour, linewidth=1.4, linestyle=style)
        lowest = max(at, lowest)
        axes.annotate(
            _label(one), (1.01, min(lowest / height, 1)), xycoords="axes fraction",
            va="center", ha="left", color=colour, fontsize=10.5, annotation_clip=False,
        )  # fmt: skip
        lowest += height * 0.075


def _label(one: Ceiling) -> str:
    kind = {
        CeilingKind.SUSTAINED: "",
        CeilingKind.BURST: " burst",
        CeilingKind.FORMER: " before 12/2019",
    }[one.kind]
    way = f" {one.resource.split()[0]}s" if one.resource in DIRECTIONS else ""
    return f"{quantity(one.resource, one.value)}{way} {one.part}{kind}"


def _dates(axes: Axes, start: datetime, days: float) -> None:
    from datetime import timedelta

    if days < _HOURS_ONLY:
        _minutes(axes, start, days)
        return
    every = max(int(days // 8), 1)
    first = 0 if (start.hour, start.minute) == (0, 0) else 1
    midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
    ticks, names = [], []
    for day in range(first, int(days) + 2, every):
        at = midnight + timedelta(days=day)
        place = (at - start).total_seconds() / 86_400
        if 0 <= place < days * 0.97:
            ticks.append(place)
            names.append(f"{at:%a} {at.day} {at:%b}")
    _ticks(axes, ticks, names)


def _minutes(axes: Axes, start: datetime, days: float) -> None:
    """Mark six evenly spaced times."""
    from datetime import timedelta

    ticks = [days * part / 6 for part in range(6)]
    form = "%H:%M" if days * 1440 > 10 else "%H:%M:%S"
    _ticks(axes, ticks, [f"{start + timedelta(days=place):{form}}" for place in ticks])


def _ticks(axes: Axes, ticks: Sequence[float], names: Sequence[str]) -> None:
    axes.set_xticks(ticks, names, ha="left")
    soft = figures.PALETTE["soft"].light
    axes.tick_params(axis="x", length=4, labelcolor=soft)
    axes.tick_params(axis="y", length=0, labelcolor=soft)
