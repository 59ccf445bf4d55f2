"""What a page needs beside the package itself."""

from __future__ import annotations

from importlib.util import find_spec

from mrtuner.errors import MissingPart


def require() -> None:
    """MissingPart when a page could not be made; to be asked before what it will tell of."""
    missing = [name for name in ("jinja2", "matplotlib") if find_spec(name) is None]
    if missing:
        raise MissingPart(
            f"not installed: {', '.join(missing)}", "Run: pip install 'mrtuner[report]'."
        )
