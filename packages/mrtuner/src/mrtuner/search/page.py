"""A search as one HTML page: the result, what each setting is worth, the trace of trials."""

from __future__ import annotations

from math import exp, inf
from pathlib import Path
from typing import Final

from mrtuner.bench.report.charts import Effect, forest
from mrtuner.present import figures
from mrtuner.present.axes import grid, plain
from mrtuner.present.html import rendered
from mrtuner.search import text
from mrtuner.search.conclusion import interval
from mrtuner.search.model import WORTH, Search, SearchedSetting
from mrtuner.stats.comparison import Verdict

_HEIGHT: Final = 260
#: Parallel coordinates need two lines, and two axes.
_LINES: Final = 2


@figures.for_every_screen()
def page(search: Search, place: Path) -> str:
    """Return the answer as one HTML document. Raises MissingPart without jinja2 or matplotlib."""
    scored = [one for one in search.trials if one.score is not None]
    return rendered(
        Path(__file__).with_suffix(".html"),
        search=search,
        text=text,
        interval=interval,
        headline=text.headline(search),
        notes=list(text.notes(search)),
        costs=list(text.costs(search)),
        commands=list(text.commands(search, place)),
        trace=trace(search) if scored else "",
        effects=_effects(search),
        parallel=parallel(search),
    )


def trace(search: Search) -> str:
    """Draw each trial's gain on the advice, and the best so far as a line of steps."""
    ink, soft, paper = (figures.PALETTE[name].light for name in ("b", "soft", "paper"))
    best, steps = 0.0, [(0, 0.0)]
    with figures.canvas(height=_HEIGHT) as figure:
        axes = figure.add_axes((0.09, 0.2, 0.89, 0.74))
        for one in search.trials:
            if one.score is not None:
                won = one.outcome == "better"
                best = max(best, one.score) if won else best
                axes.plot([one.number], [_percent(one.score)], "D", markersize=7,
                          color=ink if won else paper, markeredgecolor=ink)  # fmt: skip
            steps.append((one.number, best))
        axes.step([at for at, _ in steps], [_percent(score) for _, score in steps],
                  where="post", color=soft)  # fmt: skip
        axes.axhline(0, color=soft, linewidth=1)
        axes.set_xlabel("trial")
        axes.set_ylabel("gain on the advice, %")
        axes.locator_params(axis="x", integer=True)
        grid(axes, "y")
        plain(axes)
        return figures.finish(
            figure,
            "trace",
            title="Trials by their gain on the advice",
            desc=f"{len(search.trials)} trials; the line is the best so far. "
            "The table of trials shows every number.",
        )


def parallel(search: Search) -> str:
    """Draw each trial as a line through its values; empty for fewer than two lines or settings.

    Each axis is what is searched of a setting, from its first or least value to its last.
    """
    ink, soft = (figures.PALETTE[name].light for name in ("b", "soft"))
    placed = [one for one in search.trials if one.place]
    if len(placed) < _LINES or len(search.searched) < _LINES:
        return ""
    at = range(len(search.searched))
    with figures.canvas(height=_HEIGHT) as figure:
        axes = figure.add_axes((0.09, 0.26, 0.84, 0.62))
        for one in placed:
            heights = [_height(each, one.place[each.name]) for each in search.searched]
            bold = one.number == search.candidate
            axes.plot(
                at,
                heights,
                "o-",
                markersize=3,
                color=ink if bold else soft,
                linewidth=2.5 if bold else 0.8,
                zorder=2 + bold,
            )
        for x, each in zip(at, search.searched, strict=True):
            axes.axvline(x, color=soft, linewidth=1, zorder=1)
            ends = each.values or (*each.special[:1], each.low or "", each.high or "")
            axes.annotate(ends[0], (x, -0.06), ha="center", va="top", fontsize=9,
                          annotation_clip=False)  # fmt: skip
            axes.annotate(ends[-1], (x, 1.06), ha="center", va="bottom", fontsize=9,
                          annotation_clip=False)  # fmt: skip
        axes.set_ylim(-0.02, 1.02)
        axes.set_yticks([])
        axes.set_xticks(at, [each.name.replace("_", "_\n", 1) for each in search.searched])
        axes.tick_params(axis="x", length=0, pad=18, labelsize=9)
        plain(axes)
        axes.spines[:].set_visible(False)
        return figures.finish(
            figure,
            "parallel",
            title="What was tried, setting by setting",
            desc=f"{len(placed)} trials, a line each; the one that was measured once more is bold. "
            "The table of trials shows every value.",
        )


def _height(setting: SearchedSetting, place: float) -> float:
    """Return where a place lies on its axis, from 0 to 1."""
    return place / (len(setting.values) - 1) if setting.values else place


def _effects(search: Search) -> str:
    """Draw what each setting is worth; empty if none was measured."""
    shown = [
        Effect(
            name=one.name, ratio=seen.ratio, low=_or(seen.low, 0.0), high=_or(seen.high, inf),
            decided=seen.verdict is not Verdict.UNDECIDED,
        )
        for one in search.ablation
        if (seen := one.measured) is not None
    ]  # fmt: skip
    return forest(shown, delta=WORTH, key="worth") if shown else ""


def _or(end: float | None, instead: float) -> float:
    return instead if end is None else end


def _percent(score: float) -> float:
    return (exp(score) - 1) * 100
