"""Rows as aligned columns of text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

#: Between two columns.
GAP: Final = "  "


def aligned(rows: Iterable[Sequence[str]], *, right: Collection[int] = ()) -> Iterator[str]:
    """Lines whose columns are as wide as their widest cell; those of `right` are set flush right.

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
