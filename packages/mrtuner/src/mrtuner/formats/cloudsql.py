"""Cloud SQL for PostgreSQL: a shell script that patches an instance's database flags.

``--database-flags`` replaces the whole list: flags not in it return to their defaults. So the
script requires the list of flags to keep, which may be empty, and otherwise does not run. Source:
Google Cloud documentation, "Configure database flags"; gcloud sql instances patch.
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

PLATFORM: Final = "cloudsql"
#: How to set on Cloud SQL what has no flag.
INSTEAD: Final = {
    "shared_preload_libraries": "flags such as cloudsql.enable_pgaudit load libraries",
    "wal_level": "the flag cloudsql.logical_decoding sets it",
}
#: Bounds that depend on the instance, which lines do not know. One flag out of bounds makes Cloud
#: SQL refuse the whole patch.
DOUBTFUL: Final = {"effective_cache_size": "10 to 70 % of the instance's memory"}
_LIST: Final = "All flags of a version: gcloud sql flags list --database-version=POSTGRES_N"
_FLAGS: Final = "--database-flags="
_KEPT: Final = '"${KEEP:+$KEEP,}"'


def write(lines: Sequence[Line], title: str = "") -> str:
    """Return a script for sh, run as ``INSTANCE=name KEEP=name=value,… sh FILE``."""
    ours, left_out = divided(lines)
    notes = comments([
        title,
        "Run: INSTANCE=name KEEP=flags sh FILE",
        "gcloud resets every flag that is not named here to its default. List other flags "
        "to keep in KEEP, as name=value,name=value without spaces, or leave it empty. To "
        "see the flags set now: gcloud sql instances describe INSTANCE "
        "--format='table(settings.databaseFlags)'",
        *restarts(ours, "gcloud restarts the instance at once for"),
        *left_out,
    ])  # fmt: skip
    return f"#!/bin/sh\n{notes}{managed.reasons(ours)}set -eu\n{_patch(ours)}"


def divided(lines: Sequence[Line]) -> tuple[list[Line], list[str]]:
    """Return the lines that are flags, in base units, and the notes on all lines."""
    ours, left_out = managed.taken(platform(PLATFORM), lines, DOUBTFUL, INSTEAD)
    return ours, [*left_out, *([_LIST] if left_out else [])]


def _patch(lines: Sequence[Line]) -> str:
    if not lines:
        return ""
    flags = ",\\\n".join(shlex.quote(f"{line.name}={line.value}") for line in lines)
    return (
        ': "${INSTANCE:?is the name of the instance}" '
        '"${KEEP?lists other flags to keep, or is empty: see above}"\ngcloud sql '
        f'instances patch "$INSTANCE" {_FLAGS}{_KEPT}\\\n{flags}\n'
    )


def read(text: str) -> dict[str, str]:
    """Return what the script's patch sets, in PostgreSQL's notation, without the flags of KEEP."""
    bare = re.sub(r"(?m)^\s*#.*\n?", "", text).replace("\\\n", "")
    try:
        words = shlex.split(bare)
    except ValueError as error:
        raise BadValue(f"cannot read this script: {error}", "Give the whole file.") from None
    lists = [word.removeprefix(_FLAGS) for word in words if word.startswith(_FLAGS)]
    if not lists and words not in ([], ["set", "-eu"]):
        raise BadValue(f"no call with {_FLAGS} in this script", "Give the whole file.")
    pairs = (pair for flags in lists for pair in flags.removeprefix(_KEPT[1:-1]).split(","))
    return managed.shown(platform(PLATFORM), map(_pair, pairs))


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise BadValue(f"cannot read the flag {text!r}", "Write: name=value.")
    return name, value


FORMAT = Format(
    name="cloudsql", summary="Cloud SQL: a script of gcloud, with --database-flags",
    write=write, read=read, standbys=managed.REPLICAS, linux=True,
)  # fmt: skip
