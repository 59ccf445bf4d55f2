"""What the columns of a view mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: Columns that every view has.
SHARED: Final = {
    "time": ("", "when it was sampled, UTC; in a summary, when the step begins"),
    "instance": ("", "the server"),
    "seconds": ("s", "time since the previous sample, over which counters have grown"),
    "samples": ("", "rows that were summarized"),
    "text": ("", "the statement, without literals"),
}
#: Added to the meaning of a summary's columns, by their suffix.
_SUMMARY: Final = {
    "_peak": " (highest per second)", "_min": " (lowest)", "_max": " (highest)",
    "_avg": " (average)", "_last": " (last)",
}  # fmt: skip


def meaning_of(known: Mapping[str, tuple[str, str]], name: str) -> tuple[str, str]:
    """Return unit and meaning of a view's column, also of a summary's; empty if not known."""
    if name in known:
        return known[name]
    for suffix, more in _SUMMARY.items():
        stem = name.removesuffix(suffix)
        if stem in known:
            unit, meaning = known[stem]
            return unit, meaning + more
    return "", ""
