"""DB clusters: Aurora, with members created one by one, and Multi-AZ DB clusters of three.

Source: botocore's RDS model; the RDS and Aurora User Guides on cluster parameter groups (a
Multi-AZ DB cluster takes values only from its cluster group), on failover, and RebootDBCluster,
which is for Multi-AZ DB clusters only.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from mrtuner.catalog.families import ENGINES
from rdstune.lab import life, spread
from rdstune.lab.operations import groups, instances, versions
from rdstune.lab.operations.events import tell
from rdstune.lab.pages import Row, filters, listed, selected
from rdstune.lab.refusals import Fault, invalid_combination, invalid_value
from rdstune.lab.windows import check_windows
from rdstune.lab.world import Instance, LabCluster, Region, tag_list, tags

_FILTERS: Final = ("db-cluster-id", "engine", "db-cluster-resource-id", "domain")
#: API name: field, for what ModifyDBCluster changes here; always immediately (simplified).
_CHANGES: Final = {
    "PreferredBackupWindow": "backup_window",
    "PreferredMaintenanceWindow": "maintenance_window",
    "BackupRetentionPeriod": "retention",
    "DeletionProtection": "protected",
    "EngineVersion": "version",
    "DBClusterInstanceClass": "class_name",
    "AllocatedStorage": "storage",
    "Iops": "iops",
    "MasterUserPassword": "password",
}


def create(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    """CreateDBCluster; a Multi-AZ DB cluster creates its three members itself."""
    engine = params["Engine"]
    if engine not in ENGINES:
        raise invalid_value(f"Invalid DB engine: {engine}")
    identifier = params["DBClusterIdentifier"].lower()
    if identifier in region.clusters:
        raise Fault("DBClusterAlreadyExistsFault", f"DB Cluster {identifier} already exists")
    cluster = _new(region, identifier, engine, params)
    if not cluster.aurora and cluster.class_name is None:
        raise invalid_combination("A Multi-AZ DB cluster needs a DBClusterInstanceClass")
    check_windows(cluster.backup_window, cluster.maintenance_window)
    groups.attachable(region, cluster.group, cluster.family, cluster=True)
    region.clusters[identifier] = cluster
    if not cluster.aurora:
        _three_members(region, cluster)
    region.clock.after(region.world.delays.create, partial(_born, region, cluster))
    return {"DBCluster": row(region, cluster)}


def describe(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    found = [region.clusters[name] for name in sorted(region.clusters)]
    if "DBClusterIdentifier" in params:
        found = [region.cluster(params["DBClusterIdentifier"])]
    asked = filters(params, _FILTERS)
    rows = [row(region, each) for each in found if _matches(each, asked)]
    return listed("DBClusters", rows, params)


def modify(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    """ModifyDBCluster: a new cluster group waits for a reboot of each member."""
    cluster = _available(region, params["DBClusterIdentifier"])
    changes = {field: params[name] for name, field in _CHANGES.items() if name in params}
    if "DBClusterParameterGroupName" in params:
        _attach(region, cluster, params["DBClusterParameterGroupName"])
    answer = {"DBCluster": row(region, cluster)}
    cluster.status = "modifying"
    region.clock.after(region.world.delays.modify, partial(_changed, region, cluster, changes))
    return answer


def reboot(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    """RebootDBCluster: reboots all members of a Multi-AZ DB cluster."""
    cluster = _available(region, params["DBClusterIdentifier"])
    if cluster.aurora:
        raise invalid_combination("RebootDBCluster is for Multi-AZ DB clusters")
    cluster.status = "rebooting"
    for member in region.members(cluster):
        life.reboot(region, member)
    region.clock.after(region.world.delays.reboot + 1, partial(_available_again, cluster))
    return {"DBCluster": row(region, cluster)}


def fail_over(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    """FailoverDBCluster: to the named member, or to the first reader by promotion tier."""
    cluster = _available(region, params["DBClusterIdentifier"])
    readers = [each for each in region.members(cluster) if each.identifier != cluster.writer]
    target = params.get("TargetDBInstanceIdentifier")
    if target is not None:
        readers = [each for each in readers if each.identifier == target.lower()]
    if not readers:
        raise Fault("InvalidDBClusterStateFault", "There is no reader to fail over to")
    chosen = min(readers, key=lambda each: (each.tier, each.identifier))
    cluster.status = "failing-over"
    tell(region, 73, cluster, name=chosen.identifier)
    writer = region.instances[cluster.writer or chosen.identifier]
    life.power_off(region, writer, crash=True)
    region.clock.after(
        region.world.delays.cluster_failover, partial(_promote, region, cluster, chosen)
    )
    return {"DBCluster": row(region, cluster)}


def delete(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    """DeleteDBCluster: Aurora's members have to be deleted first."""
    cluster = region.cluster(params["DBClusterIdentifier"])
    members = region.members(cluster)
    if cluster.protected:
        raise invalid_combination("Cannot delete protected Cluster, please disable it first")
    if cluster.aurora and members:
        raise Fault("InvalidDBClusterStateFault", "Cluster cannot be deleted, it still contains"
                    " DB instances in non-deleting state.")  # fmt: skip
    cluster.status = "deleting"
    for member in members:
        life.delete(region, member)
    region.clock.after(region.world.delays.delete + 1, partial(_gone, region, cluster))
    return {"DBCluster": row(region, cluster)}


