"""What runs now, by the manifest of a workload: pods, workers, threads, pool, CPU, memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, TypeVar

from mrtuner.errors import BadValue, UsageError
from mrtuner.facts import Fact
from mrtuner.wording import enumerated
from mrtuner_pods.connections.cluster import KubernetesObjects
from mrtuner_pods.connections.container.applications import (
    event_loop,
    first_serving,
    processes,
    serving,
    threads,
)
from mrtuner_pods.connections.container.container import Container, option
from mrtuner_pods.connections.container.pools import pools
from mrtuner_pods.connections.containers import containers, odd_memory, pod_of
from mrtuner_pods.connections.given import Given, Uncounted
from mrtuner_pods.connections.manifest import Place, Resource
from mrtuner_pods.connections.model import Count
from mrtuner_pods.connections.rollouts import rollout_of
from mrtuner_pods.frameworks import AppServer
from mrtuner_pods.planning.servers import Server, event_loop_refused

#: Kinds whose pods answer requests.
_SERVING: Final = ("Deployment", "StatefulSet")
#: Servers of requests, by their names in the catalogue; the others there process jobs.
_SERVERS: Final = {"gunicorn": Server.GUNICORN, "unicorn": Server.UNICORN, "puma": Server.PUMA}
_QUANTITY: Final = re.compile(
    r"(\d+(?:\.\d*)?|\.\d+)(?:[eE]([+-]?\d{1,2})|(m|k|M|G|T|P|E|[KMGTPE]i))?"
)
_DECIMAL: Final = {unit: Fraction(1000**power) for power, unit in enumerate("kMGTPE", 1)}
_BINARY: Final = {f"{unit}i": Fraction(1024**power) for power, unit in enumerate("KMGTPE", 1)}
_Number = TypeVar("_Number", int, float)
_FACTORS: Final = {"m": Fraction(1, 1000), **_DECIMAL, **_BINARY}


@dataclass(frozen=True, slots=True, kw_only=True)
class Variables:
    """The container's variables that set the workers and threads; None: no variable does."""

    workers: str | None
    threads: str | None
    elsewhere: frozenset[str]  # that come from a ConfigMap or Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """One workload as its manifest has it, each figure with its source. None: not specified."""

    name: str
    kind: str
    where: str
    namespace: str | None
    container: str  # that serves
    server: Server
    pods: Fact[int]
    workers: Fact[int]
    threads: Fact[int]
    pool: Fact[Count] | None  # overflow included; a value of None: unbounded
    cpu_request: Fact[float] | None  # of the container [CPUs]
    cpu_limit: Fact[float] | None
    memory_request: Fact[int] | None  # [bytes]
    memory_limit: Fact[int] | None
    autoscaler: str | None  # the source of the number of pods, if one sets it
    added_limit: Fact[float] | None  # what a LimitRange adds to containers without a CPU limit
    variables: Variables
    in_command: bool  # workers or threads are options of the command, which win over variables
    warnings: tuple[str, ...]

    @property
    def inputs(self) -> dict[str, str]:
        """The inputs that a plan takes from it, unless they are given."""
        now = (self.pods.value, self.workers.value, self.threads.value)
        return {"server": str(self.server), "now": "x".join(map(str, now))}

    @property
    def limits(self) -> dict[str, Any]:
        """Its CPU limit, pool and memory limit, as fields of a plan's question."""
        return {
            "now_limit": None if self.cpu_limit is None else self.cpu_limit.value,
            "now_pool": None if self.pool is None else self.pool.value,
            "now_memory": None if self.memory_limit is None else self.memory_limit.value,
        }


def present(
    resources: Sequence[Resource], name: str | None = None, server: Server | None = None
) -> Present:
    """Return the workload that serves requests, or the one of this name.

    `server` is the application server where a manifest does not show it.

    Raises:
        UsageError: there is no such workload, or there are several and none is named.
        BadValue: the manifest cannot be used.
    """
    known = KubernetesObjects(resources)
    found = [one for one in resources if one.kind in _SERVING]
    if name is not None:
        chosen = [one for one in found if one.name == name]
    else:
        chosen = [one for one in found if _serving(one, known)] or found
    if len(chosen) != 1:
        names = enumerated(sorted(one.name for one in found))
        raise UsageError(
            f"there is no Deployment {name}" if name is not None
            else f"{len(chosen)} workloads could be planned" if chosen
            else "no workload of the manifest serves requests",
            f"Name one with --deployment: {names}." if names else "Give the manifest of one.",
        )  # fmt: skip
    return _read(chosen[0], resources, known, server)


def _serving(one: Resource, known: KubernetesObjects) -> bool:
    return any(
        kind.name in _SERVERS or kind.asynchronous
        for container in containers(one, pod_of(one), known)
        for kind, _ in serving(container)
    )


def _read(
    one: Resource, resources: Sequence[Resource], known: KubernetesObjects, server: Server | None
) -> Present:
    pod, given = pod_of(one), Given()
    warnings = list(odd_memory(pod))
    container, place = _container(one, pod, known)
    kind, container = first_serving(container)
    workers = _workers(container, kind)
    inside = threads(container, kind, given) or Fact(1, "one thread: no option says so")
    limits = place.at("resources")
    scaled = bool(known.maxima(one))
    rollout = rollout_of(one, pod, known, given, warnings)
    cpu_limit = _cpus(limits.at("limits", "cpu"))
    added = _limiting(next(_added_limits(resources, one.namespace), None))
    return Present(
        name=one.name,
        kind=one.kind,
        where=one.where,
        namespace=one.at("metadata", "namespace").value,
        container=container.name,
        server=server or _server(container, inside),
        pods=rollout.desired,
        workers=workers,
        threads=inside,
        pool=_pool(container, given, warnings),
        cpu_request=_cpus(limits.at("requests", "cpu")) or cpu_limit,
        cpu_limit=_limiting(cpu_limit or added),
        memory_request=_bytes(limits.at("requests", "memory")),
        memory_limit=_limiting(_bytes(limits.at("limits", "memory"))),
        autoscaler=rollout.desired.source if scaled else None,
        added_limit=added,
        variables=_variables(container, kind, place),
        in_command=_in_command(container, kind),
        warnings=tuple(warnings),
    )


