"""Take an instance down on purpose, and time the outage from the client's side.

Requests a reboot, a reboot with failover, or one of AWS's pending maintenance actions while
open-loop probes run. RDS's own record (status, events) and what clients saw share one timeline.
Refuses instances tagged production.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from mrtuner.aws import rds, session
from mrtuner.aws.rows import Instance, RdsEvent
from mrtuner.aws.session import Account
from mrtuner.errors import MrTunerError, Refused, UsageError
from mrtuner.postgres.connect import resolved
from mrtuner.rehearsal import run as rehearsal
from mrtuner.rehearsal.probes import Probes, Schedule
from mrtuner.rehearsal.production import production_tag
from mrtuner.rehearsal.run import News, RehearsalPatience, Tell
from rdstune.fleet import outage
from rdstune.fleet.outage import Deployment, Outage

__all__ = ["RehearsalPatience", "rehearse"]

AVAILABLE: Final = "available"


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalPlan:
    """What to do to which instance, and what AWS documents about it."""

    instance: Instance
    deployment: Deployment
    failover: bool = False
    action: str | None = None  # a pending maintenance action instead of a reboot
    times: int = 1

    @property
    def what(self) -> str:
        if self.action is not None:
            return f"apply {self.action} immediately"
        return "reboot with failover" if self.failover else "reboot"

    @property
    def expected(self) -> Outage:
        """AWS's own figure for this outage, if it gives one."""
        if self.action is not None:
            return outage.of_action(self.action, self.deployment)
        return outage.of_failover(self.deployment) if self.failover else outage.REBOOT


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(rehearsal.Run):
    """One attempt to take the instance down."""

    zone: str | None  # availability zone afterwards


def plan(
    client: Any,
    identifier: str,
    *,
    failover: bool = False,
    action: str | None = None,
    times: int = 1,
) -> RehearsalPlan:
    """Return what a rehearsal would do, without changing anything.

    Raises Refused for an instance or cluster tagged production, UsageError where there is nothing
    to fail over to or no such action, MrTunerError while the instance is not available.
    """
    instance = rds.instance(client, identifier)
    tags, members = dict(instance.tags), 0
    if instance.cluster:
        cluster = rds.cluster(client, instance.cluster)
        tags, members = {**cluster.tags, **tags}, len(cluster.members)
    if (tag := production_tag(instance.tags) or production_tag(tags)) is not None:
        raise Refused(
            f"{identifier} is tagged {tag}: a rehearsal would take production down",
            "Restore a snapshot to an instance of the same class and rehearse on that.",
        )
    drawn = RehearsalPlan(
        instance=instance,
        deployment=outage.deployment(instance, members),
        failover=failover,
        action=action,
        times=times,
    )
    _check(client, drawn)
    return drawn


def _check(client: Any, drawn: RehearsalPlan) -> None:
    name, status = drawn.instance.identifier, drawn.instance.status
    if drawn.failover and drawn.deployment is not Deployment.MULTI_AZ:
        raise UsageError(
            f"{name} cannot reboot with failover: its deployment is {drawn.deployment}",
            "Only a Multi-AZ instance supports ForceFailover; leave out --failover.",
        )
    if drawn.failover and drawn.action:
        raise UsageError("cannot combine a failover with a maintenance action", "Choose one.")
    if drawn.action and drawn.times > 1:
        raise UsageError("a maintenance action can be applied only once", "Leave out --times.")
    pending = rds.pending_actions(client, drawn.instance.arn) if drawn.action else ()
    if drawn.action and drawn.action not in {one.action for one in pending}:
        raise UsageError(
            f"no maintenance action {drawn.action} is pending for {name}",
            f"List the pending actions with: rdstune maintenance {name}.",
        )
    if status != AVAILABLE:
        raise MrTunerError(
            f"{name} is {status}, and only an available instance can be rebooted",
            "Wait until it is available, then run again.",
        )


def failover_trigger(identifier: str, account: Account) -> Reboot:
    """Return the trigger ``rds:INSTANCE`` of `mrtuner failover rehearse`.

    Raises UsageError without a name, and what `plan` raises: production and what cannot fail over
    are refused before anything else.
    """
    if not identifier:
        raise UsageError("the instance is missing", "Use --trigger rds:INSTANCE.")
    client = session.client("rds", account)
    return Reboot(client, plan(client, identifier, failover=True))


