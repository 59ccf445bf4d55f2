"""The page of JSON documents and their JSON Schemas, from the declarations in the code."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from mrtuner import documents
from mrtuner.documents import Document, kinds, tag
from mrtuner.inputs import MACHINE, Choice, MachineInputs

#: Every package with documents.
PACKAGES: Final = ("mrtuner", "rdstune", "mrtuner_pods", "mrtuner_image")
DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
INTRODUCTION: Final = Path(__file__).with_name("json.in")
_PLAIN: Final = {
    "string": "text",
    "number": "number",
    "integer": "integer",
    "boolean": "boolean",
    "null": "null",
}
#: The fields that say what an object is; they are declared as tags, without a description.
_TAGS: Final = {"schema": "the kind of document and its version", "kind": "what it is"}


def json_page() -> Iterator[str]:
    """Yield the introduction, the inputs, then one section for each document."""
    yield from INTRODUCTION.read_text(encoding="utf-8").splitlines()
    yield from ("", "## Inputs", "")
    yield "What `mrtuner.tune` and the options of `tune`, `apply` and `prove` accept; as a JSON"
    yield "Schema: [inputs.json](schemas/inputs.json)."
    yield from ("", *inputs_table())
    for kind in kinds(*PACKAGES):
        yield from section(kind)


def schemas() -> dict[str, str]:
    """Return the JSON Schema of each document, by file name."""
    return {
        file_name(kind): json.dumps(schema(kind), indent=1) + "\n" for kind in kinds(*PACKAGES)
    } | {"inputs.json": json.dumps(inputs_schema(), indent=1) + "\n"}


def inputs_schema() -> dict[str, Any]:
    """Return the JSON Schema of what `mrtuner.tune` can be told."""
    return {
        "$schema": DRAFT,
        "title": "MachineInputs",
        "description": MachineInputs.__doc__,
        "type": "object",
        "additionalProperties": False,
        "properties": {
            name: {"description": f"{declared.help}.", **declared.schema()}
            for name, declared in MACHINE.items()
        },
    }


def inputs_table() -> Iterator[str]:
    """Yield the inputs of a machine: argument, option, what is accepted."""
    yield "| Argument | Option | Meaning |"
    yield "|:--|:--|:--|"
    for name, declared in MACHINE.items():
        flag = declared.flag or name.replace("_", "-")
        default = f" Default: {declared.default}." if declared.default else ""
        words = f": {', '.join(declared.words)}" if isinstance(declared, Choice) else ""
        option = f"--{flag} {declared.metavar}".rstrip()
        yield f"| `{name}` | `{option}` | {declared.help}{words}.{default} |"


def file_name(kind: type[Document]) -> str:
    """Return the name of the file of a document's JSON Schema."""
    return f"{tag(kind).replace('/', '-')}.json"


def schema(kind: type[Document]) -> dict[str, Any]:
    """Return one JSON Schema."""
    return {
        "$schema": DRAFT,
        "title": tag(kind),
        **documents.schema(kind),
    }


def section(kind: type[Document]) -> Iterator[str]:
    """Yield what a document consists of: its own fields, then each part that they name."""
    parts = documents.schema(kind)["$defs"]
    yield from ("", f"## `{tag(kind)}`", "", *paragraphs(kind.__doc__), "")
    yield from (f"JSON Schema: [{file_name(kind)}](schemas/{file_name(kind)})", "")
    yield from fields(parts, kind.__name__)
    for name in reachable(parts, kind.__name__):
        yield from (
            "",
            f"**{words(name)}.** {' '.join(paragraphs(parts[name].get('description')))}",
        )
        yield ""
        yield from fields(parts, name)


def fields(parts: dict[str, Any], name: str) -> Iterator[str]:
    """Yield the table of one part."""
    yield "| Field | Type | Meaning |"
    yield "|:--|:--|:--|"
    for field, told in parts[name]["properties"].items():
        meaning = told.get("description") or _TAGS[field]
        yield f"| `{field}` | {type_of(told, parts)} | {meaning} |"


def type_of(told: dict[str, Any], parts: dict[str, Any]) -> str:
    """Return the type of a field in words: ``list of entry``, ``integer or null``."""
    match told:
        case {"anyOf": several}:
            return " or ".join(type_of(one, parts) for one in several)
        case {"$ref": str(address)}:
            name = address.rpartition("/")[2]
            if "enum" in parts[name]:
                return alternatives(parts[name])
            return linked(parts[name]) or words(name).lower()
        case {"enum": _}:
            return alternatives(told)
        case _:
            return container(told, parts) or _PLAIN.get(told.get("type", ""), "any")


def linked(part: dict[str, Any]) -> str | None:
    """Return a link to the section of a document within another one, None for a part."""
    match part["properties"]:
        case {"schema": {"enum": [str(schema)]}}:
            return link(schema)
    return None


def link(schema: str) -> str:
    """Return a link to the section of a document."""
    return f"[`{schema}`](#{re.sub(r'[^a-z0-9-]', '', schema)})"


def container(told: dict[str, Any], parts: dict[str, Any]) -> str | None:
    """Return the type of a list or an object in words, None for anything else."""
    match told:
        case {"type": "array", "prefixItems": items}:
            return f"[{', '.join(type_of(one, parts) for one in items)}]"
        case {"type": "array", "items": dict(item)}:
            return f"list of {type_of(item, parts)}"
        case {"type": "object", "additionalProperties": dict(value)}:
            return f"object of {type_of(value, parts)}"
        case {"type": "object"}:
            return "object"
    return None


def alternatives(told: dict[str, Any]) -> str:
    """Return the values of an enumeration."""
    return ", ".join(f"`{one}`" for one in told["enum"])


def reachable(parts: dict[str, Any], start: str) -> list[str]:
    """Return the parts that a document uses, in the order in which its fields name them.

    The parts of another document within it are described in that document's own section.
    """
    found: list[str] = []

    def visit(name: str) -> None:
        for below in re.findall(r"\"#/\$defs/(\w+)\"", json.dumps(parts[name])):
            if below in found or below == start or "properties" not in parts[below]:
                continue
            if not linked(parts[below]):
                found.append(below)
                visit(below)

    visit(start)
    return found


def words(name: str) -> str:
    """``BudgetPart`` as ``Budget part``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).capitalize()


def paragraphs(text: str | None) -> list[str]:
    """Return a docstring as lines."""
    return inspect.cleandoc(text or "").splitlines()
