"""The server's log, followed from one sample to the next, where the recorder may read it.

It is read once for all sources that are made of it: JSON or CSV if the server logs so, else the
text on stderr. A server that starts again with the same data directory goes on with its log. Where
something was written that was not read, as there was too much of it, `lapses` grows. A record that
was torn, as the log's disk was full, is left out.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeVar

from mrtuner.errors import MissingPart
from mrtuner.postgres.local import is_postgres

T = TypeVar("T")
#: Gets complete records: their form, and their text.
Take = Callable[[str, str], None]
#: What tells a file from others, whatever it is called: its device and inode.
_File = tuple[int, int]
#: Most bytes read for a sample, and at once. A minute's log of a busy server is larger only if it
#: has every statement.
_MOST: Final = 64 * 1024 * 1024
_AT_ONCE: Final = 16 * 1024 * 1024
#: Where a record in CSV begins: its time, then a user's name or none. What looks like that in a
#: quoted text has its quotes doubled. Source: csvlog.c, write_csvlog.
_BEGIN: Final = re.compile(
    rb'^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} [^,"\n]+,(?:"[^"]|,)', re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a file that is to be read."""

    form: str
    path: Path
    file: _File
    begin: int
    end: int


@dataclass(slots=True, kw_only=True)
class Log:
    """A log that is read on."""

    pid: int
    directory: _File  # of the data
    form: str  # jsonlog, csvlog or stderr
    path: Path
    file: _File
    offset: int
    rest: bytes = b""  # of a record that is not written completely
    lapses: int = 0  # how often something was not read
    #: Sizes of the files beside it when it was begun: such names are used again, each week or so.
    _beside: Mapping[_File, int] = field(default_factory=dict)
    #: Why those that have not asked since could not use what was read.
    _failed: dict[Take, Exception] = field(default_factory=dict)
    _takes: list[Take] = field(default_factory=list)
    _made: dict[Callable[[Log], Any], Any] = field(default_factory=dict)

    @classmethod
    def of(cls, pid: int, earlier: Log | None = None) -> Log:
        """The log of this postmaster from here on; `earlier` if it has the same data directory.

        Raises MissingPart if it cannot be read.
        """
        form, path, _ = _current(pid)
        directory = _file(Path(f"/proc/{pid}/cwd").stat())
        if earlier is not None and earlier.directory == directory:
            within = str(earlier.path).removeprefix(f"/proc/{earlier.pid}/")
            if within != str(earlier.path):
                earlier.path = Path(f"/proc/{pid}/{within}")
            earlier.pid = pid
            return earlier
        end = path.stat()
        return cls(
            pid=pid, directory=directory, form=form, path=path, file=_file(end),
            offset=end.st_size, _beside=_sizes(path.parent),
        )  # fmt: skip

    def made(self, by: Callable[[Log], T]) -> T:
        """Return what `by` makes of this log, which it does once."""
        if by not in self._made:
            self._made[by] = by(self)
        found: T = self._made[by]
        return found

    def follow(self, take: Take) -> Callable[[], None]:
        """Hand records to `take` from now on; return what brings it up to date.

        That reads on for all, and raises what `take` raised since it asked last.
        """

        def up_to_date() -> None:
            self._hand_out()
            if failed := self._failed.pop(take, None):
                raise failed

        self._takes.append(take)
        return up_to_date

    def _hand_out(self) -> None:
        for form, text in self._new():
            for take in self._takes:
                try:
                    take(form, text)
                except Exception as error:  # of this one: the others go on
                    self._failed[take] = error

    def _new(self) -> Iterator[tuple[str, str]]:
        """Yield the form and the text of complete records that were written since the last time."""
        before, parts = self.file, list(self._parts())
        beyond = sum(part.end - part.begin for part in parts) - _MOST
        self.lapses += beyond > 0
        for part in parts:
            begin = min(part.end, part.begin + max(0, beyond))
            beyond -= begin - part.begin
            if (part.file, begin) != (self.file, self.offset):
                self.rest = b""
            self.form, self.path, self.file, self.offset = part.form, part.path, part.file, begin
            yield from self._read(part.end)
        if self.file != before:
            self._beside = _sizes(self.path.parent)

    def _parts(self) -> Iterator[_Part]:
        """Yield what was written since the last time: to this file, and to those after it."""
        newest = None
        if _runs(self.pid):
            form, path, collected = _current(self.pid)
            newest = path.stat()
            if _file(newest) == self.file:
                self.path = path  # it may have another name now
        here = _stat(self.path)
        if here is not None and _file(here) == self.file:
            emptied = here.st_size < self.offset
            self.lapses += emptied
            begin = 0 if emptied else self.offset
            yield _Part(self.form, self.path, self.file, begin, here.st_size)
        elif newest is None:
            raise MissingPart(
                "the server's log is out of reach while the server is down",
                "Give the recorder the log's directory under the same name.",
            )
        else:
            self.lapses += 1  # it was deleted, with what it had last
        if newest is None or _file(newest) == self.file:
            return
        if form != self.form:  # both may have had the same records
            self.lapses += 1
            yield _Part(form, path, _file(newest), newest.st_size, newest.st_size)
            return
        between = _between(self.path, path) if collected else ()
        for one, state in (*between, (path, newest)):
            begin = self._beside.get(_file(state), 0)
            begin = begin if begin <= state.st_size else 0
            yield _Part(form, one, _file(state), begin, state.st_size)

    def _read(self, end: int) -> Iterator[tuple[str, str]]:
        with self.path.open("rb") as file:
            file.seek(self.offset)
            while self.offset < end and (read := file.read(min(_AT_ONCE, end - self.offset))):
                self.offset += len(read)
                records, self.rest = _complete(self.rest + read, self.form)
                if len(self.rest) > _AT_ONCE:
                    self.rest = b""
                    self.lapses += 1
                yield self.form, records.decode(errors="replace")


