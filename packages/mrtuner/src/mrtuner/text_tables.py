"""Rows as aligned columns of text, and lists with a title."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import zip_longest
from textwrap import wrap
from typing import Final

#: Between two columns.
GAP: Final = "  "
#: Text in a column narrower than this is harder to read than text on a line of its own.
_NARROW: Final = 32
#: A figure longer than this is wrapped, so as not to push all the text to the right.
_WIDEST: Final = 24


def aligned(rows: Iterable[Sequence[str]], *, right: Collection[int] = ()) -> Iterator[str]:
    """Yield lines with columns as wide as their widest cell; those in `right` are right-aligned.

    >>> list(aligned([("setting", "now"), ("work_mem", "4MB")], right={1}))
    ['setting   now', 'work_mem  4MB']
    """
    cells = [tuple(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    yield from (_line(row, widths, right) for row in cells)


def wrapped(
    rows: Sequence[Sequence[str]], width: int, *, right: Collection[int] = ()
) -> Iterator[list[str]]:
    """Yield the indented lines of each row, all in the same columns, within `width`.

    The last column takes the remaining width. Every cell wraps in its column, the last one below it
    if there is too little room.
    """
    first, *rest = (max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1])
    widths = [first, *(min(one, _WIDEST) for one in rest)]
    beside = width - len(GAP) - sum(widths) - len(GAP) * len(widths)
    for cells in rows:
        fits = beside >= min(_NARROW, len(cells[-1]))
        room = beside if fits else max(width - len(GAP) * 3, _NARROW)
        *columns, last = (
            wrap(cell, most, break_on_hyphens=False)
            for cell, most in zip(cells, [*widths, room], strict=True)
        )
        in_columns = zip_longest(*columns, last if fits else (), fillvalue="")
        lines = [f"{GAP}{_line(row, [*widths, 0], right)}" for row in in_columns]
        yield lines + ([] if fits else [f"{GAP * 3}{line}" for line in last])


def _line(cells: Sequence[str], widths: Sequence[int], right: Collection[int]) -> str:
    return GAP.join(
        cell.rjust(width) if number in right else cell.ljust(width)
        for number, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ).rstrip()


def bulleted(title: str, items: Sequence[str]) -> Iterator[str]:
    """An empty line, the title, and each item with a dash, wrapped; nothing without items."""
    if items:
        yield ""
        yield title
    for item in items:
        yield from wrap(
            item, 100, initial_indent="  - ", subsequent_indent="    ",
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
