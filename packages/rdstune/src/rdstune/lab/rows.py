"""An instance as DescribeDBInstances shows it."""

from __future__ import annotations

from typing import Final

from rdstune.lab.pages import Row
from rdstune.lab.world import Instance, Region, tag_list

#: API name: the field of Instance, for changes that by default wait for the window.
WAITING: Final = {
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


def row(region: Region, instance: Instance) -> Row:
    """Return the instance as DescribeDBInstances shows it."""
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
    """Return PendingModifiedValues; a password shows as stars, a port under another name."""
    names = {field: name for name, field in WAITING.items()} | {"port": "Port"}
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
