"""RDS parameter groups in infrastructure-as-code formats.

    text = render_group("terraform", lines, name="app-pg17", family="postgres17")

A group is more than its settings: it has a name, a family, and for every parameter the time at
which it takes effect. So its formats have their own registry, separate from `formats.FORMATS`.

To add a format, add a module here with a FORMAT, and its place in the list below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from mrtuner.formats.line import known, one_line
from rdstune.formats import aws_cli, cdk, cloudformation, pulumi, terraform
from rdstune.formats.group import (
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

#: Name → one-line summary.
GROUP_FORMATS: Final[Mapping[str, str]] = MappingProxyType(
    {name: one.summary for name, one in _FORMATS.items()}
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
    """Return the group in a format of `GROUP_FORMATS`, its parameters in the order given.

    Raises BadValue for an unknown format or apply method, a name or family that RDS would refuse, a
    duplicate parameter, and a value with control characters.
    """
    chosen = _FORMATS[known(format, _FORMATS)]
    group = Group(
        name=checked_name(name),
        family=checked_family(family),
        description=one_line(description)[:LONGEST] or f"MrTuner for {family}",
        lines=checked_lines(lines),
        cluster=cluster,
        notes=tuple(notes),
    )
    return chosen.write(group)
