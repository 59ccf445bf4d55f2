"""What the commands of `mrtuner image` share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from mrtuner.errors import UsageError

file_option = click.option(
    "--file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Dockerfile, here or in DIR.  [default: Containerfile, else Dockerfile]",
)  # fmt: skip
arguments_option = click.option(
    "--build-arg", "arguments", multiple=True, metavar="NAME=VALUE",
    help="Value of an ARG, as given to the build; may be repeated.",
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
