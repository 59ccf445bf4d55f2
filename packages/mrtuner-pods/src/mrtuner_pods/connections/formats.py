"""Every format of manifests: Compose files, task definitions of ECS and Procfiles become objects
like those of Kubernetes.

Each service, task or line becomes an object with a pod of one or more containers, so that there is
one reader of containers. Sources: the Compose specification; ECS, RegisterTaskDefinition; Heroku,
The Procfile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mrtuner.errors import BadValue
from mrtuner_pods.connections.container.container import POOLERS, POSTGRES, image_name
from mrtuner_pods.connections.manifest import Located, Place, Resource, documents, objects

COMPOSE, ECS, PROCFILE = "Compose service", "ECS task", "Procfile"
#: Formats that do not say how many there are.
UNCOUNTED: Final = {
    ECS: "a task definition does not say how many tasks run",
    PROCFILE: "a Procfile does not say how many dynos run",
}
_LINE: Final = re.compile(r"(?!kind|name)([A-Za-z0-9_-]+):\s+([\w./$\"'-]+\s+\S.*)")
_SUBSTITUTED: Final = re.compile(r"\$\{(\w+):?-([^}]*)\}")
_PLACEHOLDER: Final = re.compile(r"\$\{?\w+[^}]*\}?")
#: A line of a Procfile that runs once, at a release.
_RELEASE: Final = "release"


def resources(text: str, file: str) -> tuple[Resource, ...]:
    """Return the objects of a manifest, including those in lists.

    Raises BadValue if it is not YAML, a template that was not rendered, or not a manifest.
    """
    if _is_procfile(text):
        return tuple(_procfile(text, file))
    found = tuple(one for read in documents(text, file) for one in _resources(read, file))
    if not found:
        raise BadValue(
            f"{file} is empty",
            "Give a manifest; if it comes from a pipe, check that command's output.",
        )
    return found


def _resources(document: object, file: str) -> Iterator[Resource]:
    if isinstance(document, Located) and not isinstance(document.get("kind"), str):
        task = document.get("taskDefinition", document)
        if isinstance(document.get("services"), Located):
            return _compose(document["services"], file)
        if isinstance(task, Located) and isinstance(task.get("containerDefinitions"), list):
            return _task(task, file)
    return objects(document, file)


def _is_procfile(text: str) -> bool:
    """Whether every line of a text is a process and its command, which has several words."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return bool(lines) and all(_LINE.fullmatch(line.rstrip()) for line in lines)


def _procfile(text: str, file: str) -> Iterator[Resource]:
    """Yield an object for each kind of process; its variables are the app's, which are not here."""
    for number, line in enumerate(text.splitlines(), 1):
        match = _LINE.fullmatch(line.rstrip())
        if match and match[1] != _RELEASE:
            container = _at(
                number, name=match[1], command=[match[2]],
                envFrom=[_at(number, elsewhere=_at(number, name="the app's config vars"))],
            )  # fmt: skip
            yield _object(file, number, PROCFILE, match[1], [container])


def _compose(services: Located, file: str) -> Iterator[Resource]:
    servers = {*POSTGRES, *POOLERS}
    databases = {
        str(name) for name, one in services.items()
        if isinstance(one, Located) and image_name(str(one.get("image") or "")) in servers
    }  # fmt: skip
    for name, service in services.items():
        line = services.lines.get(str(name), 1)
        if not isinstance(service, Located):
            continue
        place = Place(file, f"services.{name}", service, line)
        deploy = place.at("deploy").mapping()
        more = [_at(line, elsewhere=_at(line, name=one)) for one in _files(service)]
        container = _at(
            line, name=str(name), image=service.get("image"),
            command=_words(service.get("entrypoint")), args=_words(service.get("command")),
            env=list(_variables(service.get("environment"), line)), envFrom=more,
            uses=next((one for one in _depends(place) if one in databases), None),
        )  # fmt: skip
        replicas = deploy.get("replicas", service.get("scale", 1))
        yield _object(
            file, line, COMPOSE, str(name), [container], replicas=replicas,
            mode=deploy.get("mode"), update=deploy.get("update_config"),
        )  # fmt: skip


def _task(own: Located, file: str) -> Iterator[Resource]:
    containers = []
    for one in Place(file, "", own).at("containerDefinitions").items():
        secrets = [
            _at(one.line, name=each.at("name").value) for each in one.at("secrets").items()
        ]  # fmt: skip
        files = [
            _at(one.line, elsewhere=_at(one.line, name=f"the file {each.at('value').value}"))
            for each in one.at("environmentFiles").items()
        ]
        containers.append(
            _at(
                one.line,
                name=one.at("name").value,
                image=one.at("image").value,
                command=one.at("entryPoint").list_of(),
                args=one.at("command").list_of(),
                env=[*one.at("environment").list_of(), *secrets],
                envFrom=files,
            )
        )
    yield _object(file, 1, ECS, str(own.get("family") or "task"), containers)


def _object(
    file: str, line: int, kind: str, name: str, containers: list[Located],
    replicas: object = None, **more: object,
) -> Resource:  # fmt: skip
    pod = _at(line, spec=_at(line, containers=containers))
    spec = _at(line, replicas=replicas, template=pod, **more)
    return Resource(file, _at(line, kind=kind, metadata=_at(line, name=name), spec=spec))


def _at(line: int, **values: Any) -> Located:
    """A mapping whose keys are all at one line; without those that are None."""
    made = Located({key: value for key, value in values.items() if value is not None})
    made.lines = dict.fromkeys(made, line)
    return made


def _words(value: object) -> list[Any] | None:
    """A command as the list that it is, or as one text, which is split later."""
    if value is None:
        return None
    return [_filled(str(one)) for one in (value if isinstance(value, list) else [value])]


def _files(service: Mapping[str, Any]) -> Iterator[str]:
    given = service.get("env_file") or []
    for one in given if isinstance(given, list) else [given]:
        yield f"the file {one.get('path') if isinstance(one, dict) else one}"
    if "extends" in service:
        yield "the service that it extends"


def _depends(service: Place) -> Iterator[str]:
    """The names of the services that a service needs: lists, or mappings by name."""
    for key in ("depends_on", "links"):
        place = service.at(key)
        named = place.value if isinstance(place.value, dict) else place.list_of()
        for one in named:
            yield str(one).partition(":")[0]


def _variables(given: object, line: int) -> Iterator[Located]:
    if isinstance(given, dict):
        lines = getattr(given, "lines", {})
        for name, value in given.items():
            yield _variable(str(name), value, lines.get(str(name), line))
    for one in given if isinstance(given, list) else ():
        name, equals, value = str(one).partition("=")
        yield _variable(name, value if equals else None, line)


def _variable(name: str, value: object, line: int) -> Located:
    """A variable; without a value if it comes from where Compose is run."""
    text = None if value is None else _filled(str(value))
    if text is not None and _PLACEHOLDER.fullmatch(text):
        text = None
    return _at(line, name=name, value=text)


def _filled(text: str) -> str:
    """A text with the defaults of what Compose substitutes; a dollar is written twice."""
    return _SUBSTITUTED.sub(lambda match: match[2], text).replace("$$", "$")
