"""A history on S3, read in place: DuckDB fetches the parts of files that a query needs.

DuckDB's own access to S3 is an extension that would be downloaded at run time, so it reads through
a file system of ours (fsspec), which asks S3 for ranges of bytes. Files never change: what was read
is kept in memory, and the least recently used parts are forgotten.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from mrtuner.aws.calls import body_of, call
from mrtuner.aws.errors import AwsError
from mrtuner.errors import MrTunerError
from mrtuner.extras import require
from mrtuner.history.reading import History, open_history
from mrtuner.history.store import s3
from mrtuner.history.store.parquet import MAGIC
from mrtuner.history.store.s3 import ABSENT

if TYPE_CHECKING:
    from mrtuner.history.store.parquet import Engine, File
    from mrtuner.history.store.s3 import Place

#: Names our file system in paths.
_PROTOCOL: Final = "mrtuner"
#: Bytes per request. Files are read from their end, where Parquet describes their contents; most
#: are smaller than this.
_BLOCK: Final = 256 * 1024
#: Bytes of all files that are kept in memory.
_KEPT: Final = 128 * 1024 * 1024
#: Requests at once; botocore keeps ten connections.
_AT_ONCE: Final = 10
#: Modification time of every file, for DuckDB's cache; files never change.
_WRITTEN: Final = datetime(2000, 1, 1, tzinfo=UTC)


class _Damaged(Exception):
    """A file differs from its entry on the list."""


@dataclass(slots=True)
class Blocks:
    """Parts of the files of a lake, as they were read. Threads share it.

    Block 0 of a file is its end, block 1 what precedes that, and so on.
    """

    place: Place
    client: Any
    block_size: int = _BLOCK
    most: int = _KEPT  # bytes that are kept
    kept: OrderedDict[tuple[str, int], bytes] = field(default_factory=OrderedDict)
    size: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, file: File, begin: int, end: int) -> bytes:
        """Bytes of a file.

        Raises:
            _Damaged: it is gone, or has another size.
            AwsError: S3 does not answer.
        """
        if begin >= end:
            return b""
        newest, oldest = (
            (file.bytes - end) // self.block_size,
            (file.bytes - begin - 1) // self.block_size,
        )
        numbers = range(oldest, newest - 1, -1)
        parts = self._blocks(file, numbers)
        start = max(0, file.bytes - (oldest + 1) * self.block_size)
        whole = b"".join(parts[number] for number in numbers)
        return whole[begin - start : end - start]

    def _blocks(self, file: File, numbers: range) -> dict[int, bytes]:
        """Return these blocks; each run of adjacent blocks not in memory takes one request."""
        with self.lock:
            found = {n: self.kept[file.path, n] for n in numbers if (file.path, n) in self.kept}
            for number in found:
                self.kept.move_to_end((file.path, number))
        missing = sorted(n for n in numbers if n not in found)
        for _, run in groupby(enumerate(missing), lambda one: one[1] - one[0]):
            wanted = [number for _, number in run]
            found |= self._fetch(file, wanted[0], wanted[-1])
        return found

    def _fetch(self, file: File, newest: int, oldest: int) -> dict[int, bytes]:
        begin = max(0, file.bytes - (oldest + 1) * self.block_size)
        end = file.bytes - newest * self.block_size
        body = self._get(file, begin, end)
        found = {
            number: body[max(0, file.bytes - (number + 1) * self.block_size) - begin
                         : file.bytes - number * self.block_size - begin]
            for number in range(newest, oldest + 1)
        }  # fmt: skip
        self._keep(file.path, found)
        return found

    def _get(self, file: File, begin: int, end: int) -> bytes:
        try:
            answer = call(
                self.client, "get_object", **self.place.key(file.path),
                Range=f"bytes={begin}-{end - 1}",
            )  # fmt: skip
            body = body_of(self.client, answer)
        except AwsError as error:
            if error.code in ABSENT:
                raise _Damaged(f"is not in {self.place}") from None
            if error.code == "InvalidRange":
                raise _Damaged(f"has fewer than {file.bytes} bytes") from None
            raise
        total = int(str(answer["ContentRange"]).rpartition("/")[2])
        if total != file.bytes or len(body) != end - begin:
            raise _Damaged(f"has {total} bytes instead of {file.bytes}")
        return body

    def _keep(self, path: str, found: Mapping[int, bytes]) -> None:
        with self.lock:
            for number, block in found.items():
                if (path, number) not in self.kept:
                    self.kept[path, number] = block
                    self.size += len(block)
            while self.size > self.most:
                _, oldest = self.kept.popitem(last=False)
                self.size -= len(oldest)


class RemoteLake:
    """The files of a lake on S3, for one connection of DuckDB."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._failure: MrTunerError | None = None
        self._files: dict[str, File] = {}

    @property
    def root(self) -> str:
        """An address of our file system."""
        return f"{_PROTOCOL}://lake"

    def enter(self, con: Engine) -> None:
        con.register_filesystem(_file_system(self))

    def flaw(self, file: File) -> str | None:
        """Return None: S3 is not asked until the file is needed."""
        self._files[f"{self.root}/{file.path}"] = file
        return None

    def flaws(self, files: Iterable[File]) -> Mapping[File, str]:
        """Fetch the ends of all files in parallel, since DuckDB would do so one by one."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = list(pool.map(lambda file: (file, self._flaw(file)), files))
        return {file: flaw for file, flaw in found if flaw is not None}

    def _flaw(self, file: File) -> str | None:
        length = len(MAGIC)
        try:
            end = self._blocks.read(file, max(0, file.bytes - length), file.bytes)
        except _Damaged as error:
            return str(error)
        return None if end == MAGIC else "is not a Parquet file"

    def is_as_written(self, file: File) -> bool:
        """Whether the checksum of the whole file is the one on the list."""
        try:
            return sha256(self._blocks.read(file, 0, file.bytes)).hexdigest() == file.sha256
        except _Damaged:
            return False

    def failure(self) -> MrTunerError | None:
        """Return S3's error, once; DuckDB knows only that reading failed."""
        found, self._failure = self._failure, None
        return found

    # For the file system.

    def file(self, path: str) -> File:
        """Return the file at a path that DuckDB gives."""
        try:
            return self._files[path]
        except KeyError:
            raise FileNotFoundError(path) from None

    def read(self, file: File, begin: int, end: int) -> bytes:
        """Return bytes of a file; an error of S3 is kept for `failure`."""
        try:
            return self._blocks.read(file, begin, end)
        except AwsError as error:
            self._failure = error
            raise


