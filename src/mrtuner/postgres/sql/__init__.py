"""Queries, one per file. `name.sql` is for 13 and later, `name.170000.sql` for 17 and later."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from mrtuner.errors import MissingPart


@cache
def query(name: str, version_num: int) -> bytes:
    """Return the text of a query for this server: the newest variant that it supports."""
    variants = _variants(name)
    usable = [since for since in variants if since <= version_num]
    if not usable:
        raise MissingPart(f"no query {name} for server version {version_num}", "Reinstall MrTuner.")
    return variants[max(usable)]


def _variants(name: str) -> dict[int, bytes]:
    """All variants by the first version they are for; the plain one is for 13."""
    found = {}
    for file in files(__name__).iterdir():
        stem, _, since = file.name.removesuffix(".sql").partition(".")
        if stem == name and file.name.endswith(".sql"):
            found[int(since or 130000)] = file.read_bytes()
    return found