def _runs(pid: int) -> bool:
    """Whether this postmaster is there, and has not just ended."""
    return is_postgres(pid) and Path(f"/proc/{pid}/cwd").exists()


def _current(pid: int) -> tuple[str, Path, bool]:
    """The form and the file of the log, and whether the collector writes it or stderr leads there.

    Its path is one that stays when the process ends, if it is visible from here.
    """
    inside, stderr = Path(f"/proc/{pid}/cwd"), Path(f"/proc/{pid}/fd/2")
    try:
        listed = (inside / "current_logfiles").read_text("utf-8", "replace")
    except FileNotFoundError:
        if not stderr.is_file():
            raise MissingPart("the server's log does not go to a file", COLLECT) from None
        return "stderr", _lasting(stderr), False
    except PermissionError:
        raise MissingPart(
            "only root and the server's own user may read its log",
            "Run the recorder as one of them.",
        ) from None
    found = dict(line.split(" ", 1) for line in listed.splitlines() if " " in line)
    for form in ("jsonlog", "csvlog", "stderr"):
        if form in found:
            name = found[form]
            root = Path(f"/proc/{pid}/root")
            path = root / name.lstrip("/") if name.startswith("/") else inside / name
            return form, _lasting(path), True
    raise MissingPart("the server's log does not go to a file", COLLECT)


COLLECT: Final = "Set logging_collector = on, and log_destination = 'jsonlog' (15 and later)."


def _lasting(path: Path) -> Path:
    """The same file by a name that does not lead through a process, if there is one here."""
    with suppress(OSError):  # none in another namespace, or it was deleted
        real = path.resolve(strict=True)
        if real.samefile(path):
            return real
    return path


def _file(state: os.stat_result) -> _File:
    return state.st_dev, state.st_ino


def _stat(path: Path) -> os.stat_result | None:
    """The state of a file; None if it is gone."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _sizes(directory: Path) -> Mapping[_File, int]:
    sizes = {}
    with suppress(PermissionError):  # one that may be entered, not listed
        for one in directory.iterdir():
            if (state := _stat(one)) is not None:
                sizes[_file(state)] = state.st_size
    return sizes


def _between(old: Path, new: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the files that were written after the old one and before the new one, in that order.

    Their names differ from that of the new one in numbers alone.
    """
    first, last = _stat(old), _stat(new)
    if first is None or last is None:
        return
    found = [
        (state.st_mtime_ns, one, state)
        for one in new.parent.iterdir()
        if _without_numbers(one) == _without_numbers(new)
        and (state := _stat(one)) is not None
        and state.st_mtime_ns >= first.st_mtime_ns
        and _file(state) not in {_file(first), _file(last)}
    ]
    yield from ((one, state) for _, one, state in sorted(found, key=lambda each: each[0]))


def _without_numbers(path: Path) -> str:
    return re.sub(r"\d+", "0", path.name)


def _complete(text: bytes, form: str) -> tuple[bytes, bytes]:
    """The complete records of a text, and the rest of it. Those of CSV that were torn go."""
    if form != "csvlog":
        end = text.rfind(b"\n") + 1
        return text[:end], text[end:]
    begins = [found.start() for found in _BEGIN.finditer(text)] or [text.rfind(b"\n") + 1]
    records = [text[begin:end] for begin, end in pairwise([*begins, len(text)])]
    rest = b"" if records[-1].endswith(b"\n") and _closed(records[-1]) else records.pop()
    return b"".join(record for record in records if _closed(record)), rest


def _closed(record: bytes) -> bool:
    """Whether every quoted text in it has an end."""
    return record.count(b'"') % 2 == 0


def csv_records(text: str) -> Iterator[list[str]]:
    """The records of a log in CSV, in which a statement may be long."""
    csv.field_size_limit(2 * _AT_ONCE)
    yield from csv.reader(StringIO(text))


def json_records(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The records of a log in JSON, one a line; a line that was torn is none."""
    for line in lines:
        with suppress(ValueError):
            record = json.loads(line)
            if isinstance(record, dict):
                yield record
