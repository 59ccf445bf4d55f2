"""Settings: what they risk, what is not in force, and who overrides them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from mrtuner.catalog.version_changes import end_of_support
from mrtuner.checks.areas.storage import advice, from_tuning
from mrtuner.checks.catalogue import CannotJudge, check
from mrtuner.checks.state import FileValue, State
from mrtuner.findings import SLIGHT, Command, Finding, Severity
from mrtuner.notation import Unreadable, read, read_word, same
from mrtuner.postgres.conf_file import number, with_unit
from mrtuner.postgres.missing_grants import SEE_FILES
from mrtuner.postgres.model import RELOAD, Override, Pending, Server, Setting
from mrtuner.postgres.quoting import identifier
from mrtuner.postgres.read_server import HIDDEN_LINES
from mrtuner.postgres.secret_settings import shown
from mrtuner.tuning.feasibility import servers_own
from mrtuner.tuning.overrides import (
    for_all_roles,
    may_go_back,
    resets,
    servers_value,
    switched,
    taken_back,
    whose,
    with_all_roles,
)
from mrtuner.tuning.suggestions import deserved
from mrtuner.units import PAGE, KiB, pretty_bytes
from mrtuner.vacuum.commands import reset
from mrtuner.wording import as_name, first_few, plural

_SHOWN: Final = 5
#: A major version whose support ends within this many days is worth a plan.
_SOON: Final = 180


@check(
    "memory-overcommitted",
    judged="the worst case of the settings in force exceeds the memory of the machine, and that "
    "of the platform's defaults by 5 % of it; or work_mem of single roles or databases does, for "
    "one session or as many as there are now",
    source="docs: the memory budget, and how a running server is judged",
    remedy="Lower the values that mrtuner tune --lower names.",
    needs=("memory",),
)
def memory_overcommitted(state: State) -> Iterator[Finding]:
    """Sessions may ask for more memory than the machine has: the kernel then kills the server."""
    yield from _memory(state)
    situation = with_all_roles(advice(state).situation, state.server)
    if not servers_own(situation):
        raise CannotJudge(
            "the settings of this role or session hide the server's own",
            f"Connect to another database; or {SEE_FILES}",
        )


def _memory(state: State) -> Iterator[Finding]:
    yield from from_tuning(state, "memory-overcommitted")
    found, room = _too_much(state), _room(state)
    if not found:
        return
    asked, sessions = sum(found.values()), _sessions(state)
    factor = _hash_factor(state)
    yield Finding(
        id="memory-overcommitted",
        severity=Severity.DANGER if sum(sessions[one] for one in found) else Severity.TO_DO,
        text=f"work_mem of {whose(*found)} can ask for {pretty_bytes(asked)}, and there "
        f"are {pretty_bytes(room)} besides shared buffers",
        consequence="if it does, the kernel kills the server, and every session is lost",
        cost=1 - room / asked,
        evidence=tuple(
            f"{whose(one)}: {plural(sessions[one], 'session')} with a hash table of work_mem * "
            f"hash_mem_multiplier, {one.value} * {factor:g}"
            if sessions[one]
            else f"{whose(one)}: no session now; one sort may use work_mem, {one.value}"
            for one in list(found)[:_SHOWN]
        ),
        basis="pg_db_role_setting and pg_stat_activity, now",
        remedy=("Lower it there:", *resets(state.server, list(found))),
    )


def _room(state: State) -> int:
    """Memory besides shared buffers [bytes]; 0: not known."""
    memory, buffers = advice(state).situation.memory, state.setting("shared_buffers")
    return max(0, memory.size - int(buffers) * PAGE) if memory and buffers else 0


def _hash_factor(state: State) -> float:
    """hash_mem_multiplier of others: the default where our session hides it; none before 13."""
    found = state.server.settings.get("hash_mem_multiplier")
    own = servers_value(state.server, "hash_mem_multiplier")
    return float(own or (found.boot_val if found else None) or 1)


def _too_much(state: State) -> dict[Override, int]:
    """What work_mem of a role or database asks for, if that is more than there is [bytes].

    One session of each may come at any time, so each is judged by itself; those that are there now
    together. A nightly report with much memory is good practice, so no more are assumed.
    """
    room, factor = _room(state), _hash_factor(state)
    there = _sessions(state) if room else {}
    asks = {
        one: int((number(one.value, "integer", "kB") or 0) * KiB * (factor * sessions or 1))
        for one, sessions in there.items()
    }
    alone = {one: size for one, size in asks.items() if size > room}
    together = {one: size for one, size in asks.items() if there[one]}
    return alone or (together if sum(together.values()) > room else {})


def _sessions(state: State) -> Counter[Override]:
    """How many sessions there are now for each work_mem of a role or database."""
    places = {
        (one.role, one.database): one for one in state.server.overrides
        if one.name == "work_mem" and (one.role or one.database)
    }  # fmt: skip
    found = Counter(dict.fromkeys(places.values(), 0))
    for group in state.groups:
        # The nearest holds. Source: documentation, ALTER ROLE.
        role, database = group.role, group.database
        for place in ((role, database), (role, None), (None, database)):
            if place in places:
                found[places[place]] += group.sessions
                break
    return found


@check(
    "durability-off",
    judged="fsync or full_page_writes is off (not on Neon, which keeps data elsewhere; not the "
    "latter on ZFS, which tears no page), or zero_damaged_pages or ignore_checksum_failure on; "
    "synchronous_commit is off (to know)",
    source="documentation: Write Ahead Log, Settings; Developer Options",
    remedy="Switch it back.",
)
def durability_off(state: State) -> Iterator[Finding]:
    """A crash of the machine can destroy data that were committed, or every database."""
    yield from from_tuning(state, "durability-off")
    if servers_value(state.server, "synchronous_commit") == "off":
        yield _asynchronous("", state.server.platform.remedy(synchronous_commit="on"))
    if found := switched(state.server, "synchronous_commit", "off"):
        yield _asynchronous(f" for {whose(*found)}", *resets(state.server, found))


def _asynchronous(whom: str, *remedies: str) -> Finding:
    return Finding(
        id="durability-off",
        severity=Severity.TO_KNOW,
        text=f"synchronous_commit is off{whom}",
        consequence="the last commits before a crash are lost, and nothing else is damaged",
        basis="pg_settings and pg_db_role_setting, now",
        remedy=("Keep it where the application can do without them; if not:", *remedies),
    )


@check(
    "switched-off",
    judged="session_replication_role is replica, or default_transaction_read_only on, but on a "
    "standby (danger; for a single role, which may need it: to know), or a method of the planner "
    "that is on by default is off (to know)",
    source="documentation: Client Connection Defaults; Planner Method Configuration",
    remedy="Switch it back, if nobody needs it.",
)
def switched_off(state: State) -> Iterator[Finding]:
    """Triggers and foreign keys, writing, or a method of the planner are off: for all sessions, or
    for some.

    What is meant for one session was set for many, and is easily forgotten.
    """
    server = state.server
    if servers_value(server, _REPLICA) == "replica":
        yield _unchecked_rows("", True, server.platform.remedy(session_replication_role="origin"))
    found = [one for one in server.overrides if (one.name, one.value) == (_REPLICA, "replica")]
    for one in found:
        yield _unchecked_rows(f" for {whose(one)}", not one.role, *resets(server, [one]))
    if not server.standby:  # which refuses to write anyway
        yield from _refused_writes(server)
    methods = {
        name: one for name, one in server.settings.items()
        if name.startswith("enable_") and (one.vartype, one.boot_val) == ("bool", "on")
    }  # fmt: skip
    off = [name for name in methods if servers_value(server, name) == "off"]
    if off:
        yield _without_method(
            first_few(off, _SHOWN), server.platform.remedy(**dict.fromkeys(off, "on"))
        )
    for name in methods:
        if those := switched(server, name, "off"):
            yield _without_method(f"{name} for {whose(*those)}", *resets(server, those))
    if _unclear(server):
        why = f"whether {_READ_ONLY} is on for all, or for this session alone, is hidden"
        raise CannotJudge(why, SEE_FILES)


_REPLICA: Final = "session_replication_role"
_READ_ONLY: Final = "default_transaction_read_only"


def _refused_writes(server: Server) -> Iterator[Finding]:
    """Where sessions begin read-only; ALTER SYSTEM is not refused there, ALTER ROLE is."""
    for one in (None, *switched(server, _READ_ONLY, "on")):
        if one is None and servers_value(server, _READ_ONLY) != "on":
            continue
        yield Finding(
            id="switched-off",
            severity=Severity.TO_KNOW if one and one.role else Severity.DANGER,
            text=f"{_READ_ONLY} is on" + (f" for {whose(one)}" if one else ""),
            consequence="each statement that writes fails"
            + (" there" if one else "")
            + ", unless its session turns it off",
            harm_in=None if one and one.role else 0.0,
            basis="pg_settings and pg_db_role_setting, now",
            remedy=(
                "If nobody means it so, and not because the volume is full:",
                *(
                    (Command(f"SET {_READ_ONLY} = off;"), reset(one))
                    if one
                    else (server.platform.remedy(**{_READ_ONLY: "off"}),)
                ),
            ),
        )


def _unclear(server: Server) -> bool:
    """Whether our session is read-only, and it is hidden by whom."""
    found = server.settings.get(_READ_ONLY)
    hidden = servers_value(server, _READ_ONLY) is None
    return (
        not server.standby and found is not None and found.setting == "on" and hidden
        and not switched(server, _READ_ONLY, "on")
    )  # fmt: skip


def _unchecked_rows(whom: str, many: bool, *remedies: str) -> Finding:
    return Finding(
        id="switched-off",
        severity=Severity.DANGER if many else Severity.TO_KNOW,
        text=f"{_REPLICA} is replica{whom}",
        consequence="foreign keys are not checked and usual triggers do not run, so rows become "
        "inconsistent",
        basis="pg_settings and pg_db_role_setting, now",
        remedy=("If these sessions do not apply what a primary has checked:", *remedies),
    )


def _without_method(what: str, *remedies: str) -> Finding:
    return Finding(
        id="switched-off",
        severity=Severity.TO_KNOW,
        text=f"off: {what}",
        consequence="the planner avoids it in every statement, also where it is the best way",
        basis="pg_settings and pg_db_role_setting, now",
        remedy=("If no statement needs it:", *remedies),
    )


@check(
    "next-start",
    judged="what the server checks when it starts, with the files as they are now: pg_hba.conf, "
    "TLS files, libraries, slots; of what waits for a restart also memory, huge pages, addresses "
    "and directories (not where Patroni starts it, which writes the settings itself)",
    source="documentation: Server Configuration; sysv_shmem.c, hba.c, postmaster.c",
    remedy="Correct what the start would fail at, before anything restarts the server.",
    needs=("next start", "file_problems", HIDDEN_LINES),
)
def next_start(state: State) -> Iterator[Finding]:
    """The server runs, and would not start again: the next restart or crash is an outage."""
    yield from from_tuning(state, "next-start")


@check(
    "configuration-errors",
    judged="a line of the configuration files has an error (pg_file_settings)",
    source="documentation: pg_file_settings",
    remedy="Correct the line, then reload.",
    needs=("file_problems", HIDDEN_LINES),
)
def configuration_errors(state: State) -> Iterator[Finding]:
    """A line of a configuration file is not in force, because the server cannot use it.

    A running server leaves it out at each reload; a stopped one does not start with it.
    """
    found = [
        f"{one.where}: {one.name or 'line'}: {one.error}" for one in state.server.file_problems
    ]
    # An unknown name anywhere keeps the server from looking at the values.
    found += [
        f"{one.place}: {one.name}: {one.value} is no value of it"
        for one in (state.files if found else ())
        if not _readable(one, state.server.settings.get(one.name))
    ]
    if found:
        yield Finding(
            id="configuration-errors",
            severity=Severity.DANGER,
            text=f"{plural(len(found), 'line')} of the configuration files cannot be used",
            consequence="they are not in force, and the next start fails",
            cost=1.0,
            evidence=tuple(found[:_SHOWN]),
            basis="pg_file_settings, now",
            remedy=("Correct the line, then:", Command(RELOAD))
            if state.server.platform.alter_system
            else (f"Correct the setting. {state.server.platform.how}",),
        )


def _readable(line: FileValue, running: Setting | None) -> bool:
    """Whether the server can read a value; whether it lies within the limits is not looked at."""
    if running is None:
        return True
    try:
        if running.vartype == "enum":
            read_word(line.value, running.enumvals)
        else:
            read(line.value, running.vartype, running.unit)
    except Unreadable:
        return running.vartype == "enum" and bool(_HIDDEN_WORDS.fullmatch(line.value))
    return True


#: Words that an enum may take beside those that pg_settings lists. Source: guc_tables.c.
_HIDDEN_WORDS: Final = re.compile(r"(?i)on|off|true|false|yes|no|0|1|info")


@check(
    "pending-restart",
    judged="a setting in the files differs from the one in force and needs a restart",
    source="documentation: pg_settings, pending_restart",
    remedy="Restart at a time of your own, or take the change back (not where a standby raises "
    "what its primary may have already).",
    needs=("file_problems", HIDDEN_LINES),
)
def pending_restart(state: State) -> Iterator[Finding]:
    """Somebody changed a setting that waits for a restart: the next one puts it into force,
    whenever that is.
    """
    waiting, by_sql = state.server.pending, state.server.platform.alter_system
    back, backs = tuple(taken_back(state.server)), may_go_back(state.server)
    what = "the change" if len(backs) == len(waiting) else _names(backs)
    findings = state.tuning.findings if state.tuning else ()
    fails = any(one.id == "next-start" for one in findings)
    ways = [] if fails else ["restart at a time of your own"]
    ways += [f"take {what} back"] if backs else []
    then = ":" if back else "" if by_sql or not backs else f". {state.server.platform.how}"
    if waiting:
        yield Finding(
            id="pending-restart",
            severity=Severity.TO_KNOW,
            text=f"waiting for a restart: {_names(waiting)}",
            consequence="the next restart, planned or not, "
            + ("fails" if fails else "changes them"),
            evidence=tuple(_waits(state, one) for one in waiting[:_SHOWN]),
            basis="pg_settings and pg_file_settings, now",
            remedy=(
                *([_FAILS] if fails else []),
                *([f"{', or '.join(ways).capitalize()}{then}"] if ways else []),
                *back,
                *([_PATRONIS] if state.server.platform.by_patroni else []),
            ),
        )


def _names(waiting: Sequence[Pending]) -> str:
    return first_few([one.name for one in waiting], _SHOWN)


_FAILS: Final = "Do not restart before what next-start found is mended: the server would not start"


def _waits(state: State, one: Pending) -> str:
    """The value in force, and the next one."""
    now = state.server.settings.get(one.name)
    value = "hidden" if one.value is None else shown(one.name, one.value)
    then = f"{one.name} = {value} ({one.place or 'in the files'})"
    if one.removed:
        then = f"{one.name}: its line is gone, so the default comes"
    return f"{then}; in force is {'hidden' if now is None else _in_force(now)}"


def _in_force(one: Setting) -> str:
    """As a person writes it."""
    return shown(one.name, with_unit(one.setting, one.vartype, one.unit))


_PATRONIS: Final = (
    "Whether the server would start with them is not judged, since Patroni writes the settings of "
    "a start itself: patronictl show-config"
)


@check(
    "not-reloaded",
    judged="a line of the files differs from the value in force, which a reload would change; "
    "texts are not compared",
    source="documentation: pg_file_settings; Server Configuration, Setting Parameters",
    remedy="Reload, or take the edit back.",
    needs=("files",),
)
def not_reloaded(state: State) -> Iterator[Finding]:
    """Somebody edited a configuration file and did not reload it: the next reload, by whomever,
    puts it into force.
    """
    found = [one for one in state.files if _differs(one, state.server.settings.get(one.name))]
    if found:
        yield Finding(
            id="not-reloaded",
            severity=Severity.TO_KNOW,
            text=f"not in force: {first_few([one.name for one in found], _SHOWN)}",
            consequence="the next reload, by whomever, changes them",
            evidence=tuple(
                f"{one.place}: {one.name} = {one.value}, in force is "
                f"{_in_force(state.server.settings[one.name])}"
                for one in found[:_SHOWN]
            ),
            basis="pg_file_settings and pg_settings, now",
            remedy=(
                # An unknown name anywhere makes the server leave out all changes.
                *(
                    ["Correct the lines that cannot be used first, then:"]
                    if state.server.file_problems
                    else []
                ),
                Command(RELOAD),
            ),
        )


def _differs(line: FileValue, running: Setting | None) -> bool:
    """Whether a reload would change the setting. Hooks may rewrite a text, so texts are left out.

    What is set on the command line stays, and what needs a restart is another check's.
    """
    if running is None or running.reset_val is None or running.vartype == "string":
        return False
    if running.context in {"internal", "postmaster"} or running.origin not in _OF_FILES:
        return False
    known = (line.name, line.value, running.reset_val, running.vartype, running.unit)
    return _readable(line, running) and not same(*known)


_OF_FILES: Final = frozenset({"default", "file", "include", "postgresql.auto.conf"})


@check(
    "override-undoes-advice",
    judged="ALTER ROLE or ALTER DATABASE sets a value other than the one advised for the server",
    source="documentation: Setting Parameters; pg_db_role_setting",
    remedy="Reset it, if nobody needs it.",
    needs=("sourcefile",),
    of_primary=True,
)
def override_undoes_advice(state: State) -> Iterator[Finding]:
    """A role or database has a setting of its own, so the server's does not reach its sessions."""
    advised = advice(state)
    told = {*for_all_roles(state.server), *_too_much(state)} if any(_memory(state)) else set()
    for one in state.server.overrides:
        if one in told:
            continue  # by memory-overcommitted
        item = advised.advice.get(one.name)
        if item is None or _same(one.value, item.value) or deserved(state.server, one):
            continue
        if not item.changes and item.origin == "default":
            continue  # nobody has set it for the server, and nobody is advised to
        yield Finding(
            id="override-undoes-advice",
            severity=Severity.TO_KNOW,
            text=f"{one.name} is {one.value} for {whose(one)}; the advice for the server is "
            f"{item.value}",
            consequence="a change of the server's value does not reach these sessions",
            basis="pg_db_role_setting, now",
            remedy=(reset(one, "  -- if nobody needs it"),),
        )