def _file_system(lake: RemoteLake) -> Any:
    """Return the lake as an fsspec file system, as far as DuckDB needs one."""
    from fsspec import AbstractFileSystem
    from fsspec.spec import AbstractBufferedFile

    class LakeFile(AbstractBufferedFile):  # type: ignore[misc]  # fsspec has no types
        """A file of the lake; its blocks are kept for all connections, and none here."""

        def _fetch_range(self, start: int, end: int) -> bytes:
            return lake.read(lake.file(self.path), start, min(end, self.size))

    class LakeFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
        """Contains only files that are on the list."""

        protocol = _PROTOCOL
        cachable = False

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return path

        def unstrip_protocol(self, name: str) -> str:
            return name

        def info(self, path: str, **_: Any) -> dict[str, Any]:
            return {"name": path, "size": lake.file(path).bytes, "type": "file"}

        def glob(self, path: str, **_: Any) -> list[str]:
            lake.file(path)
            return [path]

        def modified(self, path: str) -> datetime:
            lake.file(path)
            return _WRITTEN

        def _open(self, path: str, **_: Any) -> LakeFile:
            return LakeFile(self, path, cache_type="none", size=lake.file(path).bytes)

    return LakeFileSystem()


class RemoteStore:
    """A lake on S3 that can be opened repeatedly; see `opened`.

    What its manifests list is kept in a temporary directory, until `close`.
    """

    def __init__(self, place: Place, client: Any) -> None:
        """Prepare access; nothing is read yet.

        Raises:
            MissingPart: fsspec is not installed.
        """
        require("duckdb", "fsspec")
        self.place = place
        self._client = client
        self._blocks = Blocks(place, client)
        self._lists = TemporaryDirectory(prefix="mrtuner-")
        self._listed: Mapping[str, str] | None = None
        self._lock = threading.Lock()

    @contextmanager
    def opened(self) -> Iterator[History]:
        """Open the history as it is on S3 now.

        Raises:
            UsageError: there is none.
            Refused: it is of a newer version.
            AwsError: S3 does not answer.
        """
        self._refresh()
        lake = RemoteLake(self._blocks)
        with open_history(Path(self._lists.name), lake, name=str(self.place)) as history:
            yield history

    def _refresh(self) -> None:
        """Bring the lists up to date, if a recorder published since they were read."""
        with self._lock:
            found = s3.tags(self.place, self._client)
            if found != self._listed:
                s3.read_lists(self.place, Path(self._lists.name), self._client)
                self._listed = found

    def close(self) -> None:
        """Delete the lists that were read."""
        self._lists.cleanup()
