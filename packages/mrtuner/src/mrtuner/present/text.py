"""Text for a terminal: headings, paragraphs and tables, as lines; no I/O.

Colour and the bar's glyph are parameters, so that the same lines work for a terminal, a pipe and a
test.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mrtuner.wording import plural

#: Text and the name of a style: heading, warning, quiet.
Paint = Callable[[str, str], str]

#: Text in a column narrower than this is harder to read than text on a line of its own.
_NARROW: Final = 32
#: A figure longer than this is wrapped, so as not to push all the text to the right.
_WIDEST: Final = 24
GAP: Final = "  "
#: Needing this many times the blocks already run counts as out of reach.
_OUT_OF_REACH: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The width, the glyph for bars, and the function for colour (None: no colour)."""

    width: int = 100
    bar: str = "#"
    paint: Paint | None = None

    def painted(self, text: str, style: str) -> str:
        return self.paint(text, style) if self.paint and text else text


def heading(text: str, look: Look) -> Iterator[str]:
    yield ""
    yield from titled(text, look)


def titled(text: str, look: Look) -> Iterator[str]:
    yield from (look.painted(line, "heading") for line in textwrap.wrap(text, look.width))


def paragraph(text: str, look: Look, style: str | None = None) -> Iterator[str]:
    """Yield an indented paragraph; the lines after the first are indented a little more."""
    lines = textwrap.wrap(
        text,
        max(look.width, 20),
        initial_indent=GAP,
        subsequent_indent=GAP * 2,
        break_on_hyphens=False,
    )
    yield from (look.painted(line, style) if style else line for line in lines)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], look: Look) -> Iterator[str]:
    """Yield rows below a header; the last column takes the remaining width, and wraps."""
    widths = column_widths([header, *rows])
    yield from row_lines(header, widths, look, style="quiet")
    for row in rows:
        yield from row_lines(row, widths, look)


def column_widths(rows: Iterable[Sequence[str]]) -> list[int]:
    """Return the width of every column but the last, which takes the remaining width."""
    columns = list(zip(*(row[:-1] for row in rows), strict=True))
    first, *rest = (max(map(len, column)) for column in columns)
    return [first, *(min(width, _WIDEST) for width in rest)]


def row_lines(
    cells: Sequence[str],
    widths: Sequence[int],
    look: Look,
    *,
    right: int | None = None,
    style: str | None = None,
) -> Iterator[str]:
    """Yield one row; every cell wraps in its column, or below if there is too little room.

    `right` is the column that is right-aligned.
    """
    indent = len(GAP) + sum(widths) + len(GAP) * len(widths)
    beside = look.width - indent
    columns = [
        textwrap.wrap(cell, width, break_on_hyphens=False) or [""]
        for cell, width in zip(cells[:-1], widths, strict=True)
    ]
    fits = beside >= min(_NARROW, len(cells[-1]))
    room = beside if fits else max(look.width - len(GAP) * 3, _NARROW)
    words = textwrap.wrap(cells[-1], room, break_on_hyphens=False)
    below = [] if fits else words
    columns.append(words if fits else [])
    for number in range(max(map(len, columns))):
        figures = [column[number] if number < len(column) else "" for column in columns]
        line = _line(figures, widths, right)
        yield look.painted(line, style) if style else line
    for line in below:
        yield f"{GAP * 3}{line}"


def _line(figures: Sequence[str], widths: Sequence[int], right: int | None) -> str:
    cells = [
        figure.rjust(width) if number == right else figure.ljust(width)
        for number, (figure, width) in enumerate(zip(figures, widths, strict=False))
    ]
    return (GAP + GAP.join([*cells, *figures[len(widths) :]])).rstrip()


def entries(pairs: Iterable[tuple[str, str]], look: Look) -> Iterator[str]:
    """Yield named paragraphs; a repeated name is written only once."""
    listed = list(pairs)
    width = max(len(name) for name, _ in listed)
    before = None
    for name, text in listed:
        yield from row_lines(("" if name == before else name, text), [width], look)
        before = name


def sections(
    contents: Sequence[tuple[str, Sequence[tuple[str, str]]]], look: Look
) -> Iterator[str]:
    """Yield named paragraphs below headings, all in the same columns."""
    width = max(len(name) for _, pairs in contents for name, _ in pairs)
    for number, (title, pairs) in enumerate(contents):
        if number:
            yield ""
        yield look.painted(title, "heading")
        for pair in pairs:
            yield from row_lines(pair, [width], look)


def still_needed(more: int, pairs: int) -> str:
    """Return how many more blocks would decide, or that this is out of reach.

    >>> still_needed(12, 6)
    'about 12 more blocks would decide'
    >>> still_needed(1148, 8)
    'such a small difference cannot be measured on this machine'
    """
    if more > _OUT_OF_REACH * pairs:
        return "such a small difference cannot be measured on this machine"
    return f"about {plural(more, 'more block')} would decide"
