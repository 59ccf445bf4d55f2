"""Azure Database for PostgreSQL flexible server: a shell script with one az call per parameter.

Source: Azure CLI reference, az postgres flexible-server parameter set; Microsoft's documentation of
server parameters (catalog/platforms.json).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

from mrtuner.catalog.platforms import platform
from mrtuner.errors import BadValue
from mrtuner.formats import managed
from mrtuner.formats.line import Format, Line, comments, restarts

PLATFORM: Final = "azure"
_LIST: Final = (
    "All parameters of a server: az postgres flexible-server parameter list --resource-group "
    "GROUP --server-name SERVER"
)
_SET: Final = ("az", "postgres", "flexible-server", "parameter", "set")
_SERVER: Final = '--resource-group "$RESOURCE_GROUP" --server-name "$SERVER"'


def write(lines: Sequence[Line], title: str = "") -> str:
    """Return a script for sh that stops at the first call that fails."""
    ours, left_out = divided(lines)
    notes = comments([
        title,
        "Run: RESOURCE_GROUP=name SERVER=name sh FILE",
        *restarts(
            ours,
            "Takes effect after az postgres flexible-server restart --resource-group "
            "GROUP --name SERVER",
        ),
        *left_out,
    ])  # fmt: skip
    calls = "".join(f"\n{_call(line)}" for line in ours)
    needs = (
        ': "${RESOURCE_GROUP:?is the resource group of the server}" "${SERVER:?is the name of '
        'the server}"\n'
    )
    return f"#!/bin/sh\n{notes}set -eu\n{needs if ours else ''}{calls}"


def divided(lines: Sequence[Line]) -> tuple[list[Line], list[str]]:
    """Return the user-settable lines, in base units, and the notes on the others."""
    ours, left_out = managed.taken(platform(PLATFORM), lines, {}, {})
    return ours, [*left_out, *([_LIST] if left_out else [])]


def _call(line: Line) -> str:
    reason = f"# {line.reason}\n" if line.reason else ""
    return (
        f"{reason}{shlex.join(_SET)} {_SERVER} \\\n"
        f"  --name {shlex.quote(line.name)} --value {shlex.quote(line.value)}\n"
    )


def read(text: str) -> dict[str, str]:
    """Return what the script's calls set, in PostgreSQL's notation."""
    calls = [_words(row) for row in re.sub(r"\\\n", " ", text).split("\n")]
    sets = [words for words in calls if tuple(words[: len(_SET)]) == _SET]
    others = [words for words in calls if words and words[0] not in ("az", "set", ":")]
    if others:
        raise BadValue(f"cannot read the call {shlex.join(others[0])!r}", "Give the whole file.")
    return managed.shown(platform(PLATFORM), map(_pair, sets))


def _words(row: str) -> list[str]:
    try:
        return shlex.split(row, comments=True)
    except ValueError as error:
        raise BadValue(f"cannot read the row {row!r}: {error}", "Give the whole file.") from None


def _pair(words: list[str]) -> tuple[str, str]:
    return _option(words, "--name", "-n"), _option(words, "--value", "-v")


def _option(words: list[str], *names: str) -> str:
    for at, word in enumerate(words[:-1]):
        if word in names:
            return words[at + 1]
    raise BadValue(f"the call {shlex.join(words)!r} has no {names[0]}", "Write --name and --value.")


FORMAT = Format(
    name="azure", summary="Azure flexible server: a script of az calls",
    write=write, read=read, standbys=managed.REPLICAS, linux=True,
)  # fmt: skip
