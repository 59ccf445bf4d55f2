"""Measured service times from a file: one per line, each with its unit."""

from __future__ import annotations

from pathlib import Path

from mrtuner.errors import BadValue
from mrtuner.files import read_file
from mrtuner.inputs import Time

_TIME = Time(help="a service time", unit=True)


def read(path: Path) -> tuple[float, ...]:
    """Return the times [s]; empty lines and those that begin with # are left out.

    Raises BadValue with the number of the line that is no time.
    """
    rows = enumerate(read_file(path).splitlines(), 1)
    return tuple(
        _time(path, number, row) for number, row in rows if row.strip() and row.strip()[0] != "#"
    )


def _time(path: Path, number: int, row: str) -> float:
    try:
        return _TIME.check("time", row)
    except BadValue as error:
        raise BadValue(
            f"{path}, line {number}: {error.message}", "Write one time per line, such as 27ms."
        ) from None
