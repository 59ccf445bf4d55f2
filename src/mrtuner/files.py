"""The text of a file or of standard input: of a sane size, and never of a device or a pipe."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

from mrtuner.errors import BadValue, UsageError
from mrtuner.units import Bytes, MiB, pretty_bytes

#: What may be read. Two thousand groups of twenty parameters take some 5 MB.
LARGEST: Final = Bytes(32 * MiB)
_AT_ONCE: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


def read_file(path: Path) -> str:
    """A regular file in UTF-8. UsageError for anything else, BadValue where it is no text.

    Opened without waiting: a pipe that nobody writes to would wait for ever.
    """
    try:
        descriptor = os.open(path, _AT_ONCE)
        try:
            _require_regular(path, os.fstat(descriptor).st_mode)
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return read_stream(file, str(path))
        finally:
            os.close(descriptor)
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}",
            "Give a file, or the name of a parameter group in AWS.",
        ) from error


def read_stream(stream: BinaryIO, name: str) -> str:
    """What a stream holds, to its end or to LARGEST, beyond which it is refused (UsageError)."""
    found = stream.read(LARGEST + 1)
    if len(found) > LARGEST:
        raise UsageError(
            f"{name} is larger than {pretty_bytes(LARGEST)}", "Split it into smaller files."
        )
    try:
        return found.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadValue(f"{name} is not text", "Give a file in UTF-8.") from None


def _require_regular(path: Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise UsageError(f"cannot read {path}: it is a directory", "Name a file in it.")
    if not stat.S_ISREG(mode):
        raise UsageError(
            f"cannot read {path}: it is a device or a pipe",
            "Name a file, or lead the text to standard input and say -.",
        )
