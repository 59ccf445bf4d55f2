"""Errors in the server's log, as a source: counted by severity, where the recorder may read it.

Messages of a log of text must be in English. No message is kept, for it may hold anything.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mrtuner.errors import MissingPart
from mrtuner.history.recording.log.following import COLLECT, Log, csv_records, json_records
from mrtuner.history.recording.program import OwnProgram, Place, Rows

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
SEVERITIES: Final = {
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


def _open(place: Place) -> Rows | None:
    """Begin at the end of the log; None if the server runs elsewhere. Raises if unreadable."""
    return None if place.log is None else place.log.made(_counting)


def _counting(log: Log) -> Rows:
    counts, began = Counter[str](), f"{time.time():.0f}"

    def take(form: str, text: str) -> None:
        for severity, state, message in _RECORDS[form](text):
            counts.update(_counted(severity, state, message))

    def rows() -> Iterator[Mapping[str, Any]]:
        read_on()
        scope = f"{began} {log.lapses}"
        yield {"scope": scope} | {name: counts[name] for name in _COLUMNS}

    read_on = log.follow(take)
    return rows


LOG_ERRORS: Final = OwnProgram(_DECLARATION, _open, of_machine=True)


def _counted(severity: str, state: str, message: str) -> Iterator[str]:
    """The columns in which a record counts."""
    column = SEVERITIES.get(severity)
    if column is None and severity not in _OTHERS and state[:2] not in {"", *_FINE}:
        column = "errors"  # its name is in another language
    if column is None:
        return
    yield column
    kind = _STATES.get(state) if state else next(
        (name for name, pattern in _MESSAGES.items() if pattern.search(message)), None
    )  # fmt: skip
    if kind is not None:
        yield kind


_COLUMNS: Final = (*SEVERITIES.values(), *_STATES.values())


def _of_json(text: str) -> Iterator[tuple[str, str, str]]:
    # Most are of this severity. In a text, the quotes would be escaped.
    lines = (line for line in text.split("\n") if '"error_severity":"LOG"' not in line)
    for record in json_records(lines):
        yield record.get("error_severity", ""), record.get("state_code", ""), ""


def _of_csv(text: str) -> Iterator[tuple[str, str, str]]:
    for record in csv_records(text):
        if len(record) > _CSV_STATE:
            yield record[_CSV_SEVERITY], record[_CSV_STATE], ""


#: Source: documentation, Using CSV-Format Log Output.
_CSV_SEVERITY: Final = 11
_CSV_STATE: Final = 12


def _of_stderr(text: str) -> Iterator[tuple[str, str, str]]:
    lines = [line for line in text.split("\n") if not line.startswith("\t")]
    tags = [(found[1].rstrip("12345"), found) for found in map(_TAG.search, lines) if found]
    if not {tag for tag, _ in tags} & {*SEVERITIES, *_OTHERS} and any(t.isupper() for t, _ in tags):
        raise MissingPart("the log's messages are not in English (lc_messages)", COLLECT)
    for severity, found in tags:
        yield severity, "", found.string[found.end() :]


_RECORDS: Final = {"jsonlog": _of_json, "csvlog": _of_csv, "stderr": _of_stderr}
