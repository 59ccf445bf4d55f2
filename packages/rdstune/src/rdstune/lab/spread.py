"""How a group's values reach its instances, and what ParameterApplyStatus shows.

In short (botocore's RDS model; RDS User Guide, "Working with DB parameter groups"):

- a dynamic parameter set with `immediate`: applying, then in-sync;
- anything set with `pending-reboot`: pending-reboot, until a reboot;
- another group attached: pending-reboot, and none of its values before the reboot;
- a value that the running server refuses: failed-to-apply.

Guessed: that a group which waits for its reboot accepts no dynamic change before, and that
undoing a waiting change leaves the status at pending-reboot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from mrtuner.postgres.model import FOLLOW_PRIMARY
from rdstune.lab import catalogue
from rdstune.lab.servers import machine
from rdstune.lab.world import Instance, LabCluster, LabGroup, Region


def users(region: Region, group: LabGroup) -> list[str]:
    """Return the identifiers of what a group is attached to."""
    if group.cluster:
        return [each.identifier for each in region.clusters.values() if each.group == group.name]
    return [each.identifier for each in region.instances.values() if each.group == group.name]


def effective(region: Region, instance: Instance) -> dict[str, str]:
    """Return the texts of the instance's groups: the user's values over the family's defaults.

    An instance of a Multi-AZ DB cluster takes only the cluster group's values. Aurora's takes
    both, with the instance group's values over the cluster's.
    """
    texts: dict[str, str] = {}
    for group in groups_of(region, instance):
        texts = texts or catalogue.defaults(group.family, cluster=group.cluster)
        texts |= {name: value.text for name, value in group.values.items()}
    return texts | _raised(region, instance, texts)


def groups_of(region: Region, instance: Instance) -> Iterator[LabGroup]:
    """Yield the groups an instance takes values from, later ones overriding earlier ones."""
    cluster = region.clusters.get(instance.cluster or "")
    if cluster is not None:
        yield region.cluster_groups[cluster.group]
    if cluster is None or cluster.aurora:
        yield region.groups[instance.group]


def group_changed(region: Region, group: LabGroup, methods: Mapping[str, str]) -> None:
    """Start to apply what was set or reset in a group: names and apply methods."""
    if not methods:
        return
    for instance in region.instances.values():
        cluster = region.clusters.get(instance.cluster or "")
        if group.cluster and cluster is not None and cluster.group == group.name:
            _begin(region, instance, methods, cluster)
        elif not group.cluster and instance.group == group.name:
            _begin(region, instance, methods, None)


def attached(region: Region, instance: Instance, group: LabGroup) -> None:
    """Attach another group: its name shows immediately, its values wait for a reboot."""
    instance.group = group.name
    instance.group_status = "applying"
    region.clock.after(
        region.world.delays.apply, partial(_set, instance, None, "pending-reboot", "applying")
    )


def restarted(region: Region, instance: Instance) -> None:
    """Bring all the groups' values into force."""
    instance.running = effective(region, instance)
    instance.group_in_force = instance.group
    instance.group_status = "in-sync"
    cluster = region.clusters.get(instance.cluster or "")
    if cluster is not None:
        cluster.member_status[instance.identifier] = "in-sync"


def _begin(
    region: Region, instance: Instance, methods: Mapping[str, str], cluster: LabCluster | None
) -> None:
    at_once = {name for name, method in methods.items() if method == "immediate"}
    waits = len(at_once) < len(methods) or _status(instance, cluster) == "pending-reboot"
    if not at_once or instance.group != instance.group_in_force:
        _set(instance, cluster, "pending-reboot")
        return
    _set(instance, cluster, "applying")
    after = "pending-reboot" if waits else "in-sync"
    region.clock.after(
        region.world.delays.apply, partial(_apply, region, instance, at_once, cluster, after)
    )


def _apply(
    region: Region, instance: Instance, names: set[str], cluster: LabCluster | None, after: str
) -> None:
    """Apply dynamic values to the running server."""
    if region.instances.get(instance.identifier) is not instance:
        return
    texts = effective(region, instance)
    for name in names:
        instance.running.pop(name, None)
        if name in texts:
            instance.running[name] = texts[name]
    servers = region.world.servers
    refused = (
        servers is not None
        and machine.has_server(region, instance)
        and not servers.reload(instance, machine.values(region, instance))
    )
    _set(instance, cluster, "failed-to-apply" if refused else after, "applying")


def _status(instance: Instance, cluster: LabCluster | None) -> str:
    if cluster is None:
        return instance.group_status
    return cluster.member_status.get(instance.identifier, "in-sync")


def _set(
    instance: Instance, cluster: LabCluster | None, to: str, only_from: str | None = None
) -> None:
    if only_from is not None and _status(instance, cluster) != only_from:
        return  # a reboot, or a later change, came between
    if cluster is None:
        instance.group_status = to
    else:
        cluster.member_status[instance.identifier] = to


def _raised(region: Region, instance: Instance, texts: Mapping[str, str]) -> dict[str, str]:
    """Return the values of a replica that RDS overrides: it would not start (User Guide)."""
    source = region.instances.get((instance.source or "").rpartition(":")[2])
    if source is None:
        return {}
    raised = {}
    for name in FOLLOW_PRIMARY:
        own = machine.evaluated(region, instance, texts.get(name))
        primary = machine.evaluated(region, source, source.running.get(name))
        if own is not None and primary is not None and primary > own:
            raised[name] = str(primary)
    return raised
