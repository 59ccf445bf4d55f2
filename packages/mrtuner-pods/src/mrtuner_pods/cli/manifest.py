"""Manifests as arguments of a command: files, or standard input."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mrtuner.answers.targets import TargetKind, kind_of
from mrtuner.errors import UsageError

if TYPE_CHECKING:
    from mrtuner_pods.connections import Manifest

_STDIN: Final = "-"


def read_all(names: Sequence[str]) -> list[Manifest]:
    """Return the texts of manifests; UsageError for a name that is not a file, or for - twice."""
    if names.count(_STDIN) > 1:
        raise UsageError("standard input can be read only once", "Give - once.")
    return [_read(name) for name in names]


def _read(name: str) -> Manifest:
    from mrtuner.files import read_file, read_stream
    from mrtuner_pods.connections import Manifest

    if name == _STDIN:
        return Manifest(read_stream(sys.stdin.buffer, "standard input"), "standard input")
    if kind_of(name) in {TargetKind.SERVER, TargetKind.RDS}:
        raise UsageError(f"{name} is no manifest", "Name the server with --database.")
    try:
        return Manifest(read_file(Path(name)), name)
    except UsageError as error:
        raise UsageError(error.message, "Give a manifest, or - for standard input.") from error
