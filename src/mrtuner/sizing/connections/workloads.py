"""Workloads from the objects of manifests: how many pods, and what each opens."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from mrtuner.errors import BadValue
from mrtuner.facts import Fact
from mrtuner.sizing.connections.given import Given, fact
from mrtuner.sizing.connections.manifest import Place, Resource
from mrtuner.sizing.connections.model import Count, Other, Pool, Rollout, Workload
from mrtuner.sizing.connections.pgbouncer import waits_for_clients
from mrtuner.sizing.connections.pools import Container, dependent, image_name, pools, words
from mrtuner.sizing.connections.schedule import least_gap
from mrtuner.wording import enumerated

#: Kinds that run until somebody stops them.
_LASTING: Final = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController",
                   "Pod")  # fmt: skip
_ENDING: Final = ("Job", "CronJob")
#: Where a kind has its pod.
_POD: Final = {"Pod": ("spec",), "CronJob": ("spec", "jobTemplate", "spec", "template", "spec")}
_TEMPLATE: Final = ("spec", "template", "spec")
#: Kubernetes's own, where a manifest is silent. Source: apps/v1, autoscaling/v2, batch/v1 and
#: keda.sh/v1alpha1.
_QUARTER: Final = "25%"
_GRACE: Final = 30
_KEDA_MOST: Final = 100
_KEDA_TRIGGERS: Final = ("postgresql",)
_PGBOUNCER_INI: Final = "pgbouncer.ini"


@dataclass(slots=True)
class Gathered:
    """The workloads of manifests, and what else they tell."""

    workloads: list[Workload] = field(default_factory=list)
    others: list[Other] = field(default_factory=list)
    poolers: list[Workload] = field(default_factory=list)  # that have PgBouncer in their pods
    waits: bool = False  # PgBouncer, by the tag of its image, for its clients when it ends
    configurations: list[tuple[str, str]] = field(default_factory=list)  # PgBouncer's: text, where
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def gather(resources: Sequence[Resource], given: Given) -> Gathered:
    """Return every workload that has a database; the others are named in the notes.

    Raises BadValue where a manifest cannot be used, or a pool cannot be known.
    """
    _refuse_twice(resources)
    known = _Cluster(resources)
    found = Gathered()
    for one in resources:
        if one.kind in (*_LASTING, *_ENDING):
            _add(one, known, given, found)
        elif one.kind == "ScaledObject":
            found.others += _triggers(one)
        elif one.kind == "Pooler":
            _add_pooler(one, found)
        elif one.kind in {"ConfigMap", "Secret"}:
            if (text := _entries(one).get(_PGBOUNCER_INI)) is not None:
                where = f"{one.where} {one.kind} {one.name}"
                found.configurations.append((text, where))
        elif one.at(*_TEMPLATE, "containers").value:
            found.warnings.append(
                f"{one.where}: {one.kind} {one.name} is not counted: its kind is not known"
            )
    _refuse_unknown_names(found, resources, given)
    return found


def _add(resource: Resource, known: _Cluster, given: Given, found: Gathered) -> None:
    if "test" in str(resource.at("metadata", "annotations", "helm.sh/hook").value or ""):
        found.notes.append(f"{resource.where}: {resource.name} runs with helm test only")
        return
    pod = resource.at(*_POD.get(resource.kind, _TEMPLATE))
    opened: list[Pool] = []
    pooler = False
    for container in _containers(resource, pod, known):
        if image_name(container.image) == "pgbouncer":
            pooler = True
            found.waits |= waits_for_clients(container.image)
        inside = pools(container, given)
        opened += inside.pools
        found.notes += [note for note in inside.notes if note not in found.notes]
        found.warnings += inside.warnings
    found.warnings += _odd_memory(pod)
    if not opened and not pooler:
        return
    made = Workload(
        name=resource.name,
        kind=resource.kind,
        where=resource.where,
        rollout=_rollout(resource, pod, known, given, found),
        pools=tuple(opened),
    )
    if pooler:
        found.poolers.append(made)
    if opened:
        found.workloads.append(made)


def _add_pooler(one: Resource, found: Gathered) -> None:
    """CloudNativePG's Pooler: PgBouncer in a Deployment, its settings as parameters."""
    instances = one.at("spec", "instances")
    desired = Fact(instances.whole(1) or 1, instances.source)
    quarter = Fact(_QUARTER, "default of Kubernetes")
    found.poolers.append(
        Workload(name=one.name, kind=one.kind, where=one.where, pools=(),
                 rollout=rollout(desired, quarter, quarter))
    )  # fmt: skip
    own = one.at("spec", "pgbouncer")
    settings = dict(own.at("parameters").value or {})
    settings.setdefault("pool_mode", own.at("poolMode").value or "session")
    host = f"{one.at('spec', 'cluster', 'name').value}-rw"
    lines = [f"{name} = {value}" for name, value in settings.items()]
    text = "\n".join(["[databases]", f"* = host={host}", "[pgbouncer]", *lines])
    found.configurations.append((text, f"{one.where} Pooler {one.name}"))


