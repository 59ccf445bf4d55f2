"""Pending maintenance: list it, opt in to it, and carry it out when due.

Source: botocore's RDS model, PendingMaintenanceAction, and the RDS User Guide, "Maintaining a DB
instance": AutoAppliedAfterDate is applied in the first window after it, ForcedApplyDate regardless
of the window, an opt-in to `immediate` cannot be undone, and an action without dates is optional.
A Multi-AZ instance is patched through its standby: one failover.

RDS-EVENT-0026 says that the instance is unavailable, 0027 that it is available again (notes on
these events in the User Guide).

Guessed: how long the patching before the outage takes, that the status is `maintenance`, and that
all members of a Multi-AZ DB cluster restart together.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final

from rdstune.lab import life
from rdstune.lab.operations.events import tell
from rdstune.lab.pages import Row, filters, listed
from rdstune.lab.refusals import Fault, invalid_value
from rdstune.lab.windows import next_window
from rdstune.lab.world import Instance, LabCluster, Maintenance, Region

_OPT_INS: Final = ("immediate", "next-maintenance", "undo-opt-in")
_FILTERS: Final = ("db-cluster-id", "db-instance-id")


def add(region: Region, arn: str, action: Maintenance) -> None:
    """Add a pending action to a resource; it is carried out when its dates say."""
    resource = _resource(region, arn)
    region.maintenance.setdefault(resource.arn, []).append(action)
    if action.action in ("os-upgrade", "system-update"):
        for instance in _instances(region, resource):
            tell(region, 230, instance)
    _plan(region, resource, action)


def describe(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    asked = filters(params, _FILTERS)
    wanted = params.get("ResourceIdentifier")
    rows = [
        _row(arn, actions)
        for arn, actions in sorted(region.maintenance.items())
        if actions and wanted in (None, arn) and _matches(arn, asked)
    ]
    return listed("PendingMaintenanceActions", rows, params)


def opt_in(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    resource = _resource(region, params["ResourceIdentifier"])
    action = _pending(region, resource.arn, params["ApplyAction"])
    kind = params["OptInType"]
    if kind not in _OPT_INS:
        raise invalid_value(f"Invalid opt-in type: {kind}")
    if action.opted == "immediate":
        raise Fault("InvalidDBInstanceState", "An immediate opt-in request cannot be undone")
    if kind == "immediate" and resource.status != "available":
        raise Fault("InvalidDBInstanceState", f"{resource.identifier} is not in available state")
    action.opted = None if kind == "undo-opt-in" else kind
    _plan(region, resource, action)
    return {
        "ResourcePendingMaintenanceActions": _row(resource.arn, region.maintenance[resource.arn])
    }


def _plan(region: Region, resource: Instance | LabCluster, action: Maintenance) -> None:
    """Calculate when it will be done, and schedule it."""
    action.planned = _moment(region.clock.now(), resource, action)
    if action.planned is not None:
        due = partial(_due, region, resource, action, action.planned)
        region.clock.at(action.planned, due)


def _moment(now: datetime, resource: Instance | LabCluster, action: Maintenance) -> datetime | None:
    if action.opted == "immediate":
        return now
    moments = [action.forced] if action.forced else []
    if action.auto_applied:
        after = max(now, action.auto_applied)
        moments.append(next_window(resource.maintenance_window, after))
    if action.opted == "next-maintenance":
        moments.append(next_window(resource.maintenance_window, now))
    return min(moments, default=None)


def _due(
    region: Region, resource: Instance | LabCluster, action: Maintenance, planned: datetime
) -> None:
    """Begin, unless it was rescheduled; if the resource is busy, wait for the next window."""
    pending = region.maintenance.get(resource.arn, [])
    if action not in pending or action.started or action.planned != planned:
        return
    if resource.status != "available":
        action.planned = next_window(resource.maintenance_window, region.clock.now())
        region.clock.at(action.planned, partial(_due, region, resource, action, action.planned))
        return
    action.started = True
    if isinstance(resource, LabCluster):
        resource.status = "maintenance"
    for instance in _instances(region, resource):
        _patch(region, instance)
    done = partial(_done, region, resource, action)
    region.clock.after(region.world.delays.patch + region.world.delays.failover + 1, done)


def _patch(region: Region, instance: Instance) -> None:
    """Patch with the database up, then restart or fail over once."""
    instance.status = "maintenance"
    region.clock.after(region.world.delays.patch, partial(_switch, region, instance))


def _switch(region: Region, instance: Instance) -> None:
    if region.instances.get(instance.identifier) is not instance:
        return
    if instance.multi_az:
        instance.rested = None
        life.fail_over(region, instance)
    else:
        tell(region, 26, instance)
        life.reboot(region, instance, (6, 27))


def _done(region: Region, resource: Instance | LabCluster, action: Maintenance) -> None:
    if action not in region.maintenance.get(resource.arn, []):
        return
    region.maintenance[resource.arn].remove(action)
    if isinstance(resource, LabCluster):
        resource.status = "available"
    for instance in _instances(region, resource):
        tell(region, 47, instance)


def _instances(region: Region, resource: Instance | LabCluster) -> list[Instance]:
    return [resource] if isinstance(resource, Instance) else region.members(resource)


def _resource(region: Region, arn: str) -> Instance | LabCluster:
    name = arn.rpartition(":")[2]
    found = region.clusters.get(name) if ":cluster:" in arn else region.instances.get(name)
    if found is None:
        raise Fault("ResourceNotFoundFault", f"The specified resource {arn} was not found.")
    return found


def _pending(region: Region, arn: str, name: str) -> Maintenance:
    for action in region.maintenance.get(arn, ()):
        if action.action == name:
            return action
    raise Fault("ResourceNotFoundFault", f"{arn} has no pending action {name}")


def _row(arn: str, actions: list[Maintenance]) -> Row:
    return {
        "ResourceIdentifier": arn,
        "PendingMaintenanceActionDetails": [
            {
                "Action": each.action,
                "Description": each.description,
                "AutoAppliedAfterDate": each.auto_applied,
                "ForcedApplyDate": each.forced,
                "OptInStatus": each.opted,
                "CurrentApplyDate": each.planned,
            }
            for each in actions
        ],
    }


def _matches(arn: str, asked: Mapping[str, set[str]]) -> bool:
    name = arn.rpartition(":")[2]
    kinds = {"db-cluster-id": ":cluster:", "db-instance-id": ":db:"}
    return all(kinds[key] in arn and bool({name, arn} & values) for key, values in asked.items())


OPERATIONS: Final = {
    "DescribePendingMaintenanceActions": describe,
    "ApplyPendingMaintenanceAction": opt_in,
}
