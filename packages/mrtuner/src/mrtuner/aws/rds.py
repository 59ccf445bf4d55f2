"""Amazon RDS: one function per call, with all pages read and typed rows.

Every function takes a boto3 client of RDS (`session.client("rds", account)`) and raises AwsError.
Docstrings of writes name AWS's requirements. No function waits for an operation to finish.
Source of names and limits: botocore's service model of the RDS API 2014-10-31.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from mrtuner.aws.calls import call, pages
from mrtuner.aws.rows import (
    ApplyMethod,
    GroupParameter,
    Instance,
    ParameterGroup,
    PendingAction,
    RdsCluster,
    RdsEvent,
    Scope,
    Source,
    action_row,
    cluster_row,
    event_row,
    group_row,
    instance_row,
    parameter_row,
)

#: Parameters that one Modify or Reset call may name. Source: ModifyDBParameterGroupMessage.
BATCH: Final = 20


# Instances and clusters.


def instances(client: Any, **filters: str) -> Iterator[Instance]:
    """Yield every instance of the region; filters use the API's names: engine="postgres"."""
    rows = pages(client, "describe_db_instances", "DBInstances", **_filtered(filters))
    return (instance_row(row) for row in rows)


def instance(client: Any, identifier: str) -> Instance:
    """Return an instance. AwsError with `not_found` when this region has none with that name."""
    answer = call(client, "describe_db_instances", DBInstanceIdentifier=identifier)
    return instance_row(answer["DBInstances"][0])


def clusters(client: Any, **filters: str) -> Iterator[RdsCluster]:
    rows = pages(client, "describe_db_clusters", "DBClusters", **_filtered(filters))
    return (cluster_row(row) for row in rows)


def cluster(client: Any, identifier: str) -> RdsCluster:
    """Return a cluster. AwsError with `not_found` when this region has none with that name."""
    answer = call(client, "describe_db_clusters", DBClusterIdentifier=identifier)
    return cluster_row(answer["DBClusters"][0])


def attach_group(client: Any, identifier: str, group: str) -> Instance:
    """Attach another parameter group, whose values wait for a reboot without failover.

    The name changes immediately. ApplyImmediately is omitted on purpose: it would also apply
    everything else that is pending on the instance, such as a new class or an engine upgrade.
    Source: ModifyDBInstanceMessage, DBParameterGroupName and ApplyImmediately.
    """
    answer = call(
        client,
        "modify_db_instance",
        DBInstanceIdentifier=identifier,
        DBParameterGroupName=group,
    )
    return instance_row(answer["DBInstance"])


def attach_cluster_group(client: Any, identifier: str, group: str) -> RdsCluster:
    """Attach another cluster parameter group immediately.

    Here ApplyImmediately affects this request alone. Source: ModifyDBClusterMessage.
    """
    answer = call(
        client,
        "modify_db_cluster",
        DBClusterIdentifier=identifier,
        DBClusterParameterGroupName=group,
        ApplyImmediately=True,
    )
    return cluster_row(answer["DBCluster"])


def reboot(client: Any, identifier: str, *, failover: bool = False) -> Instance:
    """Reboot an available instance; with failover it must be Multi-AZ."""
    arguments = {"ForceFailover": True} if failover else {}
    answer = call(client, "reboot_db_instance", DBInstanceIdentifier=identifier, **arguments)
    return instance_row(answer["DBInstance"])


def reboot_cluster(client: Any, identifier: str) -> RdsCluster:
    """Reboot a Multi-AZ DB cluster (Aurora's members are rebooted one by one)."""
    answer = call(client, "reboot_db_cluster", DBClusterIdentifier=identifier)
    return cluster_row(answer["DBCluster"])


# Parameter groups.


def groups(client: Any, scope: Scope = Scope.INSTANCE) -> Iterator[ParameterGroup]:
    """Yield every parameter group of the region, including the default ones."""
    method = f"describe_{scope}_parameter_groups"
    rows = pages(client, method, f"{scope.prefix}ParameterGroups")
    return (group_row(row, scope) for row in rows)