def _workers(container: Container, kind: AppServer | None) -> Fact[int]:
    """The processes; BadValue, with what helps a plan, where a file or the CPUs decide."""
    try:
        return processes(container, kind, Given())
    except Uncounted as unknown:
        hint = "Set the number in the manifest, or give --now PODSxWORKERS without it."
        raise BadValue(unknown.message, hint) from None


def _container(one: Resource, pod: Place, known: KubernetesObjects) -> tuple[Container, Place]:
    """The container that serves: the first with an application server, else the first."""
    places = list(pod.at("containers").items())
    every = [
        container for container in containers(one, pod, known) if not container.starts_first
    ][-len(places) :] if places else []  # fmt: skip
    if not every:
        raise BadValue(
            f"{one.where}: {one.kind} {one.name} has no containers", "Kubernetes requires one."
        )
    both = list(zip(every, places, strict=True))
    return next((pair for pair in both if serving(pair[0])), both[0])


def _server(container: Container, inside: Fact[int]) -> Server:
    """The server to plan for; BadValue if it is unknown or an event loop."""
    found, container = first_serving(container)
    kind = None if found is None else option(container, found, found.worker_options)
    if found is not None and event_loop(container, found):
        raise event_loop_refused(
            f"{container.where}: {found.title if kind is None else kind.value}"
        )
    if found is None or found.name not in _SERVERS:
        what = (
            "no application server is visible in" if found is None else f"{found.title} serves in"
        )
        raise BadValue(
            f"{container.where}: {what} container {container.name}, so how it accepts requests is "
            "unknown",
            "Give --server.",
        )
    server = _SERVERS[found.name]
    threaded = inside.value > 1 or (kind is not None and "gthread" in kind.value)
    if server is Server.GUNICORN and threaded:
        return Server.GTHREAD
    return server


def _variables(container: Container, kind: AppServer | None, place: Place) -> Variables:
    names = {str(one.at("name").value): one for one in place.at("env").items()}
    workers = kind.process_variables if kind is not None else ()
    inside = kind.thread_variables if kind is not None else ()
    return Variables(
        workers=next((name for name in workers if name in container.environment), None),
        threads=next((name for name in inside if name in container.environment), None),
        elsewhere=frozenset(
            name for name, one in names.items() if one.at("valueFrom").value is not None
        ),
    )


def _in_command(container: Container, kind: AppServer | None) -> bool:
    names = (kind.process_options, kind.thread_options) if kind is not None else ()
    return kind is not None and any(option(container, kind, each) for each in names)


def _pool(container: Container, given: Given, warnings: list[str]) -> Fact[Count] | None:
    """The pool of the container; None, with a warning, where it cannot be known."""
    try:
        found = pools(container, given)
    except BadValue as error:
        warnings.append(f"{error.message}: its pool is not shown")
        return None
    warnings += found.warnings
    if not found.pools:
        return None
    size, more = found.pools[0].size, found.pools[0].overflow.value
    return Fact(None if size.value is None else size.value + more, size.source)


def _added_limits(resources: Iterable[Resource], namespace: str) -> Iterator[Fact[float]]:
    """The CPU limits that LimitRanges of the namespace add to containers without one."""
    for one in resources:
        if one.kind == "LimitRange" and one.namespace == namespace:
            for limit in one.at("spec", "limits").items():
                cpu = _cpus(limit.at("default", "cpu"))
                if limit.at("type").value == "Container" and cpu is not None:
                    yield Fact(cpu.value, f"{cpu.source} of LimitRange {one.name}")


# Quantities.


def _cpus(place: Place) -> Fact[float] | None:
    return None if place.value is None else Fact(float(quantity(place)), place.source)


def _bytes(place: Place) -> Fact[int] | None:
    return None if place.value is None else Fact(int(quantity(place)), place.source)


def _limiting(limit: Fact[_Number] | None) -> Fact[_Number] | None:
    """The limit; None for 0, which limits nothing.

    Source: Kubernetes, kubelet/cm/helpers_linux.go (MilliCPUToQuota) and its container runtimes.
    """
    return limit if limit is not None and limit.value else None


def quantity(place: Place) -> Fraction:
    """Return a quantity of Kubernetes: ``500m``, ``2``, ``1.5Gi``, ``1e3``; BadValue for others.

    Source: Kubernetes, apimachinery, resource.Quantity.
    """
    match = _QUANTITY.fullmatch(str(place.value))
    if match is None or isinstance(place.value, bool):
        raise BadValue(
            f"{place.source}: {place.value!r} is not a quantity",
            "Write 500m or 2 CPUs, 512Mi or 2Gi.",
        )
    number, exponent, unit = match.groups()
    scale = Fraction(f"1e{exponent or 0}") * _FACTORS.get(unit, Fraction(1))
    return Fraction(number.rstrip(".")) * scale
