"""Workloads from the objects of manifests: how many pods, and what each opens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from mrtuner.errors import BadValue
from mrtuner.facts import Fact, Missing
from mrtuner.wording import enumerated
from mrtuner_pods.connections.cluster import KubernetesObjects, entries
from mrtuner_pods.connections.container.container import Container, image_name
from mrtuner_pods.connections.container.pools import pools
from mrtuner_pods.connections.containers import TEMPLATE, containers, odd_memory, pod_of
from mrtuner_pods.connections.formats import COMPOSE, ECS, PROCFILE, UNCOUNTED
from mrtuner_pods.connections.given import Given
from mrtuner_pods.connections.manifest import Resource
from mrtuner_pods.connections.model import Other, Pool, Workload
from mrtuner_pods.connections.operators import may_connect, pooler_of
from mrtuner_pods.connections.pgbouncer import (
    by_variables,
    unknown_variables,
    waits_for_clients,
)
from mrtuner_pods.connections.rollouts import (
    ENDING,
    SCALED_JOB,
    disrupted,
    rollout_of,
    unknown_nodes,
)

#: Kinds that run until they are stopped.
_LASTING: Final = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController",
                   "Pod", COMPOSE, ECS, PROCFILE)  # fmt: skip
_KEDA_TRIGGERS: Final = ("postgresql",)
_PGBOUNCER_INI: Final = "pgbouncer.ini"


@dataclass(slots=True)
class Gathered:
    """The workloads of manifests, and what else is in them."""

    workloads: list[Workload] = field(default_factory=list)
    others: list[Other] = field(default_factory=list)
    poolers: list[Workload] = field(default_factory=list)  # that have PgBouncer in their pods
    waits: bool = False  # whether PgBouncer waits for its clients, by its image's tag
    configurations: list[tuple[str, str]] = field(default_factory=list)  # PgBouncer's: text, where
    unread: dict[str, list[Missing]] = field(default_factory=dict)  # of these, by where
    services: list[Resource] = field(default_factory=list)
    names: set[str] = field(default_factory=set)  # of poolers, as their clients name them
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unjudged: list[Missing] = field(default_factory=list)  # what could not be counted


def gather(resources: Sequence[Resource], given: Given) -> Gathered:
    """Return every workload that has a database; the others are named in the notes.

    Raises BadValue where a manifest cannot be used, or a pool cannot be known.
    """
    _refuse_twice(resources)
    known = KubernetesObjects(resources)
    found = Gathered(services=[one for one in resources if one.kind == "Service"])
    for one in resources:
        if one.kind in {"ScaledObject", SCALED_JOB}:
            found.others += _triggers(one)
        if one.kind in (*_LASTING, *ENDING, SCALED_JOB):
            _add(one, known, given, found)
        elif (operated := pooler_of(one)) is not None:
            found.poolers.append(operated.workload)
            found.names.add(operated.name)
            found.configurations.append((operated.text, operated.where))
            found.unjudged += [operated.missing] if operated.missing else []
        elif one.kind in {"ConfigMap", "Secret"}:
            if (text := entries(one).get(_PGBOUNCER_INI)) is not None:
                where = f"{one.where} {one.kind} {one.name}"
                found.configurations.append((text, where))
        elif one.at(*TEMPLATE, "containers").value:
            found.warnings.append(
                f"{one.where}: {one.kind} {one.name} is not counted: its kind is not known"
            )
            found.unjudged.append(Missing(f"{one.kind} {one.name}", "its kind is not known"))
        elif (unknown := may_connect(one)) is not None:
            found.unjudged.append(unknown)
    there = {one.name for one in resources}
    refuse_unknown(sorted(given.names() - there), found.workloads)
    return found


def _add(resource: Resource, known: KubernetesObjects, given: Given, found: Gathered) -> None:
    if "test" in str(resource.at("metadata", "annotations", "helm.sh/hook").value or ""):
        found.notes.append(f"{resource.where}: {resource.name} runs only with helm test")
        return
    pod = pod_of(resource)
    opened: list[Pool] = []
    pooler = False
    for container in containers(resource, pod, known):
        if image_name(container.image) == "pgbouncer":
            pooler = True
            found.waits |= waits_for_clients(container.image)
            if (text := by_variables(container.environment)) is not None:
                where = f"{container.where}, variables"
                found.configurations.append((text, where))
                found.unread[where] = _unread(container)
        inside = pools(container, given)
        opened += inside.pools
        found.notes += [note for note in inside.notes if note not in found.notes]
        found.warnings += inside.warnings
        found.unjudged += inside.unjudged
    found.warnings += odd_memory(pod)
    if opened and resource.kind in UNCOUNTED and not {"", resource.name} & given.replicas.keys():
        hint = f"--replicas {resource.name}=N"
        found.unjudged.append(Missing(resource.name, UNCOUNTED[resource.kind], hint=hint))
    if not opened and not pooler:
        return
    if opened and (nodes := unknown_nodes(resource, given)) is not None:
        found.unjudged.append(nodes)
    made = Workload(
        name=resource.name,
        kind=resource.kind,
        where=resource.where,
        rollout=rollout_of(resource, pod, known, given, found.warnings),
        pools=tuple(opened),
    )
    if pooler:
        found.poolers.append(made)
        found.names |= {resource.name, *_selecting(found.services, resource)}
    if opened:
        found.workloads.append(made)
        found.notes += _of_budget(known.budget(resource), made)


def _unread(container: Container) -> list[Missing]:
    """What may hold settings of a pooler whose image takes them from variables."""
    absent = [*container.absent, *unknown_variables(container.environment)]
    why = f"{enumerated(absent)} may hold its settings, and is not available"
    return [Missing(container.workload, why, option="--pgbouncer FILE")] if absent else []


def _of_budget(budget: Resource | None, made: Workload) -> Iterator[str]:
    """Note how many pods a drain adds: what it evicts is replaced while it terminates."""
    if budget is None:
        return
    desired = made.rollout.desired.value
    taken = disrupted(budget, desired)
    together = f"{desired + taken.value} pods at once"
    if made.kind == "StatefulSet":
        together = f"{desired} pods, since a StatefulSet replaces a pod when it is gone"
    yield (
        f"{made.name}: a PodDisruptionBudget limits drains of nodes, not rollouts: {taken.value} "
        f"evicted ({taken.source}), so a drain can lead to {together}"
    )


def _selecting(services: Sequence[Resource], resource: Resource) -> Iterator[str]:
    """The names of the services that lead to a workload's pods."""
    labels = resource.at("spec", "template", "metadata", "labels").mapping()
    for one in services:
        selector = one.at("spec", "selector").value
        if isinstance(selector, dict) and selector and selector.items() <= labels.items():
            yield one.name


