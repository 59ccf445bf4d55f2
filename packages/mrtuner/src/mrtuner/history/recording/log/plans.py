"""Plans in the server's log, as a source: what auto_explain wrote, as shapes without literals.

A shape is the outline of a plan: its nodes with the names of tables and indexes, and nothing of
conditions, constants, costs or rows. Plans must be in JSON, in a log in JSON or CSV, whose records
name their statement. Partitions that a plan reads are told once, for their number follows from the
values. Source: documentation, auto_explain; explain.c, ExplainNode.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from mrtuner.errors import MissingPart
from mrtuner.escape import printable
from mrtuner.history.recording.log.following import COLLECT, Log, csv_records, json_records
from mrtuner.history.recording.program import OwnProgram, Place, Rows

_DECLARATION: Final = """
help = "Plans that auto_explain wrote to the server's log, as shapes without literals"
interval = "1min"
reset = "scope"

[keys]
database = { help = "the database" }
query_id = { type = "integer", help = "identifier of the statement" }
plan = { help = "hash of the shape" }

[counters]
executions = { help = "executions in the log: those that took auto_explain.log_min_duration" }
ms = { type = "float", unit = "ms", help = "their time" }

[texts]
shape = { help = "its nodes, one a line, indented below their parent" }
"""
#: Plans that are remembered, to tell how often each was seen; the longest unseen are forgotten.
_MOST: Final = 5000
#: Lines of a shape that are kept. The hash is of all.
_LINES: Final = 60
_MARK: Final = " plan:\n"
_INSTEAD: Final = "Set auto_explain.log_format = 'json'."
#: Nodes whose children are partitions, or other parts of one whole.
_PARTS: Final = frozenset({"Append", "Merge Append"})
#: What makes a node another one, in the order in which it is told. Values are PostgreSQL's words.
_KINDS: Final = ("Strategy", "Partial Mode", "Operation", "Join Type")
_USUAL: Final = frozenset({"Plain", "Simple", "Inner", "Select"})


def _open(place: Place) -> Rows | None:
    """Begin at the end of the log; None if the server runs elsewhere.

    Raises MissingPart if auto_explain writes to a log that cannot be read, or to one of text.
    """
    try:
        log = place.log
    except MissingPart:
        if _explains(place.postmaster):
            raise
        return tuple  # nobody writes plans
    if log is None:
        return None
    if log.form == "stderr" and _explains(log.pid):
        raise MissingPart("auto_explain writes to a log of text", COLLECT)
    return log.made(_Seen).rows


PLANS: Final = OwnProgram(_DECLARATION, _open, of_machine=True)


def _explains(postmaster: int | None) -> bool:
    """Whether auto_explain is loaded for every session, as far as can be seen."""
    try:
        return "/auto_explain" in Path(f"/proc/{postmaster}/maps").read_text()
    except OSError:
        return False


class _Seen:
    """The plans of a log, with how often each was seen."""

    def __init__(self, log: Log) -> None:
        self.read_on = log.follow(self._take)
        self.scope = f"{time.time():.0f}"
        self.plans: dict[tuple[str, int, str], dict[str, Any]] = {}

    def _take(self, form: str, text: str) -> None:
        if _MARK.strip() in text:  # else nobody wrote a plan
            for database, query_id, message in _RECORDS[form](text):
                self._add(database, query_id, message)

    def rows(self) -> Iterator[Mapping[str, Any]]:
        self.read_on()
        while len(self.plans) > _MOST:
            del self.plans[next(iter(self.plans))]
        yield from self.plans.values()

    def _add(self, database: str, query_id: int, message: str) -> None:
        head, mark, body = message.partition(_MARK)
        if not mark or not query_id:
            return
        if not body.startswith("{"):
            raise MissingPart("auto_explain writes plans as text", _INSTEAD)
        lines = tuple(_outline(json.loads(body)["Plan"]))
        plan = sha256("\n".join(lines).encode()).hexdigest()[:16]
        key = database, query_id, plan
        row = self.plans.pop(key, None) or {
            "database": database, "query_id": query_id, "plan": plan, "executions": 0, "ms": 0.0,
            "shape": "\n".join(lines[:_LINES]), "scope": self.scope,
        }  # fmt: skip
        took = next((float(one) for one in head.split() if one[:1].isdigit()), 0.0)
        self.plans[key] = row | {"executions": row["executions"] + 1, "ms": row["ms"] + took}


def _outline(node: Mapping[str, Any], depth: int = 0, *, part: bool = False) -> Iterator[str]:
    """The lines of a node and what is below; of a `part` without the names of tables."""
    words = [node[name] for name in _KINDS if node.get(name) and node[name] not in _USUAL]
    label = " ".join([node["Node Type"], *(f"({word})" for word in words)])
    if not part:
        for join, name in (("using", "Index Name"), ("on", "Relation Name")):
            label += f" {join} {printable(node[name])}" if name in node else ""
    yield "  " * depth + label
    parts = part or node["Node Type"] in _PARTS
    told = set()
    for child in node.get("Plans", ()):
        lines = tuple(_outline(child, depth + 1, part=parts))
        if not parts or lines not in told:
            told.add(lines)
            yield from lines


def _of_text(text: str) -> Iterator[tuple[str, int, str]]:
    """Nothing, or MissingPart: records of text do not name their statement."""
    if _MARK in text and "duration: " in text:
        raise MissingPart("auto_explain writes to a log of text", COLLECT)
    return iter(())


def _of_json(text: str) -> Iterator[tuple[str, int, str]]:
    for record in json_records(line for line in text.split("\n") if _MARK.strip() in line):
        yield record.get("dbname", ""), record.get("query_id", 0), record.get("message", "")


def _of_csv(text: str) -> Iterator[tuple[str, int, str]]:
    for record in csv_records(text):
        if len(record) > _CSV_QUERY_ID:
            yield record[_CSV_DATABASE], int(record[_CSV_QUERY_ID]), record[_CSV_MESSAGE]


#: Source: documentation, Using CSV-Format Log Output; the identifier since 14.
_CSV_DATABASE: Final = 2
_CSV_MESSAGE: Final = 13
_CSV_QUERY_ID: Final = 25
_RECORDS: Final = {"jsonlog": _of_json, "csvlog": _of_csv, "stderr": _of_text}
