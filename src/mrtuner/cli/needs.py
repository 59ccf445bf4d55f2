"""What a command needs, asked before minutes of work and not after them."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from mrtuner.errors import MissingPart, UsageError


def packages(*names: str) -> None:
    """MissingPart for a package that is not there."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise MissingPart(
            f"not installed: {', '.join(missing)}", "Run: pip install 'mrtuner[prove,report]'."
        )


def page(path: Path | None) -> None:
    """MissingPart when a page could not be made, UsageError when it could not be written there.

    None, for no page, needs nothing.
    """
    if path is None:
        return
    packages("jinja2", "matplotlib")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise UsageError(f"there is no directory {folder}", "Make it, or name another file.")
    if path.is_dir() or not os.access(folder, os.W_OK):
        raise UsageError(f"cannot write {path}", "Name a file in a directory of yours.")
