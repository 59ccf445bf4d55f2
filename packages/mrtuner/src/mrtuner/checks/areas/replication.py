"""Standbys, slots, subscriptions and the archive."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from mrtuner.checks.catalogue import CannotJudge, check
from mrtuner.checks.state import Receiver, State
from mrtuner.findings import SLIGHT, Command, Finding, Severity
from mrtuner.postgres.model import Slot
from mrtuner.postgres.quoting import identifier
from mrtuner.postgres.read_server import WAITING_WAL
from mrtuner.tuning.suggestions import archives, kept_by, not_archived, slot_cap
from mrtuner.units import GiB, MiB, pretty_bytes, pretty_duration
from mrtuner.vacuum.commands import drop_slot
from mrtuner.wording import as_name, enumerated, plural

SLOTS: Final = "documentation: Replication Slots; max_slot_wal_keep_size"
#: Behind by this much, a takeover takes noticeable time; chosen, not measured.
_BEHIND: Final = GiB
_LATE: Final = 60.0
#: Waits for replay and is not just on its way, while one long transaction writes: a segment.
_MUCH: Final = 16 * MiB
#: Without new transactions for so long, a standby that receives nothing is stale, and a slot
#: without a consumer for so long forgotten [s].
_STALE: Final = 300.0
#: Commands that succeed and keep nothing. Source: documentation, archive_command; common advice.
_KEEP_NOTHING: Final = frozenset({"true", "/bin/true", "/usr/bin/true", ":", "exit 0", "cd ."})
#: Also transactions that are idle: their locks and snapshots hold up replay as well.
_OLDEST: Final = Command(
    "SELECT pid, state, xact_start, left(query, 100) AS query FROM pg_stat_activity "
    "WHERE xact_start IS NOT NULL ORDER BY xact_start LIMIT 5;"
)


def keeps_wal(state: State) -> bool:
    """Whether the server archives its WAL, and somebody keeps it."""
    command = (state.setting("archive_command") or "").strip()
    kept = state.setting("archive_library") or (command and command not in _KEEP_NOTHING)
    return state.server.archiver is not None and bool(kept)


def until_full(state: State) -> float | None:
    """Seconds until WAL that nobody removes fills its volume, at the server's average rate."""
    host, activity = state.tuning.host if state.tuning else None, state.server.activity
    free = (host.wal_free or host.disk_free) if host else None
    if free is None or not activity.wal_bytes or not activity.window:
        return None
    return free.value / (activity.wal_bytes / activity.window)


@check(
    "slot-keeps-wal",
    judged="a slot keeps more WAL than max_wal_size (danger: without end, for nobody or until the "
    "disk is full within a day), or has lost WAL, or loses it at the next checkpoint (danger)",
    source=SLOTS,
    remedy="Start the consumer, or drop the slot; a consumer that lost WAL is set up again.",
    needs=("slots",),
)
def slot_keeps_wal(state: State) -> Iterator[Finding]:
    """A replication slot keeps WAL for a consumer that does not fetch it.

    The server keeps that WAL until its volume is full, and then stops. With max_slot_wal_keep_size
    the slot loses it instead, and its consumer must be set up again.
    """
    alone, full = unfollowed(state), until_full(state)
    for slot in state.server.slots:
        one = kept_by(slot, state.server, full)
        if one is not None:
            also = "if this server goes away, nothing can take over; " if slot in alone else ""
            # A lost one keeps no WAL: what it costs is its consumer.
            size = None if slot.status == "lost" else slot.retained
            yield replace(
                one, cost=state.of_volume(size), consequence=also + one.consequence,
                since=None if slot.active or slot.idle is None else state.at - slot.idle,
            )  # fmt: skip


def unfollowed(state: State) -> tuple[Slot, ...]:
    """The idle slots for standbys of a primary that no standby follows.

    A slot in use may be that of a program which only stores WAL.
    """
    if state.server.standby or any(one.replays for one in state.standbys):
        return ()
    return tuple(
        one for one in state.server.slots
        if one.kind == "physical" and not one.temporary and not one.active
        and one.retained is not None
    )  # fmt: skip


def unused(slot: Slot) -> bool:
    """Whether a slot has had no consumer for so long that it is forgotten; before 17: has none."""
    return not slot.active and (slot.idle is None or slot.idle >= _STALE)


