"""Reading a running server over SQL alone.

What a role may not see, a fork does not have, or a version does not count becomes a Missing
with its reason; it never raises an exception and never counts as "fine".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from mrtuner.postgres.conf_file import in_base_units
from mrtuner.postgres.connect import any_bytes, translated
from mrtuner.postgres.cumulative_statistics import activity
from mrtuner.postgres.local import postmaster
from mrtuner.postgres.missing_grants import SEE_FILES, SEE_SETTINGS, SEE_STATS
from mrtuner.postgres.model import (
    INDEX_BUILDS,
    Archiver,
    Conflicts,
    FileProblem,
    JitWork,
    Origin,
    Override,
    Partitioned,
    Pending,
    Platform,
    Relation,
    RoleSpills,
    Server,
    Setting,
    Slot,
    Slru,
)
from mrtuner.postgres.named_queries import USUAL, QueryTimeouts, Reader, Row
from mrtuner.postgres.pending import unclear, waiting
from mrtuner.postgres.platform import Clues, platform
from mrtuner.units import Bytes

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection

#: Our names for pg_settings.source. Source: guc_tables.c, GucSource_Names.
ORIGINS: Final[dict[str, Origin]] = {
    "default": "default",
    "environment variable": "environment",
    "configuration file": "file",
    "command line": "command line",
    "global": "role",  # ALTER ROLE ALL
    "database": "database",
    "user": "role",
    "database user": "role",
    "client": "client",
    "override": "computed",
    "interactive": "session",
    "test": "session",
    "session": "session",
}
#: A part that shows what the archiver does not count.
WAITING_WAL: Final = "WAL that waits for the archiver"
#: A part that shows which lines of the files are errors, and which wait for a restart.
HIDDEN_LINES: Final = "lines of hidden settings"


def read(conn: Connection, patience: QueryTimeouts = USUAL) -> Server:
    """Return everything MrTuner needs to know about the server at `conn`, an autocommit session.

    Only reads. A query that takes longer than `patience` is cancelled; what it reads is missing.
    The settings are the server's own: where this session sees another value, by ALTER ROLE, by
    ALTER DATABASE or as its client asked, what the files give. A role that may not read them gets
    the session's value, with that origin. Raises ConnectError when the session breaks or the server
    is lost.
    """
    with translated(), any_bytes(conn):
        return _server(Reader(conn, conn.info.server_version, patience))


def _server(reader: Reader) -> Server:
    # Settings first: some later queries run under limits of their own.
    settings = {row["name"]: row for row in reader.rows("settings")}
    about = reader.row("server")
    config_file = _text(settings, "config_file")
    if not about["reads_settings"]:
        why = "the role may not see where settings come from, nor the value of some settings"
        reader.lacks("sourcefile", why, SEE_SETTINGS)
        reader.lacks("data_directory", "the role may not see it", SEE_SETTINGS)
    extensions = tuple(row["name"] for row in reader.rows("extensions"))
    problems, pending = _files(reader, {name.lower() for name in settings})
    typed = {
        row["name"]: _setting(row, config_file)
        for row in (settings | _own(reader, settings)).values()
    }
    reader.lacks(
        "peak_connections", "PostgreSQL does not record the highest number of connections",
        "Give the number from your monitoring with --connections.",
    )  # fmt: skip
    return Server(
        version_num=about["version_num"],
        version=about["version"],
        settings=typed,
        overrides=tuple(Override(**row) for row in reader.rows("overrides")),
        file_problems=problems,
        pending=pending,
        platform=_platform(reader, typed),
        standby=about["standby"],
        standbys=about["standbys"],
        connections=about["connections"],
        databases=_databases(reader),
        relations=_relations(reader),
        extensions=extensions,
        activity=activity(reader, about, typed),
        data_directory=_text(settings, "data_directory"),
        local_pid=_local_pid(reader),
        superuser=about["superuser"],
        partitioned=next(
            (Partitioned(**row) for row in reader.rows_if_allowed("partitioned", "partitions")),
            None,
        ),
        slrus=tuple(Slru(**row) for row in reader.rows_if_allowed("slru", "slrus", SEE_STATS)),
        slots=tuple(Slot(**row) for row in reader.rows_if_allowed("slots", "slots", SEE_STATS)),
        archiver=_archiver(reader),
        conflicts=_conflicts(reader) if about["standby"] else None,
        jit=_jit(reader, extensions),
        role_spills=_role_spills(reader, extensions),
        active=about["active"],
        missing=tuple(reader.missing),
    )


def _own(reader: Reader, settings: Mapping[str, Row]) -> dict[str, Row]:
    """The rows of settings that this session hides, with the server's own values."""
    if any(one.name == "file_problems" for one in reader.missing):
        return {}  # the files cannot be read
    found = {}
    for own in reader.rows_if_allowed("own_values", "own values", SEE_FILES):
        row = settings[own["name"]]
        text = row["boot_val"] if own["setting"] is None else own["setting"]
        value = in_base_units(text or "", row["vartype"], row["unit"])
        source = "default" if own["setting"] is None else "configuration file"
        found[own["name"]] = {**row, **own, "setting": value, "reset_val": value, "source": source}
    return found


def _text(settings: Mapping[str, Row], name: str) -> str | None:
    return settings[name]["setting"] if name in settings else None


