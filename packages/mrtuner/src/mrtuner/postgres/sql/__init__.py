"""Queries, one per file.

A line that ends with `-- since 16`, `-- before 18` or `-- since 16, before 18` is for these major
versions only. Where a version needs another query altogether, `name.170000.sql` is for PostgreSQL
17 and later; `name.sql` is for 13 and later.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

from mrtuner.errors import MissingPart

OLDEST: Final = 130000
_NEVER: Final = 10**9
_BOUNDS: Final = re.compile(r" -- ((?:since|before) \d+(?:, before \d+)?)$")


@cache
def query(name: str, version_num: int) -> bytes:
    """Return the text of a query for this server: the newest variant that it supports."""
    variants = _variants(name)
    usable = [since for since in variants if since <= version_num]
    if not usable:
        raise MissingPart(f"no query {name} for server version {version_num}", "Reinstall MrTuner.")
    return variants[max(usable)].encode()


def _variants(name: str) -> dict[int, str]:
    """All variants by the first version they are for."""
    found = {}
    for file in files(__name__).iterdir():
        stem, _, since = file.name.removesuffix(".sql").partition(".")
        if stem == name and file.name.endswith(".sql"):
            found[int(since or OLDEST)] = file.read_text("utf-8")
    return by_version(found)


def by_version(texts: Mapping[int, str]) -> dict[int, str]:
    """Return the texts of a query for different versions, by the first version each is for.

    Args:
        texts: The contents of the query's files, by the first server version each is for.
    """
    found: dict[int, str] = {}
    for oldest, text in sorted(texts.items()):
        lines = [_line(line) for line in text.splitlines()]
        bounds = {bound for _, *both in lines for bound in both if oldest < bound < _NEVER}
        found = {since: older for since, older in found.items() if since < oldest}
        for version in (oldest, *sorted(bounds)):
            found[version] = "\n".join(
                line for line, since, before in lines if since <= version < before
            )
    return found


def _line(line: str) -> tuple[str, int, int]:
    """A line without its bounds, the first version it is for, and the first it is not for."""
    if (found := _BOUNDS.search(line)) is None:
        return line, 0, _NEVER
    bounds = {word: int(major) * 10000 for word, major in map(str.split, found[1].split(", "))}
    return line[: found.start()], bounds.get("since", 0), bounds.get("before", _NEVER)
