"""Bytes and durations, in PostgreSQL's notation.

PostgreSQL uses powers of 1024 and writes kB, MB, GB, TB. Here sizes are integers in bytes,
durations integers in milliseconds, and a parameter's value an integer in its own base unit
(8kB pages, kB, MB, B, ms, s, min). Source: src/backend/utils/misc/guc.c,
memory_unit_conversion_table and time_unit_conversion_table.
"""

from __future__ import annotations

import re
from fractions import Fraction
from math import inf, isfinite
from typing import Final, NewType

from mrtuner.errors import BadValue

Bytes = NewType("Bytes", int)

KiB: Final = 1024
MiB: Final = 1024**2
GiB: Final = 1024**3
TiB: Final = 1024**4
#: Bytes of a page of PostgreSQL, unless it was built with another size.
PAGE: Final = 8 * KiB

#: Largest first, so that the first exact divisor is the shortest text.
MEMORY: Final[dict[str, int]] = {"TB": TiB, "GB": GiB, "MB": MiB, "kB": KiB, "B": 1}
#: In microseconds, PostgreSQL's smallest unit.
TIME: Final[dict[str, int]] = {
    "d": 86_400_000_000,
    "h": 3_600_000_000,
    "min": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
    "us": 1,
}

_NUMBER = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")
_RATE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(?:/\s*([a-z]+))?\s*")
#: PostgreSQL has neither m nor w; people write them for minutes and weeks.
_SPOKEN: Final = TIME | {"m": TIME["min"], "w": 7 * TIME["d"]}
_YEAR: Final = 365.25 * 86_400  # seconds
_DURATIONS: Final = "Give a number and its unit, such as 30s, 15min or 1h."
_RATES: Final = "Give a number and the time it is for, such as 400/s or 24000/min."
_FORGIVING = {"k": "kB", "m": "MB", "g": "GB", "t": "TB", "b": "B"}


def parse_bytes(text: str | int) -> Bytes:
    """Return the bytes in a memory size such as ``16GB``, ``16 GiB``, ``16Gi`` or ``1.5G``.

    A text without a unit is refused: 16 what? Zero and negative sizes are refused too.

    >>> parse_bytes("16GB") == 16 * GiB == parse_bytes("16 gib")
    True
    """
    if isinstance(text, int):
        if text <= 0:
            raise BadValue(f"size {text} is not above zero", "Give a size such as 16GB.")
        return Bytes(text)
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise _unread(text, "a size", "Give a size such as 16GB or 512MB.")
    number, unit = match.groups()
    key = _FORGIVING.get(unit.lower().removesuffix("b").removesuffix("i") or unit.lower())
    if key is None:
        what = f"unknown unit {unit!r}" if unit else "no unit"
        raise BadValue(f"{what} in size {text!r}", "Use kB, MB, GB or TB (powers of 1024).")
    size = int(Fraction(number) * MEMORY[key])
    if size <= 0:
        raise BadValue(f"size {text!r} is not above zero", "Give a size such as 16GB.")
    return Bytes(size)


def parse_duration(text: str | float) -> float:
    """Return the seconds in a time such as ``30s``, ``15min``, ``15m`` or ``1.5 h``.

    A bare number is in seconds.

    >>> parse_duration("15m") == parse_duration("15min") == parse_duration(900)
    True
    """
    match = _NUMBER.fullmatch(str(text))
    if match is None:
        raise _unread(str(text), "a duration", _DURATIONS)
    number, unit = match.groups()
    factor = _SPOKEN.get(unit or "s")
    if factor is None:
        raise BadValue(f"unknown unit {unit!r} in duration {text!r}", _DURATIONS)
    try:
        seconds = float(Fraction(number) * factor / TIME["s"])
    except OverflowError:
        raise BadValue("the duration is too long", _DURATIONS) from None
    if seconds <= 0:
        raise BadValue(f"duration {text!r} is not above zero", _DURATIONS)
    return seconds


