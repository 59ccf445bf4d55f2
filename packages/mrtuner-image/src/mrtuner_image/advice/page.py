"""Advice for an image as one HTML page, with the bytes of each line before and after.

Uses only the document ``mrtuner.image.advise/1``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mrtuner.present import figures
from mrtuner.present.axes import frame, grid
from mrtuner.present.html import rendered
from mrtuner.units import MEMORY, pretty_bytes
from mrtuner.wording import cut
from mrtuner_image.advice.text import answer, expected, notes, rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mrtuner_image.advice.document import ExpectedLine, ImageAdviceDocument

#: Heights of a row, and of the title and the axis, in user units.
_ROW: Final = 24
_FRAME: Final = 58
#: Labels omit flags such as --chown, and are cut to this many characters.
_FLAG: Final = re.compile(r"\s--\S+")
_WIDE: Final = 32
#: Gap between the two forms, in rows.
_GAP: Final = 1.4


@figures.for_every_screen()
def page(told: ImageAdviceDocument) -> str:
    """Return the advice as one HTML document; the same input gives the same text.

    Raises MissingPart without jinja2 or matplotlib.
    """
    return rendered(
        Path(__file__).with_suffix(".html"),
        told=told, answer=list(answer(told)), notes=list(notes(told)),
        heads=["#No.", "Rule", "#Sent", "#Rebuilt", "#Pushed", "#Image"], rows=rows(told.advice),
        forms=[(name, _lines(form)) for name, form in _forms(told)],
        picture=picture(told, key="image"),
    )  # fmt: skip


def _forms(told: ImageAdviceDocument) -> list[tuple[str, Sequence[ExpectedLine]]]:
    return [("now", told.before.lines), ("advised", told.together.after.lines)]


def _lines(form: Sequence[ExpectedLine]) -> list[tuple[str, ...]]:
    return [
        (str(one.line), one.text, f"{one.rebuilt:.0%}".replace("%", " %"),
         expected(one.pushed))
        for one in form
    ]  # fmt: skip


def picture(told: ImageAdviceDocument, *, key: str) -> str:
    """Draw the bytes that each line pushes in a deploy: present lines above the advised ones."""
    forms = [(name, [one for one in lines if _counts(one)]) for name, lines in _forms(told)]
    every = [one for _, lines in forms for one in lines]
    height = _FRAME + round(_ROW * (len(every) + 2 + _GAP))
    with figures.canvas(height=height) as figure:
        labels = [_label(one) for one in every] or ["nothing"]
        left = figures.room_for(labels)
        axes = figure.add_axes((left, 44 / height, 0.9 - left, 1 - 50 / height))
        most = max((one.pushed.known for one in every), default=0) or 1
        unit, factor = _unit(most)
        ticks: list[tuple[float, str]] = []
        at = 0.0
        for (name, lines), colour in zip(forms, ("a", "b"), strict=True):
            axes.text(0, at, name, weight="bold", va="center", color=figures.PALETTE[colour].light)
            for one in lines:
                at += 1
                ticks.append((at, _label(one)))
                _bar(axes, at, one, colour, most, factor)
            at += _GAP
        axes.set_ylim(at - _GAP + 0.6, -0.6)
        axes.set_xlim(0, most * 1.12 / factor)
        axes.set_yticks([place for place, _ in ticks], [label for _, label in ticks])
        axes.set_xlabel(f"{unit} that a deploy pushes on average, as far as known")
        _dress(axes)
        return figures.finish(
            figure, key, title="Bytes that each line pushes a deploy, now and as advised",
            desc="A bar for each line that a deploy builds again. The tables show every number.",
        )  # fmt: skip


def _counts(line: ExpectedLine) -> bool:
    return bool(line.pushed.known or line.pushed.more)


def _label(line: ExpectedLine) -> str:
    return cut(f"{line.line}  {' '.join(_FLAG.sub('', line.text).split())}", _WIDE)


def _unit(most: int) -> tuple[str, int]:
    """Return the unit of the axis, and its size in bytes."""
    found = [(unit, factor) for unit, factor in MEMORY.items() if most >= factor]
    return max(found, key=lambda one: one[1])


def _bar(axes: Axes, at: float, line: ExpectedLine, colour: str, most: int, factor: int) -> None:
    known = line.pushed.known
    tone = figures.PALETTE[colour].light
    axes.barh([at], [known / factor], height=0.62, color=tone)
    if line.pushed.more:
        told = f"≥ {pretty_bytes(known)}" if known else "unknown"
    else:
        told = pretty_bytes(known)
    inside = known > most * 0.75
    axes.text(
        (known + most * (-0.01 if inside else 0.01)) / factor, at, told, va="center",
        ha="right" if inside else "left",
        color=figures.PALETTE["paper" if inside else "ink"].light,
    )  # fmt: skip


def _dress(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.tick_params(axis="both", length=0, labelcolor=figures.PALETTE["ink"].light)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10]))
    grid(axes, "x")
    frame(axes, "left")