@check(
    "replication-at-limit",
    judged="as many slots as max_replication_slots, or as many WAL senders as max_wal_senders, are "
    "in use; base backups do not count",
    source="documentation: Replication, Sending Servers; pg_basebackup, --no-slot",
    remedy="Drop slots that nobody uses, or raise the limit, which needs a restart.",
    needs=("slots",),
)
def replication_at_limit(state: State) -> Iterator[Finding]:
    """The next standby, subscription or base backup is refused."""
    slots = [one for one in state.server.slots if not one.temporary]
    for name, used, refused, remedy in (
        ("max_replication_slots", len(slots), "pg_basebackup, which makes a slot for itself",
         "Drop a slot that nobody uses, or raise the limit:"),
        ("max_wal_senders", len(state.standbys), "a base backup",
         "Raise the limit, first on the standbys:"),
    ):  # fmt: skip
        most = int(state.setting(name) or 0)
        if most and used >= most:
            yield Finding(
                id="replication-at-limit",
                severity=Severity.TO_DO,
                text=f"{used} of {most} are in use: {name}",
                consequence=f"the next standby or subscription is refused, and so is {refused}",
                cost=SLIGHT,
                basis="pg_replication_slots and pg_stat_replication, now",
                remedy=(remedy, state.server.platform.remedy(True, **{name: str(2 * most)})),
            )


@check(
    "consumer-gone",
    judged="a logical slot of a primary has had no consumer for five minutes; before 17, which do "
    "not tell since when, it has none (to know); what slot-keeps-wal tells is not told again",
    source="documentation: pg_replication_slots; the time is chosen",
    remedy="Start the consumer, or drop the slot.",
    needs=("slots",),
)
def consumer_gone(state: State) -> Iterator[Finding]:
    """A consumer of logical replication is away, or gone without its slot: WAL and old rows of
    catalogs are kept for it.
    """
    for one in state.server.slots:
        if one.temporary or one.kind != "logical" or state.server.standby or not unused(one):
            continue
        if kept_by(one, state.server):
            continue
        since = f" for {pretty_duration(one.idle)}" if one.idle is not None else ""
        full = "the disk is full" if slot_cap(state.server) is None else "it loses that"
        yield Finding(
            id="consumer-gone",
            severity=Severity.TO_DO if since else Severity.TO_KNOW,
            text=f"logical slot {one.name} has no consumer{since}",
            consequence=f"old rows of catalogs pile up for it, and WAL until {full}",
            cost=state.of_volume(one.retained),
            since=None if one.idle is None else state.at - one.idle,
            basis="pg_replication_slots, now",
            remedy=(
                "Start its consumer; if there is none any more, nor one that still makes its first "
                "copy:",
                Command(drop_slot(one.name)),
            ),
        )


@check(
    "archiving-fails",
    judged="archive_mode is on without a command or library, the last attempt to archive failed, a "
    "file has waited for five minutes and none was archived meanwhile, or more WAL than "
    "max_wal_size waits for it",
    source="documentation: Continuous Archiving; pg_stat_archiver; pgarch.c",
    remedy="Repair archive_command, whose error is in the server's log; a faster one if it is "
    "late.",
    needs=("archiver",),
)
def archiving_fails(state: State) -> Iterator[Finding]:
    """WAL is not archived: no backup reaches beyond it, and it piles up until the disk is full."""
    archiver = state.server.archiver
    found = tuple(not_archived(state.server, until_full(state)))
    unread = state.missing.get(WAITING_WAL)
    if unread is not None and not found and archives(state.server):
        raise CannotJudge(unread.why, unread.supply)
    began = archiver.trouble if archiver else None
    for one in found:
        yield replace(
            one, cost=state.of_volume(archiver.behind if archiver else None),
            since=None if began is None else state.at - began,
        )  # fmt: skip


@check(
    "archive-discarded",
    judged="archive_mode is on without a library, and archive_command keeps nothing, such as true",
    source="documentation: Continuous Archiving, archive_command",
    remedy="Set archive_command as your backup tool documents it.",
    needs=("archiver",),
)
def archive_discarded(state: State) -> Iterator[Finding]:
    """WAL counts as archived, but nobody keeps it: there is no way back to a point in time."""
    command = (state.setting("archive_command") or "").strip()
    if state.server.archiver is None or not command or keeps_wal(state):
        return
    yield Finding(
        id="archive-discarded", severity=Severity.TO_KNOW,
        text=f"archive_command is {command}, which keeps nothing",
        consequence="backups cannot be brought forward to a point in time",
        basis="pg_settings, now",
        remedy=("Set archive_command as your backup tool documents it, and take a new backup",),
    )  # fmt: skip


