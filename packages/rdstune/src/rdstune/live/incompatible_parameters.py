"""What keeps an instance in incompatible-parameters, and what would let it start.

RDS neither names the parameter nor lets such an instance be modified: it can only be rebooted or
deleted (AWS Knowledge Center, "incompatible-parameters"). So the attached group is repaired in
place and the instance rebooted; another group can only be attached after that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mrtuner.aws import rds
from mrtuner.catalog import parameters
from mrtuner.catalog.classes import InstanceClass
from mrtuner.catalog.families import Family, family
from mrtuner.errors import Refused
from mrtuner.inputs import Workload
from mrtuner.postgres.reserved import RESERVED
from mrtuner.tuning.engine import INITDB
from rdstune.group.request import GroupRequest
from rdstune.group.screening import SOME_STORAGE
from rdstune.group.sizes import on_class
from rdstune.live.plan import Wanted, WantedValue, user_values
from rdstune.live.target import Target


def starts(values: Mapping[str, str], group: Family, each: InstanceClass) -> bool:
    """Whether PostgreSQL and RDS would start with a group's user-set values on a class."""
    request = GroupRequest(
        family=group, workload=Workload.MIXED, connections=None, storage=SOME_STORAGE, every=True
    )
    known = {name: text for name, text in values.items() if name in parameters(group.major)}
    return on_class(known, request, each).starts and _sessions_left(known, request, each)


def _sessions_left(values: Mapping[str, str], request: GroupRequest, each: InstanceClass) -> bool:
    """Whether some connections are not reserved. Source: postmaster.c, PostmasterMain."""
    running, _ = request.in_force(each, request.memory_of(each).low, values)
    reserved = sum(int(running[name]) for name in RESERVED if name in running)
    return int(running["max_connections"]) > reserved


def culprits(values: Mapping[str, str], group: Family, each: InstanceClass) -> tuple[str, ...]:
    """Return the user-set parameters that keep the instance from starting, as far as we can tell.

    Every parameter whose removal alone is enough; if there is none, several that must go together;
    nothing if we see no reason why it would not start.
    """
    if starts(values, group, each):
        return ()
    alone = [name for name in values if starts(_without(values, [name]), group, each)]
    if alone:
        return tuple(alone)
    found: list[str] = []
    for name in values:
        found.append(name)
        if starts(_without(values, found), group, each):
            break
    needed = list(found)
    for name in found:
        rest = [one for one in needed if one != name]
        if starts(_without(values, rest), group, each):
            needed = rest
    return tuple(needed)


def of_target(
    client: Any, target: Target, wanted: Iterable[Wanted], each: InstanceClass
) -> tuple[WantedValue, ...]:
    """Return defaults for what keeps a failed instance from starting even with the wanted settings.

    An instance that is not down needs none.
    """
    if not target.incompatible:
        return ()
    group = family(target.family)
    values = user_values(rds.parameters(client, target.group, target.scope, source="user"))
    after = {**values, **{one.name: one.value for one in wanted}}
    why = "reset to its default: its value keeps the instance from starting"
    return tuple(
        WantedValue(name, _default(name, group), why) for name in culprits(after, group, each)
    )


def refuse_other_group(target: Target, group: str) -> None:
    """Refuse another group: RDS attaches none to an instance in incompatible-parameters."""
    if target.incompatible and group != target.group:
        raise Refused(
            f"{', '.join(target.incompatible)} is in incompatible-parameters, so RDS cannot attach"
            " another group",
            f"Repair the attached group first: rdstune apply {target.identifier}.",
        )


def _without(values: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    gone = set(names)
    return {name: text for name, text in values.items() if name not in gone}


def _default(name: str, group: Family) -> str:
    """Return the family's default, else PostgreSQL's, as a ParameterValue."""
    default = group.parameters[name].default if name in group.parameters else None
    if default is None:
        known = parameters(group.major)[name].default
        default = str(INITDB.get(name, known))
    return default
