"""What the commands of `mrtuner image` share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from mrtuner.errors import UsageError

file_option = click.option(
    "--file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Dockerfile, here or in DIR.  [default: Containerfile, else Dockerfile]",
)  # fmt: skip
arguments_option = click.option(
    "--build-arg", "arguments", multiple=True, metavar="NAME=VALUE",
    help="Value of an ARG, as the build is given it; may be repeated.",
)  # fmt: skip


class _Uplink(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    name = "uplink"

    def convert(
        self, value: Any, _param: click.Parameter | None, _ctx: click.Context | None
    ) -> float:
        from mrtuner.image.uplink import parse_uplink

        return value if isinstance(value, float) else parse_uplink(str(value))


uplink_option = click.option(
    "--uplink", type=_Uplink(), metavar="RATE",
    help="Also show the seconds that the bytes take on such a line: 20Mbit/s.",
)  # fmt: skip


def named(arguments: Sequence[str]) -> dict[str, str]:
    """The build arguments by name."""
    found: dict[str, str] = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not name or not equals:
            raise UsageError(
                f"--build-arg {argument} has no value", "Write it as --build-arg NAME=VALUE."
            )
        found[name] = value
    return found
