"""Manifests as data with line numbers; one text may hold several objects and lists.

Those of Kubernetes must be plain YAML, as `kustomize build` and `helm template` print it. Compose
files, task definitions of ECS and Procfiles are read as well (`formats`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from mrtuner.errors import BadValue
from mrtuner_pods.connections.given import at_least

if TYPE_CHECKING:
    import yaml

_TEMPLATE: Final = re.compile(r"\{\{-?\s*(\.Values|\.Release|\.Chart|include|if|range|with|end)\b")


class Located(dict[str, Any]):
    """A mapping that knows the line of each key."""

    lines: dict[str, int]


@dataclass(frozen=True, slots=True)
class Resource:
    """One object of a manifest."""

    file: str
    body: Located

    @property
    def kind(self) -> str:
        """Deployment, CronJob, …"""
        return str(self.body.get("kind") or "")

    @property
    def name(self) -> str:
        return str(self.at("metadata", "name").value or "")

    @property
    def namespace(self) -> str:
        """metadata.namespace, or ``default``."""
        return str(self.at("metadata", "namespace").value or "default")

    @property
    def where(self) -> str:
        return f"{self.file}:{getattr(self.body, 'lines', {}).get('kind', 1)}"

    def at(self, *path: str) -> Place:
        """Return the place at a path; its value is None if there is nothing."""
        return Place(self.file, "", self.body).at(*path)


@dataclass(frozen=True, slots=True)
class Place:
    """A value, and where it was read."""

    file: str
    path: str
    value: Any
    line: int = 0

    def at(self, *path: str) -> Place:
        """Return the place below; its value is None where there is none."""
        here = self
        for key in path:
            value = here.value.get(key) if isinstance(here.value, dict) else None
            line = getattr(here.value, "lines", {}).get(key, here.line)
            here = Place(self.file, f"{here.path}.{key}".lstrip("."), value, line)
        return here

    def items(self) -> Iterator[Place]:
        """Yield the elements of a list, each with its line."""
        for number, value in enumerate(self.value if isinstance(self.value, list) else ()):
            lines = getattr(value, "lines", {})
            first = min(lines.values(), default=self.line)
            yield Place(self.file, f"{self.path}[{number}]", value, first)

    @property
    def source(self) -> str:
        """The file, the line and the path: ``app.yaml:12 spec.replicas``."""
        return f"{self.file}:{self.line} {self.path}" if self.line else f"{self.file} {self.path}"

    def whole(self, least: int = 0) -> int | None:
        """Return a whole number of at least `least`, or None; BadValue for anything else."""
        value = self.value
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise BadValue(
                f"{self.source}: {value!r} is not a whole number",
                "Use only digits, without quotes: 1000, not 1e3.",
            )
        return at_least(least, value, self.source)


def resources(text: str, file: str) -> tuple[Resource, ...]:
    """Return the objects of a manifest, including those in lists.

    Raises BadValue if it is not YAML, a template that was not rendered, or not a manifest.
    """
    import yaml

    from mrtuner_pods.connections import formats

    if formats.is_procfile(text):
        return tuple(formats.procfile(text, file))
    if _TEMPLATE.search(text):
        raise BadValue(
            f"{file} is a Helm template that was not rendered",
            f"Run: helm template . | mrtuner pods check - …, in the place of {file}.",
        )
    try:
        documents = list(yaml.load_all(text, Loader=_loader()))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{file}:{mark.line + 1}" if mark else file
        said = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise BadValue(
            f"{where}: not YAML: {said}", "Give a manifest that kubectl accepts."
        ) from None
    except RecursionError:
        raise BadValue(
            f"{file}: nested too deeply", "Give a manifest that kubectl accepts."
        ) from None
    found = tuple(one for document in documents if document for one in _objects(document, file))
    if not found:
        raise BadValue(
            f"{file} is empty",
            "Give a manifest; if it comes from a pipe, check that command's output.",
        )
    return found


def _is_task(document: Located) -> bool:
    own = document.get("taskDefinition", document)
    return isinstance(own, Located) and isinstance(own.get("containerDefinitions"), list)


def _objects(document: object, file: str) -> Iterator[Resource]:
    from mrtuner_pods.connections import formats

    if not isinstance(document, Located) or not isinstance(document.get("kind"), str):
        if isinstance(document, Located) and isinstance(document.get("services"), Located):
            yield from formats.compose(document, file)
            return
        if isinstance(document, Located) and _is_task(document):
            yield from formats.task(document, file)
            return
        raise BadValue(
            f"{file} is not a manifest: an object has no kind",
            "Give Deployments and the like, a Compose file, a task definition of ECS or a "
            "Procfile; render a chart with helm template.",
        )
    if document["kind"].endswith("List") and isinstance(document.get("items"), list):
        for item in document["items"]:
            yield from _objects(item, file)
    else:
        yield Resource(file, document)


@cache
def _loader() -> type[yaml.SafeLoader]:
    import yaml

    class Loader(yaml.SafeLoader):
        """A safe loader whose mappings know their lines."""

    def mapping(loader: Any, node: yaml.MappingNode) -> Iterator[Located]:
        made = Located()
        yield made
        made.update(loader.construct_mapping(node))
        made.lines = {str(key.value): key.start_mark.line + 1 for key, _ in node.value}

    Loader.add_constructor("tag:yaml.org,2002:map", mapping)
    return Loader