def _triggers(one: Resource) -> Iterator[Other]:
    """KEDA's own connections: one for each trigger that queries the database (keda#6955)."""
    places = [
        place for place in one.at("spec", "triggers").items()
        if place.at("type").value in _KEDA_TRIGGERS
    ]  # fmt: skip
    if places:
        yield Other(
            name=f"KEDA, {one.name}",
            connections=Fact(len(places), f"{places[0].source}: one for each trigger"),
        )


# What cannot be used.


def _refuse_twice(resources: Sequence[Resource]) -> None:
    seen: dict[tuple[str, str, str], Resource] = {}
    for one in resources:
        if not one.name:
            continue
        first = seen.setdefault((one.kind, one.namespace, one.name), one)
        if first is not one:
            raise BadValue(
                f"{one.kind} {one.name} is defined twice: {first.where} and {one.where}",
                "Give each object once: either the base or what was built from it.",
            )


def refuse_unknown(names: Iterable[str], workloads: Sequence[Workload]) -> None:
    """Raise BadValue for a name that is not one of these workloads'."""
    there = enumerated(dict.fromkeys(one.name for one in workloads))
    for name in names:
        if all(one.name != name for one in workloads):
            hint = f"There are: {there}." if there else None
            raise BadValue(f"there is no workload {name}", hint)
