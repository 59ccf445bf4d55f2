"""Make an instance go away on purpose, and time it from the client's side.

A reboot, a reboot with failover, or one of AWS's pending maintenance actions is asked for while
open-loop probes run. RDS's own account (status, events) goes on the same line as what clients
saw. Refused on an instance tagged production.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from mrtuner.aws import rds
from mrtuner.aws.errors import AwsError
from mrtuner.aws.rows import Event, Instance
from mrtuner.errors import MrTunerError, Refused, UsageError
from mrtuner.failover.observed import Observation
from mrtuner.failover.probes import Probes, Schedule
from mrtuner.rds import outage
from mrtuner.rds.outage import Deployment, Outage
from mrtuner.rds.production import production_tag

AVAILABLE: Final = "available"
#: RDS abandons a failover that comes too soon after one (RDS-EVENT-0034); how soon is not said.
BETWEEN: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be done to which instance, and what AWS says of it beforehand."""

    instance: Instance
    deployment: Deployment
    failover: bool = False
    action: str | None = None  # a pending maintenance action instead of a reboot
    times: int = 1

    @property
    def what(self) -> str:
        """In words."""
        if self.action is not None:
            return f"apply {self.action} at once"
        return "reboot with failover" if self.failover else "reboot"

    @property
    def expected(self) -> Outage:
        """AWS's own figure for this, if it gives one."""
        if self.action is not None:
            return outage.of_action(self.action, self.deployment)
        return outage.of_failover(self.deployment) if self.failover else outage.REBOOT


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait for what [s]."""

    before: float = 5.0  # of steady answers before anything is done
    settle: float = 5.0  # of steady answers after which the outage counts as over
    quiet: float = 120.0  # for anything to happen at all
    whole: float = 3600.0  # for the instance to be available again
    between: float = BETWEEN  # from the end of one run to the next
    poll: float = 1.0  # between two questions to RDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something that RDS said, in seconds since the probes began.

    `at` is where it belongs on the line: by AWS's clock where that fits with ours, else when we
    read it. Both come to the second or so.
    """

    at: float
    text: str
    origin: Literal["status", "event"]
    by_aws_clock: bool = False

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "at": round(self.at, 3),
            "text": self.text,
            "origin": self.origin,
            "by_aws_clock": self.by_aws_clock,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One time that the instance went away, or was to."""

    asked: float  # when the call to RDS was made, in seconds since the probes began
    accepted: float  # when RDS had taken it
    settled: bool  # the instance was available and well again before patience ended
    observation: Observation
    marks: tuple[Mark, ...]
    zone: str | None  # availability zone afterwards

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "asked": round(self.asked, 3),
            "accepted": round(self.accepted, 3),
            "settled": self.settled,
            "marks": [mark.to_dict() for mark in self.marks],
            "zone": self.zone,
            "observation": self.observation.to_dict(),
        }


Tell = Callable[[str], None]


def plan(
    client: Any,
    identifier: str,
    *,
    failover: bool = False,
    action: str | None = None,
    times: int = 1,
) -> Plan:
    """What a rehearsal would do. Nothing is changed.

    Raises Refused for an instance or cluster tagged production, UsageError where there is nothing
    to fail over to or no such action, MrTunerError while the instance is not available.
    """
    instance = rds.instance(client, identifier)
    tags, members = dict(instance.tags), 0
    if instance.cluster:
        cluster = rds.cluster(client, instance.cluster)
        tags, members = {**cluster.tags, **tags}, len(cluster.members)
    _refuse_production(identifier, production_tag(instance.tags) or production_tag(tags))
    drawn = Plan(
        instance=instance,
        deployment=outage.deployment(instance, members),
        failover=failover,
        action=action,
        times=times,
    )
    _check(client, drawn)
    return drawn


def _refuse_production(identifier: str, tag: str | None) -> None:
    if tag is not None:
        raise Refused(
            f"{identifier} is tagged {tag}: a rehearsal would take production down",
            "Restore a snapshot to an instance of the same class and rehearse on that.",
        )


def _check(client: Any, drawn: Plan) -> None:
    name, status = drawn.instance.identifier, drawn.instance.status
    if drawn.failover and drawn.deployment is not Deployment.MULTI_AZ:
        raise UsageError(
            f"{name} cannot reboot with failover: it is {drawn.deployment}",
            "Only a Multi-AZ instance takes ForceFailover; leave out --failover.",
        )
    if drawn.failover and drawn.action:
        raise UsageError("a failover and a maintenance action at once", "Choose one.")
    if drawn.action and drawn.times > 1:
        raise UsageError("a maintenance action is applied once", "Leave out --times.")
    if drawn.action and drawn.action not in _pending(client, drawn.instance):
        raise UsageError(
            f"no maintenance action {drawn.action} is pending for {name}",
            f"See: rdstune maintenance {name}.",
        )
    if status != AVAILABLE:
        raise MrTunerError(
            f"{name} is {status}, and only an available instance can be rebooted",
            "Wait until it is available, then run again.",
        )


def _pending(client: Any, instance: Instance) -> set[str]:
    return {one.action for one in rds.pending_actions(client, instance.arn)}


def leads_elsewhere(dsn: str, instance: Instance) -> str | None:
    """In words, when the connection string names another host or port than the instance has.

    That may be right: a name of one's own, a pooler, a tunnel. Only a restart seen through it
    proves that it leads here. A string that cannot be read is left to the probes to refuse.
    """
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        named = conninfo_to_dict(dsn)
    except psycopg.Error:
        return None
    host, port = str(named.get("host", "")), str(named.get("port") or 5432)
    if instance.host is None or (host.lower(), port) == (instance.host.lower(), str(instance.port)):
        return None
    return (
        f"the connection string names another place than {instance.identifier} has, which is "
        f"{instance.host}:{instance.port}"
    )


def rehearse(
    client: Any,
    dsn: str,
    drawn: Plan,
    *,
    schedule: Schedule | None = None,
    patience: Patience | None = None,
    tell: Tell = lambda _text: None,
) -> tuple[Run, ...]:
    """Do what was planned, as many times; each run is observed from before to after.

    Raises MrTunerError, before anything is done, when the server does not answer steadily.
    """
    allowed = patience or Patience()
    runs: list[Run] = []
    for number in range(drawn.times):
        if number:
            tell(f"waiting {allowed.between:.0f} s before the next")
            time.sleep(allowed.between)
        runs.append(_run(client, dsn, drawn, schedule or Schedule(), allowed, tell))
        if not runs[-1].settled:
            break  # it has not come back well: not again
    return tuple(runs)


def _run(
    client: Any, dsn: str, drawn: Plan, schedule: Schedule, patience: Patience, tell: Tell
) -> Run:
    with Probes(dsn, schedule) as probes:
        tell("probing; waiting for steady answers")
        if not probes.wait_until_steady(patience.before, patience=patience.before + 30):
            raise MrTunerError(
                "the server did not answer every probe well before anything was done",
                "Nothing was rebooted. See what it is busy with, or probe less often: --every.",
            )
        watch = _Watch(client, drawn, probes, patience, tell)
        watch.fire()
        settled = watch.until_settled()
        observation = probes.finish()
    return Run(
        asked=watch.asked,
        accepted=watch.accepted,
        settled=settled,
        observation=observation,
        marks=tuple(watch.marks),
        zone=watch.instance.zone,
    )


class _Watch:
    """RDS's side of one run: what it was asked, and what it said from then on."""

    def __init__(
        self, client: Any, drawn: Plan, probes: Probes, patience: Patience, tell: Tell
    ) -> None:
        self.client, self.plan, self.probes = client, drawn, probes
        self.patience, self.tell = patience, tell
        self.instance = drawn.instance
        self.marks: list[Mark] = []
        self.asked = self.accepted = 0.0
        self._since = datetime.now(UTC) - timedelta(minutes=1)  # AWS's clock may differ
        self._known = set(self._events())

    def fire(self) -> None:
        """Ask RDS; from here on things happen."""
        name, arn = self.instance.identifier, self.instance.arn
        self.asked = self.probes.now()
        if self.plan.action is not None:
            rds.opt_in(self.client, arn, self.plan.action, "immediate")
        else:
            self._see(rds.reboot(self.client, name, failover=self.plan.failover))
        self.accepted = self.probes.now()
        self.tell(f"asked RDS: {self.plan.what}, {name}")

    def until_settled(self) -> bool:
        """Look until all is well again, or nothing has happened for long; False: patience ended."""
        while self.probes.now() - self.asked < self.patience.whole:
            self._look()
            if self._over():
                self._look()  # an event may be later than the status that it explains
                return True
            time.sleep(self.patience.poll)
        return False

    def _look(self) -> None:
        """What RDS says now. That it cannot be asked does not end a measurement under way."""
        try:
            self._read()
        except AwsError as error:
            self.tell(f"RDS could not be asked: {error.message}")

    def _over(self) -> bool:
        if self.instance.status != AVAILABLE:
            return False
        waited = self.probes.now() - self.accepted
        if waited < self.patience.settle or not self._answers_well():
            return False
        return self._something_happened() or waited >= self.patience.quiet

    def _answers_well(self) -> bool:
        return self.probes.wait_until_steady(self.patience.settle, patience=0.0)

    def _something_happened(self) -> bool:
        """To clients: the status alone may say so long before, or after, it is true."""
        attempts = self.probes.attempts()
        started = {one.server.started for one in attempts if one.server is not None}
        return len(started) > 1 or any(not one.good for one in attempts)

    def _read(self) -> None:
        """The status and new events."""
        self._see(rds.instance(self.client, self.instance.identifier))
        for event in self._events():
            if event not in self._known:
                self._known.add(event)
                self._mark_event(event)

    def _see(self, instance: Instance) -> None:
        if instance.status != self.instance.status:
            self.marks.append(Mark(at=self.probes.now(), text=instance.status, origin="status"))
            self.tell(f"status {instance.status}")
        self.instance = instance

    def _events(self) -> Sequence[Event]:
        return list(
            rds.events(
                self.client,
                source=self.plan.instance.identifier,
                source_type="db-instance",
                since=self._since,
            )
        )

    def _mark_event(self, event: Event) -> None:
        now = self.probes.now()
        ours = now - (datetime.now(UTC) - event.at).total_seconds()
        fits = self.asked - 2 <= ours <= now
        self.marks.append(
            Mark(at=ours if fits else now, text=event.message, origin="event", by_aws_clock=fits)
        )
        self.tell(f"event: {event.message}")
