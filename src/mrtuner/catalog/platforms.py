"""What managed PostgreSQL takes from its customers, as far as it is known, out of platforms.json.

Each platform names its source and when it was seen. `python -m mrtuner.catalog.refresh_platforms`
rewrites one from what its own command line lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from mrtuner.catalog.families import FamilyParameter
from mrtuner.catalog.load import MAJORS, parameters, table
from mrtuner.catalog.parameter import Parameter
from mrtuner.errors import BadValue

FILE: Final = "platforms.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """The parameters of one platform that are known, all majors together.

    A parameter that is not among them may be new, or one that the platform keeps to itself.
    """

    name: str  # azure, cloudsql
    title: str
    seen: str  # the date of the source, or its year
    source: str
    parameters: Mapping[str, FamilyParameter]  # Booleans are the words on and off here


@cache
def platform(name: str) -> Platform:
    """One platform; BadValue for one that is not known."""
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
    """A parameter of PostgreSQL as the newest major that has it knows it; None for no such one."""
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
