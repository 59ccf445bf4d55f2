"""Predicted and measured hangs, as charts and as one HTML page.

The scenarios are those of `mrtuner.failover.lab/1`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mrtuner.failover.lab.text import cells, limits
from mrtuner.present import figures
from mrtuner.present.axes import grid, plain
from mrtuner.present.html import rendered

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mrtuner.failover.lab.document import PlayedCase, PlayedScenario

#: Heights of a row, and of the axis with its margins, in user units.
ROW: Final = 24
FRAME: Final = 62


@figures.for_every_screen()
def page(outcomes: Sequence[PlayedScenario]) -> str:
    """Return scenarios as one HTML document; the same input gives the same text."""
    return rendered(
        Path(__file__).with_suffix(".html"),
        outcomes=outcomes,
        fits=all(one.fits for one in outcomes),
        pictures=[
            picture(one.scenario, one.cases, key=f"lab{place}")
            for place, one in enumerate(outcomes)
        ],
        limits=[limits(one) for one in outcomes],
        rows=[[cells(row) for row in one.cases] for one in outcomes],
    )  # fmt: skip


def picture(name: str, rows: Sequence[PlayedCase], *, key: str) -> str:
    """Draw for each case the predicted band and the measured hangs [s from the client's action]."""
    with figures.canvas(height=FRAME + ROW * len(rows)) as figure:
        labels = [row.case for row in rows]
        axes = figure.add_axes(place_of(labels))
        most = max(_end(row) for row in rows)
        axes.set_xlim(-0.02 * most, 1.04 * most)
        for place, row in enumerate(rows):
            _draw(axes, place, row, most)
        axes.set_xlabel("seconds from the client's own action")
        dress(axes, labels)
        return figures.finish(
            figure, key,
            title=f"Hangs predicted and measured: {name}",
            desc="A band and three hangs for each case. The table shows every number.",
        )  # fmt: skip


def _end(row: PlayedCase) -> float:
    band = row.predicted
    hangs = [hang for hang in row.measured if hang is not None]
    shown = band is not None and row.fits is not None
    return max([1.0, band.high + row.slack if band and shown else row.watched, *hangs])


def _draw(axes: Axes, place: int, row: PlayedCase, most: float) -> None:
    band = row.predicted
    low, high = (band.low, min(band.high, most)) if band else (0.0, most)
    bar(axes, place, low, high, slack=row.slack, endless=band is None)
    for hang in row.measured:
        at = row.watched if hang is None else hang
        dot(axes, place, at, ">" if hang is None else "D")


def place_of(labels: Sequence[str]) -> tuple[float, float, float, float]:
    """Return the place of the axes, with room for the longest label left of them."""
    height = FRAME + ROW * len(labels)
    left = figures.room_for(labels)
    return (left, 46 / height, 0.98 - left, 1 - 54 / height)


def bar(
    axes: Axes, place: int, low: float, high: float, *, slack: float, endless: bool = False
) -> None:
    """Draw the band and its tolerance; a band without an end is dashed."""
    blue, grey = figures.PALETTE["b"].light, figures.PALETTE["line"].light
    if endless:
        axes.hlines([place], [low], [high], color=blue, linewidth=1.5, linestyle=(0, (4, 3)))
        return
    width = high - low
    axes.barh([place], [width + 2 * slack], left=low - slack, height=0.62, color=grey)
    axes.barh([place], [max(width, 0.01)], left=low, height=0.62, color=blue, alpha=0.55)


def dot(axes: Axes, place: int, at: float, shape: str) -> None:
    orange, paper = figures.PALETTE["a"].light, figures.PALETTE["paper"].light
    axes.plot([at], [place], shape, markersize=6, color=orange, markeredgecolor=paper,
              markeredgewidth=0.6, clip_on=False)  # fmt: skip


def dress(axes: Axes, labels: Sequence[str]) -> None:
    """Label one line per case, the first at the top; draw a light grid and little frame."""
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    grid(axes, "x")
    plain(axes)
