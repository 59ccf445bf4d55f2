"""What a live server's counters suggest for single tables, roles or slots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from mrtuner.escape import damaged
from mrtuner.findings import Command, Finding, Severity, by_hand
from mrtuner.postgres.conf_file import number
from mrtuner.postgres.quoting import identifier
from mrtuner.tuning.advice import Level, ManualStep, Notice, RoleMemory
from mrtuner.tuning.budget import operations
from mrtuner.tuning.rules.work_mem import one_merge_pass
from mrtuner.units import GiB, KiB, MiB, pretty_bytes, pretty_duration
from mrtuner.vacuum.commands import drop_slot
from mrtuner.wording import plural

if TYPE_CHECKING:
    from mrtuner.inputs import Workload
    from mrtuner.postgres.model import Override, Relation, RoleSpills, Server, Slot
    from mrtuner.tuning.budget import Budget, Chosen

_DAY: Final = 86_400.0
#: Too few updates to judge a table by.
SOME_UPDATES: Final = 100_000
#: If this share of updates had to go to another page, room on the old one is worthwhile.
CROWDED: Final = 0.2
#: A share of HOT updates below this is low; before 16 nothing shows why.
FEW_HOT: Final = 0.5
#: Leaves a tenth of each page for updates in place; more would slow down reads.
FILLFACTOR: Final = 90

#: From this multiple of the general value on, a role deserves its own work_mem.
MUCH_MORE: Final = 2


def notices(server: Server) -> Iterator[Notice]:
    """Yield notices on tables whose updates find no room on their page, on slots and archiving."""
    for relation in server.relations:
        if text := _crowded(relation):
            yield Notice(Level.INFO, text)
    kept = (kept_by(slot, server) for slot in server.slots)
    for one in (*filter(None, kept), *not_archived(server)):
        yield Notice(Level.WARNING, one.sentence)


def _usual_wal(server: Server) -> int:
    """WAL that checkpoints alone would keep; anything above is due to a slot or the archiver."""
    setting = server.settings.get("max_wal_size")
    return int(setting.setting) * MiB if setting else GiB


def kept_by(slot: Slot, server: Server, full: float | None = None) -> Finding | None:
    """What is wrong with a slot that keeps too much WAL, or has lost what its consumer needs.

    `full` is how long WAL that nobody removes takes to fill its volume [s]. A copy of the primary's
    slot can be neither used nor dropped. Source: documentation, pg_replication_slots.
    """
    if slot.synced and server.standby:
        return None
    size = pretty_bytes(slot.retained or 0)
    if slot.status == "lost":
        return _slot(
            Severity.TO_DO,
            f"replication slot {slot.name} has lost WAL that its consumer needs",
            "its consumer cannot go on: set it up again", Command(drop_slot(slot.name)),
        )  # fmt: skip
    if slot.status == "unreserved":
        timeout = server.settings.get("checkpoint_timeout")
        one = _slot(
            Severity.DANGER,
            f"replication slot {slot.name} keeps {size} of WAL, more than max_slot_wal_keep_size",
            "at the next checkpoint it loses WAL, and its consumer must be set up again",
            "Start its consumer now, or raise max_slot_wal_keep_size",
        )  # fmt: skip
        return replace(one, harm_in=float(timeout.setting) if timeout else None)
    if slot.retained is None or slot.retained <= _usual_wal(server):
        return None
    if slot.active:
        text = f"the consumer of replication slot {slot.name} is {size} of WAL behind"
        grows = "the server keeps it until the disk is full"
        remedy: tuple[str, ...] = ("Find out what its consumer waits for",)
    else:
        text = f"replication slot {slot.name} is not in use and keeps {size} of WAL"
        grows = "it grows until the disk is full"
        remedy = ("Start its consumer, or drop the slot", Command(drop_slot(slot.name)))
    if (end := _end_of(slot, server, full)) is not None:
        lost = f"{end} it loses WAL, and its consumer must be set up again"
        return _slot(Severity.TO_DO, text, lost, *remedy)
    soon = full is not None and full < _DAY
    severity = Severity.TO_DO if slot.active and not soon else Severity.DANGER
    return replace(_slot(severity, text, grows, *remedy), harm_in=full)


def _end_of(slot: Slot, server: Server, full: float | None) -> str | None:
    """When a slot gives up its WAL, so that the disk is safe; None: never, or too late."""
    idle = server.settings.get("idle_replication_slot_timeout")  # from 18 on
    if idle and int(idle.setting) and not (slot.active or slot.synced):
        interval = server.settings.get("checkpoint_timeout")
        left = int(idle.setting) - (slot.idle or 0) + (int(interval.setting) if interval else 0)
        if full is None or left < full:
            return "at a checkpoint after idle_replication_slot_timeout"
    cap = slot_cap(server)
    return None if cap is None else f"beyond max_slot_wal_keep_size ({pretty_bytes(cap)})"


def slot_cap(server: Server) -> int | None:
    """How much WAL a slot may keep at most before it loses it [bytes]; None: as much as it needs.

    The disk is safe then, the consumer is not.
    """
    setting = server.settings.get("max_slot_wal_keep_size")
    return int(setting.setting) * MiB if setting and int(setting.setting) >= 0 else None


def _slot(severity: Severity, text: str, consequence: str, *remedy: str) -> Finding:
    return Finding(
        id="slot-keeps-wal", severity=severity, text=text, consequence=consequence,
        basis="pg_replication_slots, now", remedy=remedy,
    )  # fmt: skip


def not_archived(server: Server, full: float | None = None) -> Iterator[Finding]:
    """Yield what is wrong with the archiver.

    `full` is how long WAL that nobody removes takes to fill its volume [s].
    """
    archiver = server.archiver
    if archiver is None or not archives(server):
        return
    behind = archiver.behind or 0
    waits = f"{pretty_bytes(behind)} of WAL waits" if behind else "WAL waits"
    at = "" if full is None else f" (in {pretty_duration(full)} at this pace)"
    if _archives_nothing(server):
        text = "archive_mode is on, but nothing says how to archive: archive_command is empty"
        remedy = (
            "Set archive_command or, since 15, archive_library, as your backup tool documents it; "
            "without one, archive_mode = off, which needs a restart"
        )
    elif archiver.failing:
        failed = plural(archiver.failed, "time")
        text = f"archiving fails ({failed} so far, including the last attempt)"
        remedy = "The server's log shows the command's error"
    elif archiver.stuck:
        text = f"WAL has waited for {pretty_duration(archiver.waits or 0)}, and none is archived"
        remedy = (
            "See whether archive_command is still at work; if not, read the server's log: one that "
            "is not found, or killed by a signal, counts as no failure"
        )
    elif behind > _usual_wal(server):
        text = "archiving is late"
        remedy = "A faster archive_command, one that archives several files at a time"
    else:
        return
    yield Finding(
        id="archiving-fails", severity=Severity.DANGER, text=text,
        consequence=f"{waits} until the disk is full{at}, and no backup reaches beyond it",
        harm_in=0.0, basis="pg_stat_archiver and the files that wait, now", remedy=(remedy,),
    )  # fmt: skip


def archives(server: Server) -> bool:
    """Whether an archiver runs, if archive_mode is not off; what a standby counted as a primary
    stays. Source: documentation, Continuous Archiving in Standby.
    """
    mode = server.settings.get("archive_mode")
    return not server.standby or (mode is not None and mode.setting == "always")


def _archives_nothing(server: Server) -> bool:
    """Whether the archiver has nothing to run, which it counts as no failure. Source: pgarch.c."""
    known = {
        name: server.settings[name].setting
        for name in ("archive_command", "archive_library")
        if name in server.settings
    }
    return known.get("archive_command") == "" and not known.get("archive_library")


def _crowded(relation: Relation) -> str | None:
    """Return why a lower fillfactor would help a table; None if it would not."""
    if relation.updated < SOME_UPDATES or _fillfactor(relation) <= FILLFACTOR:
        return None
    name = f"{relation.schema}.{relation.name}"
    quoted = f"{identifier(relation.schema)}.{identifier(relation.name)}"
    command = f"ALTER TABLE {quoted} SET (fillfactor = {FILLFACTOR})"
    if damaged(command):
        command = by_hand(command)
    of = f"of {relation.updated:,} updates"
    if relation.newpage_updated is not None:
        crowded = relation.newpage_updated / relation.updated
        if crowded < CROWDED:
            return None
        return (
            f"{name}: {crowded:.0%} {of} found no room on their page: {command} leaves "
            "room on new pages"
        )
    hot = relation.hot_updated / relation.updated
    if hot >= FEW_HOT:
        return None
    return (
        f"{name}: {hot:.0%} {of} were HOT; if no index covers the changed columns, leave "
        f"room on new pages: {command}"
    )


def _fillfactor(relation: Relation) -> int:
    return int(relation.storage_parameters.get("fillfactor", 100))


def memory_of_roles(
    server: Server, chosen: Chosen, budget: Budget | None, workload: Workload
) -> Iterator[RoleMemory]:
    """Yield more work_mem for roles that spill, as far as the budget has room for it."""
    if budget is None or "work_mem" not in chosen.actual:
        return
    everyone = chosen.settled().size("work_mem").evaluate({})
    room = budget.ceiling - budget.total
    for spills in server.role_spills:
        value, now = one_merge_pass(spills.largest), _own_work_mem(server, spills.role)
        sorts = max(1, spills.sessions) * operations(workload)
        more = int((value - everyone) * sorts * chosen.hash_factor)
        needed = value >= everyone * MUCH_MORE and value > now
        if needed and more <= room and spills.role.isprintable():
            room -= more
            yield RoleMemory(role=spills.role, value=f"{value // MiB}MB", spilt=_spilt(spills))


def deserved(server: Server, override: Override) -> bool:
    """Whether a role's own work_mem is no more than its temporary files call for."""
    return override.name == "work_mem" and any(
        spills.role == override.role and _bytes(override.value) <= one_merge_pass(spills.largest)
        for spills in server.role_spills
    )


