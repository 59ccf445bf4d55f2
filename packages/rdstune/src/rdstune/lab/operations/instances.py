"""DB instances: create, replicate, describe, modify, reboot, stop, start, delete.

Source: botocore's RDS model for states, codes and which changes wait for the window; the RDS
User Guide for what restarts. PostgreSQL only. Changes that have no meaning here (security groups,
domains, options) are accepted and ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from mrtuner.catalog.families import ENGINES
from mrtuner.wording import enumerated
from rdstune.lab import life, making, rows, spread
from rdstune.lab.operations import groups, snapshots, versions
from rdstune.lab.operations.events import tell
from rdstune.lab.pages import filters, listed, selected
from rdstune.lab.refusals import Fault, invalid_combination, invalid_value
from rdstune.lab.rows import WAITING
from rdstune.lab.servers import machine
from rdstune.lab.windows import check_windows, next_window
from rdstune.lab.world import Instance, Region

_FILTERS: Final = ("db-instance-id", "db-cluster-id", "dbi-resource-id", "engine", "domain")

#: API name: the field of Instance, for changes that are always immediate.
_AT_ONCE: Final = {
    "PreferredBackupWindow": "backup_window",
    "PreferredMaintenanceWindow": "maintenance_window",
    "AutoMinorVersionUpgrade": "auto_minor",
    "DeletionProtection": "protected",
    "PubliclyAccessible": "public",
    "EnablePerformanceInsights": "insights",
    "PromotionTier": "tier",
}
#: Field: number of the event that reports its change.
_TOLD: Final = {"class_name": 14, "storage": 17}
_RESTART: Final = frozenset({"class_name", "version", "port"})


def create(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    engine = params["Engine"]
    if engine not in ENGINES:
        raise invalid_value(f"Invalid DB engine: {engine} (the lab has {enumerated(ENGINES)})")
    identifier = making.new_identifier(region, params["DBInstanceIdentifier"])
    machine.known_class(params["DBInstanceClass"], engine)
    cluster = making.cluster_version(region, engine, params)
    version = cluster or versions.chosen(engine, params.get("EngineVersion"))
    instance = making.new(region, identifier, engine, version, params)
    if engine == "postgres" and not instance.cluster and "AllocatedStorage" not in params:
        raise invalid_value("Invalid storage size for engine name postgres and storage type gp3")
    making.admit(region, instance)
    return {"DBInstance": rows.row(region, instance)}


def create_member(region: Region, params: Mapping[str, Any]) -> None:
    """Create one of the three instances of a Multi-AZ DB cluster, as the cluster does itself."""
    machine.known_class(params["DBInstanceClass"], "postgres-multi-az-cluster")
    version = region.cluster(params["DBClusterIdentifier"]).version
    identifier = making.new_identifier(region, params["DBInstanceIdentifier"])
    making.admit(region, making.new(region, identifier, params["Engine"], version, params))


def create_replica(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    """CreateDBInstanceReadReplica, within the region or from another one by ARN."""
    name = params["SourceDBInstanceIdentifier"]
    source = region.home_of(name).instance(name)
    identifier = making.new_identifier(region, params["DBInstanceIdentifier"])
    if not source.retention:
        raise Fault("InvalidDBInstanceState", "Automated backups are not enabled for the source")
    wanted = {
        "DBInstanceClass": params.get("DBInstanceClass", source.class_name),
        "AllocatedStorage": source.storage,
        "StorageType": source.storage_type,
        "BackupRetentionPeriod": 0,
    } | dict(params)
    machine.known_class(wanted["DBInstanceClass"], source.engine)
    replica = making.new(region, identifier, source.engine, source.version, wanted)
    here = source.arn.split(":")[3] == region.name
    replica.source = source.identifier if here else source.arn
    replica.username, replica.password = source.username, source.password
    replica.group = params.get("DBParameterGroupName", source.group if here else replica.group)
    making.admit(region, replica)
    return {"DBInstance": rows.row(region, replica)}


def describe(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    if "DBInstanceIdentifier" in params:
        found = [region.instance(params["DBInstanceIdentifier"])]
    else:
        found = [region.instances[name] for name in sorted(region.instances)]
    asked = filters(params, _FILTERS)
    chosen = [each for each in found if _matches(each, asked)]
    return listed("DBInstances", [rows.row(region, each) for each in chosen], params)


def modify(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    """ModifyDBInstance: some changes immediately, others in the window or with ApplyImmediately."""
    instance = region.instance(params["DBInstanceIdentifier"])
    _demand(instance, "available", "storage-optimization")
    changes = _changes(instance, params)
    _check_changes(instance, changes)
    if "DBParameterGroupName" in params:
        _attach(region, instance, params["DBParameterGroupName"])
    at_once = {field: changes.pop(field) for field in list(changes) if field in _AT_ONCE.values()}
    if params.get("ApplyImmediately"):
        at_once |= instance.pending | changes
        instance.pending = {}
    else:
        _postpone(region, instance, changes)
    answer = {"DBInstance": rows.row(region, instance)}
    if at_once or "DBParameterGroupName" in params:
        _make(region, instance, at_once, attaches="DBParameterGroupName" in params)
    return answer


def reboot(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    """RebootDBInstance; in incompatible-parameters, only this and a delete are possible.

    Source of the latter: AWS re:Post, "incompatible-parameters" (written about Aurora), and the
    RDS User Guide at RDS-EVENT-0035.
    """
    instance = region.instance(params["DBInstanceIdentifier"])
    _demand(instance, "available", "incompatible-parameters")
    if not params.get("ForceFailover"):
        life.reboot(region, instance)
    elif instance.multi_az:
        life.fail_over(region, instance)
    else:
        raise invalid_combination("You cannot force a failover on a Single-AZ DB instance")
    return {"DBInstance": rows.row(region, instance)}


def stop(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    instance = region.instance(params["DBInstanceIdentifier"])
    _demand(instance, "available")
    life.stop(region, instance)
    return {"DBInstance": rows.row(region, instance)}


def start(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    instance = region.instance(params["DBInstanceIdentifier"])
    _demand(instance, "stopped")
    life.start(region, instance)
    return {"DBInstance": rows.row(region, instance)}


def delete(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    instance = region.instance(params["DBInstanceIdentifier"])
    if instance.protected:
        raise invalid_combination(
            "Cannot delete protected DB Instance, please disable deletion protection and try again."
        )
    _last_snapshot(region, instance, params)
    life.delete(region, instance)
    return {"DBInstance": rows.row(region, instance)}


def _last_snapshot(region: Region, instance: Instance, params: Mapping[str, Any]) -> None:
    if instance.cluster or instance.source or params.get("SkipFinalSnapshot"):
        return
    if "FinalDBSnapshotIdentifier" not in params:
        raise invalid_combination(
            "FinalDBSnapshotIdentifier is required unless SkipFinalSnapshot is specified."
        )
    snapshots.take(region, instance, params["FinalDBSnapshotIdentifier"])


def _matches(instance: Instance, asked: Mapping[str, set[str]]) -> bool:
    own = {
        "db-instance-id": {instance.identifier, instance.arn},
        "db-cluster-id": {instance.cluster or ""},
        "dbi-resource-id": {instance.resource},
        "engine": {instance.engine},
        "domain": set[str](),
    }
    return selected(own, asked)


def _changes(instance: Instance, params: Mapping[str, Any]) -> dict[str, Any]:
    asked = {field: params[name] for name, field in (WAITING | _AT_ONCE).items() if name in params}
    return {field: value for field, value in asked.items() if getattr(instance, field) != value}


def _check_changes(instance: Instance, changes: Mapping[str, Any]) -> None:
    if "class_name" in changes:
        machine.known_class(changes["class_name"], instance.engine)
    if "version" in changes:
        versions.check_upgrade(instance, changes["version"])
    if changes.get("storage", instance.storage) < instance.storage:
        raise invalid_combination("Invalid storage size: storage cannot be reduced")
    check_windows(
        changes.get("backup_window", instance.backup_window),
        changes.get("maintenance_window", instance.maintenance_window),
    )


def _attach(region: Region, instance: Instance, name: str) -> None:
    group = groups.attachable(region, name, instance.family, cluster=False)
    if group.name != instance.group:
        spread.attached(region, instance, group)
        tell(region, 11, instance, name=group.name)


def _postpone(region: Region, instance: Instance, changes: Mapping[str, Any]) -> None:
    """Put changes into PendingModifiedValues until the next maintenance window."""
    if not changes:
        return
    instance.pending |= changes
    moment = next_window(instance.maintenance_window, region.clock.now())
    region.clock.at(moment, partial(_window_opens, region, instance))


def _window_opens(region: Region, instance: Instance) -> None:
    if instance.status != "available" or not instance.pending:
        return
    changes, instance.pending = instance.pending, {}
    _make(region, instance, changes)


def _make(
    region: Region, instance: Instance, changes: Mapping[str, Any], *, attaches: bool = False
) -> None:
    """Start making changes; their events follow when they are done."""
    told = [number for field, number in _TOLD.items() if field in changes]
    if "multi_az" in changes:
        told.append(25 if changes["multi_az"] else 29)
    if attaches:
        told.append(92)
    if "class_name" in changes:
        tell(region, 12, instance)
    assign = partial(_assign, region, instance, changes)
    life.change(region, instance, assign, told, restarts=bool(_RESTART & changes.keys()))


def _assign(region: Region, instance: Instance, changes: Mapping[str, Any]) -> None:
    for field, value in changes.items():
        setattr(instance, field, value)
    if instance.multi_az and instance.secondary_zone is None:
        instance.secondary_zone = making.other_zone(region, instance.zone)


def _demand(instance: Instance, *statuses: str) -> None:
    if instance.status not in statuses:
        raise Fault(
            "InvalidDBInstanceState",
            f"Instance {instance.identifier} is not in {statuses[0]} state: {instance.status}",
        )


OPERATIONS: Final = {
    "CreateDBInstance": create,
    "CreateDBInstanceReadReplica": create_replica,
    "DescribeDBInstances": describe,
    "ModifyDBInstance": modify,
    "RebootDBInstance": reboot,
    "StopDBInstance": stop,
    "StartDBInstance": start,
    "DeleteDBInstance": delete,
}