def _setting(row: Row, config_file: str | None) -> Setting:
    kept = {name: value for name, value in row.items() if name != "source"}
    origin = _origin(row["source"], row["sourcefile"], config_file)
    return Setting(**{**kept, "enumvals": tuple(row["enumvals"]), "origin": origin})


def _origin(source: str, sourcefile: str | None, config_file: str | None) -> Origin:
    """Where a value comes from; a file that the role may not see is just a "file"."""
    origin = ORIGINS.get(source, "session")
    if origin != "file" or sourcefile is None or sourcefile == config_file:
        return origin
    auto = sourcefile.rpartition("/")[2] == "postgresql.auto.conf"
    return "postgresql.auto.conf" if auto else "include"


def _files(
    reader: Reader, seen: Collection[str]
) -> tuple[tuple[FileProblem, ...], tuple[Pending, ...]]:
    """Return the lines that the server could not use and, separately, those waiting for a restart.

    Reading pg_file_settings tries every line, which flags the waiting ones in this session. For
    a role that may not read it, only what the server has already flagged is known.
    """
    lacking = len(reader.missing)
    rows = reader.rows_if_allowed("file_problems", "file_problems", SEE_FILES)
    flagged = {row["name"] for row in reader.rows("pending")}
    if len(reader.missing) > lacking:
        return (), tuple(Pending(name=name, value=None) for name in sorted(flagged))
    problems, pending, hidden = [], [], []
    for row in rows:
        if one := waiting(row["name"], row["setting"], row["error"], flagged):
            place = f"{row['sourcefile']}:{row['sourceline']}" if row["sourcefile"] else None
            pending.append(replace(one, place=place, elsewhere=row["elsewhere"]))
        elif unclear(row["name"], row["error"], seen):
            hidden.append(row["name"])
        else:
            named = ("sourcefile", "sourceline", "name", "error")
            problems.append(FileProblem(**{name: row[name] for name in named}))
    if hidden:
        why = f"the role may not see whether {', '.join(hidden)} waits for a restart or is wrong"
        reader.lacks(HIDDEN_LINES, why, SEE_SETTINGS)
    return tuple(problems), tuple(pending)


def read_platform(conn: Connection) -> Platform:
    """Who runs the server at `conn`, and how its settings are changed. Only reads."""
    reader = Reader(conn, conn.info.server_version)
    return _platform(reader, {row["name"]: _setting(row, None) for row in reader.rows("settings")})


def _platform(reader: Reader, settings: Mapping[str, Setting]) -> Platform:
    row = reader.row("clues")
    clues = Clues(
        settings=settings,
        roles=frozenset(row["roles"]),
        schemas=frozenset(row["schemas"]),
        applications=frozenset(row["applications"]),
        aurora=row["aurora"],
    )
    commanded = (name for name, one in settings.items() if one.origin == "command line")
    return replace(platform(clues), commanded=frozenset(commanded))


def _databases(reader: Reader) -> dict[str, Bytes]:
    rows = reader.rows_if_allowed("databases", "databases", SEE_STATS)
    hidden = [row["name"] for row in rows if row["size"] is None]
    if hidden:
        why = f"the role may not see the size of {', '.join(hidden)}"
        reader.lacks("databases", why, SEE_STATS)
    return {row["name"]: Bytes(row["size"]) for row in rows if row["size"] is not None}


def _relations(reader: Reader) -> tuple[Relation, ...]:
    rows = reader.rows_if_allowed("relations", "relations")
    return tuple(Relation(**{**row, "options": tuple(row["options"])}) for row in rows)


def _archiver(reader: Reader) -> Archiver | None:
    """What was archived, and what waits: where nothing was yet, that alone is behind."""
    rows = reader.rows_if_allowed("archiver", "archiver", SEE_STATS)
    if not rows:
        return None
    known = {name: value for name, value in rows[0].items() if value is not None}
    ready = reader.rows_if_allowed("archive_ready", WAITING_WAL, SEE_STATS)
    return Archiver(**{"behind": None, **(ready[0] if ready else {}), **known})


def _jit(reader: Reader, extensions: Collection[str]) -> JitWork | None:
    rows = _statements(reader, extensions, "statements_jit", "jit")
    return JitWork(**rows[0]) if rows else None


def _role_spills(reader: Reader, extensions: Collection[str]) -> tuple[RoleSpills, ...]:
    asked = partial(_statements, reader, extensions, "statements_spills", "role_spills")
    before = len(reader.missing)
    rows = asked([True, INDEX_BUILDS])
    if reader.missing[before:]:  # a text of any database that cannot be converted loses all of them
        del reader.missing[before:]
        rows = asked([False, INDEX_BUILDS])
    return tuple(RoleSpills(**row) for row in rows)


def _statements(
    reader: Reader, extensions: Collection[str], name: str, fact: str,
    values: Sequence[object] | None = None,
) -> list[Row]:  # fmt: skip
    if "pg_stat_statements" not in extensions:
        return []
    return reader.rows_if_allowed(name, fact, SEE_STATS, values=values)


def _conflicts(reader: Reader) -> Conflicts | None:
    rows = reader.rows_if_allowed("standby_conflicts", "conflicts", SEE_STATS)
    return Conflicts(**rows[0]) if rows else None


def _local_pid(reader: Reader) -> int | None:
    row = reader.row("backend")
    return postmaster(row["pid"], row["age"])
