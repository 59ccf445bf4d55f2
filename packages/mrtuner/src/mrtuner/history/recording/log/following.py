"""The server's log, followed from one sample to the next, where the recorder may read it.

It is read once for all sources that are made of it: JSON or CSV if the server logs so, else the
text on stderr. What is written between two samples to a file that is neither the last nor the one
before is not read.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Final, Self

from mrtuner.errors import MissingPart

#: Gets complete records: their form, and their text.
Take = Callable[[str, str], None]
#: Most bytes read for a sample; the rest is read with the next one.
_MOST: Final = 16 * 1024 * 1024


@dataclass(slots=True, kw_only=True)
class Log:
    """A log that is read on."""

    pid: int
    form: str  # jsonlog, csvlog or stderr
    path: Path
    inode: int
    offset: int
    rest: bytes = b""  # of a record that is not written completely
    #: Why those that have not asked since could not use what was read.
    _failed: dict[Take, Exception] = field(default_factory=dict)
    _takes: list[Take] = field(default_factory=list)

    @classmethod
    def at_end(cls, pid: int) -> Self:
        """The log of this postmaster, from here on. Raises MissingPart if it cannot be read."""
        form, path = _current(pid)
        end = path.stat()
        return cls(pid=pid, form=form, path=path, inode=end.st_ino, offset=end.st_size)

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
        new = list(self._new())
        for take in self._takes:
            try:
                for form, text in new:
                    take(form, text)
            except Exception as error:  # of this one: the others go on
                self._failed[take] = error

    def _new(self) -> Iterator[tuple[str, str]]:
        """Yield the form and the text of complete records that were written since the last time."""
        with suppress(FileNotFoundError):  # the old file is gone: the present one is read below
            yield self.form, self._read()
        form, path = _current(self.pid)
        if path != self.path:
            self.form, self.path, self.inode = form, path, 0
            yield self.form, self._read()

    def _read(self) -> str:
        with self.path.open("rb") as file:
            now = os.fstat(file.fileno())
            if now.st_ino != self.inode or now.st_size < self.offset:  # a new one, or emptied
                self.inode, self.offset, self.rest = now.st_ino, 0, b""
            file.seek(self.offset)
            text = self.rest + file.read(_MOST)
            self.offset = file.tell()
        end = _end_of_records(text, quoted=self.form == "csvlog")
        self.rest = text[end:]
        return text[:end].decode(errors="replace")


def _current(pid: int) -> tuple[str, Path]:
    """The form and the file of the log: the collector's, or where stderr leads."""
    inside, stderr = Path(f"/proc/{pid}/cwd"), Path(f"/proc/{pid}/fd/2")
    try:
        listed = (inside / "current_logfiles").read_text("utf-8", "replace")
    except FileNotFoundError:
        if not stderr.is_file():
            raise MissingPart("the server's log does not go to a file", COLLECT) from None
        return "stderr", stderr
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
            return form, root / name.lstrip("/") if name.startswith("/") else inside / name
    raise MissingPart("the server's log does not go to a file", COLLECT)


COLLECT: Final = "Set logging_collector = on, and log_destination = 'jsonlog' (15 and later)."


def _end_of_records(text: bytes, *, quoted: bool) -> int:
    """Where the last complete record ends; a quoted text may have lines of its own."""
    end = text.rfind(b"\n") + 1
    while quoted and end and text.count(b'"', 0, end) % 2:
        end = text.rfind(b"\n", 0, end - 1) + 1
    return end


def csv_records(text: str) -> Iterator[list[str]]:
    """The records of a log in CSV, in which a statement may be long."""
    csv.field_size_limit(_MOST)
    yield from csv.reader(StringIO(text))