def leads_elsewhere(dsn: str, instance: Instance) -> str | None:
    """Return how the connection string's host or port differs from the instance's, else None.

    The difference may be intended: a custom DNS name, a pooler, a tunnel. Only a restart seen
    through the connection proves that it leads here. The probes will refuse an
    unreadable string.
    """
    try:
        known = resolved(dsn)
    except MrTunerError:
        return None
    host, port = (
        known[name].value if name in known else usual
        for name, usual in (("host", ""), ("port", "5432"))
    )
    if instance.host is None or (host.lower(), port) == (instance.host.lower(), str(instance.port)):
        return None
    return (
        f"the connection string does not name the endpoint of {instance.identifier}, which is "
        f"{instance.host}:{instance.port}"
    )


def rehearse(
    client: Any,
    dsn: str,
    drawn: RehearsalPlan,
    *,
    schedule: Schedule | None = None,
    patience: RehearsalPatience | None = None,
    tell: Tell = lambda _text: None,
) -> tuple[Run, ...]:
    """Carry out the plan, as many times as it says; each run is observed from start to finish.

    Raises MrTunerError, before anything is done, when the server does not answer reliably.
    """
    allowed = patience or RehearsalPatience()
    runs: list[Run] = []
    for number in range(drawn.times):
        if number:
            tell(f"waiting {allowed.between:.0f} s before the next rehearsal")
            time.sleep(allowed.between)
        runs.append(_run(client, dsn, drawn, schedule or Schedule(), allowed, tell))
        if not runs[-1].settled:
            break  # it has not recovered: do not repeat
    return tuple(runs)


def _run(
    client: Any,
    dsn: str,
    drawn: RehearsalPlan,
    schedule: Schedule,
    patience: RehearsalPatience,
    tell: Tell,
) -> Run:
    trigger = Reboot(client, drawn)
    probes = Probes(dsn, schedule, tell=tell)
    (run,) = rehearsal.rehearse(trigger, [probes], patience=patience, tell=tell)
    return Run(
        asked=run.asked,
        accepted=run.accepted,
        settled=run.settled,
        observation=run.observation,
        marks=run.marks,
        zone=trigger.instance.zone,
    )


class Reboot:
    """RDS's side of one run: the request, and the status and events that follow."""

    def __init__(self, client: Any, drawn: RehearsalPlan) -> None:
        self.client, self.plan = client, drawn
        self.instance = drawn.instance
        self._status = drawn.instance.status
        self._since = datetime.now(UTC) - timedelta(minutes=1)  # AWS's clock may differ
        self._known = set(self._events())

    @property
    def words(self) -> str:
        return f"RDS, {self.plan.what}, {self.plan.instance.identifier}"

    @property
    def over(self) -> bool:
        return self.instance.status == AVAILABLE

    def check(self) -> None:
        """Do nothing: the plan was checked when it was made."""

    def cautions(self, dsn: str) -> Iterator[str]:
        """Yield reasons to doubt that probes of `dsn` will see RDS's failover."""
        if elsewhere := leads_elsewhere(dsn, self.instance):
            yield elsewhere
        endpoint = str(self.client.meta.endpoint_url)
        if ".amazonaws.com" not in endpoint:
            yield (
                f"this is not AWS but a stand-in at {endpoint}: its durations say nothing about AWS"
            )

    def fire(self) -> None:
        """Send the request to RDS; the outage starts here."""
        name, arn = self.instance.identifier, self.instance.arn
        if self.plan.action is not None:
            rds.opt_in(self.client, arn, self.plan.action, "immediate")
        else:
            self.instance = rds.reboot(self.client, name, failover=self.plan.failover)

    def news(self) -> Iterator[News]:
        """Yield the status when it changes, and new events."""
        yield from self._changed()
        self.instance = rds.instance(self.client, self.instance.identifier)
        yield from self._changed()
        for event in self._events():
            if event not in self._known:
                self._known.add(event)
                yield News(event.message, "event", event.at)

    def _changed(self) -> Iterator[News]:
        if self.instance.status != self._status:
            self._status = self.instance.status
            yield News(self._status, "status")

    def _events(self) -> Sequence[RdsEvent]:
        return list(
            rds.events(
                self.client,
                source=self.plan.instance.identifier,
                source_type="db-instance",
                since=self._since,
            )
        )
