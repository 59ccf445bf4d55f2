"""Pending maintenance of instances, when it will happen, and how it will affect clients.

Combines three lists that AWS keeps apart: pending maintenance actions, changes that wait for the
window (PendingModifiedValues), and parameters that wait for a reboot. AWS does not count the last
as maintenance: they have no date, and no window applies them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from mrtuner.aws import rds
from mrtuner.aws.rows import Instance, PendingAction, RdsCluster
from mrtuner.catalog.families import ENGINES
from rdstune.fleet import outage
from rdstune.fleet.maintenance_windows import Occurrence, Window
from rdstune.fleet.outage import Deployment, Outage, OutageKind

#: Statuses of an attached parameter group whose values are not all in force yet.
WAITING: Final = frozenset({"pending-reboot", "pending-database-upgrade"})
FAILED: Final = "failed-to-apply"


class Origin(StrEnum):
    """The AWS list that a piece of work is on."""

    ACTION = "pending maintenance action"
    CHANGE = "change waiting for the window"
    PARAMETERS = "parameters waiting for a reboot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A pending change to an instance or to its cluster."""

    what: str  # system-update, DBInstanceClass, a parameter group
    origin: Origin
    description: str
    outage: Outage
    expected: datetime | None  # when it will begin, as far as is known; UTC
    because: str  # why then, or why no time can be given
    auto_applied_after: datetime | None = None
    forced_apply: datetime | None = None
    current_apply: datetime | None = None
    opt_in: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """One instance, with its windows and pending work."""

    instance: Instance
    deployment: Deployment
    window: Window | None
    backup: Window | None
    next_window: Occurrence | None  # the one open now, or the next
    work: tuple[Work, ...]

    @property
    def identifier(self) -> str:
        return self.instance.identifier

    @property
    def windows_collide(self) -> bool:
        """Whether the windows overlap. AWS forbids it, but old instances may have such windows."""
        return bool(self.window and self.backup and self.window.overlaps(self.backup))


def survey(client: Any, identifiers: Sequence[str], *, now: datetime) -> tuple[Upkeep, ...]:
    """Return the pending work of the named instances, or of all PostgreSQL ones in the region.

    `now` must be timezone-aware. Raises AwsError, also for an instance that does not exist.
    """
    instances = tuple(_instances(client, identifiers))
    clusters = _clusters(client, identifiers, instances)
    actions: dict[str, list[PendingAction]] = defaultdict(list)
    for action in _actions(client, identifiers, instances, clusters):
        actions[action.resource].append(action)
    return tuple(
        upkeep(one, clusters.get(one.cluster or ""), actions, now=now) for one in instances
    )


def _instances(client: Any, identifiers: Sequence[str]) -> Iterator[Instance]:
    if identifiers:
        return (rds.instance(client, name) for name in dict.fromkeys(identifiers))
    return (one for one in rds.instances(client) if one.engine in ENGINES)


def _clusters(
    client: Any, identifiers: Sequence[str], instances: Iterable[Instance]
) -> dict[str, RdsCluster]:
    """Return the instances' clusters: the whole region in one call, or each read once."""
    names = dict.fromkeys(one.cluster for one in instances if one.cluster)
    if names and not identifiers:
        return {one.identifier: one for one in rds.clusters(client)}
    return {name: rds.cluster(client, name) for name in names}


def _actions(
    client: Any,
    identifiers: Sequence[str],
    instances: Iterable[Instance],
    clusters: Mapping[str, RdsCluster],
) -> Iterator[PendingAction]:
    """Yield pending actions: of the whole region in one call, or of the few resources asked for."""
    if not identifiers:
        yield from rds.pending_actions(client)
        return
    for arn in [*(one.arn for one in instances), *(one.arn for one in clusters.values())]:
        yield from rds.pending_actions(client, arn)


def upkeep(
    instance: Instance,
    cluster: RdsCluster | None,
    actions: Mapping[str, Sequence[PendingAction]],
    *,
    now: datetime,
) -> Upkeep:
    """Return an instance's pending work; `actions` are keyed by the ARN of their resource."""
    where = outage.deployment(instance, members=len(cluster.members) if cluster else 0)
    window = _window(instance.maintenance_window)
    work = [_action(one, where, window, now) for one in actions.get(instance.arn, ())]
    work += [_change(field, value, where, window, now) for field, value in changes(instance)]
    if cluster is not None:
        work += _cluster_work(cluster, actions, where, now)
    return Upkeep(
        instance=instance,
        deployment=where,
        window=window,
        backup=_window(instance.backup_window),
        next_window=window.at_or_after(now) if window else None,
        work=(*work, *_parameters(instance, cluster, work)),
    )


def _window(text: str | None) -> Window | None:
    return Window.parse(text) if text else None


def _cluster_work(
    cluster: RdsCluster,
    actions: Mapping[str, Sequence[PendingAction]],
    where: Deployment,
    now: datetime,
) -> Iterator[Work]:
    """Yield a cluster's own work: a cluster has its own window and its own pending actions."""
    window = _window(cluster.maintenance_window)
    for action in actions.get(cluster.arn, ()):
        yield _action(action, where, window, now)
    for field, value in changes(cluster):
        yield _change(field, value, where, window, now, of=cluster.identifier)


