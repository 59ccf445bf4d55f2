"""What a rehearsal measured, and what it does and does not say about production."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mrtuner.rehearsal.client_outages import ClientOutages, outages_by_client
from mrtuner.rehearsal.observation import Observation, ProbeKind
from mrtuner.wording import first_upper, plural_was
from rdstune.fleet.outage import FAILOVERS, Deployment
from rdstune.fleet.rehearsal import AVAILABLE, RehearsalPlan, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """One run's timings, in seconds after the request to RDS; None: it did not happen."""

    up: float | None  # how long the database stayed up, for example while patching
    first_failure: float | None
    first_read: float | None  # first answered query on a new connection
    first_write: float | None  # first acknowledged write
    available: float | None  # RDS said that the instance is available again
    outages_by_client: tuple[ClientOutages, ...]  # those kinds that noticed anything

    @property
    def longest(self) -> ClientOutages | None:
        """The kind of client that went without an answer for longest."""
        return max(
            self.outages_by_client,
            key=lambda one: float("inf") if one.most is None else one.most,
            default=None,
        )


def phases(run: Run) -> Phases:
    seen = run.observation
    noticed = {one.kind: one for one in outages_by_client(seen, run.asked)}
    began = [gap.began - run.asked for gap in seen.all_gaps()]
    failures = [one.first_failure for one in noticed.values() if one.first_failure is not None]
    return Phases(
        up=min(began, default=None),
        first_failure=min(failures, default=None),
        first_read=noticed[ProbeKind.READ].first_success if ProbeKind.READ in noticed else None,
        first_write=noticed[ProbeKind.WRITE].first_success if ProbeKind.WRITE in noticed else None,
        available=_available(run),
        outages_by_client=tuple(noticed.values()),
    )


def _available(run: Run) -> float | None:
    """Return when the status last became available again."""
    marks = [one for one in run.marks if one.origin == "status"]
    if not marks or marks[-1].text != AVAILABLE:
        return None
    return marks[-1].at - run.asked


# Text.


def verdict(run: Run) -> str:
    """Describe one run in a sentence, also when there was no outage."""
    seen, longest = run.observation, phases(run).longest
    if not seen.went_away:
        return (
            "No outage was measured: every probe was answered in time, and the server's start "
            "time did not change."
        )
    if longest is None:
        return (
            f"The server restarted, but no probe noticed: it was down for less than the "
            f"{seen.interval:g} s between two probes."
        )
    if longest.most is None:
        return f"{first_upper(longest.kind.words)}: no more answers until the probes ended."
    span = f"{longest.least:.1f} to {longest.most:.1f} s"
    return f"Clients got no answer for {span} ({longest.kind.words})."


def why_nothing(run: Run) -> str:
    """Return what to check when there was no outage."""
    if any("abandon" in mark.text.lower() for mark in run.marks):
        return "RDS abandoned the failover because of a recent one: wait, then try again."
    if any(mark.origin == "status" for mark in run.marks):
        return "RDS reported activity, so the connection string may lead to another server."
    return "RDS reported nothing either: it may have queued the work, or be slow to report."


def expectations(drawn: RehearsalPlan, runs: Sequence[Run], *, aws: bool) -> Iterator[str]:
    """Yield what to expect in production, from the measurements and AWS's documentation."""
    measured = [one for run in runs for one in phases(run).outages_by_client]
    if aws:
        yield from _from_durations(measured, len(runs))
    yield from _from_connections(measured)
    yield from _from_documents(drawn)
    yield from _from_ledger(runs)


def _from_durations(measured: Sequence[ClientOutages], runs: int) -> Iterator[str]:
    fresh = [
        one.most for one in measured if one.kind is not ProbeKind.HELD and one.most is not None
    ]
    if fresh:
        several = f", the worst of {runs} runs" if runs > 1 else ""
        yield (
            f"New connections got no answer for up to {max(fresh):.1f} s here{several}. Expect at "
            "least that in production."
        )


def _from_connections(measured: Sequence[ClientOutages]) -> Iterator[str]:
    if any(one.kind is ProbeKind.HELD and one.failed for one in measured):
        yield (
            "Open connections do not survive. A pool that does not check its connections hands "
            "out dead ones, and an application that does not reconnect needs a restart."
        )


def _from_documents(drawn: RehearsalPlan) -> Iterator[str]:
    expected = drawn.expected
    if expected.source:
        said = f"According to AWS, for {_an(drawn.deployment)}"
        yield f"{said}: {expected.words} ({expected.source})."
    else:
        yield f"For {_an(drawn.deployment)}: {expected.words}."
    if not drawn.deployment.fails_over:
        other = FAILOVERS[Deployment.MULTI_AZ]
        yield (
            "If production is a Multi-AZ instance, maintenance causes a failover instead: "
            f"{other.words} ({other.source})."
        )
    if drawn.action is None:
        yield (
            "A forced security patch in 2016 took 10 to 15 minutes in all: about 5 minutes of "
            "patching with the database up, less than a minute of downtime, then a backup. It "
            "took longer when many instances were patched at once."
        )


def _from_ledger(runs: Sequence[Run]) -> Iterator[str]:
    ledgers = [run.observation.ledger for run in runs]
    books = [one for one in ledgers if one is not None]
    lost = sum(len(one.lost) for one in books)
    doubtful = sum(one.unacknowledged for one in books)
    if lost:
        yield (
            f"{plural_was(lost, 'write')} LOST after being acknowledged. Check synchronous_commit "
            "and fsync first."
        )
    elif books:
        kept = sum(one.acknowledged for one in books)
        yield f"No acknowledged write was lost ({kept} were acknowledged)."
    if doubtful:
        yield (
            f"{plural_was(doubtful, 'write')} committed although the client got an error: a blind "
            "retry would have written twice."
        )


def limits(drawn: RehearsalPlan, runs: Sequence[Run], *, aws: bool) -> Iterator[str]:
    """Yield what cannot be concluded from a rehearsal."""
    if not aws:
        yield (
            "This was a stand-in for AWS: it shows sequence and behaviour, but not realistic "
            "durations."
        )
    yield (
        "Only the probes were running. Under load, recovery takes longer: it replays all WAL "
        "since the last checkpoint, and large transactions prolong a failover."
    )
    yield (
        "The probes reconnect at once and resolve the name each time. Cached names, pools, retry "
        "delays and slow application start-up add to the outage."
    )
    if drawn.action is None:
        yield (
            "The server closed its connections, so clients noticed. If a machine or a network "
            "vanishes, clients get no signal, and without timeouts they may hang for many minutes."
        )
        yield "No patch was installed and no engine was upgraded; both take additional time."
    yield from _of_probes([run.observation for run in runs])


def _of_probes(observations: Sequence[Observation]) -> Iterator[str]:
    interval = max(one.interval for one in observations)
    yield f"Each kind of probe ran every {interval:g} s: shorter outages are not visible."
    lag = max(one.lag for one in observations)
    if lag > interval:
        yield (
            f"This machine was busy and sent probes up to {lag:.1f} s late: the figures are less "
            "precise."
        )
    skipped = sum(one.skipped for one in observations)
    if skipped:
        yield f"{plural_was(skipped, 'probe')} skipped because too many were still unanswered."
    for one in observations:
        if one.left_behind:
            yield f"The schema {one.left_behind} could not be dropped: drop it yourself."


def _an(where: Deployment) -> str:
    return {
        Deployment.SINGLE: "a single-AZ instance",
        Deployment.MULTI_AZ: "a Multi-AZ instance",
        Deployment.CLUSTER: "a Multi-AZ DB cluster",
    }.get(where, str(where))
