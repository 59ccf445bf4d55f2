"""The containers of a pod, with their environment from ConfigMaps and Secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mrtuner.facts import Fact
from mrtuner_pods.connections.cluster import KubernetesObjects
from mrtuner_pods.connections.container.commands import commands
from mrtuner_pods.connections.container.connection_string import parsed
from mrtuner_pods.connections.container.container import (
    Container,
    dependent,
    expanded,
    written,
)
from mrtuner_pods.connections.manifest import Place, Resource

#: Where a kind has the specification of its pod.
_POD: Final = {
    "Pod": ("spec",),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
    "ScaledJob": ("spec", "jobTargetRef", "template", "spec"),
}
#: Sources that a container takes whole; the last is of other formats.
_WHOLE: Final = (
    ("configMapRef", "ConfigMap"), ("secretRef", "Secret"), ("elsewhere", ""),
)  # fmt: skip
TEMPLATE: Final = ("spec", "template", "spec")
#: The variable that stands for a connection string on the command line.
COMMAND_LINE: Final = "command line"
#: What a file says that connects to PostgreSQL.
_MENTIONED: Final = re.compile(r"postgres|psycopg|pg_dump", re.IGNORECASE)
#: Mounted objects that hold no settings.
_NO_SETTINGS: Final = re.compile(
    r"(^|[-_.])(tls|ssl|cert|certs|ca|ssh|keys?|token|license)([-_.]|$)"
)


def pod_of(resource: Resource) -> Place:
    return resource.at(*_POD.get(resource.kind, TEMPLATE))


def containers(resource: Resource, pod: Place, known: KubernetesObjects) -> Iterator[Container]:
    """Yield every container of a pod, those that start first before the others."""
    for place in pod.at("initContainers").items():
        lasting = place.at("restartPolicy").value == "Always"  # a sidecar
        yield _container(resource, place, known, starts_first=not lasting)
    for place in pod.at("containers").items():
        yield _container(resource, place, known)


def _container(
    resource: Resource, place: Place, known: KubernetesObjects, *, starts_first: bool = False
) -> Container:
    environment: dict[str, Fact[str | None]] = {}
    for name, found in _environment(resource, place, known):
        text = dependent(found.value, environment) if found.value else found.value
        environment[name] = Fact(text, found.source)
    command = [*place.at("command").list_of(), *place.at("args").list_of()]
    words = expanded(command, environment)
    for word in words:
        if text := _connection_string(word):
            environment[COMMAND_LINE] = Fact(text, f"{place.file}:{place.line} command line")
    mounted = dict(_mounted(resource, place, known))
    mentioned = [name for name, text in mounted.items() if text and _MENTIONED.search(text)]
    used = place.at("uses").value
    evidence = f"{mentioned[0]} mentions PostgreSQL" if mentioned else ""
    return Container(
        workload=resource.name,
        name=str(place.at("name").value or "?"),
        where=f"{place.file}:{place.line}",
        started=commands(words),
        environment=environment,
        image=str(place.at("image").value or ""),
        starts_first=starts_first,
        absent=tuple(_absent(resource, place, known)),
        files=tuple(name for name, text in mounted.items() if text is None),
        evidence=f"it depends on {used}" if used else evidence,
    )


def _connection_string(word: str) -> str | None:
    """The connection string that a word of a command line is, or gives an option: ``--dsn=…``."""
    for text in (word, word.partition("=")[2]):
        if " " not in text and (found := parsed(text)) is not None and found.scheme:
            return text
    return None


def _mounted(
    resource: Resource, container: Place, known: KubernetesObjects
) -> Iterator[tuple[str, str | None]]:
    """Yield the ConfigMaps and Secrets that a container mounts, with their text; None: not here."""
    mounts = {str(one.at("name").value) for one in container.at("volumeMounts").items()}
    for volume in pod_of(resource).at("volumes").items():
        if str(volume.at("name").value) not in mounts:
            continue
        parts = [volume, *volume.at("projected", "sources").items()]
        for one in parts:
            for kind, name in (
                ("ConfigMap", one.at("configMap", "name").value),
                ("Secret", one.at("secret", "secretName").value or one.at("secret", "name").value),
            ):
                if name and not _NO_SETTINGS.search(str(name)):
                    values = known.values.get((kind, resource.namespace, str(name)))
                    known_here = values is not None and None not in values.values()
                    text = "\n".join(filter(None, (values or {}).values()))
                    yield f"{kind} {name}", text if known_here else None


def _absent(resource: Resource, container: Place, known: KubernetesObjects) -> Iterator[str]:
    """The ConfigMaps and Secrets that a container takes as a whole, but the manifests lack."""
    for place in container.at("envFrom").items():
        for key, kind in _WHOLE:
            name = str(place.at(key, "name").value or "")
            if name and (kind, resource.namespace, name) not in known.values:
                yield f"{kind} {name}".strip()


def _environment(
    resource: Resource, container: Place, known: KubernetesObjects
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


def _variable(
    resource: Resource, place: Place, name: str, known: KubernetesObjects
) -> Fact[str | None]:
    where = f"{place.file}:{place.line}"
    value = place.at("value")
    if value.value is not None:
        return Fact(written(value.value), f"{where} env {name}")
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
