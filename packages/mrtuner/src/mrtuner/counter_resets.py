"""Counters that only grow: how much between two readings, and whether they were reset.

A server, a kernel or an extension counts from zero after a restart or a reset. So a counter that
went down was reset in between, and what it had counted by then is not known.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

Number = TypeVar("Number", int, float)


def was_reset(before: Iterable[float | None], after: Iterable[float | None]) -> bool:
    """Whether any of these counters went down; None is one that was not counted.

    >>> was_reset([7, 3], [8, 3]), was_reset([7, 3], [8, 2]), was_reset([7, None], [8, 0])
    (False, True, False)
    """
    return any(
        old is not None and new is not None and new < old
        for old, new in zip(before, after, strict=True)
    )


def growth(before: Number | None, after: Number | None) -> Number | None:
    """How much a counter grew; None if it was reset in between, or not counted.

    >>> growth(7, 9), growth(7, 2), growth(None, 2)
    (2, None, None)
    """
    if before is None or after is None or was_reset([before], [after]):
        return None
    return after - before
