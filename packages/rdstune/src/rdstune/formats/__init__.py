"""RDS parameter groups in infrastructure-as-code formats.

    text = render_group("terraform", lines, name="app-pg17", family="postgres17")

A group is more than its settings: it has a name, a family, and for every parameter the time at
which it takes effect. So its formats have their own registry, separate from `formats.FORMATS`.

To add a format, add a module here with a function `write`, and its name in GROUP_FORMATS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from mrtuner.formats.line import known, one_line
from rdstune.formats import aws_cli, cdk, cloudformation, pulumi, terraform
from rdstune.formats.group import (
    LONGEST,
    Group,
    GroupLine,
    checked_family,
    checked_lines,
    checked_name,
)

__all__ = ["GROUP_FORMATS", "GroupLine", "render_group"]

GROUP_FORMATS: Final[Mapping[str, Callable[[Group], str]]] = {
    "terraform": terraform.write,
    "cloudformation": cloudformation.write,
    "cdk": cdk.write,
    "pulumi": pulumi.write,
    "aws-cli": aws_cli.write,
}


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
    write = GROUP_FORMATS[known(format, GROUP_FORMATS)]
    group = Group(
        name=checked_name(name),
        family=checked_family(family),
        description=one_line(description)[:LONGEST] or f"MrTuner for {family}",
        lines=checked_lines(lines),
        cluster=cluster,
        notes=tuple(notes),
    )
    return write(group)
