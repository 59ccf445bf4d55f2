"""How a parameter changed between major versions, in sentences; until when these are supported.

What pg_settings shows is derived from the spans in parameters.json. Changes of meaning, which it
cannot show, are recorded in meanings.json with their sources.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from itertools import pairwise

from mrtuner.catalog.load import Span, lifespans, parameter, table
from mrtuner.errors import BadValue
from mrtuner.inputs import MAJORS

#: Field of a span → its name in a sentence.
_WORDS = {
    "vartype": "the type",
    "unit": "the unit",
    "min": "the minimum",
    "max": "the maximum",
    "default": "the default",
    "enum": "the list of values",
}
_CONTEXTS = {
    "postmaster": "needs a restart",
    "sighup": "needs only a reload",
    "user": "can be set by every session",
    "superuser": "can be set by a superuser's session",
    "superuser-backend": "can be set by a superuser at connection",
    "backend": "can be set at connection",
    "internal": "cannot be set",
}


def end_of_support(major: int) -> date | None:
    """Return the date of a major version's last minor release; None for one younger than our table.

    Source: postgresql.org, Versioning Policy.
    """
    ends = table("versions.json")["ends"].get(str(major))
    return None if ends is None else date.fromisoformat(ends)


def history(name: str) -> tuple[str, ...]:
    """Return when a parameter was added, changed or removed since 13, oldest first, in sentences.

    Raises BadValue for a name that no supported major knows.
    """
    spans = lifespans().get(name)
    if spans is None:
        raise BadValue(
            f"no PostgreSQL from {MAJORS[0]} to {MAJORS[-1]} has a parameter {name!r}",
            "Use a name from pg_settings.",
        )
    said = [*_derived(name, spans), *_written(name)]
    return tuple(f"{major}: {text}" for major, text in sorted(said, key=lambda pair: pair[0]))


def _derived(name: str, spans: list[Span]) -> Iterator[tuple[int, str]]:
    first, last = spans[0], spans[-1]
    if first["since"] > MAJORS[0]:
        yield first["since"], "new"
    for before, after in pairwise(spans):
        for change in _changes(name, before, after):
            yield after["since"], change
    if last["until"] < MAJORS[-1]:
        yield last["until"] + 1, _gone(name)


def _changes(name: str, before: Span, after: Span) -> Iterator[str]:
    if before["context"] != after["context"]:
        yield f"it {_CONTEXTS[after['context']]}; before, it {_past(before['context'])}"
    for field, words in _WORDS.items():
        old, new = _text(name, before, field), _text(name, after, field)
        if old != new and None not in (old, new):
            yield f"{words} changed from {old} to {new}"


def _past(context: str) -> str:
    return _CONTEXTS[context].replace("needs", "needed").replace("can", "could")


def _text(name: str, span: Span, field: str) -> str | None:
    """Return a field as people write it; None where this version has none."""
    value = span.get(field)
    match value:
        case None:
            return None
        case list():
            return ", ".join(value)
        case str():
            return value or "empty"
        case _:
            return parameter(name, span["since"]).show(value)


def _gone(name: str) -> str:
    instead = table("meanings.json")["replaced"].get(name)
    return f"removed; use {instead}" if instead else "gone"


def _written(name: str) -> Iterator[tuple[int, str]]:
    for entry in table("meanings.json")["meanings"].get(name, ()):
        yield entry["major"], f"{entry['says']} ({entry['source']})"
