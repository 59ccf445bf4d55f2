"""`mrtuner image cost`: what one changed line sends, builds again and pushes."""

from __future__ import annotations

from pathlib import Path

import click

from mrtuner.cli.common import options, terminal
from mrtuner.errors import UsageError


@options.command("cost")
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Dockerfile, here or in DIR.  [default: Containerfile, else Dockerfile]",
)  # fmt: skip
@click.option(
    "--build-arg", "arguments", multiple=True, metavar="NAME=VALUE",
    help="Value of an ARG, as the build is given it; may be repeated.",
)  # fmt: skip
@options.json_option
def command(directory: Path, file: Path | None, arguments: tuple[str, ...], as_json: bool) -> None:
    """Show what one changed line costs an image: bytes sent, rebuilt and pushed.

    \b
    Examples:
      mrtuner image cost .
      mrtuner image cost app --file Dockerfile.release
      mrtuner image cost . --build-arg BASE=debian:12

    Nothing is built. For each kind of change it shows the lines that podman builds again and their
    bytes, then the context by directory and what the ignore file misses. Where only a build tells
    the bytes, such as those of a RUN, they are unknown.
    """
    from mrtuner.documents import as_builtins
    from mrtuner.image.cost import cost
    from mrtuner.image.document import cost_document
    from mrtuner.present.image import lines

    told = as_builtins(cost_document(cost(directory, file, _named(arguments))))
    terminal.answer(told, lines(told), as_json)


def _named(arguments: tuple[str, ...]) -> dict[str, str]:
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
