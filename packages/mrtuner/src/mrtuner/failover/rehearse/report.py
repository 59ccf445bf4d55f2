"""What a rehearsal measured, in words and as one document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

from mrtuner.facts import Missing
from mrtuner.failover.rehearse.hangs import Hang, hangs, longest
from mrtuner.failover.rehearse.paths import ClientPath
from mrtuner.failover.rehearse.takeover import RehearsalEffect, StaleAnswers, outcome, stale
from mrtuner.rehearsal.client_outages import ClientOutages, outages_by_client
from mrtuner.rehearsal.observation import ProbeKind
from mrtuner.rehearsal.run import Run
from mrtuner.wording import first_upper, plural, plural_was


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed:
    """One way to the server and everything that its clients experienced."""

    name: str  # direct, pool
    way: ClientPath
    run: Run
    outcome: RehearsalEffect
    hangs: tuple[Hang, ...]
    stale: StaleAnswers
    clients: tuple[ClientOutages, ...]

    @property
    def failed_over(self) -> bool:
        """Whether there is something to judge: a new server, or the same one restarted, serves."""
        return (
            self.outcome in {RehearsalEffect.MOVED, RehearsalEffect.RESTARTED} and self.run.settled
        )

    @property
    def lost(self) -> int:
        """The number of acknowledged writes that are missing."""
        ledger = self.run.observation.ledger
        return 0 if ledger is None else len(ledger.lost)

    @property
    def uncounted(self) -> bool:
        """Whether writes were sent that could not be counted afterwards."""
        seen = self.run.observation
        return seen.ledger is None and any(kind.writes for kind in seen.kinds)

    def unjudged(self, within: float | None) -> Iterator[Missing]:
        """Yield the cases that no probe experienced: whether a client hangs is not known."""
        for one in self.hangs:
            if within is not None and one.within(within) is None:
                yield Missing(f"{self.name}: {one.case.words}", "no probe experienced the outage")

    def kept(self, within: float | None) -> bool:
        """Whether no wait exceeded `within` [s], and every write is there once.

        False, too, if an old primary acknowledged writes, or if writes could not be counted.
        """
        slow = within is not None and any(one.within(within) is False for one in self.hangs)
        ledger = self.run.observation.ledger
        astray = ledger is not None and bool(ledger.lost or ledger.duplicated)
        return not slow and not astray and not self.uncounted and not self.stale.writes


def rehearsed(name: str, way: ClientPath, run: Run) -> Rehearsed:
    seen, asked = run.observation, run.asked
    return Rehearsed(
        name=name,
        way=way,
        run=run,
        outcome=outcome(seen, asked),
        hangs=hangs(seen, asked, way.predictions),
        stale=stale(seen, asked),
        clients=outages_by_client(seen, asked),
    )


def moments(one: Rehearsed) -> dict[str, float | None]:
    """The turning points [s], counted from the trigger; None: it did not happen."""
    asked, attempts = one.run.asked, one.run.observation.attempts
    fresh = [client for client in one.clients if not client.kind.held]
    failures = [client.first_failure for client in one.clients if client.first_failure is not None]
    last = [client.last_success for client in one.clients if client.last_success is not None]
    again = [each for each in attempts if each.kind.held and each.fresh and each.answered]
    found = {
        "last_success": max(last, default=None),
        "first_failure": min(failures, default=None),
        "reconnect": min((each.ended - asked for each in again if each.sent > asked), default=None),
    }
    for client in fresh:
        if client.kind in {ProbeKind.READ, ProbeKind.WRITE}:
            found[f"first_{client.kind}"] = client.first_success
    return found


# In words.


def headline(one: Rehearsed, within: float | None) -> str:
    """The decisive sentence."""
    if not one.failed_over:
        return _outcome(one)
    return (*_lost(one), *_old_writes(one), *_waited(one, within))[0]


def findings(one: Rehearsed, within: float | None) -> Iterator[str]:
    """Sentences: whether it failed over, how long that took, and whether it kept to the bound."""
    yield _outcome(one)
    if one.outcome is RehearsalEffect.NOTHING:
        return
    yield from _away(one)
    yield from _waited(one, within)
    yield from _lost(one)
    yield from _ledger(one)
    yield from _old_writes(one)
    yield from _astray(one)


def _outcome(one: Rehearsed) -> str:
    if not one.run.settled and one.outcome is not RehearsalEffect.NOTHING:
        return "Service had not recovered when the rehearsal stopped waiting."
    return {
        RehearsalEffect.MOVED: "Another server took over.",
        RehearsalEffect.RESTARTED: "The server at the same address was restarted.",
        RehearsalEffect.INTERRUPTED: "Nothing failed over: clients met errors, but the same server "
        "answers as before.",
        RehearsalEffect.NOTHING: "Nothing failed over: every probe was answered in time, by the "
        "same server as before. No outage was measured.",
    }[one.outcome]


def _away(one: Rehearsed) -> Iterator[str]:
    """How long new connections went without answers, which does not depend on a timeout of ours."""
    fresh = [client for client in one.clients if client.kind in {ProbeKind.READ, ProbeKind.WRITE}]
    worst = max(fresh, key=lambda one: inf if one.most is None else one.most, default=None)
    if worst is None:
        yield "No new connection failed."
    elif worst.most is None:
        yield f"{first_upper(worst.kind.words)}: no answers until the probes ended."
    else:
        yield (
            f"New connections got no answers for {worst.least:.1f} to {worst.most:.1f} s "
            f"({worst.kind.words})."
        )


def _waited(one: Rehearsed, within: float | None) -> Iterator[str]:
    worst = longest(one.hangs)
    if worst is None:
        yield "No client had to wait."
        return
    waited = f"{'more than ' if worst.at_least else ''}{worst.longest:.1f} s ({worst.case.words})"
    if within is None:
        yield f"The longest wait of a client was {waited}."
    elif worst.within(within):
        yield f"Within {within:g} s: no client waited longer than {waited}."
    else:
        yield f"NOT within {within:g} s: a client waited {waited}."


def _lost(one: Rehearsed) -> Iterator[str]:
    if one.lost:
        yield f"{plural_was(one.lost, 'write')} LOST after they had been acknowledged."
    if one.uncounted:
        yield "Writes could not be counted afterwards, so it is unknown whether any were lost."


def _ledger(one: Rehearsed) -> Iterator[str]:
    ledger = one.run.observation.ledger
    if ledger is None:
        return
    if not ledger.lost:
        yield f"No acknowledged write was lost ({ledger.acknowledged} were acknowledged)."
    if ledger.unacknowledged:
        yield (
            f"{plural_was(ledger.unacknowledged, 'write')} committed although the client got "
            "an error: a blind retry would have written twice."
        )
    if ledger.duplicated:
        yield f"{plural_was(len(ledger.duplicated), 'write')} found more than once."


def _old_writes(one: Rehearsed) -> Iterator[str]:
    if one.stale.writes:
        yield (
            f"{plural_was(one.stale.writes, 'write')} acknowledged by the OLD primary after the "
            "new one served."
        )


def _astray(one: Rehearsed) -> Iterator[str]:
    found = one.stale
    if found.reads:
        yield f"A server other than the new primary still answered {plural(found.reads, 'read')}."
    if found.refused:
        yield f"A read-only server refused {plural(found.refused, 'write')}."


def limits(found: Sequence[Rehearsed]) -> Iterator[str]:
    """What must not be concluded from a rehearsal."""
    yield (
        "--within limits how long a client waits for one answer or error, as `failover settings` "
        "does; it does not limit how long the database is unavailable."
    )
    yield (
        "Predictions are for a server that vanishes silently. Clients that get an error at once "
        "wait less, which does not prove that the settings would have limited a silent hang."
    )
    yield (
        "The probes reconnect at once and resolve the name each time. Cached names, delays "
        "between retries and slow start-up of applications add to this. Only the probes were "
        "running: under load, recovery takes longer."
    )
    for one in found:
        yield from _of_probes(one)


def _of_probes(one: Rehearsed) -> Iterator[str]:
    seen = one.run.observation
    if one.way.between:
        yield (
            f"{first_upper(one.name)}: {one.way.between} stands in between, so predictions are "
            "for connections to it, not for its own connections to the server."
        )
    if one.way.unpredicted:
        yield f"{first_upper(one.name)}: no prediction, because {one.way.unpredicted}."
    if seen.lag > seen.interval:
        yield (
            f"This machine sent probes up to {seen.lag:.1f} s late, so the figures are less "
            "precise."
        )
    if seen.skipped:
        yield (
            f"{first_upper(one.name)}: {plural_was(seen.skipped, 'probe')} skipped because too "
            "many were still without an answer (--connections)."
        )
    if seen.left_behind:
        yield f"The schema {seen.left_behind} could not be dropped; drop it yourself."
