"""Amazon CloudWatch: metrics of many instances in as few calls as possible.

Source of the limits: the CloudWatch API 2010-08-01, GetMetricData (500 queries a call, pages by
NextToken), and its page on metric retention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final

from mrtuner.aws.errors import translated
from mrtuner.aws.session import region_of

QUERIES: Final = 500  # per call
POINTS: Final = 100_800  # per page
#: How long points of each period [s] are kept.
RETENTION: Final = (
    (timedelta(days=15), 60),
    (timedelta(days=63), 300),
    (timedelta(days=455), 3600),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One metric of one instance."""

    instance: str  # DBInstanceIdentifier
    metric: str


@dataclass(slots=True)
class Points:
    """The points of one metric."""

    times: list[datetime]
    values: list[float]


def period_for(start: datetime, now: datetime) -> int:
    """Return the shortest period [s] that CloudWatch still keeps for points as old as `start`."""
    age = now - start
    return next((period for kept, period in RETENTION if age <= kept), RETENTION[-1][1])


def metric_data(
    client: Any,
    wanted: Sequence[Wanted],
    start: datetime,
    end: datetime,
    *,
    period: int = 60,
    tell: Callable[[int], None] | None = None,
) -> dict[Wanted, Points]:
    """Return averages of every metric, oldest first; `tell` receives each page's number of points.

    Up to 500 metrics go into one call. Raises AwsError if a call fails.
    """
    found = {one: Points([], []) for one in wanted}
    for batch in _batches(wanted):
        ids = {f"m{place}": one for place, one in enumerate(batch)}
        for page in _pages(client, ids, start, end, period):
            for result in page["MetricDataResults"]:
                into = found[ids[result["Id"]]]
                into.times += result["Timestamps"]
                into.values += result["Values"]
            if tell is not None:
                tell(sum(len(result["Values"]) for result in page["MetricDataResults"]))
    return found


def _batches(wanted: Iterable[Wanted]) -> Iterator[list[Wanted]]:
    rest = iter(wanted)
    while batch := list(islice(rest, QUERIES)):
        yield batch


def _pages(
    client: Any, ids: Mapping[str, Wanted], start: datetime, end: datetime, period: int
) -> Iterator[Mapping[str, Any]]:
    with translated("cloudwatch:GetMetricData", region_of(client)):
        pages = client.get_paginator("get_metric_data").paginate(
            MetricDataQueries=[_query(key, one, period) for key, one in ids.items()],
            StartTime=start,
            EndTime=end,
            ScanBy="TimestampAscending",
            PaginationConfig={"PageSize": POINTS},
        )
        yield from pages


def _query(key: str, one: Wanted, period: int) -> dict[str, Any]:
    return {
        "Id": key,
        "MetricStat": {
            "Metric": {
                "Namespace": "AWS/RDS",
                "MetricName": one.metric,
                "Dimensions": [{"Name": "DBInstanceIdentifier", "Value": one.instance}],
            },
            "Period": period,
            "Stat": "Average",
        },
        "ReturnData": True,
    }
