"""Files read with care, and replaced in one piece.

What is read is of a sane size, and never a device or a pipe. Whoever reads a file that is replaced
sees the old one or the whole new one, whatever happens meanwhile.
"""

from __future__ import annotations

import os
import stat
from errno import EISDIR
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Self

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


class Access(NamedTuple):
    """Whose a file is, and who may do what with it."""

    uid: int
    gid: int
    mode: int  # the permissions alone

    @classmethod
    def of(cls, path: Path) -> Self:
        """As this file or directory has it. FileNotFoundError where there is none."""
        found = path.stat()
        return cls(found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode))


def replace(
    path: Path,
    contents: str | bytes,
    access: Access | None = None,
    *,
    mode: int = 0o666,
    durable: bool = True,
) -> None:
    """Write a file in one piece, and (`durable`) through to the disk.

    It gets `access`, else `mode` less the umask. OSError, and nothing is left behind.
    """
    _written_beside(path, contents, access, mode, durable).replace(path)
    if durable:
        sync(path.parent)


def try_replacing(
    path: Path, contents: str | bytes, access: Access | None = None, *, mode: int = 0o666
) -> None:
    """Do all of `replace` but the replacing. OSError where that could not be done."""
    if path.is_dir():
        raise IsADirectoryError(EISDIR, os.strerror(EISDIR), str(path))
    _written_beside(path, contents, access, mode, durable=True).unlink()


def sync(directory: Path) -> None:
    """Put what was renamed or removed there through to the disk."""
    number = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _written_beside(
    path: Path, contents: str | bytes, access: Access | None, mode: int, durable: bool
) -> Path:
    # The name begins with a dot and does not end in .conf, so no include_dir ever reads it.
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.unlink(missing_ok=True)
    number = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(number, "wb") as file:
            if access is not None:
                _admit(number, access)
            file.write(contents.encode("utf-8") if isinstance(contents, str) else contents)
            if durable:
                file.flush()
                os.fsync(number)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return unfinished


def _admit(number: int, access: Access) -> None:
    """Let the same read it as before: an application or a server is often another user."""
    now = os.fstat(number)
    if (now.st_uid, now.st_gid) != (access.uid, access.gid):
        os.fchown(number, access.uid, access.gid)
    os.fchmod(number, access.mode)


def _require_regular(path: Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise UsageError(f"cannot read {path}: it is a directory", "Name a file in it.")
    if not stat.S_ISREG(mode):
        raise UsageError(
            f"cannot read {path}: it is a device or a pipe",
            "Name a file, or lead the text to standard input and say -.",
        )
