"""What can be recorded: sources, each a query or a program that declares its own columns.

A source's file begins with a comment in TOML:

    /*
    help = "Checkpoints"
    interval = "1min"              # between samples
    keep = "35d"                   # of rows as sampled; the hourly summary is kept for keep_rollup
    reset = "stats_reset"          # a column that changes when the counters start again

    [keys]                         # what a row is about
    [counters]                     # what only grows: the growth since the previous sample is stored
    [gauges]                       # current values, stored as they are
    [texts]                        # further information about the row
    */
    SELECT …

A line that ends with `-- since 16` or `-- before 16` is for these versions of PostgreSQL only.

A program (see `history.recording.program`) has such a declaration as well, without the comment.
Each column has a help text, and a type or unit where the default (text for keys and texts, integer
for counters and gauges) does not fit. Users' own metrics are files of the same form.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final

from mrtuner.errors import BadValue
from mrtuner.history.recording.program import Program, programs
from mrtuner.postgres.sql import OLDEST, by_version
from mrtuner.units import parse_duration

#: Every table of a store has these columns; no column of a source may have such a name.
RESERVED: Final = frozenset({"time", "instance", "seconds", "samples"})
#: Takes the place of a source's name if the instance cannot be reached, so nothing is sampled.
CONNECTION: Final = "connection"
#: No source may have these names: the first is a view (`mrtuner.history.store.summaries`).
_TAKEN: Final = frozenset({"sessions_at_work", CONNECTION})
_NAME: Final = r"[a-z][a-z0-9_]{0,62}"
_HEADER: Final = re.compile(r"\s*/\*\n(.*?)\*/\s*", re.DOTALL)


class Kind(StrEnum):
    """The role of a column in its row; also the table of the header that declares it."""

    KEY = "keys"
    COUNTER = "counters"
    GAUGE = "gauges"
    TEXT = "texts"


#: Without the privileges of this role, the server does not refuse a query, but hides the sessions
#: and statements of other roles: what was recorded then would be false.
HIDES: Final = "pg_read_all_stats"
_HEADER_KEYS: Final = frozenset({
    "help", "interval", "timeout", "keep", "keep_rollup", "rollup", "rollup_by", "reset",
    "extension", "grant", "export_rows", "export_largest", "per_database", "same",
    *Kind,
})  # fmt: skip


class Type(StrEnum):
    """How a column is stored, in SQLite and in Parquet."""

    INTEGER = "integer"
    FLOAT = "float"
    TEXT = "text"
    STATEMENT = "statement"  # text, without its literals
    BOOLEAN = "boolean"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a source."""

    name: str
    kind: Kind
    type: Type
    unit: str | None
    help: str
    label: bool = True  # of a key: whether it is a label of what is exported