def group(client: Any, name: str, scope: Scope = Scope.INSTANCE) -> ParameterGroup:
    """Return a parameter group. AwsError with `not_found` when none has that name."""
    answer = call(client, f"describe_{scope}_parameter_groups", **_named(name, scope))
    return group_row(answer[f"{scope.prefix}ParameterGroups"][0], scope)


def parameters(
    client: Any, name: str, scope: Scope = Scope.INSTANCE, source: Source | None = None
) -> tuple[GroupParameter, ...]:
    """Return the parameters of a group; with `source` "user", only the user-set ones."""
    wanted = {"Source": source} if source else {}
    rows = pages(
        client, f"describe_{scope}_parameters", "Parameters", **_named(name, scope), **wanted
    )
    return tuple(parameter_row(row) for row in rows)


def create_group(
    client: Any, name: str, family: str, description: str, scope: Scope = Scope.INSTANCE
) -> ParameterGroup:
    answer = call(
        client,
        f"create_{scope}_parameter_group",
        **_named(name, scope),
        DBParameterGroupFamily=family,
        Description=description,
    )
    return group_row(answer[f"{scope.prefix}ParameterGroup"], scope)


def modify_group(
    client: Any,
    name: str,
    settings: Iterable[tuple[str, str, ApplyMethod]],
    scope: Scope = Scope.INSTANCE,
) -> None:
    """Set up to BATCH parameters: name, value, method. AWS accepts or refuses the whole batch."""
    rows = [
        {"ParameterName": parameter, "ParameterValue": value, "ApplyMethod": method}
        for parameter, value, method in settings
    ]
    call(client, f"modify_{scope}_parameter_group", **_named(name, scope), Parameters=rows)


def reset_group(
    client: Any,
    name: str,
    parameters: Iterable[tuple[str, ApplyMethod]],
    scope: Scope = Scope.INSTANCE,
) -> None:
    """Reset up to BATCH parameters to the family's default: name, method."""
    rows = [{"ParameterName": one, "ApplyMethod": method} for one, method in parameters]
    call(
        client,
        f"reset_{scope}_parameter_group",
        **_named(name, scope),
        ResetAllParameters=False,
        Parameters=rows,
    )


def delete_group(client: Any, name: str, scope: Scope = Scope.INSTANCE) -> None:
    """Delete an unused group; refused (InvalidDBParameterGroupState) while attached."""
    call(client, f"delete_{scope}_parameter_group", **_named(name, scope))


# Events and maintenance.


def events(
    client: Any,
    *,
    source: str | None = None,
    source_type: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Iterator[RdsEvent]:
    """Yield events, oldest first; AWS keeps 14 days, and shows 60 minutes by default."""
    given = {
        "SourceIdentifier": source,
        "SourceType": source_type,
        "StartTime": since,
        "EndTime": until,
    }
    arguments = {name: value for name, value in given.items() if value is not None}
    return (event_row(row) for row in pages(client, "describe_events", "Events", **arguments))


def pending_actions(client: Any, resource: str | None = None) -> Iterator[PendingAction]:
    """Yield pending maintenance of one resource (ARN) or of the region."""
    arguments = {"ResourceIdentifier": resource} if resource else {}
    rows = pages(
        client, "describe_pending_maintenance_actions", "PendingMaintenanceActions", **arguments
    )
    for row in rows:
        for action in row.get("PendingMaintenanceActionDetails", ()):
            yield action_row(row.get("ResourceIdentifier", ""), action)


def opt_in(client: Any, resource: str, action: str, kind: str) -> None:
    """Opt in to an action: kind is immediate, next-maintenance or undo-opt-in."""
    call(
        client,
        "apply_pending_maintenance_action",
        ResourceIdentifier=resource,
        ApplyAction=action,
        OptInType=kind,
    )


# Arguments in the API's notation.


def _named(name: str, scope: Scope) -> dict[str, str]:
    return {f"{scope.prefix}ParameterGroupName": name}


def _filtered(filters: Mapping[str, str | Sequence[str]]) -> dict[str, Any]:
    if not filters:
        return {}
    return {
        "Filters": [
            {"Name": name.replace("_", "-"), "Values": [value] if isinstance(value, str) else value}
            for name, value in filters.items()
        ]
    }
