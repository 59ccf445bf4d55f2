"""What the commands of `mrtuner image` share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mrtuner.cli.common import terminal
from mrtuner.cli.common.options import Function, path_option
from mrtuner.errors import UsageError

if TYPE_CHECKING:
    from mrtuner_image.dockerfile import Builder

file_option = path_option(
    "--file",
    "FILE",
    "Dockerfile, here or in DIR.  [default: Containerfile unless for BuildKit, else Dockerfile]",
)
arguments_option = click.option(
    "--build-arg", "arguments", multiple=True, metavar="NAME=VALUE",
    help="Value of an ARG, as given to the build; may be repeated.",
)  # fmt: skip


model_option = click.option(
    "--builder", type=click.Choice(["podman", "buildah", "buildkit"]), default="podman",
    show_default=True,
    help="Builder whose cache rules to use; those of buildkit are from its documentation, not "
    "tested.",
)  # fmt: skip


def history_option(text: str) -> Callable[[Function], Function]:
    return click.option("--history", type=click.IntRange(1, 100_000), metavar="N", help=text)


def warn_of_shallow(directory: Path, history: int | None) -> None:
    """Warn if the repository is shallow, so that older commits are missing."""
    from mrtuner_image.commits import is_shallow

    if history is not None and is_shallow(directory):
        terminal.print_note(
            "warning: the repository is shallow: only its latest commits are here (git fetch "
            "--unshallow gets the others)"
        )


def model_builder(name: str) -> Builder:
    """The builder whose rules apply: podman and buildah share theirs."""
    return "buildkit" if name == "buildkit" else "podman"


def named(arguments: Sequence[str]) -> dict[str, str]:
    """The build arguments by name; UsageError for one without a value."""
    found: dict[str, str] = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not name or not equals:
            raise UsageError(
                f"--build-arg {argument} has no value", "Write it as --build-arg NAME=VALUE."
            )
        found[name] = value
    return found
