"""Read files safely, and replace them atomically.

Only regular files of a reasonable size are read, never a device or a pipe. A reader of a file that
is being replaced sees either the old or the complete new one, whatever happens.
"""

from __future__ import annotations

import os
import stat
from errno import EISDIR
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Self

from mrtuner.errors import BadValue, UsageError
from mrtuner.units import Bytes, MiB, pretty_bytes

#: Size limit for reading. Two thousand groups of twenty parameters take about 5 MB.
LARGEST: Final = Bytes(32 * MiB)
_AT_ONCE: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


def read_file(path: Path, *, hint: str = "Give a file that exists and can be read.") -> str:
    """Return a regular UTF-8 file. UsageError for anything else, BadValue if it is not text.

    It is opened without waiting: a pipe without a writer would block for ever. `hint` says what
    else to give if it cannot be opened.
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
        raise UsageError(f"cannot read {path}: {error.strerror}", hint) from error


def read_stream(stream: BinaryIO, name: str) -> str:
    """Return a stream's contents; UsageError if they are larger than LARGEST."""
    found = stream.read(LARGEST + 1)
    if len(found) > LARGEST:
        raise UsageError(
            f"{name} is larger than {pretty_bytes(LARGEST)}", "Split it into smaller files."
        )
    try:
        return found.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadValue(f"{name} is not text", "Give a UTF-8 text file.") from None


class Access(NamedTuple):
    """A file's owner, group and permissions."""

    uid: int
    gid: int
    mode: int  # the permissions alone

    @classmethod
    def of(cls, path: Path) -> Self:
        """Return those of this file or directory. FileNotFoundError if it does not exist."""
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
    """Write a file atomically, and (`durable`) sync it to disk.

    It gets `access`, else `mode` minus the umask. On OSError, nothing is left behind.
    """
    _written_beside(path, contents, access, mode, durable).replace(path)
    if durable:
        sync(path.parent)


def try_replacing(
    path: Path, contents: str | bytes, access: Access | None = None, *, mode: int = 0o666
) -> None:
    """Do everything in `replace` except replacing. OSError where that would fail."""
    if path.is_dir():
        raise IsADirectoryError(EISDIR, os.strerror(EISDIR), str(path))
    _written_beside(path, contents, access, mode, durable=True).unlink()


def sync(path: Path) -> None:
    """Sync a file to disk, or the renames and deletions in a directory."""
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
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
    """Set owner and mode: the application or server that reads it is often another user."""
    now = os.fstat(number)
    if (now.st_uid, now.st_gid) != (access.uid, access.gid):
        os.fchown(number, access.uid, access.gid)
    os.fchmod(number, access.mode)


def _require_regular(path: Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise UsageError(f"cannot read {path}: it is a directory", "Name a file in that directory.")
    if not stat.S_ISREG(mode):
        raise UsageError(
            f"cannot read {path}: it is a device or a pipe",
            "Name a file, or pipe the text to standard input and give - as the name.",
        )
