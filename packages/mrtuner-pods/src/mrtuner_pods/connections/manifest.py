"""Manifests as data with line numbers; one text may hold several objects and lists.

They must be plain YAML, as `kustomize build` and `helm template` print it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from mrtuner.errors import BadValue
from mrtuner.facts import Fact
from mrtuner_pods.connections.given import at_least

if TYPE_CHECKING:
    import yaml

_TEMPLATE: Final = re.compile(r"\{\{-?\s*(\.Values|\.Release|\.Chart|include|if|range|with|end)\b")


#: What YAML calls the types that Python reads.
KINDS: Final = {
    "str": "a text", "int": "a number", "float": "a number", "bool": "true or false",
    "list": "a list", "dict": "a mapping", "Located": "a mapping",
}  # fmt: skip


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

    def mapping(self) -> dict[str, Any]:
        """Return a mapping, empty if there is nothing; BadValue for anything else."""
        if self.value is None:
            return {}
        if not isinstance(self.value, dict):
            raise self._not("a mapping", "Write it as names with values.")
        return {str(name): value for name, value in self.value.items()}

    def list_of(self) -> list[Any]:
        """Return a list, empty if there is nothing; BadValue for anything else."""
        if self.value is None:
            return []
        if not isinstance(self.value, list):
            raise self._not("a list", 'Write it as a list: ["a", "b"].')
        return self.value

    def _not(self, what: str, hint: str) -> BadValue:
        kind = type(self.value).__name__
        return BadValue(f"{self.source} is not {what}: {KINDS.get(kind, kind)}", hint)

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

    def counted(self, default: int, why: str, least: int = 0) -> Fact[int]:
        """Return `whole` with its source; `default` and `why` where nothing is written."""
        number = self.whole(least)
        return Fact(default, why) if number is None else Fact(number, self.source)


def documents(text: str, file: str) -> list[object]:
    """Return the documents of a text that are not empty; mappings know their lines.

    Raises BadValue if it is not YAML, or a template that was not rendered.
    """
    import yaml

    if _TEMPLATE.search(text):
        raise BadValue(
            f"{file} is a Helm template that was not rendered",
            f"Run: helm template . | mrtuner pods check - …, in the place of {file}.",
        )
    try:
        read = list(yaml.load_all(text, Loader=_loader()))
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
    return [document for document in read if document]


def objects(document: object, file: str) -> Iterator[Resource]:
    """Yield the objects of a document of Kubernetes, including those in lists.

    Raises BadValue for any other document.
    """
    if not isinstance(document, Located) or not isinstance(document.get("kind"), str):
        raise BadValue(
            f"{file} is not a manifest: an object has no kind",
            "Give Deployments and the like, a Compose file, a task definition of ECS or a "
            "Procfile; render a chart with helm template.",
        )
    if document["kind"].endswith("List") and isinstance(document.get("items"), list):
        for item in document["items"]:
            yield from objects(item, file)
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
