"""A plan of pods as a picture, and as one HTML page around it.

Both use only the document ``mrtuner.pods.plan/1``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mrtuner.present import figures
from mrtuner.present.axes import frame, grid
from mrtuner.present.html import rendered
from mrtuner.wording import first_upper
from mrtuner_pods.connections.text import pool_rows, session_rows
from mrtuner_pods.planning.document import PodsLayout, PodsPlanDocument
from mrtuner_pods.planning.text import (
    alternative_rows,
    answer,
    before_and_after,
    curve_rows,
    density,
    facts,
    other_heads,
    read_where,
    reason,
    size,
    stage_rows,
    unit_of,
)
from mrtuner_pods.wording import milliseconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: By routing, in the order of the document: colour, dashes, mark.
_STYLES: Final = {
    "random": ("a", "solid", "o"),
    "round-robin": ("part-2", (0, (5, 2)), "s"),
    "two-choices": ("part-1", (0, (2, 2)), "^"),
    "least-connections": ("b", "solid", "D"),
}
_TALL: Final = 370
_PNG_DPI: Final = 144
#: The axis reaches this many times as high as the marked point, for its label.
_HEADROOM: Final = 1.15


@figures.for_every_screen()
def page(told: PodsPlanDocument) -> str:
    """Return the plan as one HTML document; the same input gives the same text.

    Raises MissingPart without jinja2 or matplotlib.
    """
    heads, rows = curve_rows(told)
    changes = list(before_and_after(told)) if told.present else []
    return rendered(
        Path(__file__).with_suffix(".html"),
        told=told,
        answer=answer(told),
        reason=reason(told),
        facts=list(facts(told)),
        change_heads=_of_numbers(*changes[0]) if changes else [],
        changes=changes[1:],
        read=list(read_where(told)),
        stages=list(stage_rows(told)),
        others=list(alternative_rows(told)),
        other_heads=[f"#{head}" for head in other_heads(told)],
        heads=_of_numbers(*heads),
        rows=rows,
        seen=list(_seen(told)),
        unit=unit_of(told),
        picture=picture(told, key="pods"),
    )


def _seen(told: PodsPlanDocument) -> Iterator[tuple[str, str, list[str], list[tuple[str, ...]]]]:
    """Yield the tables of observed sessions and pools: id, caption, heads and rows."""
    for key, rows in (
        ("sessions", session_rows(told.sessions)),
        ("pools", pool_rows(told.pools)),
    ):
        if rows:
            (caption, *heads), *rest = rows
            yield key, first_upper(caption), _of_numbers("Whose", *heads), rest


def _of_numbers(first: str, *others: str) -> list[str]:
    """Return heads of a table, all but the first marked with ``#`` as columns of numbers."""
    return [first, *(f"#{head}" for head in others)]


def picture(told: PodsPlanDocument, *, key: str) -> str:
    """Draw p95 wait over density, a line for each routing, as inline SVG."""
    with figures.canvas(height=_TALL) as figure:
        _draw(figure, told)
        return figures.finish(
            figure, key, title=title(told), desc=f"{_point_words(told)} The table has every figure."
        )


def save(told: PodsPlanDocument, path: Path) -> None:
    """Write the picture to a file: SVG if its suffix is .svg, else PNG."""
    if path.suffix == ".svg":
        path.write_text(figures.stand_alone(picture(told, key="pods"), "light"), encoding="utf-8")
        return
    with figures.canvas(height=_TALL) as figure:
        _draw(figure, told)
        paper = figures.PALETTE["paper"].light
        figure.savefig(path, dpi=_PNG_DPI, facecolor=paper, metadata={"Software": None})


def title(told: PodsPlanDocument) -> str:
    """Return what the picture shows."""
    layout = told.curve[0].layout
    whole = layout.pods * density(layout, told.load.server)
    return (
        f"p95 wait of {whole} {unit_of(told)} at {told.load.rate:,.6g}/s, by "
        f"{unit_of(told)} in a pod and by routing"
    )


