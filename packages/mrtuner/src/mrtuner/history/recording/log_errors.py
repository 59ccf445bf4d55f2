"""Errors in the server's log, as a source: counted by severity, where the recorder may read it.

It reads what was written since the last sample: JSON or CSV if the server logs so, else the text on
stderr, whose messages must be in English. No message is kept, for it may hold anything. What
is written between two samples to a file that is neither the last nor the one before is not counted.
"""

from __future__ import annotations

import csv
import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, Final

from mrtuner.errors import MissingPart
from mrtuner.history.recording.program import Place, Rows

_DECLARATION: Final = """
help = "Errors in the server's log, if the recorder runs on its machine and may read the log"
interval = "1min"
reset = "scope"

[counters]
panics = { help = "PANIC: the whole server went down" }
fatals = { help = "FATAL: a session ended, or was refused" }
errors = { help = "ERROR: a statement failed" }
warnings = { help = "WARNING" }
deadlocks = { help = "of these, deadlocks (40P01)" }
refused = { help = "of these, sessions refused because there were too many (53300)" }
cancelled = { help = "of these, cancelled statements, also by a timeout (57014)" }
"""
#: Most bytes read for a sample; the rest is counted with the next one.
_MOST: Final = 16 * 1024 * 1024
_SEVERITIES: Final = {
    "PANIC": "panics", "FATAL": "fatals", "ERROR": "errors", "WARNING": "warnings",
}  # fmt: skip
#: What stands before the two spaces of a line, besides. Source: elog.c, error_severity, and
#: send_message_to_server_log.
_OTHERS: Final = frozenset({
    "DEBUG", "LOG", "INFO", "NOTICE", "DETAIL", "HINT", "QUERY", "CONTEXT", "LOCATION",
    "BACKTRACE", "STATEMENT",
})  # fmt: skip
_TAG: Final = re.compile(r"(?:^|[^\w])([^\W\d_]{3,}):  ")
_STATES: Final = {"40P01": "deadlocks", "53300": "refused", "57014": "cancelled"}
#: The same without SQLSTATE. Source: deadlock.c; proc.c, postinit.c; postgres.c.
_MESSAGES: Final = {
    "deadlocks": re.compile(r"deadlock detected"),
    "refused": re.compile(r"too many (clients|connections)|remaining connection slots"),
    "cancelled": re.compile(r"canceling statement due to"),
}
#: Classes of SQLSTATE that are no errors: success, warning, no data.
_FINE: Final = frozenset({"00", "01", "02"})


@dataclass(frozen=True, slots=True)
class _LogErrorsProgram:
    declaration: str = _DECLARATION

    def open(self, place: Place) -> Rows | None:
        """Begin at the end of the log; None if the server runs elsewhere. Raises if unreadable."""
        if place.postmaster is None:
            return None
        form, path = _current(place.postmaster)
        end = path.stat()
        return _Log(
            pid=place.postmaster, form=form, path=path, inode=end.st_ino, offset=end.st_size,
            scope=f"{time.time():.0f}",
        ).rows  # fmt: skip


LOG_ERRORS: Final = _LogErrorsProgram()


def _current(pid: int) -> tuple[str, Path]:
    """The form and the file of the log: the collector's, or where stderr leads."""
    inside, stderr = Path(f"/proc/{pid}/cwd"), Path(f"/proc/{pid}/fd/2")
    try:
        listed = (inside / "current_logfiles").read_text("utf-8", "replace")
    except FileNotFoundError:
        if not stderr.is_file():
            raise MissingPart("the server's log does not go to a file", _COLLECT) from None
        return "stderr", stderr
    except PermissionError:
        raise MissingPart(
            "only root and the server's own user may read its log",
            "Run the recorder as one of them to count errors.",
        ) from None
    found = dict(line.split(" ", 1) for line in listed.splitlines() if " " in line)
    for form in ("jsonlog", "csvlog", "stderr"):
        if form in found:
            name = found[form]
            root = Path(f"/proc/{pid}/root")
            return form, root / name.lstrip("/") if name.startswith("/") else inside / name
    raise MissingPart("the server's log does not go to a file", _COLLECT)


