"""`mrtuner image advise`: what would make deploys cheaper, as patches."""

from __future__ import annotations

from pathlib import Path

import click

from mrtuner.cli.common import options, prerequisites, terminal
from mrtuner_image.cli.options import (
    arguments_option,
    file_option,
    history_option,
    model_builder,
    model_option,
    named,
    warn_of_shallow,
)


@options.command("advise")
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@file_option
@arguments_option
@history_option(
    "Expect deploys to change what the last N commits changed.  [default: an assumed mix]"
)
@click.option(
    "--only",
    type=int,
    multiple=True,
    metavar="NO",
    help="Number of a piece of advice to combine; may be repeated.  [default: all]",
)
@model_option
@click.option(
    "-o", "--patch", "output", type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE", help="Write the combined changes to this file as one patch.",
)  # fmt: skip
@options.html_option("Write the advice as one HTML page, with bytes by line before and after.")
@options.json_option
def command(
    directory: Path, file: Path | None, arguments: tuple[str, ...], history: int | None,
    only: tuple[int, ...], builder: str, output: Path | None,
    html: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Advise what would make deploys of an image cheaper, each change as a patch.

    \b
    Examples:
      mrtuner image advise .
      mrtuner image advise . --history 200
      mrtuner image advise . --patch image.patch && patch -p1 < image.patch
      mrtuner image advise . --only 1 --only 3 --patch image.patch
      mrtuner image advise app --html advice.html

    Nothing is built and nothing in DIR is changed. Every piece of advice has the bytes that it
    saves of an average deploy: the cost of the patched directory is computed as that of the present
    one. Secrets come first, then the most bytes sent and pushed. What can be known only by
    building is unknown.
    """
    from mrtuner_image.advice.document import advice_document
    from mrtuner_image.advice.ranking import advise
    from mrtuner_image.advice.text import lines

    prerequisites.require(page=html)
    found = advise(
        directory, file, named(arguments),
        history=history, only=only, builder=model_builder(builder),
    )  # fmt: skip
    told = advice_document(found)
    warn_of_shallow(directory, history)
    if output is not None and found.together.patch:
        terminal.save_and_tell(output, found.together.patch)
        terminal.print_note(f"apply it in {found.place} with: patch -p1")
    elif output is not None:
        terminal.print_note(f"there is nothing to change, so {output} is not written")
    if html is not None:
        from mrtuner_image.advice.page import page

        terminal.save_and_tell(html, page(told))
    terminal.answer(told, lines(told), as_json)