def _draw(figure: Figure, told: PodsPlanDocument) -> None:
    axes = figure.add_axes((0.09, 0.15, 0.88, 0.68))
    server = told.load.server
    by_routing: dict[str, list[tuple[int, float]]] = {name: [] for name in _STYLES}
    for point in told.curve:
        if point.p95 is not None:
            at = density(point.layout, server)
            by_routing[point.routing].append((at, point.p95 * 1000))
    places = sorted({at for points in by_routing.values() for at, _ in points})
    for routing, points in by_routing.items():
        _line(axes, routing, points, places)
    _target(axes, told)
    _mark(axes, told, places)
    axes.set_xticks(range(len(places)), [str(at) for at in places])
    axes.set_xlabel(f"{unit_of(told)} per pod, with the same number in all")
    axes.set_ylabel("p95 wait, ms")
    axes.set_ylim(bottom=0)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.02), ncols=2, frameon=False, borderpad=0,
                handletextpad=0.4, columnspacing=1.2)  # fmt: skip
    _dress(axes)


def _line(
    axes: Axes, routing: str, points: Sequence[tuple[int, float]], places: Sequence[int]
) -> None:
    colour, dashes, mark = _STYLES[routing]
    axes.plot(
        [places.index(at) for at, _ in points], [value for _, value in points],
        color=figures.PALETTE[colour].light, linestyle=dashes, marker=mark, markersize=5,
        clip_on=False,
        label=routing.replace("-", " "),
    )  # fmt: skip


def _target(axes: Axes, told: PodsPlanDocument) -> None:
    target, colour = told.load.target * 1000, figures.PALETTE["limit"].light
    axes.axhline(target, color=colour, linewidth=1.2, linestyle=(0, (5, 3)))
    axes.annotate(
        f"target {milliseconds(target / 1000)}", (1, target), xycoords=("axes fraction", "data"),
        xytext=(-2, 3), textcoords="offset points", ha="right", va="bottom", color=colour,
    )  # fmt: skip


def _point(told: PodsPlanDocument) -> tuple[str, PodsLayout, float] | None:
    """Return name, layout and p95 of what runs now, else of the plan; None if it is not drawn."""
    now = told.now
    if now is not None and now.p95 is not None and now.unknown is None:
        return "now", now.layout, now.p95
    if told.load.routing in _STYLES:
        return "plan", told.layout, told.waiting.p95
    return None


def _mark(axes: Axes, told: PodsPlanDocument, places: Sequence[int]) -> None:
    found = _point(told)
    if found is None:
        return
    name, layout, p95 = found
    at = density(layout, told.load.server)
    if at not in places:
        return
    ink = figures.PALETTE["ink"].light
    axes.plot([places.index(at)], [p95 * 1000], "o", markersize=13, color="none",
              markeredgecolor=ink, markeredgewidth=2)  # fmt: skip
    right = places.index(at) < len(places) / 2
    axes.annotate(
        f"{name}: {milliseconds(p95)}", (places.index(at), p95 * 1000),
        xytext=(12 if right else -12, 8), textcoords="offset points",
        ha="left" if right else "right", va="bottom", color=ink, weight="bold",
    )  # fmt: skip
    axes.set_ylim(top=max(axes.get_ylim()[1], _HEADROOM * p95 * 1000))


def _point_words(told: PodsPlanDocument) -> str:
    found = _point(told)
    if found is None:
        return ""
    name, layout, p95 = found
    words = "The current deployment" if name == "now" else "The plan"
    return f"{words}, {size(layout, told.load.server)}, waits {milliseconds(p95)}."


def _dress(axes: Axes) -> None:
    axes.tick_params(axis="both", length=0, labelcolor=figures.PALETTE["ink"].light)
    axes.tick_params(axis="x", pad=8)  # points at 0 are not clipped
    axes.margins(x=0.06)
    grid(axes, "y")
    frame(axes, "bottom")
