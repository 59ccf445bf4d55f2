"""How long bytes take on a line of a stated speed: a division, nothing else."""

from __future__ import annotations

import re
from typing import Final

from mrtuner.errors import BadValue

_RATE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kMG]?)(bit|b)(?:/s|ps)\s*")
_FACTOR: Final = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}


def parse_uplink(text: str) -> float:
    """Return bytes a second from a line's speed, which counts bits by powers of 1000.

    >>> parse_uplink("20Mbit/s") == parse_uplink("20 Mbps") == 2_500_000
    True
    """
    match = _RATE.fullmatch(text)
    if match is None or not float(match[1]):
        raise BadValue(
            f"cannot read {text!r} as a speed", "Give bits per second, such as 20Mbit/s."
        )
    return float(match[1]) * _FACTOR[match[2]] / 8
