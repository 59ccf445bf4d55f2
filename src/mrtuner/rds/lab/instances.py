"""DB instances: create, replicate, describe, modify, reboot, stop, start, delete.

Source: botocore's RDS model for states, codes and which changes wait for the window; the RDS
User Guide for what restarts. PostgreSQL only. What a change does not concern here (security
groups, domains, options) is accepted and left alone.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from mrtuner.errors import MrTunerError
from mrtuner.rds.lab import groups, life, machine, snapshots, spread, versions
from mrtuner.rds.lab.events import tell
from mrtuner.rds.lab.faults import Fault, invalid_combination, invalid_value
from mrtuner.rds.lab.pages import Row, filters, listed
from mrtuner.rds.lab.windows import check_windows, next_window
from mrtuner.rds.lab.world import Cluster, Instance, Region, tag_list, tags

ENGINES: Final = ("postgres", "aurora-postgresql")
_IDENTIFIER: Final = re.compile(r"[A-Za-z](?:-?[A-Za-z0-9]){0,62}")
_DEFAULT_PORT: Final = 5432
_FILTERS: Final = ("db-instance-id", "db-cluster-id", "dbi-resource-id", "engine", "domain")

#: API name: the field of Instance, for changes that wait for the window unless told otherwise.
_WAITING: Final = {
    "DBInstanceClass": "class_name",
    "AllocatedStorage": "storage",
    "EngineVersion": "version",
    "MultiAZ": "multi_az",
    "StorageType": "storage_type",
    "Iops": "iops",
    "StorageThroughput": "throughput",
    "BackupRetentionPeriod": "retention",
    "MasterUserPassword": "password",
    "DBPortNumber": "port",
}
#: And for those that are always made at once.
_AT_ONCE: Final = {
    "PreferredBackupWindow": "backup_window",
    "PreferredMaintenanceWindow": "maintenance_window",
    "AutoMinorVersionUpgrade": "auto_minor",
    "DeletionProtection": "protected",
    "PubliclyAccessible": "public",
    "EnablePerformanceInsights": "insights",
    "PromotionTier": "tier",
}
_RESTART: Final = frozenset({"class_name", "version", "port"})


def create(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    """CreateDBInstance."""
    engine = params["Engine"]
    if engine not in ENGINES:
        raise invalid_value(f"Invalid DB engine: {engine} (the lab has {' and '.join(ENGINES)})")
    identifier = _new_identifier(region, params["DBInstanceIdentifier"])
    machine.known_class(params["DBInstanceClass"], engine)
    cluster = _its_cluster(region, engine, params)
    version = cluster or versions.chosen(engine, params.get("EngineVersion"))
    instance = _new(region, identifier, engine, version, params)
    if engine == "postgres" and not instance.cluster and "AllocatedStorage" not in params:
        raise invalid_value("Invalid storage size for engine name postgres and storage type gp3")
    _admit(region, instance)
    return {"DBInstance": row(region, instance)}


def create_member(region: Region, params: Mapping[str, Any]) -> None:
    """One of the three instances of a Multi-AZ DB cluster, which makes them itself."""
    machine.known_class(params["DBInstanceClass"], "postgres-multi-az-cluster")
    version = region.cluster(params["DBClusterIdentifier"]).version
    identifier = _new_identifier(region, params["DBInstanceIdentifier"])
    _admit(region, _new(region, identifier, params["Engine"], version, params))


def create_replica(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    """CreateDBInstanceReadReplica, in the region or from another by ARN."""
    source = _source(region, params["SourceDBInstanceIdentifier"])
    identifier = _new_identifier(region, params["DBInstanceIdentifier"])
    if not source.retention:
        raise Fault("InvalidDBInstanceState", "Automated backups are not enabled for the source")
    wanted = {
        "DBInstanceClass": params.get("DBInstanceClass", source.class_name),
        "AllocatedStorage": source.storage,
        "StorageType": source.storage_type,
        "BackupRetentionPeriod": 0,
    } | dict(params)
    machine.known_class(wanted["DBInstanceClass"], source.engine)
    replica = _new(region, identifier, source.engine, source.version, wanted)
    here = source.arn.split(":")[3] == region.name
    replica.source = source.identifier if here else source.arn
    replica.username, replica.password = source.username, source.password
    replica.group = params.get("DBParameterGroupName", source.group if here else replica.group)
    _admit(region, replica)
    return {"DBInstance": row(region, replica)}


def describe(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    """DescribeDBInstances."""
    if "DBInstanceIdentifier" in params:
        found = [region.instance(params["DBInstanceIdentifier"])]
    else:
        found = [region.instances[name] for name in sorted(region.instances)]
    asked = filters(params, _FILTERS)
    chosen = [each for each in found if _matches(each, asked)]
    return listed("DBInstances", [row(region, each) for each in chosen], params)


def modify(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    """ModifyDBInstance: some changes at once, the rest in the window or with ApplyImmediately."""
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
    restarts = bool(_RESTART & at_once.keys())
    answer = {"DBInstance": row(region, instance)}
    if at_once or "DBParameterGroupName" in params:
        life.change(
            region, instance, partial(_assign, region, instance, at_once), restarts=restarts
        )
    return answer


def reboot(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    """RebootDBInstance. From incompatible-parameters too: the User Guide's way out (MEM)."""
    instance = region.instance(params["DBInstanceIdentifier"])
    _demand(instance, "available", "incompatible-parameters")
    if not params.get("ForceFailover"):
        life.reboot(region, instance)
    elif instance.multi_az:
        life.fail_over(region, instance)
    else:
        raise invalid_combination("You cannot force a failover on a Single-AZ DB instance")
    return {"DBInstance": row(region, instance)}


