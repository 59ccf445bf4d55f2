"""The parameters of every supported major version, from parameters.json.

The file holds for each name a list of spans (`since` to `until`, inclusive); a span after the
first carries only the fields that differ from the one before.
`tools/refresh_parameters.py` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mrtuner.catalog.parameter import Parameter
from mrtuner.errors import BadValue
from mrtuner.inputs import MAJORS
from mrtuner.wording import enumerated

#: One span, complete: since, until, vartype, unit, context, min, max, enum, build, default.
Span = dict[str, Any]


@cache
def parameters(major: int) -> Mapping[str, Parameter]:
    """Return every parameter of a major version by name; BadValue for a major not in MAJORS."""
    if major not in MAJORS:
        raise BadValue(
            f"PostgreSQL {major} is not supported",
            f"MrTuner knows the majors {MAJORS[0]} to {MAJORS[-1]}.",
        )
    document, summaries = _document(), table("summaries.json")
    certainty = document["majors"][str(major)]["certainty"]
    found = {}
    for name, compact in document["parameters"].items():
        for span in spans(compact):
            if span["since"] <= major <= span["until"]:
                found[name] = _parameter(name, span, summaries.get(name, ""), major, certainty)
    return MappingProxyType(found)


def parameter(name: str, major: int) -> Parameter:
    """Return a parameter; names are case-insensitive, as in the server. BadValue if unknown."""
    known = parameters(major)
    if name in known:
        return known[name]
    for other in known.values():
        if other.name.lower() == name.lower():
            return other
    raise BadValue(f"PostgreSQL {major} has no parameter {name!r}", _advice(name.lower(), major))


def lifespans() -> Mapping[str, list[Span]]:
    """Return every name with its complete spans, oldest first."""
    return {name: list(spans(compact)) for name, compact in _document()["parameters"].items()}


def spans(compact: list[Span]) -> Iterator[Span]:
    """Yield the spans of one parameter, each completed from the previous one."""
    current: Span = {}
    for change in compact:
        current = current | change
        yield current


@cache
def table(file: str) -> Any:
    """Load a JSON file from this module's directory."""
    return json.loads(Path(__file__).with_name(file).read_text(encoding="utf-8"))


def _document() -> Any:
    return table("parameters.json")


def _parameter(name: str, span: Span, summary: str, major: int, certainty: str) -> Parameter:
    field = span.get
    return Parameter(
        name=name,
        vartype=span["vartype"],
        unit=field("unit"),
        min=field("min"),
        max=field("max"),
        enum=tuple(field("enum") or ()),
        build=tuple(field("build") or ()),
        context=span["context"],
        default=field("default"),
        summary=summary,
        major=major,
        certainty=certainty,
    )


def _advice(name: str, major: int) -> str:
    """Suggest a replacement if the name was added or removed, else similar names."""
    elsewhere = table("parameters.json")["parameters"].get(name)
    if elsewhere:
        return _moved(name, elsewhere, major)
    replaced = table("meanings.json")["replaced"]
    if name in replaced:
        instead = replaced[name]
        return f"It was removed before 13{f': use {instead}' if instead else ''}."
    close = _close(name, major)
    if close:
        return f"Did you mean {enumerated(close, 'or')}?"
    return "Use a name from pg_settings."


def _moved(name: str, compact: list[Span], major: int) -> str:
    first, last = compact[0]["since"], compact[-1]["until"]
    if major < first:
        return f"{name} was added in {first}."
    instead = table("meanings.json")["replaced"].get(name)
    went = f"{name} was removed in {last + 1}"
    return f"{went}: use {instead}." if instead else f"{went}."


def _close(name: str, major: int) -> list[str]:
    from difflib import get_close_matches  # only needed for a mistyped name

    return get_close_matches(name, parameters(major), n=3, cutoff=0.75)
