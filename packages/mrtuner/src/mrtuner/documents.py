"""JSON documents: typed, versioned, and described where they are declared.

Every kind of document is a `Document` in a module called ``document`` of the room that writes it:

    class Part(Struct):
        "A part of the memory budget."

        name: Annotated[str, Doc("what needs the memory")]
        size: Annotated[int, Doc("bytes")] = field(name="bytes")

    class Budget(Document, tag="budget/1"):
        "The worst case."

        parts: Annotated[list[Part], Doc("largest first")]

A part that is a dataclass of its room stands in a document as it is: its fields are described where
it is declared, with the same `Doc`. A whole document takes its fields from one by `fields_of`. What
is declared here is composed of parts, or has other names or fields than the object that it is made
from. A field takes the attribute of its own name; `field(name=…)` names it in JSON, and ``UNSET``
leaves it out. A version grows only by fields with a default; a field that changes its meaning makes
a new version. The reference page and the JSON Schemas are generated from these declarations
(`schema`).

This module imports msgspec: import it, and every ``document`` module, inside functions.
"""

from __future__ import annotations

import dataclasses
import json
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any, Final, TypeVar, cast, get_type_hints

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from mrtuner.described import Doc, Omissible
from mrtuner.errors import BadValue

__all__ = [
    "UNSET",
    "Doc",
    "Document",
    "Meta",
    "Struct",
    "UnsetType",
    "as_builtins",
    "convert",
    "field",
    "fields_of",
    "kinds",
    "read",
    "schema",
    "tag",
]

_D = TypeVar("_D", bound="Document")
_T = TypeVar("_T")
_VERSION: Final = "/"


class Struct(msgspec.Struct):
    """A part of a document."""


class NotJudged(Struct):
    """Something that was not judged: no check passes over it unless it is allowed to."""

    name: Annotated[str, Doc("what was not judged")]
    why: Annotated[str, Doc("why not")]
    supply: Annotated[str | None, Doc("how to supply what is missing, or null")]


class Document(Struct, tag_field="schema"):
    """A whole document; its tag is the field ``schema``: name, slash, version."""


def fields_of(record: type) -> Callable[[type[_D]], type[_D]]:
    """Give a kind of document the fields of a dataclass; all but the `Omissible` are required."""
    hints = get_type_hints(record, include_extras=True)
    fields: list[Any] = [
        (one.name, hints[one.name], one.default)
        if isinstance(hints[one.name].__metadata__[0], Omissible)
        else (one.name, hints[one.name])
        for one in dataclasses.fields(record)
    ]

    def completed(kind: type[_D]) -> type[_D]:
        made = msgspec.defstruct(
            kind.__name__, fields, bases=(kind,), module=kind.__module__, tag=tag(kind),
            namespace={"__doc__": kind.__doc__}, kw_only=True,
        )  # fmt: skip
        return cast("type[_D]", made)

    return completed


def convert(source: object, kind: type[_T]) -> _T:
    """Return a part or a document built from the attributes of `source` and its nested objects.

    A dataclass is made from a part in the same way.

    Raises:
        msgspec.ValidationError: an attribute is missing or has another type: a defect of ours.
            It is a ValueError.
    """
    return msgspec.convert(source, kind, from_attributes=True)


def as_builtins(document: object) -> dict[str, Any]:
    """Return plain dictionaries, lists, texts and numbers of a part, as `json` reads them."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document))
    return plain


def tag(kind: type[Document]) -> str:
    """Return the schema that a kind of document names: ``mrtuner.tune/1``."""
    return str(kind.__struct_config__.tag)


def schema(kind: type[Struct]) -> dict[str, Any]:
    """Return the JSON Schema of a document or a part, with what its fields mean.

    What is written has every field of a dataclass: its defaults are for those who make one, unless
    the field is `Omissible`.
    """
    made: dict[str, Any] = msgspec.json.schema(kind)
    records = _records(msgspec.inspect.type_info(kind))
    for name, cls in records.items():
        part = made["$defs"][name]
        told = part["properties"]
        meanings = {
            attribute: one
            for attribute, hint in get_type_hints(cls, include_extras=True).items()
            for one in getattr(hint, "__metadata__", ())
            if isinstance(one, Doc)
        }
        if dataclasses.is_dataclass(cls):
            part["required"] = []
            for one in dataclasses.fields(cls):
                if not isinstance(meanings.get(one.name), Omissible):
                    part["required"].append(one.name)
                    told[one.name].pop("default", None)
                elif one.default_factory is not dataclasses.MISSING:
                    told[one.name]["default"] = one.default_factory()
        for attribute, meaning in meanings.items():
            key = _encoded(cls).get(attribute, attribute)
            told[key] = {"description": str(meaning)} | _null_first(told[key], records)
    return _renamed(made, records)


def _renamed(made: dict[str, Any], records: Mapping[str, type]) -> dict[str, Any]:
    """The same schema with the names that records have in documents."""
    names = {name: getattr(cls, "__document_name__", name) for name, cls in records.items()}
    text = json.dumps(made)
    for name, other in names.items():
        text = text.replace(f'"#/$defs/{name}"', f'"#/$defs/{other}"')
        text = text.replace(f'"title": "{name}"', f'"title": "{other}"')
    renamed: dict[str, Any] = json.loads(text)
    renamed["$defs"] = {names.get(key, key): part for key, part in renamed["$defs"].items()}
    return renamed


def _null_first(told: dict[str, Any], records: Mapping[str, type]) -> dict[str, Any]:
    """One order for both: msgspec names a struct after null, a dataclass before it."""
    match told:
        case {"anyOf": [{"$ref": str(address)} as record, {"type": "null"} as null]}:
            if address.rpartition("/")[2] in records:
                return told | {"anyOf": [null, record]}
    return told


def _records(info: object) -> dict[str, type]:
    """The structs and dataclasses of a type, by name."""
    found: dict[str, type] = {}
    waiting = [info]
    while waiting:
        match waiting.pop():
            case msgspec.inspect.StructType() | msgspec.inspect.DataclassType() as record:
                if record.cls.__name__ not in found:
                    found[record.cls.__name__] = record.cls
                    waiting.extend(one.type for one in record.fields)
            case (
                msgspec.inspect.UnionType(types=types) | msgspec.inspect.TupleType(item_types=types)
            ):
                waiting.extend(types)
            case (
                msgspec.inspect.DictType(value_type=inner)
                | msgspec.inspect.CollectionType(item_type=inner)
            ):
                waiting.append(inner)
            case msgspec.inspect.Metadata(type=inner):
                waiting.append(inner)
    return found


def _encoded(cls: type) -> dict[str, str]:
    if not issubclass(cls, msgspec.Struct):
        return {}
    return {one.name: one.encode_name for one in msgspec.structs.fields(cls)}


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


def kinds(*packages: str) -> Iterator[type[Document]]:
    """Yield every kind of document, by schema; this imports every room that declares one."""
    for package in packages:
        for module in pkgutil.walk_packages(import_module(package).__path__, f"{package}."):
            if module.name.rpartition(".")[2] == "document":
                import_module(module.name)
    yield from sorted(_leaves(Document), key=tag)


def _leaves(kind: type[Document]) -> Iterator[type[Document]]:
    below = kind.__subclasses__()
    if not below:
        yield kind
    for one in below:
        yield from _leaves(one)
