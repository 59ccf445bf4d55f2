"""YAML for other programs: every value is a quoted string with its reason above it.

Quotes are forced. PyYAML alone would leave 1e-05 and similar unquoted, which Kubernetes' YAML
readers parse as numbers, while its schemas require strings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from mrtuner.errors import BadValue
from mrtuner.formats.line import Line, comments

if TYPE_CHECKING:
    import yaml

_KEY = re.compile(r'(?P<indent> *)"?(?P<name>[A-Za-z_][\w$.]*)"?: ["\']')
ARGUMENT = re.compile(r'(?P<indent> *)- "(?P<name>[A-Za-z_][\w$.]*)=')


class Text(str):
    """A string written in double quotes."""

    __slots__ = ()


class LiteralBlock(str):
    """A string written as a literal block."""

    __slots__ = ()


def parameters(lines: Iterable[Line]) -> dict[str, Text]:
    """Return name → value for the ``parameters`` mapping of any operator."""
    return {line.name: Text(line.value) for line in lines}


def manifest(
    document: Mapping[str, object] | Sequence[object],
    lines: Iterable[Line],
    notes: Iterable[str],
    *,
    key: re.Pattern[str] = _KEY,
    above: int = 0,
) -> str:
    """Return the document with its notes at the top and each reason above its setting.

    `key` finds the row that sets a parameter; the reason goes `above` more rows up.
    """
    import yaml

    # 2**30 columns: values are never folded
    body = yaml.dump(
        document, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=2**30
    )  # fmt: skip
    return comments(notes) + _annotated(body, lines, key, above)


def _annotated(body: str, lines: Iterable[Line], key: re.Pattern[str], above: int) -> str:
    reasons = {line.name: line.reason for line in lines if line.reason}
    rows: list[str] = []
    for row in body.split("\n"):
        match = key.match(row)
        if match and match["name"] in reasons:
            rows.insert(len(rows) - above, f"{match['indent']}# {reasons[match['name']]}")
        rows.append(row)
    return "\n".join(rows)


def left_out(theirs: Sequence[Line], owner: str) -> list[str]:
    """Return the note that lists parameters owned by someone else."""
    names = ", ".join(line.name for line in theirs)
    return [f"Left out, {owner} sets them itself: {names}"] if theirs else []


def load(text: str, path: Sequence[str] = ()) -> dict[str, Any]:
    """Return the mapping at `path` in a YAML document; BadValue where there is none."""
    found = document(text)
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    if not isinstance(found, dict):
        raise BadValue(f"no mapping at {'.'.join(path) or 'the top'} in this YAML document")
    return found


def document(text: str) -> Any:
    """Return the content of a YAML document, or raise BadValue."""
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise BadValue("this text is not YAML") from error


def values(found: Mapping[str, object]) -> dict[str, str]:
    """Return the mapping as configuration text; unquoted YAML numbers and Booleans are accepted.

    A null sets nothing: in a merge patch it removes the key.
    """
    return {str(name): text(value) for name, value in found.items() if value is not None}


def text(value: object) -> str:
    """Return one value as configuration text."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


@cache
def _dumper() -> type[yaml.SafeDumper]:
    import yaml

    class Dumper(yaml.SafeDumper):
        def increase_indent(
            self,
            flow: bool = False,
            indentless: bool = False,  # noqa: ARG002 (its signature)
        ) -> None:
            super().increase_indent(flow, False)  # indent list items, as people write them

    def scalar(style: str) -> Any:
        return lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style)

    Dumper.add_representer(Text, scalar('"'))
    Dumper.add_representer(LiteralBlock, scalar("|"))
    return Dumper
