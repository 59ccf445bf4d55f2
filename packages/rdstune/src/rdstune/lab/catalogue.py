"""The parameters of a group family, as the lab's groups contain them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from mrtuner.catalog.families import FamilyParameter, families, family
from rdstune.lab.refusals import invalid_value


@cache
def entries(name: str, *, cluster: bool) -> Mapping[str, FamilyParameter]:
    """Return the parameters that groups of a family list, by name.

    A DB cluster group lists all of them; a DB group omits those that Aurora keeps in its cluster
    groups. An unknown family is refused as RDS refuses it.
    """
    if name not in families():
        raise invalid_value(f"ParameterGroupFamily {name} is not a valid parameter group family")
    known = family(name).parameters
    return {each.name: each for each in known.values() if cluster or each.level == "instance"}


def defaults(name: str, *, cluster: bool) -> dict[str, str]:
    """Return the values of a family's default group."""
    return {
        each.name: each.default
        for each in entries(name, cluster=cluster).values()
        if each.default is not None
    }