# How many pods.


def _rollout(
    resource: Resource, pod: Place, known: _Cluster, given: Given, found: Gathered
) -> Rollout:
    grace = _grace(pod)
    if resource.kind in _ENDING:
        job = resource.at("spec", "jobTemplate", "spec") if resource.kind == "CronJob" else (
            resource.at("spec"))  # fmt: skip
        runs = _runs(resource, job, grace, given) if resource.kind == "CronJob" else None
        return _still(_at_once(job), grace, runs)
    if resource.kind == "DaemonSet":
        return _per_node(resource, grace, given)
    if resource.kind == "Pod":
        return _still(Fact(1, f"{resource.where}: a single pod"), grace)
    desired = known.desired(resource, found)
    if resource.kind != "Deployment":
        return _still(desired, grace)
    strategy = resource.at("spec", "strategy")
    kind = strategy.at("type")
    if kind.value not in {None, "RollingUpdate", "Recreate"}:
        raise BadValue(
            f"{kind.source}: {kind.value!r} is no strategy", "Write RollingUpdate or Recreate."
        )
    rolling = strategy.at("rollingUpdate")
    surge, unavailable = _share(rolling.at("maxSurge")), _share(rolling.at("maxUnavailable"))
    return rollout(
        desired, surge, unavailable, replaced_first=kind.value == "Recreate", grace=grace
    )


def rollout(
    desired: Fact[int], surge: Fact[str], unavailable: Fact[str], *, replaced_first: bool = False,
    grace: Fact[int] | None = None,
) -> Rollout:  # fmt: skip
    """Return a rollout with `surge` rounded up and `unavailable` down, as Kubernetes does.

    Both are numbers of pods or shares such as 25%. Where both come out as 0, Kubernetes takes one
    pod away; where both are given as 0, it refuses.
    """
    if not replaced_first and not _above_zero(surge) and not _above_zero(unavailable):
        raise BadValue(
            f"maxSurge and maxUnavailable are both 0 ({surge.source}; {unavailable.source})",
            "Kubernetes refuses it: no pod could ever be replaced. Raise one of them.",
        )
    more = _part(surge, desired.value, up=True)
    fewer = _part(unavailable, desired.value, up=False)
    if more.value == fewer.value == 0:
        one = f"{unavailable.source}, rounded to 0: Kubernetes takes 1"
        fewer = Fact(min(1, desired.value), one)
    return Rollout(
        desired=desired, surge=more, unavailable=fewer, replaced_first=replaced_first, grace=grace
    )


def _above_zero(share: Fact[str]) -> bool:
    return bool(share.value.removesuffix("%").strip("0"))


