"""What a server itself tells of the hour when it, its standby or a client goes away."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import inf
from typing import Final

from mrtuner.catalog.timers import kernel_defaults
from mrtuner.checks.areas.connections import FORGOTTEN
from mrtuner.checks.areas.replication import unfollowed, unused
from mrtuner.checks.catalogue import check
from mrtuner.checks.state import Session, Standby, State
from mrtuner.failover.audit.check import IDLE
from mrtuner.failover.predict.tcp_timers import Keepalive
from mrtuner.findings import Command, Finding, Severity
from mrtuner.postgres.conf_file import number
from mrtuner.postgres.quoting import identifier
from mrtuner.tuning.overrides import servers_value
from mrtuner.tuning.suggestions import kept_by
from mrtuner.units import pretty_duration
from mrtuner.vacuum.commands import drop_slot
from mrtuner.wording import as_name, first_few, plural

_SYNCHRONOUS: Final = "documentation: Synchronous Replication"
_SHOWN: Final = 5
#: FIRST 2 (a, b), ANY 1 (a, b) and 2 (a, b); a list alone asks for one. Source: syncrep_gram.y.
_ASKED: Final = re.compile(r"\s*(?:(?:FIRST|ANY)\s+)?(\d+)\s*\(", re.IGNORECASE)
#: The slot of a table that a subscription copies. Source: ReplicationSlotNameForTablesync.
_COPYING: Final = re.compile(r"pg_\d+_sync_\d+_\d+")
#: Where the server takes their word for what they have. Source: syncrep.c, SyncRepReleaseWaiters.
_RELEASES: Final = frozenset({"streaming", "stopping"})


def _waited_for(state: State) -> tuple[int, list[Standby], list[Standby]] | None:
    """How many standbys each commit waits for, those attached that count, and the other ones on
    the list; None: for none, or the role may not see which standby counts.
    """
    if "standbys" in state.missing:
        return None
    names = state.setting("synchronous_standby_names")
    # Of the sessions that write, not of ours; the default where ours hides it.
    level = servers_value(state.server, "synchronous_commit") or "on"
    if not names or state.server.standby or level in {"off", "local"}:
        return None
    asked = _ASKED.match(names)
    listed = [one for one in state.standbys if one.sync_state in {"sync", "potential", "quorum"}]
    count = [
        one for one in listed
        if one.state in _RELEASES and (one.replays or level != "remote_apply")
    ]  # fmt: skip
    useless = [one for one in listed if one not in count]
    if any(one.sync_state == "sync" for one in useless):  # those after it on the list cannot help
        count = [one for one in count if one.sync_state == "sync"]
    return int(asked[1]) if asked else 1, count, useless


def _followers(state: State) -> list[Standby]:
    """The standbys; none if the role may not see which of them is a base backup."""
    seen = "standbys" not in state.missing
    return [one for one in state.standbys if seen and one.replays]


@check(
    "synchronous-standby-missing",
    judged="fewer synchronous standbys stream than synchronous_standby_names asks for; one that "
    "still catches up does not count, nor, with remote_apply, one that only stores WAL",
    source=_SYNCHRONOUS,
    remedy="Start the standby, or take it off synchronous_standby_names.",
    needs=("standbys",),
)
def synchronous_standby_missing(state: State) -> Iterator[Finding]:
    """Commits wait for a standby that is not there: every session that writes hangs."""
    found = _waited_for(state)
    if found is None or len(found[1]) >= found[0]:
        return
    asked, attached, useless = found
    there = "no synchronous standby"
    if attached:
        there = f"only {len(attached)} of {asked} synchronous standbys"
    verb = "are" if len(attached) > 1 else "is"
    yield Finding(
        id="synchronous-standby-missing",
        severity=Severity.DANGER,
        text=f"{there} {verb} {'of use' if useless else 'attached'}, but "
        f"synchronous_standby_names is {state.setting('synchronous_standby_names')!r}",
        consequence="every commit waits until "
        + ("the others are there" if attached else "one is there"),
        harm_in=0.0,
        cost=1.0,
        evidence=tuple(
            [f"sessions whose commit waits now: {state.committing:,}"] if state.committing else []
        )
        + tuple(
            f"{as_name(one.name)} is attached, but "
            + (
                "replays nothing, and synchronous_commit is remote_apply"
                if one.state in _RELEASES
                else f"not ready yet ({one.state})"
            )
            for one in useless[:_SHOWN]
        ),
        basis="pg_stat_replication, now",
        remedy=(
            "Start the standby, or wait until it has caught up; or, and then the next failover can "
            "lose commits:",
            state.server.platform.remedy(synchronous_standby_names="''"),
        ),
    )


@check(
    "synchronous-standby-single",
    judged="no more synchronous standbys are attached than synchronous_standby_names asks for",
    source=_SYNCHRONOUS,
    remedy="Attach one more standby that counts.",
    needs=("standbys",),
)
def synchronous_standby_single(state: State) -> Iterator[Finding]:
    """Commits stop as soon as one standby goes away: there is no other to take its place.

    Patroni and similar tools take a standby that is gone off the list, and then nothing stops.
    """
    found = _waited_for(state)
    if found is None or len(found[1]) != found[0]:
        return
    asked, attached, _ = found
    yield Finding(
        id="synchronous-standby-single",
        severity=Severity.TO_KNOW,
        text=f"each commit waits for {plural(asked, 'standby')}, "
        f"and no more are attached: {first_few([as_name(one.name) for one in attached], _SHOWN)}",
        consequence="if one goes away, every session that writes hangs until it is back",
        basis="pg_stat_replication, now",
        remedy=(
            "Attach one more standby that synchronous_standby_names lists, or know how to take "
            "the one that is gone off the list",
        ),
    )


@check(
    "standby-gone",
    judged="an idle physical slot holds WAL for a standby, and no standby is attached; what only "
    "stores WAL is none, and what slot-keeps-wal tells is not told again",
    source="documentation: Log-Shipping Standby Servers, Replication Slots",
    remedy="Start the standby; if there is none any more, drop its slot.",
    needs=("standbys", "slots"),
)
def standby_gone(state: State) -> Iterator[Finding]:
    """This primary had a standby, and has none now: if it goes away, nothing takes over."""
    slots = [one for one in unfollowed(state) if not kept_by(one, state.server)]
    if not slots:
        return
    names = first_few([one.name for one in slots], _SHOWN)
    unknown = any(one.idle is None for one in slots)
    yield Finding(
        id="standby-gone",
        severity=Severity.TO_DO,
        text=f"no standby is attached, although there is a slot for one: {names}",
        consequence="if this server goes away, nothing can take over",
        since=None if unknown else state.at - min(one.idle or 0.0 for one in slots),
        basis="pg_replication_slots and pg_stat_replication, now",
        remedy=(
            "Start the standby and read its log; if there is none any more, drop its slot:",
            *(Command(drop_slot(one.name)) for one in slots[:_SHOWN]),
        ),
    )


@check(
    "slot-not-synchronized",
    judged="a logical slot without failover = true, on a primary with a standby (17 and later); "
    "not one that has had no consumer for five minutes",
    source="documentation: Logical Replication, Logical Replication Failover",
    remedy="Set failover = true on the subscription, and on the standby what synchronizes slots.",
    needs=("standbys", "slots"),
)
def slot_not_synchronized(state: State) -> Iterator[Finding]:
    """A consumer of logical replication cannot go on after a failover: its slot stays behind with
    the old primary, and the standby does not have it.
    """
    slots = [
        one for one in state.server.slots
        if one.kind == "logical" and one.failover is False and not one.temporary
        and one.status != "lost" and not unused(one) and not _COPYING.fullmatch(one.name)
    ]  # fmt: skip
    if state.server.standby or not _followers(state) or not slots:
        return
    names = first_few([one.name for one in slots], _SHOWN)
    first = identifier(slots[0].name)
    yield Finding(
        id="slot-not-synchronized",
        severity=Severity.TO_DO,
        text=f"{plural(len(slots), 'logical slot')} would be lost in a failover: {names}",
        consequence="the consumer then cannot go on, and must be set up again with all rows",
        cost=len(slots) / len(state.server.slots),
        basis="pg_replication_slots, now",
        remedy=(
            "At the standby: sync_replication_slots = on, hot_standby_feedback = on, "
            "primary_slot_name, and a dbname in primary_conninfo",
            "Where the consumer is a subscription, at the subscriber (its name is usually the "
            "slot's):",
            Command(
                f"ALTER SUBSCRIPTION {first} DISABLE;",
                f"ALTER SUBSCRIPTION {first} SET (failover = true);",
                f"ALTER SUBSCRIPTION {first} ENABLE;",
            ),
        ),
    )


@check(
    "replication-timeout-off",
    judged="wal_sender_timeout is 0 with a standby attached, or wal_receiver_timeout on a standby",
    source="documentation: Replication, wal_sender_timeout and wal_receiver_timeout",
    remedy="Return to the default of 60 s.",
    needs=("standbys", "receiver"),
)
def replication_timeout_off(state: State) -> Iterator[Finding]:
    """The other side of replication may vanish, and nobody notices before the kernel does."""
    for name, used, other in (
        ("wal_sender_timeout", bool(_followers(state)), "a standby"),
        ("wal_receiver_timeout", state.receiver is not None, "the primary"),
    ):
        if used and servers_value(state.server, name) == "0":
            yield Finding(
                id="replication-timeout-off",
                severity=Severity.TO_DO,
                text=f"{name} is 0, so {other} that vanishes is not noticed",
                consequence="the connection stays until the kernel gives it up, which takes from a "
                "quarter of an hour to two hours, and WAL waits so long",
                basis="pg_settings, now",
                remedy=(state.server.platform.remedy(**{name: "'60s'"}), "That is the default"),
            )


@check(
    "dead-clients-stay",
    judged="a session from another host has been idle in a transaction for five minutes, and the "
    "server would notice only after more than five minutes that its client is gone, nor does a "
    "timeout end it before",
    source="documentation: TCP Settings; tcp(7); both times are chosen",
    remedy="Shorter TCP keepalives on the server.",
    needs=("sessions",),
)
def dead_clients_stay(state: State) -> Iterator[Finding]:
    """A client whose host is gone keeps its session, with locks and snapshot, until the server's
    keepalive gives it up: by the kernel's defaults that takes over two hours. Or until a timeout of
    idle sessions or of transactions, if there is one.
    """
    idle, interval, count = (
        _configured(state, f"tcp_keepalives_{part}") or kernel_defaults()[kernel]
        for part, kernel in _KEEPALIVE.items()
    )
    keepalive = Keepalive(idle=idle, interval=interval, count=count)
    noticed = keepalive.ends_after(_configured(state, "tcp_user_timeout"))
    found = [
        one for one in state.sessions
        if one.idle_in_transaction and one.client not in {None, "127.0.0.1", "::1"}
        and (one.state_seconds or 0) >= FORGOTTEN and min(noticed, _timeout(state, one)) > IDLE
    ]  # fmt: skip
    if not found:
        return
    ended = _timeout(state, found[0])
    yield Finding(
        id="dead-clients-stay",
        severity=Severity.TO_KNOW,
        text=f"if {found[0].who} from {found[0].client} is gone, the server "
        + ("notices" if noticed <= ended else "ends it")
        + f" only after {pretty_duration(min(noticed, ended))}",
        consequence="until then its locks stay, and vacuum removes no row that died since it began",
        cost=state.of_connections(len(found)),
        basis="pg_settings and pg_db_role_setting, now; Linux's defaults where keepalives are 0",
        remedy=(
            state.server.platform.remedy(
                tcp_keepalives_idle="60", tcp_keepalives_interval="10", tcp_keepalives_count="6"
            ),
        ),
    )


_KEEPALIVE: Final = {
    "idle": "tcp_keepalive_time", "interval": "tcp_keepalive_intvl",
    "count": "tcp_keepalive_probes",
}  # fmt: skip


def _timeout(state: State, session: Session) -> float:
    """After how long the server ends a session that does nothing in its transaction [s]; what its
    client has set itself is hidden.
    """
    found = [inf]
    for name in ("idle_in_transaction_session_timeout", "transaction_timeout"):
        known = state.server.settings.get(name)
        if known is None:  # before 17
            continue
        role, database = session.role, session.database
        places = {
            (one.role, one.database): one.value for one in state.server.overrides
            if one.name == name
        }  # fmt: skip
        # The nearest holds. Source: documentation, ALTER ROLE.
        nearest = ((role, database), (role, None), (None, database), (None, None))
        own = next((places[one] for one in nearest if one in places), None)
        value = own or servers_value(state.server, name) or "0"
        if milliseconds := number(value, known.vartype, known.unit):
            found.append(milliseconds / 1000)
    return min(found)


def _configured(state: State, name: str) -> int:
    """What is configured; `setting` is that of this session, and 0 on a Unix socket."""
    found = state.server.settings.get(name)
    return int(found.reset_val or 0) if found is not None else 0
