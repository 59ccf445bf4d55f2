"""Data per major version folded into spans of majors: a small file, small diffs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

#: The fields of one parameter in one major version; fields that are None are omitted.
Fields = dict[str, Any]
#: name → major → fields
Timeline = dict[str, dict[int, Fields]]


def fold(by_major: Mapping[int, Fields]) -> list[Fields]:
    """Return spans in order; after the first, each contains only the fields that changed.

    >>> fold({13: {"max": 1}, 14: {"max": 1}, 15: {"max": 2}})
    [{'since': 13, 'until': 14, 'max': 1}, {'since': 15, 'until': 15, 'max': 2}]
    """
    folded: list[Fields] = []
    before: Fields = {}
    for major, fields in sorted(by_major.items()):
        if folded and fields == before and folded[-1]["until"] == major - 1:
            folded[-1]["until"] = major
        else:
            folded.append({"since": major, "until": major, **_changes(before, fields)})
        before = fields
    return folded


def unfold(folded: list[Fields]) -> Iterator[Fields]:
    """Yield the spans, each with all its fields."""
    current: Fields = {}
    for change in folded:
        current = current | change
        yield {name: value for name, value in current.items() if value is not None}


def timeline(parameters: Mapping[str, list[Fields]]) -> Timeline:
    """Return name → major → fields from the output of `fold`."""
    return {name: dict(_by_major(folded)) for name, folded in parameters.items()}


def written(majors: Mapping[str, Any], line: Timeline) -> str:
    """Return the whole catalogue as JSON text, one span per line, sorted by name."""
    names = sorted((name for name in line if line[name]), key=str.lower)
    blocks = (_block(name, fold(line[name])) for name in names)
    heads = ",\n".join(f"  {_json(major)}: {_json(majors[major])}" for major in sorted(majors))
    body = ",\n".join(blocks)
    return f'{{\n "majors": {{\n{heads}\n }},\n "parameters": {{\n{body}\n }}\n}}\n'


def _by_major(folded: list[Fields]) -> Iterator[tuple[int, Fields]]:
    for span in unfold(folded):
        since, until = span.pop("since"), span.pop("until")
        for major in range(since, until + 1):
            yield major, span


def _changes(before: Fields, after: Fields) -> Fields:
    gone = {name: None for name in before if name not in after}
    return {name: value for name, value in after.items() if before.get(name) != value} | gone


def _block(name: str, folded: list[Fields]) -> str:
    lines = ",\n".join(f"   {_json(span)}" for span in folded)
    return f"  {_json(name)}: [\n{lines}\n  ]"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
