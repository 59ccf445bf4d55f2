"""Rows as aligned columns of text, and lists with a title."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from textwrap import wrap
from typing import Final

#: Between two columns.
GAP: Final = "  "


def aligned(rows: Iterable[Sequence[str]], *, right: Collection[int] = ()) -> Iterator[str]:
    """Yield lines with columns as wide as their widest cell; those in `right` are right-aligned.

    >>> list(aligned([("setting", "now"), ("work_mem", "4MB")], right={1}))
    ['setting   now', 'work_mem  4MB']
    """
    cells = [tuple(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield GAP.join(
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()


def bulleted(title: str, items: Sequence[str], *, width: int = 100) -> Iterator[str]:
    """An empty line, the title, and each item with a dash, wrapped; nothing without items."""
    if items:
        yield ""
        yield title
    for item in items:
        yield from wrap(
            item, width, initial_indent="  - ", subsequent_indent="    ",
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
