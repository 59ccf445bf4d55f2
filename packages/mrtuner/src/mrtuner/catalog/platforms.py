"""What managed PostgreSQL services let users set, as far as known, from platforms.json.

Each platform names its source and when it was seen. `python tools/refresh_platforms.py`
rewrites a platform from the list that its own command-line tool prints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from mrtuner.catalog.families import FamilyParameter
from mrtuner.catalog.load import parameters, table
from mrtuner.catalog.parameter import Parameter
from mrtuner.errors import BadValue
from mrtuner.inputs import MAJORS

FILE: Final = "platforms.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """The known parameters of one platform, for all majors together.

    An unlisted parameter may be new, or one that the platform does not let users set.
    """

    name: str  # azure, cloudsql
    title: str
    seen: str  # the date of the source, or its year
    source: str
    parameters: Mapping[str, FamilyParameter]  # here Booleans are the words on and off


@cache
def platform(name: str) -> Platform:
    """Return a platform; BadValue if unknown."""
    known = table(FILE)["platforms"]
    if name not in known:
        raise BadValue(f"unknown platform {name!r}", f"MrTuner knows {', '.join(known)}.")
    row = known[name]
    found = {each: _parameter(each, of, row["source"]) for each, of in row["parameters"].items()}
    return Platform(
        name=name,
        title=row["title"],
        seen=row["seen"],
        source=row["source"],
        parameters=MappingProxyType(found),
    )


def newest(name: str) -> Parameter | None:
    """Return a parameter as the newest major that has it defines it; None if none does."""
    return next((found[name] for found in map(parameters, MAJORS[::-1]) if name in found), None)


def _parameter(name: str, row: Mapping[str, Any], source: str) -> FamilyParameter:
    ours = newest(name)
    return FamilyParameter(
        name=name,
        data_type=row["type"],
        apply_type="static" if ours is not None and ours.restart else "dynamic",
        modifiable=not row.get("fixed", False),
        allowed=row.get("allowed"),
        default=None,
        evidence=source,
    )
