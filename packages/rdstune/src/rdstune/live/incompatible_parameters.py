"""What keeps an instance in incompatible-parameters, and what would let it start.

RDS neither names the parameter nor lets such an instance be modified: it can only be rebooted or
deleted (AWS Knowledge Center, "incompatible-parameters"). So the attached group is repaired in
place and the instance rebooted; another group can only be attached after that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from mrtuner.aws import rds
from mrtuner.catalog import parameters
from mrtuner.catalog.classes import InstanceClass, instance_class
from mrtuner.catalog.families import Family, family
from mrtuner.errors import BadValue, Refused
from mrtuner.inputs import Workload
from mrtuner.postgres.reserved import RESERVED
from mrtuner.tuning.engine import INITDB
from rdstune.group.request import GroupRequest
from rdstune.group.screening import SOME_STORAGE
from rdstune.group.sizes import on_class
from rdstune.live.plan import Wanted, WantedValue, user_values
from rdstune.live.target import Target, overruling


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


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyDown:
    """What keeps an instance from starting: its value of each parameter, and where it is set."""

    instance: str
    culprits: Mapping[str, str]
    overruled: tuple[str, ...] = ()  # those that are set in a group of its own
    own_group: str = ""


def why_down(
    client: Any, target: Target, values: Mapping[str, str], each: InstanceClass
) -> WhyDown | None:
    """Return why the first instance that is down does not start with its group's `values`.

    Its own class and its own group, if it has one beside its cluster's, count; where the class is
    not known, `each`. None if no instance is down.
    """
    if not target.incompatible:
        return None
    member = target.member(target.incompatible[0])
    own = overruling(client, target, member)
    after = {**values, **own}
    with suppress(BadValue):  # a class newer than our table
        each = instance_class(member.class_name)
    found = culprits(after, family(target.family), each)
    return WhyDown(
        instance=member.identifier,
        culprits={name: after[name] for name in found},
        overruled=tuple(name for name in found if name in own),
        own_group=member.groups[0].name if own else "",
    )


def of_target(
    client: Any, target: Target, wanted: Iterable[Wanted], each: InstanceClass
) -> tuple[WantedValue, ...]:
    """Return defaults for what keeps a failed instance from starting even with the wanted settings.

    An instance that is not down needs none. Refused if that is in a group of its own, beside its
    cluster's.
    """
    if not target.incompatible:
        return ()
    values = user_values(rds.parameters(client, target.group, target.scope, source="user"))
    found = why_down(client, target, {**values, **{one.name: one.value for one in wanted}}, each)
    if found is None:
        return ()
    if found.overruled:
        names = ", ".join(found.overruled)
        # Without names, it would reset the whole group, of all instances that use it.
        each_name = " ".join(
            f"ParameterName={one},ApplyMethod=pending-reboot" for one in found.overruled
        )
        raise Refused(
            f"{found.instance} does not start because of {names} in its own group "
            f"{found.own_group}, which wins over its cluster's",
            f"Reset it there: aws rds reset-db-parameter-group --db-parameter-group-name "
            f"{found.own_group} --no-reset-all-parameters --parameters {each_name}; then reboot "
            "the instance.",
        )
    why = "reset to its default: its value keeps the instance from starting"
    group = family(target.family)
    return tuple(WantedValue(name, _default(name, group), why) for name in found.culprits)


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
