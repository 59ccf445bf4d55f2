"""New instances: the checks before one is created."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Any, Final

from mrtuner.errors import MrTunerError
from rdstune.lab import life
from rdstune.lab.operations import groups, versions
from rdstune.lab.refusals import Fault, invalid_combination, invalid_value
from rdstune.lab.windows import check_windows
from rdstune.lab.world import Instance, LabCluster, Region, tags

_IDENTIFIER: Final = re.compile(r"[A-Za-z](?:-?[A-Za-z0-9]){0,62}")
_DEFAULT_PORT: Final = 5432


def new_identifier(region: Region, text: str) -> str:
    """Return the name in lower case, as RDS stores it; refuse it when invalid or taken."""
    if not _IDENTIFIER.fullmatch(text):
        raise invalid_value(
            "The parameter DBInstanceIdentifier is not a valid identifier. Identifiers must begin"
            " with a letter; must contain only ASCII letters, digits, and hyphens; and must not"
            " end with a hyphen or contain two consecutive hyphens."
        )
    if text.lower() in region.instances:
        raise Fault("DBInstanceAlreadyExists", "DB instance already exists")
    return text.lower()


def cluster_version(region: Region, engine: str, params: Mapping[str, Any]) -> str | None:
    """Return the version of the cluster that the instance joins; None when it joins none."""
    if "DBClusterIdentifier" not in params:
        if engine.startswith("aurora"):
            raise invalid_combination("An Aurora DB instance needs a DBClusterIdentifier")
        return None
    return region.cluster(params["DBClusterIdentifier"]).version


def new(
    region: Region, identifier: str, engine: str, version: str, params: Mapping[str, Any]
) -> Instance:
    """Return an instance as CreateDBInstance describes it, with AWS's defaults where known."""
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
        secondary_zone=other_zone(region, zone) if multi_az else None,
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


def admit(region: Region, instance: Instance) -> None:
    """Check that its options fit together, then create it."""
    check_windows(instance.backup_window, instance.maintenance_window)
    groups.attachable(region, instance.group, instance.family, cluster=False)
    if instance.cluster:
        _join(region.cluster(instance.cluster), instance)
    _server_at_hand(region, instance)
    region.instances[instance.identifier] = instance
    life.begin(region, instance)


def _join(cluster: LabCluster, instance: Instance) -> None:
    """Add a member; the first one is the writer."""
    instance.username, instance.password = cluster.username, cluster.password
    instance.database, instance.retention = cluster.database, cluster.retention
    cluster.member_status[instance.identifier] = "in-sync"
    if cluster.writer is None:
        cluster.writer = instance.identifier


def _server_at_hand(region: Region, instance: Instance) -> None:
    """Fail early, unlike RDS: a lab with servers may have no programs for a version."""
    if region.world.servers is None:
        return
    try:
        region.world.servers.offers(instance.major)
    except MrTunerError as error:
        raise invalid_combination(f"in the lab: {error.message}") from None
    if not instance.password:
        raise invalid_combination("the lab's servers need a MasterUserPassword")


def other_zone(region: Region, zone: str) -> str:
    return f"{region.name}b" if zone != f"{region.name}b" else f"{region.name}c"
