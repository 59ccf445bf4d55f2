"""The stated speed of a network line, by which bytes are converted to time."""

from __future__ import annotations

import re
from typing import Final

from mrtuner.errors import BadValue

_RATE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kMG]?)(bit|b)(?:/s|ps)\s*")
_FACTOR: Final = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}


def parse_uplink(text: str) -> float:
    """Return bytes per second from a line's speed in bits; prefixes are powers of 1000.

    Raises BadValue for any other text.

    >>> parse_uplink("20Mbit/s") == parse_uplink("20 Mbps") == 2_500_000
    True
    """
    match = _RATE.fullmatch(text)
    if match is None or not float(match[1]):
        raise BadValue(
            f"cannot read {text!r} as a speed", "Give bits per second, such as 20Mbit/s."
        )
    return float(match[1]) * _FACTOR[match[2]] / 8