def _same(one: str, other: str) -> bool:
    return one.strip("'\" ").casefold() == other.casefold()


@check(
    "version-support",
    judged="the major version gets no more fixes, or only for half a year",
    source="postgresql.org: Versioning Policy",
    remedy="Upgrade to a supported major version.",
)
def version_ends(state: State) -> Iterator[Finding]:
    """The project stops fixing bugs and security holes of a major version after five years."""
    ends = end_of_support(state.server.major)
    if ends is None:
        return
    left = (ends - datetime.fromtimestamp(state.at, UTC).date()).days
    if left > _SOON:
        return
    over = left < 0
    yield Finding(
        id="version-support",
        severity=Severity.TO_DO if over else Severity.TO_KNOW,
        text=f"support of version {state.server.major} {'ended' if over else 'ends'} on {ends}",
        consequence="security holes and bugs that corrupt data are not fixed any more",
        # What is over breaks nothing today: no reason to stand above what stops somebody now.
        harm_in=None if over else left * 86_400.0,
        cost=SLIGHT,
        basis="the versioning policy, and the server's clock",
        remedy=(
            "Plan the upgrade that the provider offers, or logical replication to a new server"
            if state.server.platform.hosted
            else "Plan the upgrade: pg_upgrade, or logical replication",
        ),
    )


