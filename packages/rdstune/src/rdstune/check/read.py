"""Reading what AWS tells of one instance: itself, its group, its maintenance, its metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mrtuner.errors import MrTunerError
from mrtuner.facts import Missing
from mrtuner.inputs import Workload
from mrtuner.units import GiB

if TYPE_CHECKING:
    from mrtuner.aws.rows import Instance
    from mrtuner.aws.session import Account
    from mrtuner.history.analysis.free_space import FreeSpace
    from mrtuner.limits import Limits
    from rdstune.fleet.audit import AuditRow
    from rdstune.fleet.maintenance import Upkeep

T = TypeVar("T")
_DAY: Final = timedelta(days=1)
_FREE: Final = "FreeStorageSpace"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceSeen:
    """One instance of RDS; each part that could not be read says why."""

    instance: Instance
    group: AuditRow | Missing
    upkeep: Upkeep | Missing
    free: FreeSpace | Missing | None  # None: Aurora's volume has no size
    limits: Limits | Missing  # of the last day


def read(name: str, account: Account) -> InstanceSeen:
    """Read an instance and what surrounds it. Raises AwsError if it cannot be described."""
    from mrtuner.aws import rds
    from mrtuner.aws.session import client
    from mrtuner.limits.ceilings import AURORA
    from rdstune.fleet.audit import audited
    from rdstune.fleet.maintenance import survey

    api, now = client("rds", account), datetime.now(UTC)
    instance = rds.instance(api, name)
    aurora = instance.engine.startswith(AURORA)
    return InstanceSeen(
        instance=instance,
        group=_or_missing(lambda: audited(api, instance, account, Workload.MIXED)),
        upkeep=_or_missing(lambda: survey(api, [name], now=now)[0]),
        free=None if aurora else _or_missing(lambda: _free(instance, account, now)),
        limits=_or_missing(lambda: _limits(name, account)),
    )


def _or_missing(ask: Callable[[], T]) -> T | Missing:
    try:
        return ask()
    except MrTunerError as error:
        return Missing("", error.message, hint=error.hint)


def _limits(name: str, account: Account) -> Limits:
    from mrtuner.answers.hard_limits import limits

    return limits(
        f"rds:{name}", since=_DAY.total_seconds(), region=account.region, profile=account.profile
    )


def _free(instance: Instance, account: Account, now: datetime) -> FreeSpace:
    """The volume, with a forecast by a line through the free space of a day."""
    from mrtuner.aws import cloudwatch
    from mrtuner.aws.session import client
    from mrtuner.history.analysis.free_space import FreeSpace, full_in

    wanted = cloudwatch.Wanted(instance=instance.identifier, metric=_FREE)
    watch: Any = client("cloudwatch", account)
    points = cloudwatch.metric_data(watch, [wanted], now - _DAY, now, period=300)[wanted]
    if not points.values:
        raise MrTunerError(
            f"CloudWatch has no {_FREE} of the last day", "Wait until the instance has run."
        )
    seconds = [at.timestamp() for at in points.times]
    seen = seconds[-1] - seconds[0]
    return FreeSpace(
        mount=f"the volume of {instance.identifier}", device=instance.storage_type,
        size=instance.allocated_storage * GiB, free=round(points.values[-1]),
        full_in=full_in(points.values[-1], _slope(seconds, points.values), seen), seen=seen,
    )  # fmt: skip


def _slope(times: list[float], values: list[float]) -> float | None:
    """The slope of the line of least squares; None for a single moment."""
    from statistics import StatisticsError, linear_regression

    try:
        return linear_regression(times, values).slope
    except StatisticsError:
        return None
