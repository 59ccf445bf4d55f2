"""JSON documents: typed, versioned, and described where they are declared.

Every kind of document is a `Document` in a module called ``document`` of the room that writes it:

    class Part(Struct):
        "A part of the memory budget."

        name: Annotated[str, Doc("what needs the memory")]
        size: Annotated[int, Doc("bytes")] = field(name="bytes")

    class Budget(Document, tag="budget/1"):
        "The worst case."

        parts: Annotated[list[Part], Doc("largest first")]

A field takes the attribute of its own name from the object that is converted; `field(name=…)` names
it in JSON, and ``UNSET`` leaves it out. A version grows only by fields with a default; a field that
changes its meaning makes a new version. The reference page and the JSON Schemas are generated from
these declarations.

This module imports msgspec: import it, and every ``document`` module, inside functions.
"""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import UNSET, UnsetType, field

from mrtuner.errors import BadValue

__all__ = [
    "UNSET",
    "Doc",
    "Document",
    "Struct",
    "UnsetType",
    "as_builtins",
    "convert",
    "field",
    "kinds",
    "read",
    "tag",
]

_D = TypeVar("_D", bound="Document")
_T = TypeVar("_T")
_VERSION: Final = "/"


class Struct(msgspec.Struct):
    """A part of a document."""


def Doc(text: str) -> msgspec.Meta:
    """Return what a field means, for the reference page and the JSON Schema."""
    return msgspec.Meta(description=text)


class NotJudged(Struct):
    """Something that was not judged: no check passes over it unless it is allowed to."""

    name: Annotated[str, Doc("what was not judged")]
    why: Annotated[str, Doc("why not")]
    supply: Annotated[str | None, Doc("how to supply what is missing, or null")]


class Document(Struct, tag_field="schema"):
    """A whole document; its tag is the field ``schema``: name, slash, version."""


def convert(source: object, kind: type[_T]) -> _T:
    """Return a part or a document built from the attributes of `source` and its nested objects.

    A dataclass is made from a part in the same way.

    Raises:
        msgspec.ValidationError: an attribute is missing or has another type: a defect of ours.
            It is a ValueError.
    """
    return msgspec.convert(source, kind, from_attributes=True)


def as_builtins(document: Struct) -> dict[str, Any]:
    """Return plain dictionaries, lists, texts and numbers, as `json` writes them."""
    plain: dict[str, Any] = msgspec.to_builtins(document)
    return plain


def tag(kind: type[Document]) -> str:
    """Return the schema that a kind of document names: ``mrtuner.tune/1``."""
    return str(kind.__struct_config__.tag)


def read(given: str | bytes | Mapping[str, Any], *accepted: type[_D]) -> _D:
    """Return a document that was written earlier, as the `accepted` kind that its schema names.

    `given` is its text, or the data that `json` parsed from it. Fields that this version does not
    know are ignored.

    Raises:
        BadValue: it is not a JSON document, has another kind or version, or lacks a field.
    """
    found = given if isinstance(given, Mapping) else _parsed(given)
    schema = named if isinstance(named := found.get("schema"), str) else ""
    for kind in accepted:
        if schema == tag(kind):
            try:
                return msgspec.convert(found, kind)
            except msgspec.ValidationError as error:
                raise BadValue(
                    f"the document says it is {schema}, but: {error}",
                    "Give a document as the command wrote it.",
                ) from None
    known = " or ".join(tag(kind) for kind in accepted)
    names = {tag(kind).partition(_VERSION)[0] for kind in accepted}
    if schema.partition(_VERSION)[0] in names:
        raise BadValue(
            f"the document has version {schema}; this MrTuner reads {known}",
            "Write it again with this version, or read it with the version that wrote it.",
        )
    raise BadValue(f"the document is {schema or 'not one of MrTuner'}", f"Give one of {known}.")


def _parsed(text: str | bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadValue(f"not a JSON document: {error}", "Give a document of MrTuner.") from None
    return found if isinstance(found, dict) else {}


def kinds() -> Iterator[type[Document]]:
    """Yield every kind of document, by schema; this imports every room that declares one."""
    import mrtuner

    for module in pkgutil.walk_packages(mrtuner.__path__, "mrtuner."):
        if module.name.rpartition(".")[2] == "document":
            import_module(module.name)
    yield from sorted(_leaves(Document), key=tag)


def _leaves(kind: type[Document]) -> Iterator[type[Document]]:
    for below in kind.__subclasses__():
        if below.__struct_config__.tag:
            yield below
        yield from _leaves(below)
