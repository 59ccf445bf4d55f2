"""Where the Parquet files of a history are read: below its directory, or in place on S3."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from mrtuner.history.store import parquet

if TYPE_CHECKING:
    from mrtuner.errors import MrTunerError
    from mrtuner.history.store.parquet import Engine, File


class Lake(Protocol):
    """Files that DuckDB can read."""

    @property
    def root(self) -> str:
        """The directory or address, for DuckDB, that the paths of files are below."""

    def enter(self, con: Engine) -> None:
        """Let DuckDB read from it."""

    def flaw(self, file: File) -> str | None:
        """Return why a file cannot be read, by a quick check; None if it looks whole."""

    def flaws(self, files: Iterable[File]) -> Mapping[File, str]:
        """Return which of the files about to be read cannot be, each with the reason."""

    def is_as_written(self, file: File) -> bool:
        """Whether its checksum is the one on the list. Reads the whole file."""

    def failure(self) -> MrTunerError | None:
        """Return why reading failed, if DuckDB's own error does not tell; else None."""


@lru_cache(maxsize=65_536)
def _checksum(path: Path, _changed: int, _inode: int) -> str:
    """Return a file's checksum, kept while the file has the same time and inode."""
    return parquet.checksum(path)


@dataclass(frozen=True, slots=True)
class LocalLake:
    """The files below a directory."""

    path: Path

    @property
    def root(self) -> str:
        return str(self.path)

    def enter(self, con: Engine) -> None:
        """Do nothing: DuckDB reads files by itself."""

    def flaw(self, file: File) -> str | None:
        """Check size, beginning and end; return what is wrong, or None."""
        return parquet.flaw(self.path, file)

    def flaws(self, files: Iterable[File]) -> Mapping[File, str]:
        """Return which files have another checksum; each is read once while it stays as it is.

        A changed byte of a number is no error to DuckDB, which would return another number.
        """
        return {
            file: "has changed since it was written" for file in files
            if not self.is_as_written(file)
        }  # fmt: skip

    def is_as_written(self, file: File) -> bool:
        try:
            found = (self.path / file.path).stat()
            return _checksum(self.path / file.path, found.st_mtime_ns, found.st_ino) == file.sha256
        except OSError:
            return False

    def failure(self) -> MrTunerError | None:
        """Return None: DuckDB's own error tells the reason."""
        return None
