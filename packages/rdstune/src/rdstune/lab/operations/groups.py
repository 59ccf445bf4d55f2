"""Parameter groups of instances and clusters: create, copy, describe, modify, reset, delete.

Source of limits and rules: botocore's RDS model and the RDS User Guide, "Working with parameter
groups" (our reference, 1.3). A batch is applied or refused as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from rdstune.lab import catalogue, parameters, spread
from rdstune.lab.operations.events import tell
from rdstune.lab.pages import Row, filters, listed
from rdstune.lab.refusals import Fault, invalid_value
from rdstune.lab.world import LabGroup, Region, tags

_NAME: Final = re.compile(r"[A-Za-z](?:-?[A-Za-z0-9])*")
_LONGEST: Final = 255
_Handler = Callable[[Region, Mapping[str, Any]], dict[str, Any]]


class GroupKind:
    """Names that differ between DB and DB cluster parameter groups."""

    def __init__(self, cluster: bool) -> None:
        self.cluster = cluster
        self.prefix = "DBClusterParameterGroup" if cluster else "DBParameterGroup"
        self.name = f"{self.prefix}Name"
        self.arn = "cluster-pg" if cluster else "pg"


_DB: Final = GroupKind(cluster=False)
_CLUSTER: Final = GroupKind(cluster=True)


def named(region: Region, kind: GroupKind, name: str) -> LabGroup:
    """Return a group by name or ARN; a default group exists whenever its family does."""
    name = name.rpartition(":")[2].lower()
    groups = region.kind(kind.cluster)
    if name not in groups and name.startswith("default."):
        _add_default(region, kind, name.removeprefix("default."))
    if name not in groups:
        raise Fault("DBParameterGroupNotFound", f"{kind.prefix} not found: {name}")
    return groups[name]


def attachable(region: Region, name: str, family: str, *, cluster: bool) -> LabGroup:
    """Return the group, if it has the family that an instance or cluster needs."""
    kind = _CLUSTER if cluster else _DB
    try:
        group = named(region, kind, name)
    except Fault as fault:  # CreateDBCluster and ModifyDBCluster have their own code
        raise Fault(f"{kind.prefix}NotFound", fault.message) from None
    if group.family != family:
        raise Fault(
            "InvalidParameterCombination",
            f"The Parameter Group {group.name} with DBParameterGroupFamily {group.family} cannot be"
            f" used for this instance. Please use a Parameter Group with DBParameterGroupFamily"
            f" {family}",
        )
    return group


def _add_default(region: Region, kind: GroupKind, family: str) -> None:
    try:
        catalogue.entries(family, cluster=kind.cluster)
    except Fault:
        return  # the caller reports it as not found
    _made(region, kind, f"default.{family}", family, f"Default parameter group for {family}", {})


def _create(kind: GroupKind, region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    name = _new_name(region, kind, params[kind.name])
    family = params["DBParameterGroupFamily"]
    catalogue.entries(family, cluster=kind.cluster)
    return _made(region, kind, name, family, params["Description"], params)


def _copy(kind: GroupKind, region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    source = named(region, kind, params[f"Source{kind.prefix}Identifier"])
    if source.default:
        raise invalid_value(f"The default parameter group {source.name} cannot be copied")
    name = _new_name(region, kind, params[f"Target{kind.prefix}Identifier"])
    description = params[f"Target{kind.prefix}Description"]
    answer = _made(region, kind, name, source.family, description, params)
    region.kind(kind.cluster)[name].values = dict(source.values)
    return answer


def _made(
    region: Region,
    kind: GroupKind,
    name: str,
    family: str,
    description: str,
    params: Mapping[str, Any],
) -> dict[str, Any]:
    group = LabGroup(
        name=name,
        family=family,
        description=description,
        arn=region.arn(kind.arn, name),
        cluster=kind.cluster,
        tags=tags(params),
    )
    region.kind(kind.cluster)[name] = group
    return {kind.prefix: _row(kind, group)}


def _new_name(region: Region, kind: GroupKind, text: str) -> str:
    """Return the name in lower case. Source: botocore, CreateDBParameterGroupMessage."""
    if not _NAME.fullmatch(text) or len(text) > _LONGEST:
        raise invalid_value(
            f"The parameter {kind.name} is not a valid identifier. Identifiers must begin with a"
            " letter; must contain only ASCII letters, digits, and hyphens; and must not end with"
            " a hyphen or contain two consecutive hyphens."
        )
    name = text.lower()
    if name in region.kind(kind.cluster):
        raise Fault("DBParameterGroupAlreadyExists", f"Parameter group {name} already exists")
    return name


def _describe(kind: GroupKind, region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    if kind.name in params:
        found = [named(region, kind, params[kind.name])]
    else:
        found = [region.kind(kind.cluster)[name] for name in sorted(region.kind(kind.cluster))]
    return listed(f"{kind.prefix}s", [_row(kind, group) for group in found], params)


def _delete(kind: GroupKind, region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    group = named(region, kind, params[kind.name])
    users = spread.users(region, group)
    if group.default or users:
        why = f"is in use by {', '.join(users)}" if users else "is a default parameter group"
        raise Fault("InvalidDBParameterGroupState", f"Parameter group {group.name} {why}")
    del region.kind(kind.cluster)[group.name]
    return {}


def _modify(kind: GroupKind, region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    group = _changeable(region, kind, params[kind.name])
    changes = parameters.batch(_entries(group), params.get("Parameters", ()))
    group.values |= changes
    for name, value in changes.items():
        tell(region, 37, group, name=name, text=value.text, how=value.method)
    spread.group_changed(region, group, {name: value.method for name, value in changes.items()})
    return {kind.name: group.name}


def _reset(kind: GroupKind, region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    group = _changeable(region, kind, params[kind.name])
    known = _entries(group)
    if params.get("ResetAllParameters", not params.get("Parameters")):
        methods = parameters.full_reset(known, group.values)
    else:
        methods = parameters.reset_batch(known, params.get("Parameters", ()))
    reset = {name: group.values.pop(name) for name in methods if name in group.values}
    for name in reset:
        tell(region, 37, group, name=name, text="its default", how=methods[name])
    spread.group_changed(region, group, {name: methods[name] for name in reset})
    return {kind.name: group.name}


def _changeable(region: Region, kind: GroupKind, name: str) -> LabGroup:
    group = named(region, kind, name)
    if group.default:
        raise invalid_value("Cannot modify a default parameter group.")
    return group


def _parameters(kind: GroupKind, region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    group = named(region, kind, params[kind.name])
    rows = parameters.rows(_entries(group), group.values)
    return listed("Parameters", list(_asked(rows, params)), params)


def _defaults(kind: GroupKind, _region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    family = params["DBParameterGroupFamily"]
    rows = parameters.rows(catalogue.entries(family, cluster=kind.cluster), {})
    shown = listed("Parameters", list(_asked(rows, params)), params)
    return {"EngineDefaults": {"DBParameterGroupFamily": family, **shown}}


def _entries(group: LabGroup) -> parameters.Entries:
    return catalogue.entries(group.family, cluster=group.cluster)


def _asked(rows: Iterable[Row], params: Mapping[str, Any]) -> Iterable[Row]:
    source = params.get("Source")
    names = filters(params, ("parameter-name",)).get("parameter-name")
    if source not in (None, "user", "system", "engine-default"):
        raise invalid_value(f"Invalid value {source} for Source")
    for row in rows:
        if source in (None, row["Source"]) and (names is None or row["ParameterName"] in names):
            yield row


def _row(kind: GroupKind, group: LabGroup) -> Row:
    return {
        kind.name: group.name,
        "DBParameterGroupFamily": group.family,
        "Description": group.description,
        f"{kind.prefix}Arn": group.arn,
    }


def _operations(kind: GroupKind) -> dict[str, _Handler]:
    one, defaults = kind.prefix, "Cluster" if kind.cluster else ""
    parameters_of = "DescribeDBClusterParameters" if kind.cluster else "DescribeDBParameters"
    return {
        f"Create{one}": partial(_create, kind),
        f"Copy{one}": partial(_copy, kind),
        f"Describe{one}s": partial(_describe, kind),
        f"Delete{one}": partial(_delete, kind),
        f"Modify{one}": partial(_modify, kind),
        f"Reset{one}": partial(_reset, kind),
        parameters_of: partial(_parameters, kind),
        f"DescribeEngineDefault{defaults}Parameters": partial(_defaults, kind),
    }


OPERATIONS: Final = _operations(_DB) | _operations(_CLUSTER)
