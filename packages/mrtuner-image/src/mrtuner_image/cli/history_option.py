"""--history N: the last commits of the repository that is built."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from mrtuner.cli.common import terminal
from mrtuner.cli.common.options import Function


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
