"""What a parameter group is attached to: an instance, or the cluster that it belongs to.

A Multi-AZ DB cluster takes values from its cluster parameter group only, and Aurora's own settings
are there too, so here an instance of a cluster is represented by its cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mrtuner.aws import rds
from mrtuner.aws.errors import AwsError
from mrtuner.aws.rows import Instance, RdsCluster, Scope
from mrtuner.aws.session import region_of
from mrtuner.catalog.families import ENGINES
from mrtuner.errors import BadValue

#: Statuses that allow changing a parameter group: the instance applies it.
CHANGEABLE: Final = frozenset({
    "available", "backing-up", "storage-optimization", "configuring-log-exports",
})  # fmt: skip
INCOMPATIBLE: Final = "incompatible-parameters"
#: Statuses with no work under way. Source: RDS User Guide, "Viewing DB instance status".
AT_REST: Final = CHANGEABLE | {INCOMPATIBLE, "stopped"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An instance or a cluster, with what concerns its parameter group."""

    scope: Scope
    region: str
    identifier: str
    arn: str
    engine: str
    group: str
    members: tuple[Instance, ...]  # the writer first; a single instance is its only member
    statuses: Mapping[str, str]  # ParameterApplyStatus of the group, by instance
    own_status: str  # of the instance or cluster itself
    host: str | None = None  # a cluster's own endpoint, that of its writer
    port: int | None = None

    @property
    def writer(self) -> Instance:
        return self.members[0]

    @property
    def class_name(self) -> str:
        return self.writer.class_name

    @property
    def family(self) -> str:
        """The parameter group family that its version needs: postgres17."""
        return f"{self.engine}{self.writer.major}"

    @property
    def busy(self) -> str | None:
        """The work under way, such as ``modifying``; None at rest."""
        return next((one for one in self._all_statuses() if one not in AT_REST), None)

    @property
    def changeable(self) -> bool:
        """Whether all members are running and no work is under way."""
        return all(one in CHANGEABLE for one in self._all_statuses())

    def member(self, identifier: str) -> Instance:
        return next(one for one in self.members if one.identifier == identifier)

    @property
    def restarts_as_one(self) -> bool:
        """Whether all members are rebooted together, as in a Multi-AZ DB cluster but not in Aurora.

        Source: RDS User Guide, "Rebooting a Multi-AZ DB cluster".
        """
        return self.scope is Scope.CLUSTER and self.engine == "postgres"

    def up(self, name: str) -> bool:
        """Whether a member, or by its own name the whole target, may be rebooted now."""
        return all(one.status == "available" for one in self._named(name))

    def runs_group(self, name: str) -> bool:
        """Whether a member, or by its own name the whole target, runs with the group's values."""
        return all(
            one.status in CHANGEABLE and self.statuses.get(one.identifier) == "in-sync"
            for one in self._named(name)
        )

    def _named(self, name: str) -> tuple[Instance, ...]:
        whole = self.restarts_as_one and name == self.identifier
        return self.members if whole else (self.member(name),)

    @property
    def incompatible(self) -> tuple[str, ...]:
        """The instances that cannot start with their parameters."""
        return tuple(one.identifier for one in self.members if one.status == INCOMPATIBLE)

    @property
    def waiting(self) -> tuple[str, ...]:
        """The instances that need a reboot to apply the group's values."""
        return tuple(name for name, status in self.statuses.items() if status == "pending-reboot")

    def _all_statuses(self) -> Iterator[str]:
        if self.scope is Scope.CLUSTER:
            yield self.own_status
        for member in self.members:
            yield member.status

    def __str__(self) -> str:
        kind = "cluster " if self.scope is Scope.CLUSTER else ""
        return f"{kind}{self.identifier}"


def read_target(client: Any, identifier: str) -> Target:
    """Return the instance with this name, its cluster if any, or the cluster with this name.

    Raises AwsError with `not_found` when the region has neither; BadValue for another engine.
    """
    try:
        instance = rds.instance(client, identifier)
    except AwsError as error:
        if not error.not_found:
            raise
        return _cluster_named(client, identifier, error)
    if instance.cluster:
        return _of_cluster(client, rds.cluster(client, instance.cluster))
    return of_instance(instance, region_of(client))


def of_instance(instance: Instance, region: str) -> Target:
    """Return the target of an instance that belongs to no cluster."""
    _require_engine(instance.identifier, instance.engine)
    use = instance.groups[0]
    return Target(
        scope=Scope.INSTANCE,
        region=region,
        identifier=instance.identifier,
        arn=instance.arn,
        engine=instance.engine,
        group=use.name,
        members=(instance,),
        statuses={instance.identifier: use.status},
        own_status=instance.status,
    )


def _cluster_named(client: Any, identifier: str, missing: AwsError) -> Target:
    try:
        return _of_cluster(client, rds.cluster(client, identifier))
    except AwsError as error:
        raise (missing if error.not_found else error) from None


def _of_cluster(client: Any, cluster: RdsCluster) -> Target:
    _require_engine(cluster.identifier, cluster.engine)
    if not cluster.members:
        raise BadValue(
            f"cluster {cluster.identifier} has no instances", "Add an instance to it first."
        )
    ordered = sorted(cluster.members, key=lambda one: not one.writer)
    return Target(
        scope=Scope.CLUSTER,
        region=region_of(client),
        identifier=cluster.identifier,
        arn=cluster.arn,
        engine=cluster.engine,
        group=cluster.group,
        members=tuple(rds.instance(client, one.identifier) for one in ordered),
        statuses={one.identifier: one.group_status for one in ordered},
        own_status=cluster.status,
        host=cluster.host,
        port=cluster.port,
    )


def _require_engine(identifier: str, engine: str) -> None:
    if engine not in ENGINES:
        raise BadValue(
            f"{identifier} runs {engine}, not PostgreSQL",
            "Name an instance of RDS for PostgreSQL or Aurora PostgreSQL.",
        )


def classes(client: Any, target: Target, others: Sequence[str]) -> dict[str, str]:
    """Return the class of each instance of a target, and of `others` that share its group."""
    found = {one.identifier: one.class_name for one in target.members}
    for one in rds.instances(client) if others else ():
        whose = one.cluster if target.scope is Scope.CLUSTER else one.identifier
        if whose in others:
            found[one.identifier] = one.class_name
    return found


def overruling(client: Any, target: Target, member: Instance) -> dict[str, str]:
    """Return the user-set values of a member's own group, which win over its cluster's.

    Empty but on Aurora. Source: Aurora User Guide, "Working with parameter groups".
    """
    if target.scope is not Scope.CLUSTER or target.engine != "aurora-postgresql":
        return {}
    own = [use.name for use in member.groups if not use.name.startswith("default.")]
    return {
        row.name: row.value
        for name in own for row in rds.parameters(client, name, source="user")
        if row.value is not None
    }  # fmt: skip


def users(client: Any, group: str, scope: Scope) -> tuple[str, ...]:
    """Return the names of all instances, or clusters, in the region that use a group."""
    if scope is Scope.CLUSTER:
        return tuple(one.identifier for one in rds.clusters(client) if one.group == group)
    return tuple(
        one.identifier
        for one in rds.instances(client)
        if any(use.name == group for use in one.groups)
    )
