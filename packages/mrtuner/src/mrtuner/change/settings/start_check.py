"""Will the server start with these settings? Asked before anything is written.

Over SQL alone: a library without a file, fewer connections than sessions, fewer slots than exist,
settings that contradict each other, a standby that would stop replaying, lines of pg_hba.conf,
certificates. On the server's own machine also directories, addresses, the huge pages, and a trial
start with the server's own programs (trial_start.py). What cannot be found out is listed as not
checked.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from mrtuner.change.settings import start_places, trial_start
from mrtuner.change.settings.next_start import NextStart
from mrtuner.change.settings.plan import LeftAlone
from mrtuner.change.settings.standbys import Standby, would_pause
from mrtuner.errors import Refused
from mrtuner.postgres.conf_file import elements
from mrtuner.postgres.connect import translated
from mrtuner.postgres.local import postmaster_of
from mrtuner.postgres.named_queries import rows_of
from mrtuner.units import KiB, pretty_bytes
from mrtuner.wording import enumerated, plural

if TYPE_CHECKING:
    from mrtuner.change.settings.trial_start import Here
    from mrtuner.postgres.connect import Connection

#: Facts of the server, from start_facts.sql.
Facts = dict[str, Any]

#: The first prevents a start; with the others no session could log in any more.
_LIBRARIES: Final = (
    "shared_preload_libraries", "session_preload_libraries", "local_preload_libraries",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCheck:
    """What would go wrong at the next start, and what could not be checked."""

    problems: tuple[LeftAlone, ...] = ()
    unchecked: tuple[str, ...] = ()
    start: NextStart | None = field(default=None, compare=False)  # what was checked

    def refuse(self) -> None:
        if self.problems:
            raise Refused("; ".join(one.why for one in self.problems), self.problems[0].hint)


def check_start(
    conn: Connection, start: NextStart, standbys: Sequence[Standby] = (), *, tries: bool = True,
    room: bool = True,
) -> StartCheck:  # fmt: skip
    """Check what the server, and its machine if it is this one, can show; `tries` a start.

    `room`: whether there must be a place for all who are connected now, which no start needs.
    """
    over_sql, machine = _over_sql(conn, start, standbys, room), StartCheck()
    if start.needs_restart and not over_sql.problems:
        machine = _on_this_machine(conn, start, tries)
    return StartCheck(
        problems=over_sql.problems + machine.problems,
        unchecked=over_sql.unchecked + machine.unchecked,
    )


def check_pending(conn: Connection, start: NextStart) -> StartCheck:
    """Check the start of a server to which nothing is changed; nothing is tried.

    Only what can prevent it, and could not be checked, is listed: memory and huge pages are left to
    whoever knows the machine.
    """
    found = _over_sql(conn, start, (), room=True)
    return StartCheck(problems=found.problems, unchecked=found.unchecked, start=start)


def _over_sql(
    conn: Connection, start: NextStart, standbys: Sequence[Standby], room: bool
) -> StartCheck:
    with translated():
        (facts,) = rows_of(conn, "start_facts", conn.info.server_version)
        problems, unchecked = _libraries(conn, start)
        if start.restarts:
            lines = list(_hba_lines(conn, start))
            places = dict(_not_there(conn, start))
            problems += filter(None, (*lines, *_certificates(conn, start), *places.values()))
            unchecked += [HBA] if None in lines else []
            if untried := [name for name, one in places.items() if one is None]:
                unchecked.append(f"whether it starts with {', '.join(untried)}")
    problems += [*_sessions(start, facts, room), *_in_use(start, facts, room)]
    problems += _contradictions(start, facts)
    problems += would_pause(conn, start, standbys)
    if start.unseen:
        names = ", ".join(start.unseen)
        unchecked.append(f"what else takes effect at the restart: {names} (the files are hidden)")
    return StartCheck(problems=tuple(problems), unchecked=tuple(unchecked))


def _on_this_machine(conn: Connection, start: NextStart, tries: bool) -> StartCheck:
    problems: list[LeftAlone] = []
    unchecked: list[str] = []
    for what, check in (("there are enough huge pages", _huge_pages), ("it starts", _trial)):
        try:
            problems += check(trial_start.here(conn), start, tries)
        except trial_start.NotTried as why:
            unchecked.append(f"whether {what}: {why}")
    return StartCheck(problems=tuple(problems), unchecked=tuple(unchecked))


def _huge_pages(server: Here, start: NextStart, tries: bool) -> Iterator[LeftAlone]:
    """With huge_pages = on, the server starts only if there are enough of them."""
    if not tries or not start.running["huge_pages"].same(start.text("huge_pages"), "on"):
        return
    needed = trial_start.pages_needed(server, start)
    free = trial_start.pages_available(server, start)
    if needed > free:
        size = start.number("huge_page_size")
        of = f" of {pretty_bytes(size * KiB)}" if size else ""
        where = "on the kernel's command line" if size else "vm.nr_hugepages"
        why = f"huge_pages = on needs {needed} huge pages{of}, and {max(0, free)} will be free"
        hint = f"Reserve them first ({where}), or set huge_pages to try."
        yield problem(start, "huge_pages", why, hint)


def _trial(server: Here, start: NextStart, tries: bool) -> Iterator[LeftAlone]:
    if tries and (reason := trial_start.start_fails(server, start)):
        name = next(name for name in start.changed if start.running[name].context == "postmaster")
        why = f"the server would not start with the new settings: {reason}"
        yield problem(start, name, why, "Leave out the setting that the server's message names.")


def problem(start: NextStart, name: str, why: str, hint: str) -> LeftAlone:
    """A value that must not be written, why, and the next step."""
    return LeftAlone(name=name, value=start.text(name), why=why, hint=hint)


# Libraries.


def _libraries(conn: Connection, start: NextStart) -> tuple[list[LeftAlone], list[str]]:
    """Libraries that have no file. Whether a file can be loaded, only a trial start shows.

    LOAD in our session would tell more, but it runs the library's code, and a crash there restarts
    the whole server.
    """
    problems: list[LeftAlone] = []
    unchecked: list[str] = []
    for name in _LIBRARIES:
        if not (start.restarts or start.concerns(name)):
            continue
        for library in start.list(name):
            places = _places(start, name, library)
            there = _any_there(conn, [one + end for one in places for end in _ENDINGS])
            if there is None:
                unchecked.append(f"whether there is a file for {library} ({name})")
            elif not there:
                files = " or ".join(f"{one}.so" for one in places)
                why = f"{name} names {library}, but the server has no file {files}"
                hint = "Install the package that contains it, or leave it out."
                if "," in library:
                    names = (one.strip().replace("'", "''") for one in library.split(","))
                    several = ", ".join(f"'{one}'" for one in names)
                    hint = (
                        f"It is quoted as one name. As a list: ALTER SYSTEM SET {name} = {several};"
                    )
                problems.append(problem(start, name, why, hint))
    return problems, unchecked


def _places(start: NextStart, name: str, library: str) -> list[str]:
    """Where the server looks for a library, without the ending.

    Source: dfmgr.c, expand_dynamic_library_name.
    """
    if name == "local_preload_libraries" and "/" not in library:
        library = f"$libdir/plugins/{library}"
    if "/" in library:
        return [library.removesuffix(".so")]
    path = start.text("dynamic_library_path").split(":")
    return [f"{directory}/{library.removesuffix('.so')}" for directory in path]


#: Of Linux, macOS (16 and later) and Windows; or the name is written with its own.
_ENDINGS: Final = (".so", ".dylib", ".dll", "")


def _any_there(conn: Connection, places: Sequence[str]) -> bool | None:
    """Whether one of the files is there; None if the role may not look."""
    from psycopg import errors

    query = (
        "SELECT coalesce(bool_or((pg_stat_file(replace(place, '$libdir', setting), true)).size"
        " IS NOT NULL), false) FROM unnest(%s::text[]) AS place, pg_config"
        " WHERE name = 'PKGLIBDIR'"
    )
    try:
        row = conn.execute(query, (list(places),)).fetchone()
    except (errors.InsufficientPrivilege, errors.UndefinedFunction, errors.UndefinedTable):
        return None  # forks lack one or the other
    return None if row is None else bool(row[0])


# What is opened.


def _hba_lines(conn: Connection, start: NextStart) -> Iterator[LeftAlone | None]:
    """Lines of pg_hba.conf that cannot be used; None if that cannot be found out.

    A reload keeps the old lines, a start fails. Source: postmaster.c, PostmasterMain; hba.c.
    """
    from psycopg import Error

    if _next_hba_file(conn, start) is not None:
        return
    try:
        for line in rows_of(conn, "hba_errors", conn.info.server_version):
            why = f"{line['file_name']} line {line['line_number']}: {line['error']}"
            yield problem(
                start, "hba_file", why, "Correct the line, then: SELECT pg_reload_conf();"
            )
    except Error:
        if conn.closed:
            raise
        path = start.text("hba_file")
        if path and start_places.opens(conn, path) is False:
            yield problem(start, "hba_file", f"the server cannot read {path}", "Restore the file.")
        else:
            yield None


def _next_hba_file(conn: Connection, start: NextStart) -> str | None:
    """Another file for the next start; None: the same. Source: guc.c, SelectConfigFiles.

    Its source is always "override", so only the command line itself tells whether it gives it.
    """
    row, wanted = start.running.get("hba_file"), (start.written or {}).get("hba_file")
    if row is None or wanted is None or not row.pending_restart or wanted == row.setting:
        return None
    return None if start_places.commands(postmaster_of(conn), "hba_file") else wanted


#: Files of TLS, if they are set; the first two must be.
_OF_TLS: Final = ("ssl_cert_file", "ssl_key_file", "ssl_ca_file", "ssl_crl_file")


def _certificates(conn: Connection, start: NextStart) -> Iterator[LeftAlone]:
    """With ssl = on, a running server goes on without its files, and does not start again."""
    if _is_off(start, "ssl", start.text_with_edits("ssl")):
        return
    paths = {name: start.text_with_edits(name) for name in _OF_TLS}
    lacking = {
        name: path
        for name, path in paths.items()
        if path and start_places.opens(conn, path) is False
    }
    if lacking:
        files = enumerated(f"{path} ({name})" for name, path in lacking.items())
        why = f"ssl is on, but the server cannot read {files}"
        yield problem(start, "ssl", why, "Put it in its place, or set ssl to off.")
    key = PurePosixPath(start.text("data_directory")) / paths["ssl_key_file"]
    if start_places.is_private(postmaster_of(conn), key) is False:
        why = f"ssl is on, and others than the server may read its key, {key}"
        yield problem(start, "ssl_key_file", why, f"chmod 600 {shlex.quote(str(key))}")


def _not_there(conn: Connection, start: NextStart) -> Iterator[tuple[str, LeftAlone | None]]:
    """Places that a start would miss, by the parameter; None if that cannot be found out."""
    pid, data = postmaster_of(conn), PurePosixPath(start.text("data_directory"))
    there: bool | None
    hba_file = _next_hba_file(conn, start)
    if hba_file is not None and not (there := start_places.opens(conn, hba_file)):
        why = f"hba_file = {hba_file}, which the server cannot read"
        yield "hba_file", None if there is None else problem(start, "hba_file", why, _TAKE_BACK)
    for name in start_places.CAN_FAIL:
        text = start.text(name)
        if not start.concerns(name) or text == start_places.HARMLESS.get(name):
            continue
        there, why = None, ""
        if name == "listen_addresses":
            there = start_places.may_listen(pid, elements(text))
            why = f"{name} = {text}, and the machine has no such address"
        elif name == "unix_socket_directories":
            tried = [
                start_places.may_write(pid, data / one) for one in elements(text) if one[0] != "@"
            ]
            there = None if None in tried else True in tried or not tried
            why = f"{name} = {text}, and the server cannot write there"
        elif name == "io_method":
            there = text != "io_uring" or None
        elif name == "logging_collector":
            continue
        if there is not True:
            yield name, None if there is None else problem(start, name, why, _TAKE_BACK)
    if not _is_off(start, "logging_collector", start.text_with_edits("logging_collector")):
        text = start.text_with_edits("log_directory")
        there = start_places.may_write(pid, data / text, makes=True)
        if there is False:
            why = f"logging_collector is on, and the server cannot write to log_directory, {text}"
            yield "log_directory", problem(start, "log_directory", why, _TAKE_BACK)
        elif there is None and start.concerns("logging_collector"):
            yield "logging_collector", None


#: What a role without privileges on pg_hba_file_rules cannot find out.
HBA: Final = "whether pg_hba.conf has errors"
_TAKE_BACK: Final = "Correct it in the files, before anything restarts the server."


# What is in use.


def _sessions(start: NextStart, facts: Facts, room: bool) -> Iterator[LeftAlone]:
    """Fewer connections than sessions: those who come last would find no place."""
    reserved = start.number("superuser_reserved_connections") + start.number("reserved_connections")
    most, name = start.number("max_connections"), "max_connections"
    if start.concerns(name, "superuser_reserved_connections", "reserved_connections") and (
        reserved >= most
    ):
        why = f"max_connections = {most} leaves none besides the {reserved} that are reserved"
        yield problem(start, name, why, f"Ask for more than {reserved}.")
    elif room and start.lowers(name) and facts["sessions"] + reserved > most:
        why = (
            f"max_connections = {most} is too low for the {plural(facts['sessions'], 'session')} "
            f"that the server has, and {reserved} reserved"
        )
        hint = f"Ask for at least {facts['sessions'] + reserved}, or close sessions first."
        yield problem(start, name, why, hint)


#: Parameters that must not fall below what is in use, and what that is.
#: Source: slot.c (RestoreSlotFromDisk), twophase.c (MarkAsPreparing).
_IN_USE: Final = (
    ("max_replication_slots", "slots", "replication slot", "Drop those that are not needed."),
    ("max_wal_senders", "senders", "WAL sender", "Leave it as it is."),
    ("max_prepared_transactions", "prepared", "prepared transaction",
     "Commit or roll them back first."),
    ("max_worker_processes", "workers", "background worker", "Leave it as it is."),
)  # fmt: skip

#: With fewer of these than run, the server starts; some find no place.
_ROOM: Final = frozenset({"max_wal_senders", "max_worker_processes"})


def _in_use(start: NextStart, facts: Facts, room: bool) -> Iterator[LeftAlone]:
    for name, fact, noun, hint in _IN_USE:
        if not room and name in _ROOM:
            continue
        if start.lowers(name) and start.number(name) < facts[fact]:
            why = f"{name} = {start.number(name)} is too low for {plural(facts[fact], noun)}"
            yield problem(start, name, why, hint)


#: Of these a server takes one at most. Source: xlogrecovery.c, error_multiple_recovery_targets.
_TARGETS: Final = (
    "recovery_target", "recovery_target_lsn", "recovery_target_name", "recovery_target_time",
    "recovery_target_xid",
)  # fmt: skip


def _contradictions(start: NextStart, facts: Facts) -> Iterator[LeftAlone]:
    """Settings that keep the server from starting. Source: postmaster.c, PostmasterMain; slot.c."""
    targets = [name for name in _TARGETS if start.text(name)]
    if len(targets) > 1 and start.concerns(*targets):
        why = f"only one recovery target may be set, and there are {', '.join(targets)}"
        yield problem(start, targets[0], why, "Leave the one that is wanted.")
    level = start.text("wal_level")
    if not start.concerns("wal_level", "archive_mode", "max_wal_senders", "summarize_wal"):
        return
    if level == "minimal":
        needs = [
            *(["archive_mode"] if not _is_off(start, "archive_mode") else []),
            *(["max_wal_senders"] if start.number("max_wal_senders") else []),
            *(["summarize_wal"] if not _is_off(start, "summarize_wal") else []),
            *([plural(facts["slots"], "replication slot")] if facts["slots"] else []),
        ]
        if needs:
            why = f"wal_level = minimal is not enough for {', '.join(needs)}"
            yield problem(start, "wal_level", why, "Leave wal_level at replica.")
    elif level != "logical" and facts["logical_slots"] and start.major < _BY_SLOTS:
        slots = plural(facts["logical_slots"], "logical replication slot")
        why = f"wal_level = {level} is not enough for {slots}"
        yield problem(start, "wal_level", why, "Leave wal_level at logical, or drop them.")


#: Since when logical decoding is on as long as there are logical slots, if wal_level is replica.
#: Source: release notes 19.
_BY_SLOTS: Final = 19


def _is_off(start: NextStart, name: str, text: str | None = None) -> bool:
    """Whether a switch is off at the next start, or in `text`; or this version lacks it."""
    row = start.running.get(name)
    return row is None or row.same(start.text(name) if text is None else text, "off")