@check(
    "replication-lag",
    judged="a standby is 1 GB of WAL or 60 s behind in replay, or does not stream",
    source="documentation: Monitoring Replication, pg_stat_replication; the limits are chosen",
    remedy="End long transactions on the standby, resume its replay, or give it a faster volume.",
    needs=("standbys",),
)
def replication_lag(state: State) -> Iterator[Finding]:
    """A standby is behind: what it answers is old, and to take over takes long.

    With asynchronous replication, what it has not received is lost with the primary.
    """
    for one in state.standbys:
        late = (one.behind or 0) >= _BEHIND or (one.seconds or 0) >= _LATE
        streams = one.state in {None, "streaming"}
        if not one.replays or (not late and streams):
            continue
        where = as_name(one.name) + (f" at {one.address}" if one.address else "")
        behind = [pretty_bytes(one.behind)] if one.behind else []
        behind += [pretty_duration(one.seconds)] if one.seconds else []
        yield Finding(
            id="replication-lag",
            severity=Severity.TO_DO,
            text=f"standby {where} is {' and '.join(behind) or 'an unknown amount'} behind"
            + ("" if streams else f" ({one.state})"),
            consequence="it answers with old rows, and a failover to it takes longer or loses more",
            cost=state.of_volume(one.behind),
            basis="pg_stat_replication, now",
            remedy=(
                "On the standby: an old transaction can hold up replay, even an idle one:",
                _OLDEST,
                "Replay may be paused there; if so, mrtuner check of the standby says what ends "
                "that (resuming it can stop the server, or make a primary of it):",
                Command("SELECT pg_is_wal_replay_paused();"),
            ),
        )


@check(
    "standby-stale",
    judged="replay is paused (to know, if a recovery target is set); or nothing was replayed for "
    "five minutes, more than recovery_min_apply_delay, and it does not stream (to know, if it has "
    "an archive and no primary_conninfo: the primary may be idle), or 16 MB of WAL wait without "
    "such a delay, or a query holds replay up",
    source="documentation: Hot Standby; pg_stat_wal_receiver; the limits are chosen",
    remedy="Resume replay (not at a recovery target, where that makes a primary of it, nor where a "
    "setting is lower than the primary's: raise it and restart), end the query that holds it up, "
    "or repair its connection to the primary.",
    needs=("receiver",),
)
def standby_stale(state: State) -> Iterator[Finding]:
    """This standby does not follow its primary: it falls behind, or out of reach of its WAL."""
    found = state.receiver
    if found is None:
        return
    if found.paused:
        yield _paused(state, found)
        return
    idle, wanted = found.idle_seconds, int(state.setting("recovery_min_apply_delay") or 0) / 1000
    if idle is not None and idle - wanted < _STALE:
        return
    since = "an unknown time" if idle is None else pretty_duration(idle)
    waiting = found.waiting or 0
    if found.held or (not wanted and idle is not None and waiting >= _MUCH):
        more = f", and {pretty_bytes(waiting)} of WAL wait for replay" if waiting else ""
        yield replace(
            _stale(
                f"the last transaction that it replayed is {since} old{more}",
                "A transaction that lasts for long can hold up replay, as long as "
                "max_standby_streaming_delay allows; the oldest ones:",
                _OLDEST,
            ),
            severity=Severity.TO_DO,
            consequence="it answers with old rows, and takes over only when all that is replayed",
        )
    elif found.streaming is False:
        archive = state.setting("restore_command") and state.setting("primary_conninfo") == ""
        one = _stale(
            f"it does not stream, and has replayed nothing for {since}",
            "Read its log: a wrong primary_conninfo, or WAL that the primary has removed",
        )
        if archive:
            one = replace(
                one, severity=Severity.TO_KNOW,
                text=f"this standby has replayed nothing from its archive for {since}",
                consequence="if its primary was not idle meanwhile, it answers with old rows",
                remedy=("Compare pg_last_wal_replay_lsn() here with pg_current_wal_lsn() there",),
            )  # fmt: skip
        yield one