def _own_work_mem(server: Server, role: str) -> int:
    """The largest work_mem [bytes] that was set for the role itself; 0: none."""
    own = [
        _bytes(one.value) for one in server.overrides if one.role == role and one.name == "work_mem"
    ]
    return max(own, default=0)


def _bytes(work_mem: str) -> int:
    return int(number(work_mem, "integer", "kB") or 0) * KiB


def _spilt(spills: RoleSpills) -> str:
    age = "" if spills.seconds is None else f" in {pretty_duration(spills.seconds)}"
    return (
        f"wrote {pretty_bytes(spills.size)} of temporary files in {spills.calls:,} calls{age}, "
        f"up to {pretty_bytes(spills.largest)} in one"
    )


def step(one: RoleMemory) -> ManualStep:
    """Return how to give a role its work_mem by hand."""
    why, command = f"role {one.role} {one.spilt}: {one.gain}", set_work_mem(one)
    if damaged(command):
        return ManualStep(f"{why}. {by_hand(command)}", ())
    undo = f"ALTER ROLE {identifier(one.role)} RESET work_mem;  -- undoes it"
    return ManualStep(why, (command, undo))


def set_work_mem(one: RoleMemory) -> Command:
    return Command(f"ALTER ROLE {identifier(one.role)} SET work_mem = '{one.value}';")