def _part(share: Fact[str], of: int, *, up: bool) -> Fact[int]:
    text = share.value
    if not re.fullmatch(r"\d{1,6}%?", text):
        raise BadValue(f"{share.source}: {text!r} is neither pods nor a share", "Write 1, or 25%.")
    number = int(text.removesuffix("%"))
    if not text.endswith("%"):
        return Fact(number, share.source)
    return Fact(-(-number * of // 100) if up else number * of // 100, f"{share.source}, {text}")


def _share(place: Place) -> Fact[str]:
    if place.value is None:
        return Fact(_QUARTER, f"default of Kubernetes, {place.path.rpartition('.')[2]}")
    return Fact(str(place.value), place.source)


def _still(desired: Fact[int], grace: Fact[int], runs: Fact[Count] | None = None) -> Rollout:
    """Pods that are replaced one after the other, or not at all."""
    nothing = Fact(0, "nothing is added")
    return Rollout(desired=desired, surge=nothing, unavailable=nothing, replaced_first=True,
                   grace=grace, runs=runs)  # fmt: skip


def _per_node(resource: Resource, grace: Fact[int], given: Given) -> Rollout:
    if given.nodes is None:
        raise BadValue(
            f"{resource.where}: DaemonSet {resource.name} has a pod on each node, and a manifest "
            "does not tell how many there are",
            "Give --nodes N.",
        )
    surge = resource.at("spec", "updateStrategy", "rollingUpdate", "maxSurge")
    nodes = Fact(given.nodes, f"--nodes {given.nodes}")
    if surge.value is None:
        return _still(nodes, grace)
    return rollout(nodes, _share(surge), Fact("0", "a surge takes no pod away"), grace=grace)


def _grace(pod: Place) -> Fact[int]:
    place = pod.at("terminationGracePeriodSeconds")
    said = place.whole()
    return Fact(_GRACE, "default of Kubernetes") if said is None else Fact(said, place.source)


def _at_once(job: Place) -> Fact[int]:
    """How many pods of one job run at the same time."""
    suspended = job.at("suspend")
    if suspended.value is True:
        return Fact(0, f"{suspended.source}: suspended")
    parallelism, completions = job.at("parallelism"), job.at("completions")
    number, of = parallelism.whole(), completions.whole()
    if number is None:
        return Fact(1, "default of Kubernetes, parallelism")
    if of is not None and of < number:
        return Fact(of, f"{completions.source}, fewer than {parallelism.source}")
    return Fact(number, parallelism.source)


def _runs(resource: Resource, job: Place, grace: Fact[int], given: Given) -> Fact[Count]:
    """How many runs of a CronJob there can be at the same time."""
    said = fact(given.runs, resource.name, "--runs")
    if said is not None:
        return Fact(said.value, said.source)
    if resource.at("spec", "suspend").value is True:
        return Fact(0, f"{resource.at('spec', 'suspend').source}: suspended")
    policy = resource.at("spec", "concurrencyPolicy")
    if policy.value == "Forbid":
        return Fact(1, f"{policy.source}: Forbid")
    if policy.value == "Replace":
        return Fact(2, f"{policy.source}: Replace, and the one that it ends")
    if policy.value not in {None, "Allow"}:
        raise BadValue(
            f"{policy.source}: {policy.value!r} is no policy", "Write Allow, Forbid or Replace."
        )
    deadline = job.at("activeDeadlineSeconds")
    most, schedule = deadline.whole(1), resource.at("spec", "schedule")
    if most is None:
        return Fact(
            None,
            f"{policy.source if policy.value else resource.where}: concurrencyPolicy is Allow"
            f"{'' if policy.value else ' by default'}, so runs that take long pile up; set Forbid, "
            f"or activeDeadlineSeconds, or give --runs {resource.name}=N",
        )
    gap = least_gap(str(schedule.value or ""))
    alive = most + grace.value
    return Fact(alive // gap + 1, f"{deadline.source}, {alive} s with the grace; {schedule.source}")


# What surrounds them: autoscalers, ConfigMaps, Secrets.


class _Cluster:
    """What other objects say of a workload."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self.scalers: dict[tuple[str, str, str], list[Fact[int]]] = {}
        self.values: dict[tuple[str, str, str], dict[str, str]] = {}
        for one in resources:
            if one.kind == "HorizontalPodAutoscaler":
                self._autoscaler(one)
            elif one.kind == "ScaledObject":
                self._scaled_object(one)
            elif one.kind in {"ConfigMap", "Secret"}:
                self.values[one.kind, one.namespace, one.name] = _entries(one)

    def _autoscaler(self, one: Resource) -> None:
        target = one.at("spec", "scaleTargetRef")
        most = one.at("spec", "maxReplicas")
        number = most.whole(1)
        if number is None:
            raise BadValue(
                f"{one.where}: HorizontalPodAutoscaler {one.name} has no maxReplicas",
                "Kubernetes requires it.",
            )
        least = one.at("spec", "minReplicas").whole()
        if least is not None and least > number:
            raise BadValue(
                f"{most.source}: {number} is less than minReplicas, {least}",
                "Kubernetes refuses it.",
            )
        key = (str(target.at("kind").value), one.namespace, str(target.at("name").value))
        self.scalers.setdefault(key, []).append(Fact(number, most.source))

    def _scaled_object(self, one: Resource) -> None:
        target = one.at("spec", "scaleTargetRef")
        most = one.at("spec", "maxReplicaCount")
        number = most.whole(1)
        found = Fact(_KEDA_MOST, f"{one.where}: default of KEDA, maxReplicaCount")
        if number is not None:
            found = Fact(number, most.source)
        kind = str(target.at("kind").value or "Deployment")
        key = (kind, one.namespace, str(target.at("name").value))
        self.scalers.setdefault(key, []).append(found)

    def desired(self, resource: Resource, found: Gathered) -> Fact[int]:
        """The most pods that are wanted: an autoscaler's before the workload's own."""
        scalers = self.scalers.get((resource.kind, resource.namespace, resource.name), [])
        if len(scalers) > 1:
            found.warnings.append(
                f"{resource.where}: {resource.name} has {len(scalers)} autoscalers, which work "
                f"against each other: {enumerated(one.source for one in scalers)}"
            )
        replicas = resource.at("spec", "replicas")
        number = replicas.whole()
        most = max(scalers, key=lambda one: one.value, default=None)
        if most is not None and (number is None or number <= most.value):
            return most
        if most is not None:
            found.warnings.append(
                f"{replicas.source}: {number} is more than its autoscaler's {most.value} "
                f"({most.source}): so many pods there are each time the manifest is applied"
            )
        if number is None:
            return Fact(1, f"{resource.where}: default of Kubernetes, replicas")
        return Fact(number, replicas.source)

    def value(self, kind: str, namespace: str, name: str, key: str) -> str | None:
        """An entry of a ConfigMap or Secret; None where it is not here."""
        return self.values.get((kind, namespace, name), {}).get(key)


def _entries(one: Resource) -> dict[str, str]:
    found = {str(key): str(value) for key, value in (one.at("stringData").value or {}).items()}
    for key, value in (one.at("data").value or {}).items():
        found.setdefault(str(key), str(value) if one.kind == "ConfigMap" else _decoded(str(value)))
    return found


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


# What is in a pod.


def _containers(resource: Resource, pod: Place, known: _Cluster) -> Iterator[Container]:
    for place in pod.at("initContainers").items():
        lasting = place.at("restartPolicy").value == "Always"  # a sidecar
        yield _container(resource, place, known, starts_first=not lasting)
    for place in pod.at("containers").items():
        yield _container(resource, place, known)


def _container(
    resource: Resource, place: Place, known: _Cluster, *, starts_first: bool = False
) -> Container:
    environment: dict[str, Fact[str | None]] = {}
    for name, found in _environment(resource, place, known):
        text = dependent(found.value, environment) if found.value else found.value
        environment[name] = Fact(text, found.source)
    command = [*(place.at("command").value or ()), *(place.at("args").value or ())]
    return Container(
        workload=resource.name,
        name=str(place.at("name").value or "?"),
        where=f"{place.file}:{place.line}",
        words=words(command, environment),
        environment=environment,
        image=str(place.at("image").value or ""),
        starts_first=starts_first,
        absent=tuple(_absent(resource, place, known)),
    )


def _absent(resource: Resource, container: Place, known: _Cluster) -> Iterator[str]:
    """The ConfigMaps and Secrets that a container takes whole, and that are not here."""
    for place in container.at("envFrom").items():
        for key, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            name = str(place.at(key, "name").value or "")
            if name and (kind, resource.namespace, name) not in known.values:
                yield f"{kind} {name}"


def _environment(
    resource: Resource, container: Place, known: _Cluster
) -> Iterator[tuple[str, Fact[str | None]]]:
    """Every variable; its value is None where it comes from an object that is not here."""
    for place in container.at("envFrom").items():
        prefix = str(place.at("prefix").value or "")
        for key, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            name = str(place.at(key, "name").value or "")
            for entry, value in known.values.get((kind, resource.namespace, name), {}).items():
                source = f"{place.file}:{place.line} {kind} {name}, {entry}"
                yield prefix + entry, Fact(value, source)
    for place in container.at("env").items():
        name = str(place.at("name").value or "")
        yield name, _variable(resource, place, name, known)


def _variable(resource: Resource, place: Place, name: str, known: _Cluster) -> Fact[str | None]:
    where = f"{place.file}:{place.line}"
    value = place.at("value")
    if value.value is not None:
        return Fact(str(value.value), f"{where} env {name}")
    for key, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
        reference = place.at("valueFrom", key)
        if reference.value is not None:
            owner, entry = str(reference.at("name").value), str(reference.at("key").value)
            text = known.value(kind, resource.namespace, owner, entry)
            return Fact(text, f"{where} env {name}, of {kind} {owner}")
    return Fact(None, f"{where} env {name}")


def _odd_memory(pod: Place) -> Iterator[str]:
    for container in pod.at("containers").items():
        for kind in ("requests", "limits"):
            place = container.at("resources", kind, "memory")
            text = str(place.value or "")
            if re.fullmatch(r"[\d.]+m", text):
                yield f"{place.source}: {text} is thousandths of a byte; {text[:-1]}Mi is meant"
            elif re.fullmatch(r"[\d.]+(e\d)?", text) and float(text) < 2**20:
                yield f"{place.source}: {text} is a number of bytes, too few for any process"


def _triggers(one: Resource) -> Iterator[Other]:
    """KEDA's own connections: one for each trigger that asks the database (keda#6955)."""
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
                f"{one.kind} {one.name} is there twice: {first.where} and {one.where}",
                "Give each object once: either the base or what was built from it.",
            )


def _refuse_unknown_names(found: Gathered, resources: Sequence[Resource], given: Given) -> None:
    there = {one.name for one in resources}
    for name in sorted(given.names() - there):
        workloads = enumerated(one.name for one in found.workloads)
        raise BadValue(
            f"no workload is called {name}", f"There are: {workloads}." if workloads else None
        )
