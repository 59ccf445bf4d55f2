"""RDS's answers as typed rows. Field names follow the API's, in our spelling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

ApplyMethod = Literal["immediate", "pending-reboot"]
Source = Literal["user", "system", "engine-default"]


class Scope(StrEnum):
    """The kind of parameter group; its value is how boto3 spells it in method names."""

    INSTANCE = "db"
    CLUSTER = "db_cluster"

    @property
    def prefix(self) -> str:
        """The kind as the API spells it: DBClusterParameterGroupName."""
        return "DBCluster" if self is Scope.CLUSTER else "DB"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupUse:
    """A parameter group as one instance or cluster member uses it."""

    name: str
    status: str  # ParameterApplyStatus: in-sync, applying, pending-reboot, failed-to-apply …


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One DB instance. Source: shape DBInstance of the RDS API 2014-10-31."""

    identifier: str
    arn: str
    resource_id: str  # unchanged when the instance is renamed
    class_name: str  # db.r6g.xlarge
    engine: str  # postgres, aurora-postgresql
    engine_version: str
    status: str
    groups: tuple[GroupUse, ...]
    host: str | None = None
    port: int | None = None
    multi_az: bool = False
    zone: str | None = None
    secondary_zone: str | None = None
    cluster: str | None = None  # of Aurora and of Multi-AZ DB clusters
    replica_of: str | None = None  # identifier, or ARN when in another region
    replicas: tuple[str, ...] = ()
    allocated_storage: int = 0  # GiB
    storage_type: str | None = None
    iops: int | None = None
    storage_throughput: int | None = None  # MiB/s
    maintenance_window: str | None = None  # UTC: sun:05:00-sun:05:30
    backup_window: str | None = None  # UTC: 03:00-03:30
    backup_retention: int = 0  # days
    pending: Mapping[str, Any] = field(default_factory=dict)  # PendingModifiedValues
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def major(self) -> int:
        """The major version of PostgreSQL; 0 if unknown."""
        head = self.engine_version.partition(".")[0]
        return int(head) if head.isdigit() else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """An instance's place in a cluster."""

    identifier: str
    writer: bool
    group_status: str  # DBClusterParameterGroupStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class RdsCluster:
    """One Aurora cluster or Multi-AZ DB cluster. Source: shape DBCluster."""

    identifier: str
    arn: str
    resource_id: str
    engine: str
    engine_version: str
    status: str
    group: str
    members: tuple[Member, ...]
    class_name: str | None = None  # of Multi-AZ DB clusters
    host: str | None = None
    port: int | None = None
    maintenance_window: str | None = None
    pending: Mapping[str, Any] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterGroup:
    """One parameter group, of instances or of clusters."""

    name: str
    family: str
    description: str
    arn: str
    scope: Scope = Scope.INSTANCE

    @property
    def default(self) -> bool:
        """Whether it is one of AWS's own, which cannot be changed."""
        return self.name.startswith("default.")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupParameter:
    """One parameter of a group. Source: shape Parameter."""

    name: str
    value: str | None  # None: the engine's own default
    source: str = "engine-default"  # user, system, engine-default
    apply_type: str = "dynamic"  # static, dynamic
    data_type: str = "string"
    allowed: str | None = None
    modifiable: bool = True
    apply_method: ApplyMethod = "pending-reboot"
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RdsEvent:
    """One event of DescribeEvents. The API gives no event number, only the text."""

    source: str  # instance, cluster or group identifier
    source_type: str
    at: datetime
    message: str
    categories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingAction:
    """A pending maintenance action. Source: shape PendingMaintenanceAction."""

    resource: str  # ARN
    action: str  # system-update, db-upgrade, hardware-maintenance, ca-certificate-rotation …
    description: str
    auto_applied_after: datetime | None = None
    forced_apply: datetime | None = None
    current_apply: datetime | None = None
    opt_in: str | None = None


