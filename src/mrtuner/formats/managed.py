"""Settings for managed servers: numbers in base units, and what a platform refuses left out.

A patch with one flag that the platform refuses changes nothing, so only what is known to be taken
is written; the rest is named with its value. Source of what is taken: catalog/platforms.json.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from mrtuner.catalog.families import FamilyParameter
from mrtuner.catalog.parameter import Parameter
from mrtuner.catalog.platforms import Platform, newest
from mrtuner.errors import BadValue
from mrtuner.formats.line import Line, items, listing

#: A quoted template of HCL without escapes and interpolations.
_TEXT: Final = r'"([^"\\$%\n]*)"'


def taken(
    known: Platform, lines: Iterable[Line], doubtful: Mapping[str, str], instead: Mapping[str, str]
) -> tuple[list[Line], list[str]]:
    """The lines that the platform takes, values as it wants them, and what there is to say.

    `doubtful` names parameters whose bounds we cannot check, with what they are; `instead` says
    for one that is not on the list how it is set there. BadValue for a value that PostgreSQL
    itself would refuse.
    """
    ours: list[Line] = []
    left_out: dict[str, list[str]] = {
        f"not on MrTuner's list for {known.title} ({known.seen})": (missing := []),
        f"{known.title} sets them itself": (fixed := []),
        f"outside what {known.title} takes": (outside := []),
        "add them if they are within bounds": (unsure := []),
    }
    for line in lines:
        here, parameter = known.parameters.get(line.name), newest(line.name)
        if here is None or parameter is None:
            missing.append(_noted(line.name, line.value, instead.get(line.name)))
        elif not here.modifiable:
            fixed.append(_noted(line.name, line.value))
        elif not takes(here, text := base_text(line.value, parameter, here)):
            outside.append(_noted(line.name, text, f"it takes {here.allowed}"))
        elif line.name in doubtful:
            unsure.append(_noted(line.name, text, doubtful[line.name]))
        else:
            ours.append(replace(line, value=text))
    return ours, [f"Left out, {why}: {', '.join(of)}" for why, of in left_out.items() if of]


def takes(here: FamilyParameter, text: str) -> bool:
    """Whether a value is within what the platform allows."""
    try:
        here.check(text)
    except BadValue:
        return False
    return True


def base_text(text: str, parameter: Parameter, here: FamilyParameter) -> str:
    """A value as platforms want it: in the base unit and without it, lists without spaces."""
    if here.data_type == "list":
        return ",".join(items(text)) if text.strip() else ""
    value = parameter.parse(text)
    if isinstance(value, bool):
        return "on" if value else "off"
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def shown(known: Platform, pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The inverse: name → value as PostgreSQL's notation has it, ``64MB`` for ``65536``.

    Names that are not PostgreSQL's own keep their text.
    """
    return {name: _shown(known, name, text) for name, text in pairs}


def _shown(known: Platform, name: str, text: str) -> str:
    parameter, here = newest(name), known.parameters.get(name)
    if here is not None and here.data_type == "list":
        return listing(item.strip() for item in text.split(",")) if text else ""
    return text if parameter is None else parameter.show(parameter.parse(text))


def restarts(lines: Iterable[Line], how: str) -> list[str]:
    """The note on the parameters that wait for a restart, after the words that say how."""
    names = [line.name for line in lines if line.restart]
    return [f"{how}: {', '.join(names)}"] if names else []


def reasons(lines: Iterable[Line]) -> str:
    """A row of comment for every line with a reason."""
    return "".join(f"# {line.name}: {line.reason}\n" for line in lines if line.reason)


def hcl_pairs(text: str, block: str) -> Iterator[tuple[str, str]]:
    """Name and value of every block of Terraform that sets both.

    `block` is the pattern of what stands before the brace; blocks within it are not looked for.
    BadValue for a text without a resource, and for a name or value that is no plain text.
    """
    bare = re.sub(r"(?m)^\s*(#|//).*$", "", text)
    if bare.strip() and not re.search(r'(?m)^resource "', bare):
        raise BadValue("no resource of Terraform in this text", "Give the whole file.")
    for match in re.finditer(rf"{block}\s*\{{([^{{}}]*)\}}", bare):
        yield _argument(match[1], "name"), _argument(match[1], "value")


def _argument(body: str, name: str) -> str:
    match = re.search(rf"(?m)^\s*{name}\s*=\s*{_TEXT}\s*$", body)
    if match is None:
        what = " ".join(body.split())
        raise BadValue(f"no plain {name} in the block {what!r}", f'Write: {name} = "text".')
    return match[1]


def _noted(name: str, value: str, why: str | None = None) -> str:
    return f"{name} = {value}" + (f" ({why})" if why else "")