class Rollup(StrEnum):
    """The step of the summary that is kept longer than the rows as sampled."""

    HOUR = "hour"
    MINUTE = "minute"

    @property
    def seconds(self) -> int:
        return 3600 if self is Rollup.HOUR else 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What is sampled, how often, how long it is kept, and the queries by server version."""

    name: str
    help: str
    interval: float  # seconds
    timeout: float  # seconds
    keep: float  # seconds
    keep_rollup: float  # seconds
    columns: tuple[Column, ...]
    rollup: Rollup
    rollup_by: tuple[str, ...]  # columns by which the summary groups
    reset: str | None
    extension: str | None  # must be installed in the database
    grant: str | None  # the role that is allowed to read it; of HIDES, it must be a member
    export_rows: int | None = None  # most rows of an instance to export to a monitoring system
    same: tuple[str, ...] = ()  # keys by which a row is known again under another name
    per_database: bool = False  # whether it shows only the connected database
    export_largest: tuple[str, ...] = ()  # columns whose sum says which rows those are
    queries: Mapping[int, str]  # by the first server version; none for a program
    of_user: bool = False  # the query is the user's own
    program: Program | None = None
    declaration: str = ""  # the TOML comment with all of the above

    def of(self, *kinds: Kind) -> tuple[Column, ...]:
        """The columns of these kinds, in the order of the file."""
        return tuple(column for column in self.columns if column.kind in kinds)

    @property
    def of_machine(self) -> bool:
        """Whether it is read from the machine alone, also while the server is gone."""
        return getattr(self.program, "of_machine", False)

    @property
    def survives_restart(self) -> bool:
        """Whether a restart of the server resets nothing that it counts."""
        return self.of_machine or getattr(self.program, "own_counters", False)

    @property
    def compared(self) -> bool:
        """Whether rows are compared with those of the sample before."""
        return bool(self.of(Kind.KEY, Kind.COUNTER, Kind.GAUGE))

    def for_version(self, version_num: int) -> tuple[str, ...]:
        """The queries that this server may understand, the newest first.

        An extension may be older than its server, so there may be several.
        """
        usable = sorted((since for since in self.queries if since <= version_num), reverse=True)
        return tuple(self.queries[since] for since in usable)


@cache
def built_in() -> Mapping[str, Source]:
    """The sources that MrTuner comes with, by name."""
    from mrtuner.history.recording.filesystems import FILESYSTEMS
    from mrtuner.history.recording.host import HOST
    from mrtuner.history.recording.log.errors import LOG_ERRORS
    from mrtuner.history.recording.log.plans import PLANS
    from mrtuner.history.recording.machine import MACHINE

    return {
        **_by_name(files("mrtuner.history.sources").iterdir()),
        "filesystems": of_program("filesystems", FILESYSTEMS),
        "host": of_program("host", HOST),
        "log_errors": of_program("log_errors", LOG_ERRORS),
        "machine": of_program("machine", MACHINE),
        "plans": of_program("plans", PLANS),
    }


def installed() -> Mapping[str, Source]:
    """The sources that installed packages add.

    Raises:
        BadValue: one cannot be loaded or understood, or takes the name of a built-in source.
    """
    found = {name: of_program(name, program) for name, program in programs().items()}
    return _new_names(found, "the source {}")


def of_program(name: str, program: Program) -> Source:
    """Return the source that a program declares.

    Raises:
        BadValue: its declaration is not understood.
    """
    if not re.fullmatch(_NAME, name):
        raise _bad(name, "its name may contain only a-z, 0-9 and _")
    source = parse(name, {OLDEST: f"/*\n{program.declaration.strip()}\n*/\n"})
    return replace(source, program=program, queries={})


def in_directory(directory: Path) -> Mapping[str, Source]:
    """The sources that a user wrote, by name.

    Raises:
        BadValue: a file cannot be understood, or takes the name of a built-in source.
    """
    try:
        found = _by_name(directory.iterdir())
    except OSError as error:
        raise BadValue(f"cannot read {directory}: {error.strerror}", "Name a directory.") from None
    found = {name: replace(one, of_user=True) for name, one in found.items()}
    return _new_names(found, "{}.sql")


def _new_names(found: Mapping[str, Source], what: str) -> Mapping[str, Source]:
    if taken := sorted(found.keys() & (built_in().keys() | _TAKEN)):
        raise BadValue(
            f"{what.format(taken[0])} is the name of a built-in source", "Give it another name."
        )
    return found


def _by_name(entries: Iterable[Traversable]) -> dict[str, Source]:
    variants: dict[str, dict[int, str]] = {}
    for entry in entries:
        stem, _, since = entry.name.removesuffix(".sql").partition(".")
        if entry.name.endswith(".sql"):
            if not re.fullmatch(_NAME, stem) or not re.fullmatch(r"\d{6}|", since):
                raise _bad(entry.name, "its name must be like wal.sql or wal.140000.sql")
            variants.setdefault(stem, {})[int(since or OLDEST)] = entry.read_text("utf-8")
    return {name: parse(name, texts, strict=True) for name, texts in sorted(variants.items())}


def parse(name: str, texts: Mapping[int, str], *, strict: bool = False) -> Source:
    """Return the source that these files declare, by the first server version each is for.

    Args:
        name: Its name.
        texts: The files' contents.
        strict: Refuse unknown keys in the header, and a source without columns. A store may have
            been written by another version, whose headers have more keys.

    Raises:
        BadValue: the oldest one has no header, or the header is not understood.
    """
    oldest = min(texts)
    found = _HEADER.match(texts[oldest])
    if found is None:
        raise _bad(name, "it must begin with a comment in TOML")
    try:
        header = tomllib.loads(found[1])
    except tomllib.TOMLDecodeError as error:
        raise _bad(name, str(error)) from None
    if strict and (unknown := sorted(header.keys() - _HEADER_KEYS)):
        raise _bad(name, f"its header has an unknown key, {unknown[0]}")
    columns = tuple(_columns(name, header))
    if strict and not columns:
        raise _bad(name, f"its header declares no column in any of {', '.join(Kind)}")
    texts = {**texts, oldest: texts[oldest][found.end() :]}
    return Source(
        name=name,
        help=_text(name, header, "help"),
        interval=parse_duration(_text(name, header, "interval")),
        timeout=parse_duration(header.get("timeout", "5s")),
        keep=parse_duration(header.get("keep", "35d")),
        keep_rollup=parse_duration(header.get("keep_rollup", "1826d")),
        columns=columns,
        rollup=_rollup(name, header),
        rollup_by=_rollup_by(name, header, columns),
        reset=header.get("reset"),
        extension=header.get("extension"),
        grant=header.get("grant"),
        same=_columns_named(name, header, "same", columns),
        per_database=header.get("per_database") is True,
        export_rows=_export_rows(name, header),
        export_largest=_columns_named(name, header, "export_largest", columns),
        queries={since: text.strip().rstrip(";") for since, text in by_version(texts).items()},
        declaration=found[0],
    )


def _columns(name: str, header: Mapping[str, Any]) -> Iterator[Column]:
    for kind in Kind:
        default = Type.TEXT if kind in (Kind.KEY, Kind.TEXT) else Type.INTEGER
        for column, about in header.get(kind, {}).items():
            if not re.fullmatch(_NAME, column) or column in RESERVED:
                raise _bad(name, f"{column} is not a valid column name")
            if not isinstance(about, Mapping) or not isinstance(about.get("help"), str):
                raise _bad(name, f"column {column} has no help text")
            try:
                stored = Type(about.get("type", default))
            except ValueError:
                raise _bad(
                    name, f"column {column}: type must be one of {', '.join(Type)}"
                ) from None
            label = about.get("label", True) is not False
            yield Column(column, kind, stored, about.get("unit"), about["help"], label)


def _export_rows(name: str, header: Mapping[str, Any]) -> int | None:
    found = header.get("export_rows")
    if found is None or (type(found) is int and found >= 0):
        return found
    raise _bad(name, "export_rows must be a number of rows")


def _rollup(name: str, header: Mapping[str, Any]) -> Rollup:
    try:
        return Rollup(header.get("rollup", Rollup.HOUR))
    except ValueError:
        raise _bad(name, f"rollup must be one of {', '.join(Rollup)}") from None


def _rollup_by(name: str, header: Mapping[str, Any], columns: Iterable[Column]) -> tuple[str, ...]:
    if "rollup_by" not in header:
        return tuple(column.name for column in columns if column.kind is Kind.KEY)
    return _columns_named(name, header, "rollup_by", columns)


def _columns_named(
    name: str, header: Mapping[str, Any], key: str, columns: Iterable[Column]
) -> tuple[str, ...]:
    """Return the columns that a key of the header names; none if it does not stand there."""
    chosen = tuple(header.get(key, ()))
    if unknown := sorted(set(chosen) - {column.name for column in columns}):
        raise _bad(name, f"{key} names {unknown[0]}, which is not a column")
    return chosen


def _text(name: str, header: Mapping[str, Any], key: str) -> str:
    found = header.get(key)
    if not isinstance(found, str):
        raise _bad(name, f"its header has no {key}")
    return found


def _bad(name: str, why: str) -> BadValue:
    return BadValue(f"cannot read the source {name}: {why}", "See docs/how-to/record-history.md.")
