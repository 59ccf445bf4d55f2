"""Apply settings to a running server, undo them, and clean up after an interruption.

The three functions share one transaction (settings_transaction.py) and one journal. Each either
reaches its target or restores the previous state, and reports which. `plan` shows what `apply`
would do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mrtuner.change.journal import Journal, refuse_other
from mrtuner.change.record import Change, Outcome
from mrtuner.change.settings import live
from mrtuner.change.settings.draft import draft, off, start_after
from mrtuner.change.settings.live import Identity, InForce
from mrtuner.change.settings.next_start import next_start, unloaded, written
from mrtuner.change.settings.plan import LeftAlone, SettingsPlan, SettingStep, Wanted, plan
from mrtuner.change.settings.restart import NEVER, Restart
from mrtuner.change.settings.settings_transaction import SettingsTransaction
from mrtuner.change.settings.standbys import Standby, behind, raised
from mrtuner.change.settings.start_check import check_start
from mrtuner.change.settings.stopped import StoppedUndo
from mrtuner.change.settings.undo_draft import undo_draft
from mrtuner.change.transaction import Observer, StepName, unobserved
from mrtuner.errors import MAY_BE_DOWN, ConnectError, Refused, UsageError
from mrtuner.postgres.connect import connect, masked, resolved
from mrtuner.postgres.read_server import read
from mrtuner.wording import enumerated

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection

__all__ = [
    "NEVER",
    "Fits",
    "LeftAlone",
    "Outcome",
    "Restart",
    "SettingStep",
    "SettingsPlan",
    "Standby",
    "Wanted",
    "apply",
    "checked",
    "finish_or_revert_settings",
    "plan",
    "undo",
]  # fmt: skip

#: Whether these values (configuration text, by name) may be in force together.
Fits = Callable[[Mapping[str, str]], bool]


def _anything_fits(values: Mapping[str, str]) -> bool:  # noqa: ARG001
    return True


def apply(
    dsn: str,
    plan: SettingsPlan,
    journal: Journal,
    *,
    restart: Restart = NEVER,
    conf_dir: Path | None = None,
    fits: Fits = _anything_fits,
    standbys: Sequence[Standby] = (),
    proof: bool = False,
    at: Observer = unobserved,
) -> Outcome:
    """Carry out a plan: write, reload or restart, verify in a new session.

    Without a restart, settings that need one are written and stay pending; `fits` decides whether
    the others may be in force together with the old values until then. With `conf_dir`, an include
    file in that directory is written instead of ALTER SYSTEM. What must rise on the `standbys`
    first is raised there by changes of their own. An earlier, interrupted change is cleaned up
    first. `proof` marks the change in the journal as made for a measurement.

    Raises Refused or MissingPart before anything is changed; ApplyError afterwards, with the
    settings restored unless its message says otherwise.
    """
    _refuse_unsafe(plan, restart, fits)
    finish_or_revert_settings(dsn, journal, restart=restart, at=at)
    if not plan.steps:
        return Outcome(result="nothing")
    with _session(dsn, journal) as (conn, who):
        wanted = replace(draft(conn, who, plan, restart, conf_dir), proof=proof)
        start = start_after(conn, wanted)
        check_start(conn, start, standbys).refuse()
        _raise_first(standbys, raised(start), journal, at)
        change = _carry_out(dsn, journal, wanted, restart, at, conn)
    waiting = () if change.restarts else tuple(step.name for step in plan.restart)
    return Outcome(result="applied", change=change.id, changed=change.names, waiting=waiting)


def undo(
    dsn: str,
    journal: Journal,
    *,
    restart: Restart = NEVER,
    fits: Fits = _anything_fits,
    standbys: Sequence[Standby] = (),
    force: bool = False,
    proof: bool = False,
    only: int | None = None,
    at: Observer = unobserved,
) -> Outcome:
    """Undo the latest change of this server: remove the entries it added, restore the others.

    Refused, with the names, if someone has changed one of its settings since, unless `force`; and
    if the change is not the one with the number `only`, which is what somebody agreed to.
    With `proof`, it is the latest that a measurement made, even if there are others since. What a
    measurement put into force must not stay: it is restored whatever the files are like, except
    for what someone has changed since, which the outcome names.
    UsageError if the journal has no change to undo. Otherwise like `apply`. An interrupted change
    counts as the latest: if cleaning up has already reverted it, the change before it is kept.
    """
    recovered = finish_or_revert_settings(dsn, journal, restart=restart, at=at)
    if recovered is not None and recovered.change_is_undone:
        return recovered
    with _session(dsn, journal) as (conn, who):
        done = journal.measured(who.server) if proof else journal.last(who.server)
        if done is None:
            raise UsageError(
                "nothing to undo: the journal has no change of this server",
                "If another journal was used, name it with --journal.",
            )
        refuse_other(done, only)
        if done.proof and not done.restarts and not force:
            return _put_back(SettingsTransaction(dsn, journal, done, restart, at, conn))
        wanted, mixture = undo_draft(conn, who, done, restart, force)
        _refuse_mixture(mixture, fits)
        start = start_after(conn, wanted)
        # It has run with these, and took whom there was a place for.
        check_start(conn, start, standbys, tries=False, room=False).refuse()
        _raise_first(standbys, raised(start), journal, at)
        change = _carry_out(dsn, journal, wanted, restart, at, conn)
    waiting = _still_waiting(dsn, done)
    return Outcome(result="undone", change=done.id, changed=change.names, waiting=waiting)


def _put_back(transaction: SettingsTransaction) -> Outcome:
    """Take back what a measurement put into force, entry by entry."""
    names = transaction.change.names
    with closing(transaction):
        done = transaction.put_back()
    left = tuple(name for name in names if name not in done.changed)
    return replace(done, result="undone", left=left)


def finish_or_revert_settings(
    dsn: str,
    journal: Journal,
    *,
    restart: Restart = NEVER,
    at: Observer = unobserved,
) -> Outcome | None:
    """Finish or revert this server's interrupted change; None if there is none.

    A change whose target is already in force is finished; any other is reverted. A server that
    is down gets its old file back if that is on this machine, and is started if `restart` says how.
    """
    try:
        conn = connect(dsn)
    except ConnectError as error:
        change = journal.unfinished_at(address_of(dsn))
        if change is None or error.cause not in MAY_BE_DOWN:
            raise
        kind = SettingsTransaction if change.undoes is None else StoppedUndo
        transaction = kind(dsn, journal, change, restart, at, None)
        with journal.hold(change.server), closing(transaction):
            if not isinstance(transaction, StoppedUndo):
                return transaction.put_back()
            if not transaction.stopped_here():
                raise
            return transaction.finish_or_put_back()
    with closing(conn):
        who = live.identify(conn)
        if journal.unfinished(who.server) is None:
            return None
        with journal.hold(who.server):
            live.lock(conn)
            change = journal.unfinished(who.server)
            if change is None:
                return None
            with closing(
                SettingsTransaction(dsn, journal, change, restart, at, conn)
            ) as transaction:
                return transaction.finish_or_revert()


def checked(
    dsn: str, plan: SettingsPlan, *, restarts: bool, standbys: Sequence[Standby] = ()
) -> SettingsPlan:
    """The plan with what would keep the server from starting, and what cannot be checked.

    And with what the files set already: that may be somebody's, and not in force yet, as may be
    what comes into force with it.
    `restarts` says whether the server may be restarted for it. `apply` checks again, and tries a
    start where it can.
    """
    if plan.elsewhere or not plan.steps:
        return plan
    wanted = {step.name: step.value for step in plan.steps}
    due = restarts and bool(plan.restart)
    with closing(connect(dsn)) as conn:
        start = next_start(conn, wanted, live.AUTO_CONF, restarts=due)
        found = check_start(conn, start, standbys, tries=False)
        there, reloaded = written(conn, wanted), unloaded(conn, wanted)
        steps = plan.steps
        if there is not None:
            steps = tuple(
                _seen(conn, step, start.running[step.name], there.get(step.name)) for step in steps
            )
    return replace(
        plan, steps=steps, refused=plan.refused + found.problems, unchecked=found.unchecked,
        reloaded=reloaded,
    )  # fmt: skip


def _seen(conn: Connection, step: SettingStep, row: InForce, value: str | None) -> SettingStep:
    """The step with what the files set now, and a note if that is neither in force nor wanted."""
    known = value is None or row.hidden or row.gives(value) or row.same(value, step.value)
    if known or live.shown(conn, row, value or "") == row.setting:
        return replace(step, written=value or "")
    note = f"replaces {value or 'an empty value'}, which the files set but is not in force yet"
    return replace(step, written=value or "", notes=(*step.notes, note))


def _raise_first(
    standbys: Sequence[Standby], wanted: dict[str, str], journal: Journal, at: Observer
) -> None:
    """Raise on each standby what its primary will have, and restart it. ApplyError if one fails."""
    for standby in standbys:
        if not (low := behind(standby, wanted)):
            continue
        at(StepName(f"standby {masked(standby.dsn)}: raise {enumerated(one.name for one in low)}"))
        with closing(connect(standby.dsn)) as conn:
            there = plan(read(conn), low)
        apply(standby.dsn, there, journal, restart=standby.restart, at=at)


# Refusals.


def _refuse_unsafe(plan: SettingsPlan, restart: Restart, fits: Fits) -> None:
    if plan.elsewhere:
        raise Refused("settings cannot be changed with ALTER SYSTEM here", plan.elsewhere)
    if plan.refused:
        raise Refused("; ".join(one.why for one in plan.refused), plan.refused[0].hint)
    if plan.reload and plan.restart and restart.run is None:
        _refuse_mixture(
            {step.name: step.before if step.restart else step.value for step in plan.steps}, fits
        )


def _refuse_mixture(values: Mapping[str, str], fits: Fits) -> None:
    if values and not fits(values):
        raise Refused(
            "until the server restarts, the new values that need no restart would not fit "
            "in memory with the old ones",
            "Allow a restart: --restart 'COMMAND'.",
        )


# Carrying out.


@contextmanager
def _session(dsn: str, journal: Journal) -> Iterator[tuple[Connection, Identity]]:
    """Open a session that locks the server against every other MrTuner process."""
    with closing(connect(dsn)) as conn:
        who = live.identify(conn)
        with journal.hold(who.server):
            live.lock(conn)
            yield conn, who


def _still_waiting(dsn: str, done: Change) -> tuple[str, ...]:
    with connect(dsn) as conn:
        rows = live.in_force(conn, done.names)
    return tuple(one.name for one in done.entries if one.restart and off(one, rows))


def _carry_out(
    dsn: str,
    journal: Journal,
    wanted: Change,
    restart: Restart,
    at: Observer,
    conn: Connection,
) -> Change:
    change = journal.begin(wanted)
    with closing(SettingsTransaction(dsn, journal, change, restart, at, conn)) as transaction:
        transaction.carry_out()
    return change


def address_of(dsn: str) -> str:
    """How the journal names a server that does not answer: by its address, as libpq finds it."""
    known = {name: each.value for name, each in resolved(dsn).items()}
    host = known.get("host") or known.get("hostaddr") or "/var/run/postgresql"
    return f"{host}:{known.get('port', '5432')}"