_COLLECT: Final = "Set logging_collector = on, and log_destination = 'jsonlog' (15 and later)."


@dataclass(slots=True, kw_only=True)
class _Log:
    """A log that is read on, and what was counted in it."""

    pid: int
    form: str
    path: Path
    inode: int
    offset: int
    scope: str
    counts: Counter[str] = field(default_factory=Counter)
    rest: bytes = b""  # of a record that is not written completely

    def rows(self) -> Iterable[Mapping[str, Any]]:
        """Count what is new, and return the row."""
        with suppress(FileNotFoundError):  # the old file is gone: the present one is read below
            self._read()
        form, path = _current(self.pid)
        if path != self.path:
            self.form, self.path, self.inode = form, path, 0
            self._read()
        yield {"scope": self.scope} | {name: self.counts[name] for name in _COLUMNS}

    def _read(self) -> None:
        with self.path.open("rb") as file:
            now = os.fstat(file.fileno())
            if now.st_ino != self.inode or now.st_size < self.offset:  # a new one, or emptied
                self.inode, self.offset, self.rest = now.st_ino, 0, b""
            file.seek(self.offset)
            text = self.rest + file.read(_MOST)
            self.offset = file.tell()
        end = _end_of_records(text, quoted=self.form == "csvlog")
        self.rest = text[end:]
        for severity, state, message in _RECORDS[self.form](text[:end].decode(errors="replace")):
            self._count(severity, state, message)

    def _count(self, severity: str, state: str, message: str) -> None:
        column = _SEVERITIES.get(severity)
        if column is None and severity not in _OTHERS and state[:2] not in {"", *_FINE}:
            column = "errors"  # its name is in another language
        if column is None:
            return
        self.counts[column] += 1
        kind = _STATES.get(state) if state else next(
            (name for name, pattern in _MESSAGES.items() if pattern.search(message)), None
        )  # fmt: skip
        if kind is not None:
            self.counts[kind] += 1


_COLUMNS: Final = (*_SEVERITIES.values(), *_STATES.values())


def _end_of_records(text: bytes, *, quoted: bool) -> int:
    """Where the last complete record ends; a quoted text may have lines of its own."""
    end = text.rfind(b"\n") + 1
    while quoted and end and text.count(b'"', 0, end) % 2:
        end = text.rfind(b"\n", 0, end - 1) + 1
    return end


def _of_json(text: str) -> Iterator[tuple[str, str, str]]:
    for line in text.splitlines():
        if line.startswith("{"):
            record = json.loads(line)
            yield record.get("error_severity", ""), record.get("state_code", ""), ""


def _of_csv(text: str) -> Iterator[tuple[str, str, str]]:
    for record in csv.reader(StringIO(text)):
        if len(record) > _CSV_STATE:
            yield record[_CSV_SEVERITY], record[_CSV_STATE], ""


#: Source: documentation, Using CSV-Format Log Output.
_CSV_SEVERITY: Final = 11
_CSV_STATE: Final = 12


def _of_stderr(text: str) -> Iterator[tuple[str, str, str]]:
    lines = [line for line in text.splitlines() if not line.startswith("\t")]
    tags = [(found[1].rstrip("12345"), found) for found in map(_TAG.search, lines) if found]
    if not {tag for tag, _ in tags} & {*_SEVERITIES, *_OTHERS} and any(
        t.isupper() for t, _ in tags
    ):
        raise MissingPart("the log's messages are not in English (lc_messages)", _COLLECT)
    for severity, found in tags:
        yield severity, "", found.string[found.end() :]


_RECORDS: Final = {"jsonlog": _of_json, "csvlog": _of_csv, "stderr": _of_stderr}
