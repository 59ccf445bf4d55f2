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
from mrtuner.search.model import WORTH, Search
from mrtuner.stats.comparison import Verdict

_HEIGHT: Final = 260


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
                best = one.score if won else best
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
