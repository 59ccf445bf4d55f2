"""Which of a region's instances were at a limit, found with the fewest calls.

Instances are fetched in batches that fit into a call and examined one by one; only one row of each
is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final

from mrtuner.aws import rds
from mrtuner.aws.rows import Instance
from mrtuner.aws.session import Account, client, region_of
from mrtuner.catalog.families import ENGINES
from mrtuner.described import Doc
from mrtuner.errors import MrTunerError
from mrtuner.facts import Missing
from mrtuner.limits.assess import limits
from mrtuner.limits.burst_balances import BALANCE_OF
from mrtuner.limits.ceilings import Resource
from mrtuner.limits.levels import PARTS
from mrtuner.limits.metrics.fetch import Fetched, fetch_all
from mrtuner.limits.metrics.series import MetricSeries
from mrtuner.limits.reached import Pegged

#: What every ceiling is judged by, and enough to distinguish it from an even job; a single instance
#: gets all of `series.UNITS`.
METRICS: Final = (
    *(metric for parts in PARTS.values() for metric in parts),
    *BALANCE_OF.values(),
    "DiskQueueDepth",
)
#: Returns the max_connections of an instance, and its source.
Connections = Callable[[Fetched], tuple[int, str] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPegged:
    """A resource of an instance that was at a ceiling."""

    resource: Annotated[Resource, Doc("what ran flat")]
    level: Annotated[float, Doc("where, in CloudWatch's unit")]
    ceiling: Annotated[str | None, Doc("the name of the ceiling; null where none is known")]
    confirmed: Annotated[bool, Doc("whether another metric confirms it")]
    minutes: Annotated[float, Doc("time at the ceiling")]
    share: Annotated[float, Doc("the same as a share of all points")]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedInstance:
    """One instance; `unknown` says why it could not be judged."""

    region: str
    instance: str
    class_name: str
    storage: str | None
    verdict: str | None
    pegged: tuple[FleetPegged, ...]
    advice: str | None  # the first sentence of it
    unknown: str | None
    unjudged: tuple[Missing, ...] = ()  # resources

    @property
    def minutes(self) -> float:
        """Minutes at the ceiling that was reached longest."""
        return max((one.minutes for one in self.pegged), default=0.0)


def instances(account: Account, names: Sequence[str] = ()) -> list[Instance]:
    """Instances by name, or all PostgreSQL and Aurora PostgreSQL instances in the region."""
    service = client("rds", account)
    if names:
        return [rds.instance(service, name) for name in dict.fromkeys(names)]
    return [one for one in rds.instances(service) if one.engine in ENGINES]


def fleet(
    of: Sequence[Instance],
    start: datetime,
    end: datetime,
    account: Account,
    *,
    connections: Connections = lambda _one: None,
) -> Iterator[CheckedInstance]:
    """Yield a row for each instance as it is fetched. AwsError for what AWS refuses."""
    region = region_of(client("cloudwatch", account))
    for one in fetch_all(of, start, end, account, metrics=METRICS):
        yield _row(region, one, connections)


def _row(region: str, one: Fetched, connections: Connections) -> CheckedInstance:
    found = unknown = None
    try:
        found = limits(
            one.series,
            name=one.name,
            class_name=one.class_name,
            storage=one.storage,
            connections=connections(one),
        )
    except MrTunerError as error:
        unknown = error.message
    return CheckedInstance(
        region=region,
        instance=one.name,
        class_name=one.class_name,
        storage=None if one.storage is None else str(one.storage),
        verdict=found.verdict if found else None,
        pegged=tuple(_reached(at, found.series) for at in found.pegged) if found else (),
        advice=next(iter(found.advice), None) if found else None,
        unknown=unknown,
        unjudged=found.unjudged if found else (),
    )


def _reached(at: Pegged, series: MetricSeries) -> FleetPegged:
    return FleetPegged(
        resource=at.resource,
        level=at.plateau.level,
        ceiling=None if at.ceiling is None else at.ceiling.name,
        confirmed=at.confirmed,
        minutes=series.minutes(at.plateau.points),
        share=at.plateau.share,
    )
