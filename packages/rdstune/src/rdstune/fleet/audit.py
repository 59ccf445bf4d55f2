"""Audit every instance of a fleet: its class, group, pending changes, drift and memory risk.

Regions are queried in parallel, and instances are yielded as they are found, one page at a time.
A group is read once per region and judged once for each class and volume. A region that fails
yields one `Failure`; the others go on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from queue import Full, Queue
from typing import Any, Final, TypeVar

from mrtuner.aws import rds
from mrtuner.aws.rows import Instance, RdsCluster, Scope
from mrtuner.aws.session import Account, client
from mrtuner.catalog.classes import InstanceClass, instance_class
from mrtuner.catalog.ec2 import class_from_ec2
from mrtuner.catalog.families import ENGINES
from mrtuner.errors import BadValue, MrTunerError
from mrtuner.facts import Missing
from mrtuner.inputs import Workload
from mrtuner.units import Bytes, GiB
from rdstune.fleet.maintenance import changes
from rdstune.live.assessment import Assessment, assess
from rdstune.live.plan import user_values

_K = TypeVar("_K")
_V = TypeVar("_V")

#: Regions queried at the same time: each holds a page of instances in memory, and a connection.
_AT_ONCE: Final = 8
#: Limit of instances found but not yet consumed; beyond it, regions wait for the caller.
_AHEAD: Final = 200
#: Seconds between checks whether the caller still wants the results.
_LOOK: Final = 0.1
_IN_SYNC: Final = "in-sync"


class AuditFinding(StrEnum):
    """What an audit can find."""

    DOWN = "incompatible-parameters"  # the instance does not start with its group
    OVER = "memory"  # the worst case exceeds the ceiling
    OUTSIDE = "out-of-range"  # the server would refuse a value on this class
    REFUSED = "failed-to-apply"
    WAITING = "pending-reboot"  # the server still runs with values other than its group's
    CHANGING = "pending-changes"  # PendingModifiedValues
    UNKNOWN = "unknown"  # could not be judged
    DRIFT = "drift"  # our advice differs
    DEFAULT = "default-group"  # AWS's own, which cannot be changed


#: Findings that need action; the others are for information.
PRESSING: Final = frozenset(AuditFinding) - {
    AuditFinding.UNKNOWN, AuditFinding.DRIFT, AuditFinding.DEFAULT,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One audited instance."""

    region: str
    instance: str
    class_name: str
    engine: str
    version: str
    status: str
    multi_az: bool
    cluster: str | None
    group: str  # the cluster's for members of a cluster
    apply_status: str  # ParameterApplyStatus
    pending: tuple[str, ...]  # names of PendingModifiedValues
    assessment: Assessment
    note: str | None = None  # what the assessment is based on, if unusual

    @property
    def findings(self) -> tuple[AuditFinding, ...]:
        """The findings, most severe first."""
        seen = {
            AuditFinding.DOWN: self.status == "incompatible-parameters",
            AuditFinding.OVER: not self.assessment.holds,
            AuditFinding.OUTSIDE: bool(self.assessment.outside),
            AuditFinding.REFUSED: self.apply_status == "failed-to-apply",
            AuditFinding.WAITING: self.apply_status == "pending-reboot",
            AuditFinding.CHANGING: bool(self.pending),
            AuditFinding.UNKNOWN: self.assessment.unknown is not None,
            AuditFinding.DRIFT: bool(self.assessment.drift),
            AuditFinding.DEFAULT: self.group.startswith("default."),
        }
        return tuple(finding for finding, there in seen.items() if there)

    @property
    def unjudged(self) -> tuple[Missing, ...]:
        """The instance, if its group or its class could not be judged."""
        why = self.assessment.unknown
        return () if why is None else (Missing(f"{self.instance} in {self.region}", why),)

    @property
    def pressing(self) -> bool:
        return not PRESSING.isdisjoint(self.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surveyed:
    """The end of a region that was read completely."""

    region: str
    instances: int
    others: int  # of other engines, left out


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A region that could not be read completely; instances read before remain valid."""

    region: str
    error: MrTunerError


Event = AuditRow | Surveyed | Failure


def audit(
    regions: Sequence[str],
    *,
    profile: str | None = None,
    workload: Workload = Workload.MIXED,
) -> Generator[Event, None, None]:
    """Yield every instance as it is found; one Surveyed or Failure ends each region.

    Close the generator to stop early: no further calls are made.
    """
    events: Queue[Event | Exception] = Queue(maxsize=_AHEAD)
    stop = threading.Event()
    pool = ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="audit")
    try:
        for region in regions:
            pool.submit(_work, region, profile, workload, events, stop)
        yield from _taken(events, len(regions))
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


def _taken(events: Queue[Event | Exception], regions: int) -> Iterator[Event]:
    while regions:
        event = events.get()
        if isinstance(event, Exception):
            raise event
        regions -= not isinstance(event, AuditRow)
        yield event


def _work(
    region: str,
    profile: str | None,
    workload: Workload,
    events: Queue[Event | Exception],
    stop: threading.Event,
) -> None:
    """Queue one region's events for as long as the caller consumes them."""
    try:
        for event in _survey(region, profile, workload):
            if not _put(events, event, stop):
                return
    except Exception as error:  # raised again in the caller's thread
        _put(events, error, stop)


def _put(events: Queue[Event | Exception], event: Event | Exception, stop: threading.Event) -> bool:
    while not stop.is_set():
        with suppress(Full):
            events.put(event, timeout=_LOOK)
            return True
    return False


def _survey(region: str, profile: str | None, workload: Workload) -> Iterator[Event]:
    instances = others = 0
    try:
        account = Account(region, profile)
        place = _Region(api=client("rds", account), account=account, workload=workload)
        for instance in rds.instances(place.api):
            if instance.engine in ENGINES:
                instances += 1
                yield place.row(instance)
            else:
                others += 1
    except MrTunerError as error:
        yield Failure(region=region, error=error)
    except Exception as error:  # one region's answer must not end the others
        yield Failure(region=region, error=_strange(region, error))
    else:
        yield Surveyed(region=region, instances=instances, others=others)


def audited(api: Any, instance: Instance, account: Account, workload: Workload) -> AuditRow:
    """Return the judged row of one instance; AwsError if its cluster cannot be read."""
    return _Region(api=api, account=account, workload=workload).row(instance)


def _strange(region: str, error: Exception) -> MrTunerError:
    """Wrap an unexpected error: an incomplete answer from AWS, or a bug."""
    found = MrTunerError(
        f"unexpected answer from AWS in {region}: {type(error).__name__}: {error}",
        "Audit only this region, with --region and --debug.",
    )
    found.__cause__ = error
    return found


@dataclass(slots=True, kw_only=True)
class _Region:
    """What is read once per region and shared by its instances."""

    api: Any
    account: Account
    workload: Workload
    classes: dict[str, InstanceClass | MrTunerError] = field(default_factory=dict)  # EC2's
    groups: dict[tuple[Scope, str], dict[str, str] | MrTunerError] = field(default_factory=dict)
    clusters: dict[str, RdsCluster] | None = None

    def row(self, instance: Instance) -> AuditRow:
        cluster = self._cluster(instance.cluster) if instance.cluster else None
        return AuditRow(
            region=self.account.region or "",
            instance=instance.identifier,
            class_name=instance.class_name,
            engine=instance.engine,
            version=instance.engine_version,
            status=instance.status,
            multi_az=instance.multi_az,
            cluster=instance.cluster,
            group=cluster.group if cluster else _group(instance),
            apply_status=_apply_status(instance, cluster),
            pending=(*sorted(instance.pending), *_of_cluster(cluster)),
            assessment=self._assessment(instance, cluster),
            note=self._note(instance.class_name),
        )

    def _assessment(self, instance: Instance, cluster: RdsCluster | None) -> Assessment:
        try:
            values = self._values(instance, cluster)
            each = self._class(instance.class_name)
        except MrTunerError as error:
            return Assessment(unknown=error.message)
        return assess(
            values,
            family_name=f"{instance.engine}{instance.major}",
            each=each,
            storage=Bytes(instance.allocated_storage * GiB),
            workload=self.workload,
        )

    def _class(self, name: str) -> InstanceClass:
        """Return the class from our catalog, else as EC2 describes it."""
        try:
            return instance_class(name)
        except BadValue:
            return _once(self.classes, name, lambda: class_from_ec2(name, self.account))

    def _note(self, name: str) -> str | None:
        if isinstance(self.classes.get(name), InstanceClass):
            return f"class {name} is not in our catalog: memory and vCPUs are taken from EC2"
        return None

    def _values(self, instance: Instance, cluster: RdsCluster | None) -> Mapping[str, str]:
        """Return the user-set values: the cluster group's, overridden by the instance group's."""
        above = self._group(cluster.group, Scope.CLUSTER) if cluster else {}
        return {**above, **self._group(_group(instance), Scope.INSTANCE)}

    def _group(self, name: str, scope: Scope) -> Mapping[str, str]:
        """Return a group's user-set values; a default group has none."""
        if not name or name.startswith("default."):
            return {}
        return _once(
            self.groups,
            (scope, name),
            lambda: user_values(rds.parameters(self.api, name, scope, source="user")),
        )

    def _cluster(self, identifier: str) -> RdsCluster | None:
        if self.clusters is None:
            self.clusters = {one.identifier: one for one in rds.clusters(self.api)}
        return self.clusters.get(identifier)


def _once(kept: dict[_K, _V | MrTunerError], key: _K, read: Callable[[], _V]) -> _V:
    """Return what was read for a key, or raise what was raised for it."""
    if key not in kept:
        try:
            kept[key] = read()
        except MrTunerError as error:
            kept[key] = error
    found = kept[key]
    if isinstance(found, MrTunerError):
        raise found.with_traceback(None)
    return found


def _group(instance: Instance) -> str:
    return instance.groups[0].name if instance.groups else ""


def _apply_status(instance: Instance, cluster: RdsCluster | None) -> str:
    """Return the status of the instance's group or of its cluster's: the one to worry about."""
    own = instance.groups[0].status if instance.groups else ""
    members = cluster.members if cluster else ()
    above = next((one.group_status for one in members if one.identifier == instance.identifier), "")
    if AuditFinding.REFUSED in {own, above}:
        return AuditFinding.REFUSED.value
    return own if above in {"", _IN_SYNC} else above


def _of_cluster(cluster: RdsCluster | None) -> tuple[str, ...]:
    """What waits on the cluster: an upgrade of the engine is there, not on its instances."""
    if cluster is None:
        return ()
    waits = sorted(name for name, _ in changes(cluster))
    return tuple(f"{name} (cluster {cluster.identifier})" for name in waits)
