"""Parameter groups of RDS in the formats that infrastructure is written in.

    text = render_group("terraform", lines, name="app-pg17", family="postgres17")

A group is more than its settings: it has a name, a family, and for every parameter the moment
at which it takes effect. So its formats have a registry of their own beside `render.FORMATS`.

To add a format: a module beside these with a FORMAT, and its place in the list below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from mrtuner.errors import BadValue
from mrtuner.formats import aws_cli, cdk, cloudformation, pulumi, terraform
from mrtuner.formats.line import one_line
from mrtuner.formats.parameter_group import (
    LONGEST,
    Group,
    GroupFormat,
    GroupLine,
    checked_family,
    checked_lines,
    checked_name,
)

__all__ = ["GROUP_FORMATS", "GroupLine", "render_group"]

_FORMATS: Final[Mapping[str, GroupFormat]] = {
    module.FORMAT.name: module.FORMAT
    for module in (terraform, cloudformation, cdk, pulumi, aws_cli)
}

#: Name → one line about it.
GROUP_FORMATS: Final[Mapping[str, str]] = MappingProxyType(
    {name: known.summary for name, known in _FORMATS.items()}
)


def render_group(
    format: str,
    lines: Iterable[GroupLine],
    *,
    name: str,
    family: str,
    description: str = "",
    cluster: bool = False,
    notes: Sequence[str] = (),
) -> str:
    """The group in a format of `GROUP_FORMATS`, its parameters in the order given.

    Raises BadValue for an unknown format, a name that RDS would refuse, a parameter given twice
    and a value that holds control characters.
    """
    try:
        known = _FORMATS[format]
    except KeyError:
        raise BadValue(
            f"unknown format {format!r}", f"Known formats: {', '.join(_FORMATS)}."
        ) from None
    group = Group(
        name=checked_name(name),
        family=checked_family(family),
        description=one_line(description)[:LONGEST] or f"MrTuner for {family}",
        lines=checked_lines(lines),
        cluster=cluster,
        notes=tuple(notes),
    )
    return known.write(group)