@check(
    "extension-outdated",
    judged="pg_extension has an older version than the server's files, and an update leads there",
    source="documentation: ALTER EXTENSION; pg_upgrade, post-upgrade processing",
    remedy="ALTER EXTENSION … UPDATE.",
    needs=("extensions",),
    of_primary=True,
)
def extension_outdated(state: State) -> Iterator[Finding]:
    """An extension's objects are older than its library: pg_upgrade does not update them."""
    for one in state.extensions:
        yield Finding(
            id="extension-outdated",
            severity=Severity.TO_DO,
            text=f"extension {as_name(one.name)} is {one.installed} in database "
            f"{as_name(state.database)}, and {one.available} on disk",
            consequence="fixes of the newer version are not in force, and functions may not match "
            "the library",
            basis="pg_extension, now",
            remedy=(
                *(
                    ["As the first command of its session: psql -X"]
                    if one.name == "timescaledb"
                    else []
                ),
                Command(f"ALTER EXTENSION {identifier(one.name)} UPDATE;"),
            ),
        )


@check(
    "collation-changed",
    judged="the version recorded for a collation differs from that of its library",
    source="documentation: ALTER COLLATION; ALTER DATABASE REFRESH COLLATION VERSION",
    remedy="Rebuild the indexes on text, then refresh the version.",
    needs=("databases", "collations"),
)
def collation_changed(state: State) -> Iterator[Finding]:
    """The library that sorts text has changed: indexes on text may be out of order.

    Queries then miss rows, and unique indexes let duplicates in.
    """
    changed = [
        (f"database {as_name(one.name)}", one.collation, one.actual, one.name,
         f"ALTER DATABASE {identifier(one.name)} REFRESH COLLATION VERSION;")
        for one in state.databases
        if one.collation and one.collation != one.actual
    ] + [
        (f"collation {as_name(one.schema, one.name)}", one.recorded, one.actual, state.database,
         f"ALTER COLLATION {identifier(one.schema)}.{identifier(one.name)} REFRESH VERSION;")
        for one in state.collations
    ]  # fmt: skip
    for what, recorded, actual, database, refresh in changed:
        yield Finding(
            id="collation-changed",
            severity=Severity.DANGER,
            text=f"{what} was made with version {recorded} of its library, "
            + (f"which is {actual} now" if actual else "and the one here has no version"),
            consequence="indexes on text may be out of order, so rows are missed or doubled",
            basis="pg_database and pg_collation, now",
            remedy=(_AS_PRIMARY,)
            if state.server.standby
            else (
                f"Rebuild the indexes on text, connected to {as_name(database)}; where that "
                "finds duplicates, remove them:",
                Command(f"REINDEX DATABASE CONCURRENTLY {identifier(database)};"),
                "That skips those of exclusion constraints: REINDEX INDEX each, which locks its "
                "table:",
                _EXCLUSIONS,
                "Only then take note of the new version:",
                Command(refresh),
            )
            if actual
            else (_OTHER_LIBRARY,),
        )
    unknown = [as_name(one.name) for one in state.databases if one.sorted and not one.collation]
    if unknown:
        raise CannotJudge(
            "no version of the library is recorded for "
            f"{'database' if len(unknown) == 1 else 'databases'} {first_few(unknown, _SHOWN)}",
            "15 and later record it, if the library has one; until then, compare the system's with "
            "the one that the last REINDEX ran on.",
        )


#: Source: documentation, REINDEX, Rebuilding Indexes Concurrently.
_EXCLUSIONS: Final = Command(
    "SELECT indexrelid::regclass FROM pg_index WHERE indisexclusion "
    "AND indcollation::text ~ '[1-9]';"
)
_OTHER_LIBRARY: Final = (
    "Start the server with the library that it was made with, as by the image before; or dump it "
    "there, and restore it here. REFRESH fails without a version"
)
_AS_PRIMARY: Final = (
    "Give this standby the library of its primary; if it has it already, check the primary"
)
