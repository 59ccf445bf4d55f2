"""The charts of the main job: the memory budget, and the pairs of runs of a proof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from mrtuner.present.axes import grid, plain
from mrtuner.present.figures import PALETTE, canvas, finish
from mrtuner.units import pretty_bytes
from mrtuner.wording import cut

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INK, _SOFT, _LINE, _PAPER = (PALETTE[name].light for name in ("ink", "soft", "line", "paper"))


#: Names of variants are cut to this many characters.
_NAME: Final = 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Duel:
    """The content of the chart of paired runs; ratios are b / a."""

    name_a: str
    name_b: str
    blocks: Sequence[tuple[int, float, float]]  # number, a, b
    ratio: float
    low: float  # 0 and infinity when there is no interval
    high: float
    delta: float  # ratios from 1 / (1 + delta) to 1 + delta do not matter
    unit: str


def budget(parts: Sequence[tuple[str, int]], *, ceiling: int, memory: int, key: str) -> str:
    """Draw the worst case [bytes] as one stacked bar, each part also in a row of its own below.

    `key` becomes part of every id: two charts in one page need different ones.
    """
    height = 64 + 34 * (len(parts) + 1)
    with canvas(height) as figure:
        axes = figure.add_axes((0.2, 0.02, 0.78, 0.98 - 46 / height))
        _draw_budget(axes, parts, ceiling, memory)
        total = sum(size for _, size in parts)
        return finish(
            figure,
            key,
            title=f"Memory budget: {pretty_bytes(total)} of {pretty_bytes(memory)}",
            desc="A bar stacked from "
            + ", ".join(f"{name} {pretty_bytes(size)}" for name, size in parts)
            + f"; the ceiling is {pretty_bytes(ceiling)}. The table below shows the same numbers.",
        )


def _draw_budget(axes: Axes, parts: Sequence[tuple[str, int]], ceiling: int, memory: int) -> None:
    total, rows = sum(size for _, size in parts), len(parts)
    tones = [PALETTE[f"part-{1 + place % 2}"].light for place in range(rows)]
    start, beside = 0, axes.get_yaxis_transform()
    for place, ((name, size), tone) in enumerate(zip(parts, tones, strict=True), 1):
        axes.barh([0, place], [size, size], left=start, height=0.62, color=tone, edgecolor=_PAPER)
        _value_beside(axes, start, size, place, memory)
        axes.text(-0.015, place, name, ha="right", va="center", transform=beside)
        start += size
    axes.text(-0.015, 0, "worst case", ha="right", va="center", weight="bold", transform=beside)
    _limit(axes, ceiling, f"ceiling {pretty_bytes(ceiling)}", level=0, style=(0, (5, 3)))
    _limit(axes, memory, f"memory {pretty_bytes(memory)}", level=1, style="solid")
    axes.set_xlim(0, max(memory, total) * 1.005)
    axes.set_ylim(rows + 0.5, -0.5)
    axes.set_axis_off()


def _value_beside(axes: Axes, start: int, size: int, place: int, memory: int) -> None:
    """Write the size of a part right of its bar, or left of it if the right has no room."""
    gap = memory * 0.008
    if start + size < memory * 0.72:
        axes.text(start + size + gap, place, pretty_bytes(size), ha="left", va="center")
    elif start > memory * 0.18:
        axes.text(start - gap, place, pretty_bytes(size), ha="right", va="center")
    else:
        inside = start + size - gap
        axes.text(inside, place, pretty_bytes(size), ha="right", va="center", color=_PAPER)


def _limit(axes: Axes, at: int, text: str, *, level: int, style: Any) -> None:
    colour = PALETTE["limit"].light
    axes.axvline(at, color=colour, linewidth=1.5, linestyle=style)
    axes.annotate(
        text, (at, 1), xycoords=("data", "axes fraction"), xytext=(0, 6 + 17 * level),
        textcoords="offset points", ha="right", va="bottom", color=colour, annotation_clip=False,
    )  # fmt: skip


def pairs(duel: Duel, *, key: str) -> str:
    """Draw each block's two runs joined by a line, with its ratio, and all together below."""
    height = 96 + 24 * (len(duel.blocks) + 1)
    with canvas(height) as figure:
        bottom, tall = 50 / height, 1 - 90 / height
        left = figure.add_axes((0.09, bottom, 0.47, tall))
        right = figure.add_axes((0.62, bottom, 0.36, tall))
        _draw_runs(left, duel)
        _draw_ratios(right, duel)
        return finish(
            figure,
            key,
            title=f"{duel.name_b} against {duel.name_a}, block by block",
            desc=f"{len(duel.blocks)} pairs of runs in {duel.unit}; overall {duel.name_b} gives "
            f"{duel.ratio:.2f} times what {duel.name_a} gives. "
            "The table below shows every number.",
        )


def _draw_runs(axes: Axes, duel: Duel) -> None:
    rows = range(len(duel.blocks))
    numbers, first, second = zip(*duel.blocks, strict=True)
    axes.hlines(rows, first, second, color=_SOFT, linewidth=1)
    a, b = PALETTE["a"].light, PALETTE["b"].light
    axes.plot(first, rows, "o", markersize=8, color=_PAPER, markeredgecolor=a, markeredgewidth=2,
              label=f"A  {cut(duel.name_a, _NAME)}")  # fmt: skip
    axes.plot(second, rows, "D", markersize=7, color=b, label=f"B  {cut(duel.name_b, _NAME)}")
    axes.set_yticks(rows, [str(number) for number in numbers])
    axes.set_ylabel("block", color=_SOFT)
    axes.set_xlabel(duel.unit, color=_SOFT)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, borderpad=0,
                handletextpad=0.2, columnspacing=1.6)  # fmt: skip
    axes.margins(x=0.08)
    axes.xaxis.set_major_locator(_few_ticks())
    axes.xaxis.set_major_formatter(_thousands)
    _in_rows(axes, rows=len(duel.blocks))


def _draw_ratios(axes: Axes, duel: Duel) -> None:
    rows = len(duel.blocks)
    tone = PALETTE["b"].light
    axes.axvspan(1 / (1 + duel.delta), 1 + duel.delta, color=PALETTE["band"].light, linewidth=0)
    axes.axvline(1, color=_SOFT, linewidth=1)
    axes.plot([b / a for _, a, b in duel.blocks], range(rows), "D", markersize=5, color=tone)
    if duel.low > 0 and isfinite(duel.high):
        axes.hlines([rows], [duel.low], [duel.high], color=tone, linewidth=3)
        axes.vlines([duel.low, duel.high], rows - 0.22, rows + 0.22, color=tone, linewidth=2)
    axes.plot([duel.ratio], [rows], "D", markersize=9, color=tone)
    axes.set_yticks([rows], ["all"])
    axes.set_xlabel("ratio B / A; gray: no difference that matters", color=_SOFT)
    axes.xaxis.set_major_locator(_few_ticks())
    axes.margins(x=0.08)
    _in_rows(axes, rows=rows)


def _in_rows(axes: Axes, *, rows: int) -> None:
    """Lay out one row per block and one for all; the only frame is a thin bottom line."""
    axes.set_ylim(rows + 0.6, -0.6)
    grid(axes, "x")
    plain(axes)


def _few_ticks() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=5, min_n_ticks=3, steps=[1, 2, 5, 10])


def _thousands(value: float, _position: object) -> str:
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:g}"
