"""Paged answers: `MaxRecords` and `Marker`, as in every Describe operation of RDS.

Source: botocore's RDS model (default 100, at least 20, at most 100 unless an operation says
otherwise). Markers are opaque; ours name the place to continue from.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rdstune.lab.refusals import invalid_value

Row = dict[str, Any]


def listed(
    key: str, rows: Sequence[Any], params: Mapping[str, Any], *, most: int = 100
) -> dict[str, Any]:
    """Return a page as in the answer: the rows under `key`, and Marker, None after the last."""
    size = params.get("MaxRecords", 100)
    if not 20 <= size <= most:
        raise invalid_value(f"Invalid value {size} for MaxRecords. Must be between 20 and {most}")
    start = _place(params.get("Marker"))
    end = start + size
    marker = urlsafe_b64encode(f"at:{end}".encode()).decode() if end < len(rows) else None
    return {key: rows[start:end], "Marker": marker}


def filters(params: Mapping[str, Any], known: Iterable[str]) -> dict[str, set[str]]:
    """Return the request's Filters by name; refuse names that the operation does not know."""
    asked = {each["Name"]: set(each.get("Values", ())) for each in params.get("Filters", ())}
    for name in asked:
        if name not in set(known):
            raise invalid_value(f"Unrecognized filter name: {name}")
    return asked


def selected(own: Mapping[str, set[str]], asked: Mapping[str, set[str]]) -> bool:
    """Whether a resource with these values passes the request's filters."""
    return all(own[name] & wanted for name, wanted in asked.items())


def _place(marker: str | None) -> int:
    if not marker:
        return 0
    try:
        word, number = urlsafe_b64decode(marker).decode().split(":")
        if word != "at":
            raise ValueError(word)
        return int(number)
    except ValueError:
        raise invalid_value("The marker is not valid") from None
