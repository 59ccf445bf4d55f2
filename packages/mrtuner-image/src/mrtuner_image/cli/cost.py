"""`mrtuner image cost`: what one changed line sends, builds again and pushes."""

from __future__ import annotations

from pathlib import Path

import click

from mrtuner.cli.common import options, progress, terminal
from mrtuner.errors import UsageError
from mrtuner_image.cli.options import (
    arguments_option,
    file_option,
    history_option,
    model_builder,
    model_option,
    named,
    warn_of_shallow,
)


@options.command("cost")
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@file_option
@arguments_option
@history_option("Also replay the repository's last N commits, with the bytes of each.")
@click.option(
    "--image", metavar="IMAGE",
    help="Take the sizes of layers from the last build: an OCI directory or archive, or "
    "registry/name:tag.",
)  # fmt: skip
@click.option(
    "--platform", metavar="OS/ARCH",
    help="Platform to use, if IMAGE has several.  [default: this machine's]",
)  # fmt: skip
@model_option
@options.json_option
def command(
    directory: Path,
    file: Path | None,
    arguments: tuple[str, ...],
    history: int | None,
    image: str | None,
    platform: str | None,
    builder: str,
    as_json: bool,
) -> None:
    """Show what one changed line costs an image: bytes sent, rebuilt and pushed.

    \b
    Examples:
      mrtuner image cost .
      mrtuner image cost app --file Dockerfile.release
      mrtuner image cost . --build-arg BASE=debian:12
      mrtuner image cost . --history 50
      mrtuner image cost . --image registry.example/app:latest
      mrtuner image cost . --builder buildkit

    Nothing is built. For each kind of change it shows the lines that the builder builds again and
    their bytes, then the context by directory and what the ignore file misses. Bytes that are known
    only after a build, such as those of a RUN, are unknown, unless --image names the last build.
    """
    if platform is not None and image is None:
        raise UsageError("--platform needs --image", "Name the image with --image.")
    from mrtuner_image.cost import cost
    from mrtuner_image.document import cost_document
    from mrtuner_image.stored import read_image
    from mrtuner_image.text import lines

    previous = None if image is None else read_image(image, platform)
    with progress.bar() as shown:
        found = cost(
            directory, file, named(arguments), history, previous, shown.move,
            builder=model_builder(builder),
        )  # fmt: skip
    told = cost_document(found)
    warn_of_shallow(directory, history)
    terminal.answer(told, lines(told), as_json)