def row(region: Region, cluster: LabCluster) -> Row:
    """Return the cluster as DescribeDBClusters shows it."""
    writer = region.instances.get(cluster.writer or "")
    host = f"{cluster.identifier}.cluster-clab0000rds0.{region.name}.rds.amazonaws.com"
    real = writer is not None and region.world.servers is not None
    return {
        "DBClusterIdentifier": cluster.identifier,
        "DBClusterArn": cluster.arn,
        "DbClusterResourceId": cluster.resource,
        "Engine": cluster.engine,
        "EngineVersion": cluster.version,
        "EngineMode": "provisioned",
        "Status": cluster.status,
        "DBClusterParameterGroup": cluster.group,
        "DBClusterMembers": [_member(cluster, each) for each in region.members(cluster)],
        "Endpoint": writer.host if writer and real else host,
        "ReaderEndpoint": writer.host if writer and real else host.replace("-clab", "-ro-clab"),
        "Port": writer.port if writer and real else cluster.port,
        "MultiAZ": len({each.zone for each in region.members(cluster)}) > 1,
        "MasterUsername": cluster.username,
        "DatabaseName": cluster.database,
        "DBClusterInstanceClass": cluster.class_name,
        "AllocatedStorage": cluster.storage or 1,
        "StorageType": cluster.storage_type,
        "Iops": cluster.iops,
        "StorageEncrypted": cluster.encrypted,
        "KmsKeyId": cluster.key,
        "BackupRetentionPeriod": cluster.retention,
        "PreferredBackupWindow": cluster.backup_window,
        "PreferredMaintenanceWindow": cluster.maintenance_window,
        "DeletionProtection": cluster.protected,
        "ClusterCreateTime": cluster.created,
        "TagList": tag_list(cluster.tags),
    }


def _new(region: Region, identifier: str, engine: str, params: Mapping[str, Any]) -> LabCluster:
    get = params.get
    version = versions.chosen(engine, get("EngineVersion"))
    default = versions.default_group(engine, version)
    return LabCluster(
        identifier=identifier,
        arn=region.arn("cluster", identifier),
        resource=f"cluster-{secrets.token_hex(13).upper()}",
        engine=engine,
        version=version,
        group=get("DBClusterParameterGroupName", default).lower(),
        port=get("Port", 5432),
        created=region.clock.now(),
        backup_window=get("PreferredBackupWindow", "03:00-03:30"),
        maintenance_window=get("PreferredMaintenanceWindow", "sun:05:00-sun:05:30").lower(),
        class_name=get("DBClusterInstanceClass"),
        storage=get("AllocatedStorage"),
        storage_type=get("StorageType"),
        iops=get("Iops"),
        username=get("MasterUsername", "postgres"),
        password=get("MasterUserPassword", ""),
        database=get("DatabaseName"),
        retention=get("BackupRetentionPeriod", 1),
        encrypted=bool(get("StorageEncrypted")),
        key=get("KmsKeyId"),
        protected=bool(get("DeletionProtection")),
        tags=tags(params),
    )


