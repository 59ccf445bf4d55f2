"""What holds in every known parameter group family, for groups whose family is not given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType

from mrtuner.catalog import MAJORS, parameters
from mrtuner.catalog.families import FamilyParameter, families, family


@cache
def in_every_family() -> Mapping[str, FamilyParameter]:
    """Return each parameter on whose type all families that list it agree, by name."""
    listed: dict[str, list[FamilyParameter]] = {}
    for name in families():
        for parameter in family(name).parameters.values():
            listed.setdefault(parameter.name, []).append(parameter)
    agreed = {name: _agreed(rows) for name, rows in listed.items()}
    return MappingProxyType({name: one for name, one in agreed.items() if one is not None})


def _agreed(rows: list[FamilyParameter]) -> FamilyParameter | None:
    if len({(one.data_type, one.apply_type) for one in rows}) > 1:
        return None
    inferred = any(one.inferred for one in rows)
    return replace(
        rows[0],
        modifiable=any(one.modifiable for one in rows),
        allowed=rows[0].allowed if len({one.allowed for one in rows}) == 1 else None,
        default=rows[0].default if len({one.default for one in rows}) == 1 else None,
        level="instance" if any(one.level == "instance" for one in rows) else "cluster",
        evidence=f"{'inferred from' if inferred else 'seen in'} all known families",
        inferred=inferred,
    )


@cache
def known_names() -> frozenset[str]:
    """Return every name, in lower case, in any family or any major version of PostgreSQL."""
    ours = {name.lower() for major in MAJORS for name in parameters(major)}
    return frozenset(ours.union(*(family(name).parameters for name in families())))
