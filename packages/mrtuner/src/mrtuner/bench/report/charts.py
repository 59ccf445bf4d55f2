"""Charts of a grid: forest plot, heat map, throughput per second, latency percentiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, log10
from typing import TYPE_CHECKING, Final

from mrtuner.present.axes import frame, grid, plain
from mrtuner.present.figures import PALETTE, canvas, finish, room_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_A, _B = PALETTE["a"].light, PALETTE["b"].light
_INK, _SOFT, _LINE = (PALETTE[name].light for name in ("ink", "soft", "line"))
_PAPER, _BAND = PALETTE["paper"].light, PALETTE["band"].light
#: Variants after the second: shades, with dashes that distinguish them without colour.
_TONES: Final = (_A, _B, PALETTE["part-1"].light, PALETTE["limit"].light)
_DASHES: Final = ("solid", (0, (6, 2)), (0, (2, 2)), (0, (6, 2, 1, 2)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One row of the forest plot; `low` and `high` are 0 and infinity without an interval."""

    name: str
    ratio: float
    low: float
    high: float
    decided: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One cell of the heat map; `ratio` is None if undecided."""

    row: str
    column: str
    ratio: float | None
    verdict: str


def forest(effects: Sequence[Effect], *, delta: float, key: str) -> str:
    """Draw every effect with its interval; hollow if undecided."""
    height = 70 + 24 * len(effects)
    with canvas(height) as figure:
        left = room_for(effect.name for effect in effects)
        axes = figure.add_axes((left, 46 / height, 0.98 - left, 1 - 60 / height))
        axes.axvspan(1 / (1 + delta), 1 + delta, color=_BAND, linewidth=0)
        axes.axvline(1, color=_SOFT, linewidth=1)
        for row, effect in enumerate(effects):
            if effect.low > 0 and isfinite(effect.high):
                axes.hlines([row], [effect.low], [effect.high], color=_B, linewidth=2)
            face = _B if effect.decided else _PAPER
            axes.plot([effect.ratio], [row], "D", color=face, markeredgecolor=_B, markersize=7)
        axes.set_yticks(range(len(effects)), [effect.name for effect in effects])
        axes.set_xlabel("ratio to the first variant; gray: no difference that matters")
        _in_rows(axes, len(effects))
        return finish(
            figure,
            key,
            title="Effects in all cells",
            desc=f"{len(effects)} ratios with their 95 % intervals, filled where decided."
            " The table shows every number.",
        )


def heat(tiles: Sequence[Tile], *, rows: str, columns: str, key: str) -> str:
    """Draw ratios over two axes, blank if undecided."""
    down = list(dict.fromkeys(tile.row for tile in tiles))
    across = list(dict.fromkeys(tile.column for tile in tiles))
    tones = {"better": _B, "worse": _A, "equivalent": _BAND}
    height = 70 + 40 * len(down)
    with canvas(height) as figure:
        axes = figure.add_axes((0.1, 46 / height, 0.88, 1 - 56 / height))
        for tile in tiles:
            x, y = across.index(tile.column), down.index(tile.row)
            tone = tones.get(tile.verdict, _PAPER)
            axes.barh([y], [1], left=x - 0.5, height=1, color=tone, edgecolor=_LINE)
            if tile.ratio is not None:
                ink = _INK if tile.verdict == "equivalent" else _PAPER
                axes.text(x, y, f"{tile.ratio:.2f}", ha="center", va="center", color=ink)
        axes.set_xlim(-0.5, len(across) - 0.5)
        axes.set_ylim(len(down) - 0.5, -0.5)
        axes.set_xticks(range(len(across)), across)
        axes.set_yticks(range(len(down)), down)
        axes.set_xlabel(columns)
        axes.set_ylabel(rows)
        axes.tick_params(length=0, labelcolor=_INK)
        frame(axes)
        return finish(
            figure,
            key,
            title=f"Ratios by {rows} and {columns}",
            desc="A tile for each cell, blank if undecided. The table of verdicts shows every "
            "number.",
        )


def seconds(
    runs: Mapping[str, Sequence[Sequence[int]]],
    checkpoints: Mapping[str, Sequence[int]],
    *,
    key: str,
) -> str:
    """Draw the transactions per second of every run, by variant, with ticks at checkpoints."""
    with canvas(height=110 + 100 * len(runs)) as figure:
        grid = figure.subplots(len(runs), 1, sharex=True, sharey=True, squeeze=False)
        figure.subplots_adjust(left=0.1, right=0.98, top=0.94, bottom=0.16, hspace=0.3)
        for row, (name, series) in enumerate(runs.items()):
            axes, tone = grid[row][0], _TONES[row % len(_TONES)]
            for one in series:
                dot = "." if len(one) == 1 else None  # a line needs two points
                axes.plot(
                    range(1, len(one) + 1), one, marker=dot, color=tone, linewidth=1,
                    alpha=0.6,
                )  # fmt: skip
            for second in checkpoints.get(name, ()):
                axes.axvline(second, ymin=0, ymax=0.12, color=PALETTE["limit"].light, linewidth=2)
            axes.set_title(name, loc="left", fontsize=12, color=_INK)
            _framed(axes)
        grid[0][0].set_ylim(bottom=0)
        grid[-1][0].set_xlabel("second of the run; red ticks: checkpoint starts")
        return finish(
            figure,
            key,
            title="Transactions per second",
            desc=f"One line for each run of {', '.join(runs)}. The table shows the slowest second "
            "of each run.",
        )


def percentiles(curves: Mapping[str, Sequence[tuple[float, float]]], *, key: str) -> str:
    """Draw latency [ms] by share of the transactions; the axis stretches towards 1."""
    with canvas(height=330) as figure:
        from matplotlib.ticker import LogLocator

        axes = figure.add_axes((0.1, 0.17, 0.88, 0.72))
        for number, (name, points) in enumerate(curves.items()):
            axes.plot(
                [-log10(1 - share) for share, _ in points],
                [value for _, value in points],
                color=_TONES[number % len(_TONES)],
                linestyle=_DASHES[number % len(_DASHES)],
                linewidth=2,
                label=name,
            )
        last = max(points[-1][0] for points in curves.values())
        marks = [share for share in (0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999) if share <= last]
        axes.set_xticks([-log10(1 - share) for share in marks], [f"{m * 100:g} %" for m in marks])
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(_plain_number)
        axes.yaxis.set_minor_formatter(_plain_number)
        axes.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
        axes.set_xlabel("share of transactions that took at most this long")
        axes.set_ylabel("ms")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False, borderpad=0)
        _framed(axes)
        return finish(
            figure,
            key,
            title="Latency by percentile",
            desc=f"A curve for each of {', '.join(curves)}, up to the highest percentile with "
            "enough transactions. The table shows the figures.",
        )


def _plain_number(value: float, _position: object) -> str:
    return f"{value:g}"


def _in_rows(axes: Axes, rows: int) -> None:
    axes.set_ylim(rows - 0.4, -0.6)
    grid(axes, "x")
    plain(axes)


def _framed(axes: Axes) -> None:
    axes.tick_params(which="both", color=_LINE, labelcolor=_INK)
    grid(axes, "y")
    frame(axes, "left", "bottom")