def _three_members(region: Region, cluster: LabCluster) -> None:
    """Create a writer and two readable standbys, each in its own zone."""
    for number, zone in enumerate("abc", start=1):
        instances.create_member(
            region,
            {
                "DBInstanceIdentifier": f"{cluster.identifier}-instance-{number}",
                "DBInstanceClass": cluster.class_name,
                "DBClusterIdentifier": cluster.identifier,
                "Engine": cluster.engine,
                "AllocatedStorage": cluster.storage or 100,
                "StorageType": cluster.storage_type or "io1",
                "AvailabilityZone": f"{region.name}{zone}",
                "PreferredBackupWindow": cluster.backup_window,
                "PreferredMaintenanceWindow": cluster.maintenance_window,
            },
        )


def _member(cluster: LabCluster, instance: Instance) -> Row:
    return {
        "DBInstanceIdentifier": instance.identifier,
        "IsClusterWriter": instance.identifier == cluster.writer,
        "DBClusterParameterGroupStatus": cluster.member_status.get(instance.identifier, "in-sync"),
        "PromotionTier": instance.tier,
    }


def _attach(region: Region, cluster: LabCluster, name: str) -> None:
    group = groups.attachable(region, name, cluster.family, cluster=True)
    if group.name != cluster.group:
        cluster.group = group.name
        for member in region.members(cluster):
            cluster.member_status[member.identifier] = "pending-reboot"


def _changed(region: Region, cluster: LabCluster, changes: Mapping[str, Any]) -> None:
    for field, value in changes.items():
        setattr(cluster, field, value)
    for member in region.members(cluster):
        if "class_name" in changes:
            member.class_name = changes["class_name"]
            life.reboot(region, member)
        member.version = cluster.version
    cluster.status = "available"


def _promote(region: Region, cluster: LabCluster, chosen: Instance) -> None:
    former = region.instances.get(cluster.writer or "")
    cluster.writer = chosen.identifier
    cluster.rested = region.rested()
    for member in filter(None, (former, chosen)):
        spread.restarted(region, member)
        tell(region, 6, member)
    life.boot(region, chosen, partial(_promoted, region, cluster, chosen))


def _promoted(region: Region, cluster: LabCluster, chosen: Instance) -> None:
    cluster.status = "available"
    tell(region, 71, cluster, name=chosen.identifier)


def _born(region: Region, cluster: LabCluster) -> None:
    cluster.status = "available"
    tell(region, 170, cluster)


def _available_again(cluster: LabCluster) -> None:
    if cluster.status == "rebooting":
        cluster.status = "available"


def _gone(region: Region, cluster: LabCluster) -> None:
    region.clusters.pop(cluster.identifier, None)
    tell(region, 171, cluster)


def _available(region: Region, identifier: str) -> LabCluster:
    cluster = region.cluster(identifier)
    if cluster.status != "available":
        raise Fault(
            "InvalidDBClusterStateFault",
            f"DBCluster {cluster.identifier} is not in available state: {cluster.status}",
        )
    return cluster


def _matches(cluster: LabCluster, asked: Mapping[str, set[str]]) -> bool:
    own = {
        "db-cluster-id": {cluster.identifier, cluster.arn},
        "engine": {cluster.engine},
        "db-cluster-resource-id": {cluster.resource},
        "domain": set[str](),
    }
    return selected(own, asked)


OPERATIONS: Final = {
    "CreateDBCluster": create,
    "DescribeDBClusters": describe,
    "ModifyDBCluster": modify,
    "RebootDBCluster": reboot,
    "FailoverDBCluster": fail_over,
    "DeleteDBCluster": delete,
}
