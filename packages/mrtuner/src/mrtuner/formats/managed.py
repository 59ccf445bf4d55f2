"""Settings for managed servers: numbers in base units, without what a platform refuses.

A patch with one refused flag changes nothing, so only what is known to be accepted is written; the
rest is listed with its values. Source of what is accepted: catalog/platforms.json.
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

#: The service gives its own standbys their settings; a read replica is a server of its own.
#: Sources: Azure, Read replicas, Server parameters; Cloud SQL, Configure database flags.
REPLICAS: Final = "read replicas"
#: A quoted HCL template without escapes and interpolations.
_TEXT: Final = r'"([^"\\$%\n]*)"'


def taken(
    known: Platform, lines: Iterable[Line], doubtful: Mapping[str, str], instead: Mapping[str, str]
) -> tuple[list[Line], list[str]]:
    """Return the lines that the platform accepts, with values in its notation, and the notes.

    `doubtful` names parameters whose bounds we cannot check, with those bounds; `instead` says how
    to set a parameter that is not on the platform's list. BadValue for a value that PostgreSQL
    itself would refuse.
    """
    ours: list[Line] = []
    left_out: dict[str, list[str]] = {
        f"not on MrTuner's list for {known.title} ({known.seen})": (missing := []),
        f"{known.title} sets them itself": (fixed := []),
        f"not accepted by {known.title}": (outside := []),
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
    """Whether the platform allows a value."""
    try:
        here.check(text)
    except BadValue:
        return False
    return True


def base_text(text: str, parameter: Parameter, here: FamilyParameter) -> str:
    """Return a value in the platforms' notation: a base-unit number, or a list without spaces."""
    if here.data_type == "list":
        return ",".join(items(text)) if text.strip() else ""
    value = parameter.parse(text)
    if isinstance(value, bool):
        return "on" if value else "off"
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def shown(known: Platform, pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return name → value in PostgreSQL's notation: ``64MB`` for ``65536``; reverses `base_text`.

    Names that are not PostgreSQL's own keep their text.
    """
    return {name: _shown(known, name, text) for name, text in pairs}


def _shown(known: Platform, name: str, text: str) -> str:
    parameter, here = newest(name), known.parameters.get(name)
    if here is not None and here.data_type == "list":
        return listing(item.strip() for item in text.split(",")) if text else ""
    return text if parameter is None else parameter.show(parameter.parse(text))


def reasons(lines: Iterable[Line]) -> str:
    return "".join(f"# {line.name}: {line.reason}\n" for line in lines if line.reason)


def hcl_pairs(text: str, block: str) -> Iterator[tuple[str, str]]:
    """Yield name and value of every Terraform block that sets both.

    `block` is the pattern of the text before the brace; nested blocks are ignored. BadValue for a
    text without a resource, and for a name or value that is not plain text.
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
        raise BadValue(f"no literal {name} in the block {what!r}", f'Write: {name} = "text".')
    return match[1]


def _noted(name: str, value: str, why: str | None = None) -> str:
    return f"{name} = {value}" + (f" ({why})" if why else "")


def quoted(text: str) -> str:
    """Return a quoted template of Terraform that evaluates to exactly this text.

    ``${`` and ``%{`` begin an interpolation; doubling the sign makes them text. Source: HashiCorp
    Configuration Language, native syntax specification, "Quoted templates".

    >>> print(quoted("GREATEST(${DBInstanceVCPU*2},8)"))
    "GREATEST($${DBInstanceVCPU*2},8)"
    """
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    # a sign before an escaped one would be read as part of it
    apart = re.sub(r"([$%])(?=\1\{)", lambda sign: f"\\u{ord(sign[1]):04x}", plain)
    return '"' + re.sub(r"([$%])\{", r"\1\1{", apart) + '"'
