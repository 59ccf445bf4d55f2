"""The containers of a pod, with their environment from ConfigMaps and Secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mrtuner.facts import Fact
from mrtuner_pods.connections.cluster import Cluster
from mrtuner_pods.connections.container.commands import commands
from mrtuner_pods.connections.container.container import Container, dependent, expanded
from mrtuner_pods.connections.manifest import Place, Resource

#: Where a kind has the specification of its pod.
_POD: Final = {"Pod": ("spec",), "CronJob": ("spec", "jobTemplate", "spec", "template", "spec")}
#: Sources that a container takes whole; the last is of other formats.
_WHOLE: Final = (
    ("configMapRef", "ConfigMap"), ("secretRef", "Secret"), ("elsewhere", ""),
)  # fmt: skip
TEMPLATE: Final = ("spec", "template", "spec")


def pod_of(resource: Resource) -> Place:
    return resource.at(*_POD.get(resource.kind, TEMPLATE))


def containers(resource: Resource, pod: Place, known: Cluster) -> Iterator[Container]:
    """Yield every container of a pod, those that start first before the others."""
    for place in pod.at("initContainers").items():
        lasting = place.at("restartPolicy").value == "Always"  # a sidecar
        yield _container(resource, place, known, starts_first=not lasting)
    for place in pod.at("containers").items():
        yield _container(resource, place, known)


def _container(
    resource: Resource, place: Place, known: Cluster, *, starts_first: bool = False
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
        started=commands(expanded(command, environment)),
        environment=environment,
        image=str(place.at("image").value or ""),
        starts_first=starts_first,
        absent=tuple(_absent(resource, place, known)),
    )


def _absent(resource: Resource, container: Place, known: Cluster) -> Iterator[str]:
    """The ConfigMaps and Secrets that a container takes as a whole, but the manifests lack."""
    for place in container.at("envFrom").items():
        for key, kind in _WHOLE:
            name = str(place.at(key, "name").value or "")
            if name and (kind, resource.namespace, name) not in known.values:
                yield f"{kind} {name}".strip()


def _environment(
    resource: Resource, container: Place, known: Cluster
) -> Iterator[tuple[str, Fact[str | None]]]:
    """Every variable; its value is None if it comes from an object that the manifests lack."""
    for place in container.at("envFrom").items():
        prefix = str(place.at("prefix").value or "")
        for key, kind in _WHOLE:
            name = str(place.at(key, "name").value or "")
            for entry, value in known.values.get((kind, resource.namespace, name), {}).items():
                source = f"{place.file}:{place.line} {kind} {name}, {entry}"
                yield prefix + entry, Fact(value, source)
    for place in container.at("env").items():
        name = str(place.at("name").value or "")
        yield name, _variable(resource, place, name, known)


def _variable(resource: Resource, place: Place, name: str, known: Cluster) -> Fact[str | None]:
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


def odd_memory(pod: Place) -> Iterator[str]:
    """Yield a warning for each amount of memory that is probably a mistake."""
    for container in pod.at("containers").items():
        for kind in ("requests", "limits"):
            place = container.at("resources", kind, "memory")
            text = str(place.value or "")
            if re.fullmatch(r"[\d.]+m", text):
                yield f"{place.source}: {text} is thousandths of a byte, not {text[:-1]}Mi"
            elif re.fullmatch(r"[\d.]+(e\d)?", text) and float(text) < 2**20:
                yield f"{place.source}: {text} is a number of bytes, too few for any process"
