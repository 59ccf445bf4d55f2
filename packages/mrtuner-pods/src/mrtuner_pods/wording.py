"""Figures for people to read."""

from __future__ import annotations

from math import inf


def milliseconds(seconds: float) -> str:
    """Return a time in ms with two or three digits, or in seconds from 10 s on.

    >>> milliseconds(0.0123), milliseconds(2), milliseconds(12.3), milliseconds(4000)
    ('12.3 ms', '2,000 ms', '12.3 s', '4,000 s')
    """
    if seconds == inf:
        return "∞"
    if seconds >= 10:
        return f"{seconds:,.0f} s" if seconds >= 100 else f"{seconds:.3g} s"
    return f"{seconds * 1000:,.0f} ms" if seconds >= 0.1 else f"{seconds * 1000:.3g} ms"
