"""Text for a terminal: headings, paragraphs and tables, as lines; no I/O.

Colour and the bar's glyph are parameters, so that the same lines work for a terminal, a pipe and a
test.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

from mrtuner.text_tables import GAP, wrapped
from mrtuner.wording import plural

#: Text and the name of a style: heading, warning, quiet.
Paint = Callable[[str, str], str]

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
    """Yield rows below a header, as `wrapped` lays them out."""
    head, *below = wrapped([header, *rows], look.width)
    yield from (look.painted(line, "quiet") for line in head)
    yield from chain.from_iterable(below)


def entries(pairs: Iterable[tuple[str, str]], look: Look) -> Iterator[str]:
    """Yield named paragraphs; a repeated name is written only once."""
    listed = list(pairs)
    before = ["", *(name for name, _ in listed)]
    rows = [
        ("" if name == last else name, text)
        for last, (name, text) in zip(before, listed, strict=False)
    ]
    yield from chain.from_iterable(wrapped(rows, look.width))


def sections(
    contents: Sequence[tuple[str, Sequence[tuple[str, str]]]], look: Look
) -> Iterator[str]:
    """Yield named paragraphs below headings, all in the same columns."""
    rows = wrapped([pair for _, pairs in contents for pair in pairs], look.width)
    for number, (title, pairs) in enumerate(contents):
        if number:
            yield ""
        yield look.painted(title, "heading")
        yield from chain.from_iterable(islice(rows, len(pairs)))


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