def instance_row(row: Mapping[str, Any]) -> Instance:
    """Read a row of DescribeDBInstances."""
    endpoint = row.get("Endpoint") or {}
    return Instance(
        identifier=row["DBInstanceIdentifier"],
        arn=row.get("DBInstanceArn", ""),
        resource_id=row.get("DbiResourceId", ""),
        class_name=row.get("DBInstanceClass", ""),
        engine=row.get("Engine", ""),
        engine_version=row.get("EngineVersion", ""),
        status=row.get("DBInstanceStatus", ""),
        groups=tuple(_group_use(one) for one in row.get("DBParameterGroups", ())),
        host=endpoint.get("Address"),
        port=endpoint.get("Port"),
        multi_az=bool(row.get("MultiAZ")),
        zone=row.get("AvailabilityZone"),
        secondary_zone=row.get("SecondaryAvailabilityZone"),
        cluster=row.get("DBClusterIdentifier"),
        replica_of=row.get("ReadReplicaSourceDBInstanceIdentifier"),
        replicas=tuple(row.get("ReadReplicaDBInstanceIdentifiers", ())),
        allocated_storage=int(row.get("AllocatedStorage") or 0),
        storage_type=row.get("StorageType"),
        iops=row.get("Iops"),
        storage_throughput=row.get("StorageThroughput"),
        maintenance_window=row.get("PreferredMaintenanceWindow"),
        backup_window=row.get("PreferredBackupWindow"),
        backup_retention=int(row.get("BackupRetentionPeriod") or 0),
        pending=row.get("PendingModifiedValues") or {},
        tags=tags_of(row.get("TagList", ())),
    )


def _group_use(row: Mapping[str, Any]) -> GroupUse:
    return GroupUse(
        name=row.get("DBParameterGroupName", ""), status=row.get("ParameterApplyStatus", "")
    )


def tags_of(rows: Sequence[Mapping[str, str]]) -> dict[str, str]:
    return {row["Key"]: row.get("Value", "") for row in rows}


def cluster_row(row: Mapping[str, Any]) -> RdsCluster:
    """Read a row of DescribeDBClusters."""
    return RdsCluster(
        identifier=row["DBClusterIdentifier"],
        arn=row.get("DBClusterArn", ""),
        resource_id=row.get("DbClusterResourceId", ""),
        engine=row.get("Engine", ""),
        engine_version=row.get("EngineVersion", ""),
        status=row.get("Status", ""),
        group=row.get("DBClusterParameterGroup", ""),
        members=tuple(_member(one) for one in row.get("DBClusterMembers", ())),
        class_name=row.get("DBClusterInstanceClass"),
        host=row.get("Endpoint"),
        port=row.get("Port"),
        maintenance_window=row.get("PreferredMaintenanceWindow"),
        pending=row.get("PendingModifiedValues") or {},
        tags=tags_of(row.get("TagList", ())),
    )


def _member(row: Mapping[str, Any]) -> Member:
    return Member(
        identifier=row.get("DBInstanceIdentifier", ""),
        writer=bool(row.get("IsClusterWriter")),
        group_status=row.get("DBClusterParameterGroupStatus", ""),
    )


def group_row(row: Mapping[str, Any], scope: Scope) -> ParameterGroup:
    """Read a row of DescribeDBParameterGroups or DescribeDBClusterParameterGroups."""
    prefix = f"{scope.prefix}ParameterGroup"
    return ParameterGroup(
        name=row[f"{prefix}Name"],
        family=row.get("DBParameterGroupFamily", ""),
        description=row.get("Description", ""),
        arn=row.get(f"{prefix}Arn", ""),
        scope=scope,
    )


def parameter_row(row: Mapping[str, Any]) -> GroupParameter:
    """Read a row of DescribeDBParameters and related calls."""
    return GroupParameter(
        name=row["ParameterName"],
        value=row.get("ParameterValue"),
        source=row.get("Source", "engine-default"),
        apply_type=row.get("ApplyType", "dynamic"),
        data_type=row.get("DataType", "string"),
        allowed=row.get("AllowedValues"),
        modifiable=bool(row.get("IsModifiable", True)),
        apply_method=row.get("ApplyMethod", "pending-reboot"),
        description=row.get("Description", ""),
    )


def event_row(row: Mapping[str, Any]) -> RdsEvent:
    """Read a row of DescribeEvents."""
    return RdsEvent(
        source=row.get("SourceIdentifier", ""),
        source_type=row.get("SourceType", ""),
        at=row["Date"],
        message=row.get("Message", ""),
        categories=tuple(row.get("EventCategories", ())),
    )


def action_row(resource: str, row: Mapping[str, Any]) -> PendingAction:
    """Read a row of DescribePendingMaintenanceActions."""
    return PendingAction(
        resource=resource,
        action=row.get("Action", ""),
        description=row.get("Description", ""),
        auto_applied_after=row.get("AutoAppliedAfterDate"),
        forced_apply=row.get("ForcedApplyDate"),
        current_apply=row.get("CurrentApplyDate"),
        opt_in=row.get("OptInStatus"),
    )