# AWS's own actions.


def _action(action: PendingAction, where: Deployment, window: Window | None, now: datetime) -> Work:
    expected, because = when(action, window, now)
    return Work(
        what=action.action,
        origin=Origin.ACTION,
        description=action.description,
        outage=outage.of_action(action.action, where),
        expected=expected,
        because=because,
        auto_applied_after=action.auto_applied_after,
        forced_apply=action.forced_apply,
        current_apply=action.current_apply,
        opt_in=action.opt_in,
    )


def when(
    action: PendingAction, window: Window | None, now: datetime
) -> tuple[datetime | None, str]:
    """Return when AWS will apply an action and why; None and the reason if it never will.

    Source: RDS API 2014-10-31, PendingMaintenanceAction: after AutoAppliedAfterDate in the first
    window, on ForcedApplyDate regardless of the window, at CurrentApplyDate after an opt-in.
    """
    if action.opt_in == "immediate":
        return now, "someone opted in to apply it immediately, which cannot be undone"
    if action.opt_in == "next-maintenance":
        return _opted_in(action, window, now)
    by_itself = _by_itself(action, window, now)
    if by_itself is None:
        return None, "optional: AWS applies it only after an opt-in"
    return by_itself


def _opted_in(
    action: PendingAction, window: Window | None, now: datetime
) -> tuple[datetime | None, str]:
    because = "someone opted in to apply it in the next window"
    if action.current_apply is not None:
        return max(action.current_apply, now), because
    return (window.at_or_after(now).start if window else None), because


def _by_itself(
    action: PendingAction, window: Window | None, now: datetime
) -> tuple[datetime, str] | None:
    """Return the earlier of the forced date and the first window after the auto-apply date."""
    dates: list[tuple[datetime, str]] = []
    if action.auto_applied_after is not None and window is not None:
        due = action.auto_applied_after
        first = window.at_or_after(now) if due <= now else window.beginning_after(due)
        dates.append((first.start, f"the first window after {action.auto_applied_after:%Y-%m-%d}"))
    if action.forced_apply is not None:
        forced = max(action.forced_apply, now)
        dates.append((forced, "forced then or in the following days, regardless of the window"))
    if not dates and action.current_apply is not None:
        dates.append((max(action.current_apply, now), "the date that AWS gives"))
    return min(dates, default=None)


# Changes that wait for the window.

_NEVER_SHOWN: Final = "MasterUserPassword"


def changes(of: Instance | RdsCluster) -> Iterator[tuple[str, Any]]:
    """Yield the pending changes, without the empty entries that AWS leaves there."""
    for field, value in of.pending.items():
        if value not in (None, "", [], {}):
            yield field, value


def _change(
    field: str,
    value: Any,
    where: Deployment,
    window: Window | None,
    now: datetime,
    *,
    of: str | None = None,
) -> Work:
    """Return the work for a change of the instance, or of the cluster `of`."""
    shown = "" if field == _NEVER_SHOWN else f" to {value}"
    what = f"{field} of cluster {of}" if of else field
    return Work(
        what=what,
        origin=Origin.CHANGE,
        description=f"{what} changes{shown}",
        outage=outage.of_change(field, where),
        expected=window.at_or_after(now).start if window else None,
        because="a change without ApplyImmediately waits for the window",
    )


# Parameters that wait for a reboot.


def _parameters(
    instance: Instance, cluster: RdsCluster | None, others: Sequence[Work]
) -> Iterator[Work]:
    """Yield the groups whose values wait: AWS does not reboot for them, other restarts do it."""
    at, what = min(_restarts(others), default=(None, ""))
    for group, status in _group_statuses(instance, cluster):
        if status in WAITING:
            yield Work(
                what=group,
                origin=Origin.PARAMETERS,
                description=f"values of parameter group {group} wait for a reboot",
                outage=outage.REBOOT,
                expected=at,
                because=f"{what} restarts the server then, which should apply them too"
                if at
                else "no maintenance window applies them: reboot the instance yourself",
            )
        elif status == FAILED:
            yield Work(
                what=group,
                origin=Origin.PARAMETERS,
                description=f"values of parameter group {group} could not be applied",
                outage=outage.REBOOT,
                expected=None,
                because="AWS reports failed-to-apply: check the instance's events",
            )


def _group_statuses(instance: Instance, cluster: RdsCluster | None) -> Iterator[tuple[str, str]]:
    for use in instance.groups:
        yield use.name, use.status
    for member in cluster.members if cluster else ():
        if cluster and member.identifier == instance.identifier:
            yield cluster.group, member.group_status


def _restarts(others: Sequence[Work]) -> Iterator[tuple[datetime, str]]:
    """Yield the upcoming work that restarts the server in place.

    A failover does not count: a newly attached group waits for a reboot without failover.
    Source: RDS API 2014-10-31, ModifyDBInstance, DBParameterGroupName.
    """
    for one in others:
        if one.expected and one.outage.kind in (OutageKind.RESTART, OutageKind.THROUGHOUT):
            yield one.expected, one.what
