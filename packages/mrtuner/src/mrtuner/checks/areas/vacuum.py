"""Vacuum: wraparound, what holds it back, and whether it keeps up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from mrtuner.checks.areas.storage import from_tuning
from mrtuner.checks.catalogue import CannotJudge, check, known_part
from mrtuner.checks.state import MEMBERS, UNLIMITED, State
from mrtuner.findings import SLIGHT, UNKNOWN, Command, Finding, Severity
from mrtuner.postgres.quoting import identifier
from mrtuner.tuning.overrides import servers_value
from mrtuner.units import pretty_duration
from mrtuner.vacuum.assess import costs_unknown
from mrtuner.vacuum.commands import qualified
from mrtuner.vacuum.storage_parameters import ENABLED, is_off
from mrtuner.vacuum.text import age_words
from mrtuner.wording import as_name, plural

if TYPE_CHECKING:
    from mrtuner.vacuum import Vacuum
    from mrtuner.vacuum.model import (
        Counter,
        HorizonBlocker,
        Kept,
        Table,
        TableReport,
        ToastTable,
        Work,
        WraparoundDistance,
    )

ROUTINE: Final = "documentation: Routine Vacuuming"
#: From this age on, 14 and later drop everything but freezing. Source: documentation, Vacuuming.
_FAILSAFE: Final = 1_600_000_000
_FAILSAFES: Final[dict[Counter, str]] = {
    "transaction IDs": "vacuum_failsafe_age",
    "multixact IDs": "vacuum_multixact_failsafe_age",
}
#: A pace counted over less than a day may be that of a load, not of a day [s].
_DAY: Final = 86_400.0
_WEEK: Final = 7 * _DAY
#: Beyond the age at which a vacuum is forced by this much, the vacuum does not get done.
_OVERDUE: Final = 1.25
#: Dead rows above this multiple of what starts a vacuum, and above this number.
_BACKLOG: Final = 3.0
_SOME: Final = 50_000
#: Autovacuum has not come for so many rounds: it does not come. Chosen.
_ROUNDS: Final = 3
_SHOWN: Final = 5
#: How many transaction IDs may be in use. Source: documentation, Routine Vacuuming.
_IDS: Final = 2**31
#: Members of multixacts, the share from which each vacuum freezes all of them, and a larger one.
_MEMBERS: Final = 2**32
_CROWDED: Final = 0.75
_NEARLY_FULL: Final = 0.875
#: The least cost of what keeps dead rows, however few so far: they pile up until it ends.
_PILES_UP: Final = 2 * SLIGHT


def _vacuum(state: State) -> Vacuum:
    return known_part(state, "vacuum", state.vacuum)


def _counted_for(found: Vacuum) -> float:
    return found.picture.samples[-1].moment.counted_for


@check(
    "wraparound",
    judged="the oldest ID is a quarter older than the age at which a vacuum is forced (danger: "
    "also older than vacuum_failsafe_age, or the server stops within a week)",
    source=f"{ROUTINE}, Preventing Transaction ID Wraparound Failures",
    remedy="End what holds back vacuum, then VACUUM (FREEZE) the oldest tables.",
    of_primary=True,
)
def wraparound(state: State) -> Iterator[Finding]:
    """Transaction or multixact IDs run out: before that, the server refuses to write at all."""
    found = _vacuum(state)
    for one in found.wraparound:
        # Forced vacuums keep up before that age, however many IDs are used.
        late = _late_from(state, one)
        if one.age < min(late, one.forced_at * _OVERDUE):
            continue
        left = one.to_stop if _counted_for(found) >= _DAY or one.age >= late else None
        severe = one.age >= late or (left is not None and left < _WEEK)
        pace = f", {pretty_duration(left)} at this pace" if left is not None else ""
        yield Finding(
            id="wraparound",
            severity=Severity.DANGER if severe else Severity.TO_DO,
            text=f"{one.stops_at - one.age:,} {one.what} are left in database "
            f"{as_name(one.database)}{pace}",
            consequence="the server then accepts no statement that writes",
            harm_in=left,
            cost=one.age / one.stops_at,
            basis="age of pg_database, now" + (f"; the pace is {one.certainty}" if pace else ""),
            remedy=tuple(_frozen(state, one)),
        )


def _late_from(state: State, one: WraparoundDistance) -> float:
    """The age from which on vacuum does nothing but freeze, and is overdue as well; not later than
    by default, since a higher setting gives no more room.

    Source: vacuum.c, vacuum_xid_failsafe_check.
    """
    age = servers_value(state.server, _FAILSAFES[one.what])  # autovacuum's, not our session's
    return min(max(int(age), one.forced_at * _OVERDUE), _FAILSAFE) if age else _FAILSAFE


def _frozen(state: State, one: WraparoundDistance) -> Iterator[str]:
    """What makes a database younger. One that nobody may enter is vacuumed by autovacuum alone, as
    template0 is.
    """
    database = one.database
    open_ = {one.name for one in state.limits if one.kind == "database"}
    if open_ and database not in open_:
        yield Command(f"ALTER DATABASE {identifier(database)} ALLOW_CONNECTIONS true;")
    of_ids = one.what == "transaction IDs"
    found = _vacuum(state).picture
    for blocker in found.blockers:
        # A horizon that is younger lets vacuum bring the age below where it is forced.
        far = (blocker.age or 0) >= one.forced_at
        if far if of_ids else blocker.serious and not blocker.replicates:
            yield f"First end what holds back vacuum: {blocker.what} {blocker.name}"
            yield blocker.remedy
            if blocker.sql:
                yield Command(blocker.sql)
    yield f"In database {as_name(database)}, VACUUM (FREEZE) the oldest tables:"
    if database == found.database:
        ages = {
            qualified(table): table.age if of_ids else table.multixact_age
            for table in found.samples[-1].tables
        }
        oldest = sorted(ages, key=lambda name: -ages[name])[:_SHOWN]
        yield from (
            Command(f"VACUUM (FREEZE) {name};") for name in oldest if ages[name] >= one.forced_at
        )
        yield "Then those that are the oldest still, of the catalogs too:"
    age = "age(relfrozenxid)" if of_ids else "mxid_age(relminmxid)"
    yield Command(
        f"SELECT oid::regclass, {age} FROM pg_class "  # noqa: S608 - one of two texts
        "WHERE relkind IN ('r', 'm', 't') ORDER BY 2 DESC LIMIT 20;"
    )


@check(
    "multixact-members",
    judged="before 19: the members of multixacts that are kept are three quarters (danger: seven "
    "eighths) of the 2^32 that there are; where the role may list their files",
    source="multixact.c, MultiXactMemberFreezeThreshold; the larger share is chosen",
    remedy="End old transactions, then VACUUM (FREEZE) the tables with the oldest ones.",
    of_primary=True,
)
def multixact_members(state: State) -> Iterator[Finding]:
    """Where many transactions lock the same rows at once, as by foreign keys, the members of
    multixacts run out long before their IDs: each statement that needs one more then fails.
    """
    oldest = next((one for one in _vacuum(state).wraparound if one.what == "multixact IDs"), None)
    if oldest is None or state.server.major >= UNLIMITED:
        return
    if state.members is None:
        sessions = sum(
            int(state.setting(name) or 0)
            for name in ("max_connections", "max_prepared_transactions")
        )
        if 2 * sessions * oldest.age < _CROWDED * _MEMBERS:
            return
        missing = state.missing.get(MEMBERS)
        why = f"could not be read: {missing.why}" if missing else "the role may not see"
        hint = missing.supply if missing else _SEE_MEMBERS
        if state.server.platform.hosted:
            why, hint = "only the provider sees", "End old transactions, or ask the provider."
        raise CannotJudge(
            f"{oldest.age:,} multixacts are in use, and how many members they have {why}", hint
        )
    share = state.members / _MEMBERS
    if share < _CROWDED:
        return
    yield Finding(
        id="multixact-members",
        severity=Severity.DANGER if share >= _NEARLY_FULL else Severity.TO_DO,
        text=f"{share:.0%} of the {_MEMBERS:,} members of multixacts are in use",
        consequence="without any left, each statement fails that shares a lock on a row",
        cost=share,
        basis="files in pg_multixact/members, now",
        remedy=(
            f"In database {as_name(oldest.database)}: end old transactions (horizon-held), then "
            "VACUUM (FREEZE) the tables with the oldest multixacts:",
            Command(
                "SELECT oid::regclass, mxid_age(relminmxid) FROM pg_class "
                "WHERE relkind IN ('r', 'm', 't') ORDER BY 2 DESC LIMIT 20;"
            ),
        ),
    )


_SEE_MEMBERS: Final = (
    "GRANT EXECUTE ON FUNCTION pg_ls_dir(text) TO the role, in this database, or connect as a "
    "superuser."
)


@check(
    "horizon-held",
    judged="vacuum must keep rows for an idle session of five minutes (of one minute, if its "
    "snapshot is 100,000 transactions back), one that has worked for an hour, a prepared "
    "transaction of five minutes, or whatever else is 100,000 transactions back, in any database "
    "(or, if more, as many as the server uses up in a minute while it is checked); or a temporary "
    "table is older than the age at which a vacuum is forced; danger: it is vacuum_failsafe_age "
    "transactions back",
    source="procarray.c, ComputeXidHorizons; autovacuum.c, do_autovacuum; the limits are chosen",
    remedy="End the session or the prepared transaction, or drop the slot.",
    needs=("sessions", "what holds back dead rows"),
    of_primary=True,
)
def horizon_held(state: State) -> Iterator[Finding]:
    """Vacuum cannot remove dead rows, since a session, a prepared transaction, a slot or a standby
    may still need them. Tables and indexes grow, and queries slow down, until it ends. Nor can it
    freeze a temporary table of a session that lasts.
    """
    dead = max((one.share for one in _late(state)), default=0.0)
    distances = _vacuum(state).wraparound
    late = next((_late_from(state, one) for one in distances), _FAILSAFE)
    for one in _vacuum(state).picture.blockers:
        if one.serious:
            kept = dead if one.keeps == "dead rows" else 0.0
            yield Finding(
                id="horizon-held",
                severity=Severity.DANGER if (one.age or 0) >= late else Severity.TO_DO,
                text=f"{one.what} keeps {one.keeps}: {one.name}{age_words(one)}",
                consequence=_CONSEQUENCES[one.keeps],
                cost=max(
                    kept,
                    UNKNOWN if one.age is None else min(1.0, max(_PILES_UP, one.age / _IDS)),
                ),
                since=None if one.seconds is None else state.at - one.seconds,
                basis="pg_stat_activity, pg_prepared_xacts and pg_replication_slots, now",
                remedy=(one.remedy, *([Command(one.sql)] if one.sql else [])),
            )


_CONSEQUENCES: Final[dict[Kept, str]] = {
    "dead rows": "vacuum removes no row that died since, and tables grow",
    "dead rows of catalogs": "vacuum removes no catalog row that died since, and catalogs grow",
    "dead rows of another database": "vacuum there removes no row that died since, and the oldest "
    "transaction ID of the server stays",
    "transaction IDs": "vacuum cannot prevent wraparound, before which the server refuses to write",
}


@check(
    "vacuum-behind",
    judged="a table or its TOAST table has 50,000 dead rows and three times as many as start a "
    "vacuum, or vacuum needs more than the cost limit allows, counted over a day at least; to "
    "know, if nothing shows that autovacuum will not come in its next round",
    source=f"{ROUTINE}, The Autovacuum Daemon; the multiple is chosen",
    remedy="The settings that mrtuner vacuum computes, and a VACUUM now.",
    needs=("rates", "overdue"),
    of_primary=True,
)
def vacuum_behind(state: State) -> Iterator[Finding]:
    """Dead rows are made faster than vacuum removes them: tables grow, and queries slow down.

    Autovacuum may be off for a table, or held back. Rows that have just died wait for its next
    round.
    """
    found = _vacuum(state)
    late = _late(state)
    settled = [one for one in late if one.settled]
    if settled:
        yield _behind(state, settled, f"a vacuum is overdue on {_most(settled)}")
    if fresh := [one for one in late if not one.settled]:
        nap = pretty_duration(state.naptime)
        yield replace(
            _behind(state, fresh, f"a vacuum is due on {_most(fresh)}"),
            severity=Severity.TO_KNOW,
            consequence=f"{_GROWS}, until autovacuum has come, as a rule within {nap}",
        )
    used = found.capacity.used or 0.0
    if not settled and (costs := costs_unknown(found.picture)):
        raise CannotJudge(costs.why, costs.hint)
    if settled or used <= 1:
        return
    needs = f"vacuum needs {used:.1f} times what its cost limit allows"
    if not found.recorded and _counted_for(found) < _DAY:
        counted = pretty_duration(_counted_for(found))
        raise CannotJudge(
            f"{needs}, at the pace of {counted} of statistics",
            "Ask again when they are a day old, or measure: mrtuner vacuum --watch 15m.",
        )
    yield replace(_behind(state, [], needs), cost=1 - 1 / used)


_GROWS: Final = "tables and indexes grow, and queries read dead rows"


def _most(late: Sequence[_Late]) -> str:
    tables = plural(len({one.table.oid for one in late}), "table")
    return f"{tables}, with up to {late[0].dead:,} dead rows ({late[0].name})"


def _behind(state: State, late: Sequence[_Late], text: str) -> Finding:
    return Finding(
        id="vacuum-behind",
        severity=Severity.TO_DO,
        text=text,
        consequence=_GROWS,
        cost=max((one.share for one in late), default=UNKNOWN),
        evidence=tuple(
            f"{one.name}: {one.dead:,} dead rows of {one.live:,} live; a vacuum is due at "
            f"{one.due:,.0f}"
            + (f"; {one.option} is off" if one.off else "")
            + ("; the last vacuum left them" if one.keeper else "")
            for one in late[:_SHOWN]
        ),
        basis="pg_stat_all_tables, now; rates are those of each table's busiest day in the history"
        if _vacuum(state).recorded
        else "pg_stat_all_tables, counters since the last reset",
        remedy=tuple(_caught_up(state, late)),
    )


def _caught_up(state: State, late: Sequence[_Late]) -> Iterator[str]:
    """What lets vacuum come, and succeed, before the one that is run now."""
    keepers = _keepers(state)
    named: dict[str, HorizonBlocker] = {}
    for keeper in (*keepers, *(one.keeper for one in late if one.keeper)):
        named.setdefault(keeper.name, keeper)
    for blocker in named.values():
        told = " (horizon-held)" if blocker in keepers else ""
        yield (
            f"End what keeps the rows first, or VACUUM removes none{told}: {blocker.what} "
            f"{blocker.name}"
        )
        if blocker.sql:
            yield Command(blocker.sql)
    off = [f"{qualified(one.table)} RESET ({one.option})" for one in late[:_SHOWN] if one.off]
    for text in dict.fromkeys(off):
        yield Command(f"ALTER TABLE {text};")
    yield "mrtuner vacuum, which computes settings for the server and for each table"
    for one in late[:1]:
        yield Command(f"VACUUM {qualified(one.table)};")


def _keepers(state: State) -> list[HorizonBlocker]:
    return [
        one for one in _vacuum(state).picture.blockers if one.serious and one.keeps == "dead rows"
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Late:
    """A table, or its TOAST table, with many more dead rows than start a vacuum."""

    table: Table
    name: str
    dead: int
    live: int
    due: float
    option: str  # that switches autovacuum off for it
    off: bool
    keeper: HorizonBlocker | None  # what kept rows when a vacuum last came, and still does
    settled: bool  # whether the next round of autovacuum is known not to come, or not to be enough

    @property
    def share(self) -> float:
        return self.dead / (self.dead + self.live)


def _late(state: State) -> list[_Late]:
    """The tables, those with most dead rows first."""
    found = _vacuum(state)
    waits = {one.oid: one for one in state.overdue}
    rounds = _ROUNDS * state.naptime
    # No worker comes at all, all of them are at work, or they cannot remove anything.
    held = (
        found.picture.settings.get("autovacuum") == "off"
        or any(one.busy for one in state.overdue)
        or bool(_keepers(state))
    )

    def waited(one: TableReport) -> bool:
        wait = waits.get(one.table.oid)
        return wait is not None and (wait.seconds or 0) > rounds

    def outlived(one: TableReport) -> HorizonBlocker | None:
        """The oldest transaction without work that has outlasted a vacuum of the table and a round,
        if that vacuum is known to have left rows: they died since it began, so the next one leaves
        them, too.
        """
        wait = waits.get(one.table.oid)
        if wait is None or wait.vacuumed is None or wait.survived < _SOME:
            return None
        there = [
            each for each in found.picture.young
            if each.keeps == "dead rows" and each.what != "long transaction"
            and (each.seconds or 0) > max(wait.vacuumed, state.naptime)
        ]  # fmt: skip
        return max(there, key=lambda each: each.age or 0, default=None)

    def late(one: TableReport, toast: ToastTable | None, work: Work) -> Iterator[_Late]:
        counts = toast or one.table
        if counts.dead < _SOME or counts.dead < _BACKLOG * work.trigger:
            return
        # A TOAST table without options has those of its table. Source: autovacuum.c.
        options = (toast.options if toast else None) or one.table.options
        off = is_off(options, ENABLED)
        own = toast is not None and bool(toast.options)
        keeper = None if toast else outlived(one)
        yield _Late(
            table=one.table,
            name=as_name(one.table.schema, one.table.name)
            + (", its TOAST table" if toast else ""),
            dead=counts.dead, live=counts.live, due=work.trigger,
            option=f"toast.{ENABLED}" if own else ENABLED, off=off,
            keeper=keeper,
            settled=off or held or bool(keeper) or (toast is None and waited(one)),
        )  # fmt: skip

    return sorted(
        (
            each
            for one in found.tables
            for toast, work in ((None, one.now), (one.table.toast, one.toast_now))
            if work is not None
            for each in late(one, toast, work)
        ),
        key=lambda one: -one.dead,
    )


@check(
    "autovacuum-off",
    judged="autovacuum or track_counts is off, or there are more workers than slots",
    source=f"{ROUTINE}, The Autovacuum Daemon",
    remedy="Switch it on; give the workers their slots.",
)
def autovacuum_off(state: State) -> Iterator[Finding]:
    """Autovacuum does not run, or with fewer workers than set."""
    yield from from_tuning(state, "autovacuum-off")