def _unread(text: str, what: str, hint: str) -> BadValue:
    """Return the error for a text that is no number with a unit; a decimal comma is named."""
    mended = text.replace(",", ".")
    if text.count(",") == 1 and _NUMBER.fullmatch(mended):
        return BadValue(
            f"cannot read {text!r} as {what}: it has a comma", f"Write a point: {mended.strip()}."
        )
    return BadValue(f"cannot read {text!r} as {what}", hint)


def parse_rate(text: str | float) -> float:
    """Return the events per second of a rate such as ``400/s``, ``24000/min`` or ``1.5/h``.

    A text without a unit is refused: 400 in what time? A number is per second.

    >>> parse_rate("24000/min") == parse_rate("400/s") == parse_rate(400) == 400
    True
    """
    number, unit = (str(text), "s") if isinstance(text, (int, float)) else _rate_parts(text)
    factor = _SPOKEN.get(unit)
    if factor is None:
        raise BadValue(f"unknown unit {unit!r} in rate {text!r}", _RATES)
    try:
        rate = float(number) * TIME["s"] / factor
    except ValueError:
        raise BadValue(f"cannot read {text!r} as a rate", _RATES) from None
    if not 0 < rate < inf:
        raise BadValue(f"rate {text!r} is not above zero", _RATES)
    return rate


def _rate_parts(text: str) -> tuple[str, str]:
    match = _RATE.fullmatch(text)
    if match is None:
        raise BadValue(f"cannot read {text!r} as a rate", _RATES)
    if match[2] is None:
        raise BadValue(f"no unit in rate {text!r}", _RATES)
    return match[1], match[2]


def parse_share(text: str) -> float:
    """Return a share such as ``90%`` or ``0.9`` as a fraction; without %, it is not divided by 100.

    >>> parse_share("90%") == parse_share("0.9") == 0.9
    True
    """
    stripped = text.strip()
    try:
        share = float(stripped.removesuffix("%")) / (100 if stripped.endswith("%") else 1)
    except ValueError:
        share = inf
    if not isfinite(share):
        raise BadValue(f"{text!r} is not a share", "Give a share such as 3% or 0.03.")
    return share


def pretty_duration(seconds: float) -> str:
    """Return a time for people, in the largest unit that gives two or more: ``90 s``, ``15 min``.

    >>> pretty_duration(60), pretty_duration(900), pretty_duration(7200)
    ('60 s', '15 min', '2 h')
    """
    if seconds >= 2 * _YEAR:
        return f"{seconds / _YEAR:,.3g} years"
    for unit in ("d", "h", "min"):
        if seconds >= 2 * TIME[unit] / TIME["s"]:
            return f"{seconds * TIME['s'] / TIME[unit]:.3g} {unit}"
    return f"{seconds:.3g} s"


def pretty_bytes(size: int) -> str:
    """Return a size for people, with three digits: ``924 MB``, ``1.5 GB``. Not for configuration.

    >>> pretty_bytes(1_610_612_736), pretty_bytes(100)
    ('1.5 GB', '100 B')
    """
    if size < 0:
        return "-" + pretty_bytes(-size)
    for unit, factor in MEMORY.items():
        if size >= factor:
            count = size / factor
            return f"{count:.0f} {unit}" if count >= 100 or unit == "B" else f"{count:.3g} {unit}"
    return "0 B"


def memory_unit(unit: str) -> int | None:
    """Return the bytes in a unit of ``pg_settings.unit`` (``8kB``, ``kB``, ``MB``), or None."""
    match = re.fullmatch(r"([0-9]*)(B|kB|MB|GB|TB)", unit)
    if match is None:
        return None
    return int(match[1] or 1) * MEMORY[match[2]]


def time_unit(unit: str) -> int | None:
    """Return the microseconds in a unit of ``pg_settings.unit`` (``ms``, ``min``), or None."""
    return TIME.get(unit)
