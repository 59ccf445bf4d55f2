"""`mrtuner image cost`: what one changed line sends, builds again and pushes."""

from __future__ import annotations

from pathlib import Path

import click

from mrtuner.cli.common import options, progress, terminal
from mrtuner.cli.common.image_options import (
    arguments_option,
    file_option,
    named,
    uplink_option,
)


@options.command("cost")
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@file_option
@arguments_option
@click.option(
    "--image", metavar="IMAGE",
    help="Take sizes from the last build: an OCI directory or archive, or registry/name:tag.",
)  # fmt: skip
@click.option(
    "--platform", metavar="OS/ARCH", help="Of several platforms of IMAGE.  [default: this one's]"
)
@uplink_option
@options.json_option
def command(
    directory: Path,
    file: Path | None,
    arguments: tuple[str, ...],
    image: str | None,
    platform: str | None,
    uplink: float | None,
    as_json: bool,
) -> None:
    """Show what one changed line costs an image: bytes sent, rebuilt and pushed.

    \b
    Examples:
      mrtuner image cost .
      mrtuner image cost app --file Dockerfile.release
      mrtuner image cost . --build-arg BASE=debian:12
      mrtuner image cost . --image registry.example/app:latest --uplink 20Mbit/s

    Nothing is built. For each kind of change it shows the lines that podman builds again and their
    bytes, then the context by directory and what the ignore file misses. Where only a build tells
    the bytes, such as those of a RUN, they are unknown: --image takes them from the last build.
    """
    from mrtuner.documents import as_builtins
    from mrtuner.image.cost import cost
    from mrtuner.image.document import cost_document
    from mrtuner.image.previous import known_from
    from mrtuner.image.stored import read_image
    from mrtuner.present.image import lines

    given = named(arguments)
    found = cost(directory, file, given)
    if image is None:
        document = cost_document(found, uplink=uplink)
    else:
        previous = read_image(image, platform)
        with progress.bar() as shown:
            found, base = known_from(found, previous, given, shown.move)
        document = cost_document(found, previous, base, uplink)
    told = as_builtins(document)
    terminal.answer(told, lines(told), as_json)