def _paused(state: State, found: Receiver) -> Finding:
    """Replay that somebody paused is resumed; one that paused itself would stop the server.

    One that stopped at its recovery target would become a second primary.
    Source: xlogrecovery.c, RecoveryRequiresIntParameter, recoveryPausesHere.
    """
    target = next((name for name in _TARGETS if state.setting(name)), None)
    if target and not found.lower:
        return replace(
            _stale(
                "replay is paused, and it has a recovery target, "
                f"{target} = {state.setting(target)}",
                "To replay further, set a later target or none, then restart this server; with "
                "recovery.signal and no target, it becomes a primary at the end of its WAL",
                "To make a primary of it, first be sure that clients write to no other one: SELECT "
                "pg_wal_replay_resume()",
            ),
            severity=Severity.TO_KNOW,
            consequence="if it stopped there, resuming ends recovery and makes it a primary",
        )
    if found.lower == {}:
        return _stale("replay is paused", Command("SELECT pg_wal_replay_resume();"))
    if found.lower is None:
        return _stale(
            "replay is paused",
            'First read this server\'s log: if it says "insufficient parameter settings", resuming '
            "stops this server; raise the setting that it names, and restart",
            "If not, resume: SELECT pg_wal_replay_resume()",
        )
    values = {name: str(there) for name, (_, there) in found.lower.items()}
    each = (f"{name} is {here} here and {there} on the primary"
            for name, (here, there) in found.lower.items())  # fmt: skip
    return _stale(
        f"replay is paused, since {enumerated(each)}",
        "Do not resume replay, which stops this server. Raise it here, then restart this server:",
        state.server.platform.remedy(True, **values),
    )


#: Replay pauses there, with recovery_target_action at its default.
_TARGETS: Final = (
    "recovery_target", "recovery_target_name", "recovery_target_time", "recovery_target_xid",
    "recovery_target_lsn",
)  # fmt: skip


def _stale(text: str, *remedy: str) -> Finding:
    return Finding(
        id="standby-stale", severity=Severity.DANGER, text=f"this standby is stale: {text}",
        consequence="it answers with old rows, and cannot take over without losing the rest",
        cost=1.0, basis="pg_stat_wal_receiver, now", remedy=remedy,
    )  # fmt: skip


@check(
    "subscription-stopped",
    judged="a subscription is disabled, has no worker, or counted errors",
    source="documentation: Logical Replication, pg_stat_subscription_stats",
    remedy="Enable it, or resolve the conflict that the log names.",
    needs=("subscriptions",),
    of_primary=True,
)
def subscription_stopped(state: State) -> Iterator[Finding]:
    """A subscription applies nothing: its tables are old, and its publisher keeps WAL for it."""
    for one in state.subscriptions:
        errors = f"{plural(one.errors, 'error')} since the last reset" if one.errors else ""
        if one.running and not errors:
            continue
        stopped = "" if one.running else "has no worker" if one.enabled else "is disabled"
        told = ", and counted ".join(filter(None, (stopped, errors)))
        name, elsewhere = identifier(one.name), one.database != state.database
        where = f" of database {as_name(one.database)}" if elsewhere else ""
        yield Finding(
            id="subscription-stopped",
            severity=Severity.TO_KNOW if one.running else Severity.TO_DO,
            text=f"subscription {as_name(one.name)}{where}: {told}",
            consequence="its tables do not change, and the publisher keeps WAL for it"
            if not one.running else "each time it began again; the log says why",
            basis="pg_stat_subscription, now",
            remedy=(
                *(["Read this server's log: it names the row or the connection that fails"]
                  if one.enabled or errors else []),
                *([f"In database {as_name(one.database)}:"]
                  if elsewhere and not (one.enabled and one.running) else []),
                *([] if one.enabled else [Command(f"ALTER SUBSCRIPTION {name} ENABLE;")]),
                *([_AGAIN, Command(f"ALTER SUBSCRIPTION {name} DISABLE;")]
                  if one.enabled and not one.running else []),
            ),
        )  # fmt: skip


_AGAIN: Final = "It goes on by itself once that is mended; until then, this ends its attempts:"