def stop(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    """StopDBInstance."""
    instance = region.instance(params["DBInstanceIdentifier"])
    _demand(instance, "available")
    life.stop(region, instance)
    return {"DBInstance": row(region, instance)}


def start(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    """StartDBInstance."""
    instance = region.instance(params["DBInstanceIdentifier"])
    _demand(instance, "stopped")
    life.start(region, instance)
    return {"DBInstance": row(region, instance)}


def delete(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    """DeleteDBInstance."""
    instance = region.instance(params["DBInstanceIdentifier"])
    if instance.protected:
        raise invalid_combination(
            "Cannot delete protected DB Instance, please disable deletion protection and try again."
        )
    _last_snapshot(region, instance, params)
    life.delete(region, instance)
    return {"DBInstance": row(region, instance)}


def row(region: Region, instance: Instance) -> Row:
    """The instance as DescribeDBInstances shows it."""
    return {
        "DBInstanceIdentifier": instance.identifier,
        "DBInstanceArn": instance.arn,
        "DbiResourceId": instance.resource,
        "DBInstanceClass": instance.class_name,
        "Engine": instance.engine,
        "EngineVersion": instance.version,
        "DBInstanceStatus": instance.status,
        "MasterUsername": instance.username,
        "DBName": instance.database,
        "Endpoint": _endpoint(instance),
        "DbInstancePort": 0,
        "DBParameterGroups": [
            {
                "DBParameterGroupName": instance.group,
                "ParameterApplyStatus": instance.group_status,
            }
        ],
        "PendingModifiedValues": pending_row(instance),
        "InstanceCreateTime": instance.created,
        "DBClusterIdentifier": instance.cluster,
        "ReadReplicaSourceDBInstanceIdentifier": instance.source,
        "ReadReplicaDBInstanceIdentifiers": _replicas(region, instance),
        "TagList": tag_list(instance.tags),
    } | _placing(instance)


def _placing(instance: Instance) -> Row:
    return {
        "AvailabilityZone": instance.zone,
        "SecondaryAvailabilityZone": instance.secondary_zone if instance.multi_az else None,
        "MultiAZ": instance.multi_az,
        "AllocatedStorage": instance.storage,
        "StorageType": instance.storage_type,
        "Iops": instance.iops,
        "StorageThroughput": instance.throughput,
        "StorageEncrypted": instance.encrypted,
        "KmsKeyId": instance.key,
        "PreferredBackupWindow": instance.backup_window,
        "PreferredMaintenanceWindow": instance.maintenance_window,
        "BackupRetentionPeriod": instance.retention,
        "AutoMinorVersionUpgrade": instance.auto_minor,
        "DeletionProtection": instance.protected,
        "PubliclyAccessible": instance.public,
        "PerformanceInsightsEnabled": instance.insights,
        "PromotionTier": instance.tier if instance.cluster else None,
        "LicenseModel": "postgresql-license",
        "CACertificateIdentifier": "rds-ca-rsa2048-g1",
    }


def pending_row(instance: Instance) -> Row:
    """PendingModifiedValues; a password shows as stars, a port by another name."""
    names = {field: name for name, field in _WAITING.items()} | {"port": "Port"}
    shown = {names[field]: value for field, value in instance.pending.items()}
    return shown | ({"MasterUserPassword": "****"} if "password" in instance.pending else {})


def _endpoint(instance: Instance) -> Row | None:
    if instance.status == "creating":
        return None
    return {"Address": instance.host, "Port": instance.port, "HostedZoneId": "Z2R2ITUGPM61AM"}


def _replicas(region: Region, instance: Instance) -> list[str]:
    found = [each.identifier for each in region.replicas(instance)]
    for other in region.world.regions():
        if other is not region:
            found += [each.arn for each in other.replicas(instance)]
    return found


def _new_identifier(region: Region, text: str) -> str:
    if not _IDENTIFIER.fullmatch(text):
        raise invalid_value(
            "The parameter DBInstanceIdentifier is not a valid identifier. Identifiers must begin"
            " with a letter; must contain only ASCII letters, digits, and hyphens; and must not"
            " end with a hyphen or contain two consecutive hyphens."
        )
    if text.lower() in region.instances:
        raise Fault("DBInstanceAlreadyExists", "DB instance already exists")
    return text.lower()


def _last_snapshot(region: Region, instance: Instance, params: Mapping[str, Any]) -> None:
    if instance.cluster or instance.source or params.get("SkipFinalSnapshot"):
        return
    if "FinalDBSnapshotIdentifier" not in params:
        raise invalid_combination(
            "FinalDBSnapshotIdentifier is required unless SkipFinalSnapshot is specified."
        )
    snapshots.take(region, instance, params["FinalDBSnapshotIdentifier"])


def _its_cluster(region: Region, engine: str, params: Mapping[str, Any]) -> str | None:
    """The version of the cluster that the instance joins; None when it joins none."""
    if "DBClusterIdentifier" not in params:
        if engine.startswith("aurora"):
            raise invalid_combination("An Aurora DB instance needs a DBClusterIdentifier")
        return None
    return region.cluster(params["DBClusterIdentifier"]).version


def _new(
    region: Region, identifier: str, engine: str, version: str, params: Mapping[str, Any]
) -> Instance:
    get = params.get
    zone = get("AvailabilityZone", f"{region.name}a")
    multi_az = bool(get("MultiAZ"))
    return Instance(
        identifier=identifier,
        arn=region.arn("db", identifier),
        resource=f"db-{secrets.token_hex(13).upper()}",
        class_name=params["DBInstanceClass"],
        engine=engine,
        version=version,
        zone=zone,
        secondary_zone=_other_zone(region, zone) if multi_az else None,
        multi_az=multi_az,
        host=f"{identifier}.clab0000rds0.{region.name}.rds.amazonaws.com",
        port=get("Port", _DEFAULT_PORT),
        group=get("DBParameterGroupName", versions.default_group(engine, version)).lower(),
        created=region.clock.now(),
        backup_window=get("PreferredBackupWindow", "03:00-03:30"),
        maintenance_window=get("PreferredMaintenanceWindow", "sun:05:00-sun:05:30").lower(),
        username=get("MasterUsername", "postgres"),
        password=get("MasterUserPassword", ""),
        database=get("DBName"),
        storage=get("AllocatedStorage", 1),
        storage_type=get("StorageType") or ("aurora" if engine != "postgres" else "gp3"),
        iops=get("Iops"),
        throughput=get("StorageThroughput"),
        encrypted=bool(get("StorageEncrypted")),
        key=get("KmsKeyId"),
        retention=get("BackupRetentionPeriod", 1),
        auto_minor=get("AutoMinorVersionUpgrade", True),
        protected=bool(get("DeletionProtection")),
        public=bool(get("PubliclyAccessible")),
        insights=bool(get("EnablePerformanceInsights")),
        tier=get("PromotionTier", 1),
        cluster=get("DBClusterIdentifier"),
        tags=tags(params),
    )


def _admit(region: Region, instance: Instance) -> None:
    """Check what goes together, then begin its life."""
    check_windows(instance.backup_window, instance.maintenance_window)
    groups.attachable(region, instance.group, instance.family, cluster=False)
    if instance.cluster:
        _join(region.cluster(instance.cluster), instance)
    _server_at_hand(region, instance)
    region.instances[instance.identifier] = instance
    life.begin(region, instance)


def _join(cluster: Cluster, instance: Instance) -> None:
    """A member more; the first one writes."""
    instance.username, instance.password = cluster.username, cluster.password
    instance.database, instance.retention = cluster.database, cluster.retention
    cluster.member_status[instance.identifier] = "in-sync"
    if cluster.writer is None:
        cluster.writer = instance.identifier


def _server_at_hand(region: Region, instance: Instance) -> None:
    """Ours: a lab with servers says at once that it has no programs for a version."""
    if region.world.servers is None:
        return
    try:
        region.world.servers.offers(instance.major)
    except MrTunerError as error:
        raise invalid_combination(f"the lab has {error.message}") from None
    if not instance.password:
        raise invalid_combination("the lab's servers need a MasterUserPassword")


def _source(region: Region, name: str) -> Instance:
    if name.startswith("arn:"):
        return region.world.region(name.split(":")[3]).instance(name)
    return region.instance(name)


def _matches(instance: Instance, asked: Mapping[str, set[str]]) -> bool:
    own = {
        "db-instance-id": {instance.identifier, instance.arn},
        "db-cluster-id": {instance.cluster or ""},
        "dbi-resource-id": {instance.resource},
        "engine": {instance.engine},
        "domain": set[str](),
    }
    return all(own[name] & wanted for name, wanted in asked.items())


def _changes(instance: Instance, params: Mapping[str, Any]) -> dict[str, Any]:
    """Fields and new values of what really changes."""
    asked = {field: params[name] for name, field in (_WAITING | _AT_ONCE).items() if name in params}
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
    """Into PendingModifiedValues, until the next maintenance window."""
    if not changes:
        return
    instance.pending |= changes
    moment = next_window(instance.maintenance_window, region.clock.now())
    region.clock.at(moment, partial(_window_opens, region, instance))


def _window_opens(region: Region, instance: Instance) -> None:
    if instance.status != "available" or not instance.pending:
        return
    changes, instance.pending = instance.pending, {}
    restarts = bool(_RESTART & changes.keys())
    life.change(region, instance, partial(_assign, region, instance, changes), restarts=restarts)


def _assign(region: Region, instance: Instance, changes: Mapping[str, Any]) -> None:
    for field, value in changes.items():
        setattr(instance, field, value)
    if instance.multi_az and instance.secondary_zone is None:
        instance.secondary_zone = _other_zone(region, instance.zone)


def _other_zone(region: Region, zone: str) -> str:
    return f"{region.name}b" if zone != f"{region.name}b" else f"{region.name}c"


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
