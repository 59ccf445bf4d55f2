"""Events: recorded as they happen, kept for 14 days, and DescribeEvents.

Source of numbers and categories: RDS User Guide, "Amazon RDS event categories and event
messages" (through our reference, section 5). Where the guide leaves the wording open, messages
are ours, so match only on categories.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from rdstune.lab.pages import Row, listed
from rdstune.lab.refusals import invalid_combination
from rdstune.lab.world import Event, Instance, LabCluster, LabGroup, Region, Snapshot

_KEPT: Final = timedelta(days=14)
_DEFAULT_MINUTES: Final = 60

#: Number: categories, message.
_KNOWN: Final[Mapping[int, tuple[tuple[str, ...], str]]] = {
    3: (("deletion",), "DB instance deleted"),
    4: (("availability",), "DB instance shutdown"),
    5: (("creation",), "DB instance created"),
    6: (("availability",), "DB instance restarted"),
    11: (("configuration change",), "Updated to use DBParameterGroup {name}"),
    13: (("failover",), "Multi-AZ instance failover started."),
    12: (("configuration change",), "Applying modification to database instance class"),
    14: (("configuration change",), "Finished applying modification to DB instance class"),
    15: (
        ("failover",),
        "Multi-AZ failover to standby complete - DNS propagation may take a few minutes.",
    ),
    17: (("configuration change",), "Finished applying modification to allocated storage"),
    25: (
        ("configuration change",),
        "Finished applying modification to convert to a Multi-AZ DB instance",
    ),
    26: (("maintenance",), "Applying off-line patches to DB instance"),
    27: (("maintenance",), "Finished applying off-line patches to DB instance"),
    29: (
        ("configuration change",),
        "Finished applying modification to convert to a standard (Single-AZ) DB instance",
    ),
    34: (("failover",), "Abandoning user requested failover since a failover occurred recently."),
    35: (
        ("failure",),
        "Database instance put into incompatible-parameters. {reason}",
    ),
    37: (("configuration change",), "Updated parameter {name} to {text} with apply method {how}"),
    42: (("creation",), "Manual snapshot created"),
    40: (("creation",), "Creating manual snapshot"),
    41: (("deletion",), "Deleted user snapshot"),
    47: (("maintenance",), "Database instance patched"),
    49: (("failover",), "Multi-AZ instance failover completed."),
    59: (("notification",), "Started cross region copy of DB snapshot {source}."),
    60: (("notification",), "Finished cross region copy of DB snapshot {source}."),
    71: (("failover",), "Completed failover to DB instance: {name}"),
    73: (("failover",), "Started cross AZ failover to DB instance: {name}"),
    87: (("notification",), "DB instance stopped"),
    88: (("notification",), "DB instance started"),
    92: (("configuration change",), "Finished updating DB parameter group"),
    170: (("creation",), "DB cluster created"),
    171: (("deletion",), "DB cluster deleted"),
    196: (("notification",), "Started copy of DB snapshot {source}."),
    197: (("notification",), "Finished copy of DB snapshot {source}."),
    230: (("maintenance",), "An operating system update is available for your DB instance."),
}
_TYPES: Final = {
    Instance: "db-instance",
    LabCluster: "db-cluster",
    LabGroup: "db-parameter-group",
    Snapshot: "db-snapshot",
}


def tell(
    region: Region, number: int, about: Instance | LabCluster | LabGroup | Snapshot, **words: str
) -> None:
    """Record an event at the lab's present time; `words` fill in its message."""
    categories, message = _KNOWN[number]
    region.events.append(
        Event(
            id=f"RDS-EVENT-{number:04d}",
            date=region.clock.now(),
            source=about.name if isinstance(about, LabGroup) else about.identifier,
            source_type=_TYPES[type(about)],
            arn=about.arn,
            categories=categories,
            message=message.format(**words),
        )
    )


def describe_events(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    """DescribeEvents: the last 60 minutes unless asked otherwise, at most 14 days, oldest first."""
    source, kind = params.get("SourceIdentifier"), params.get("SourceType")
    if source and not kind:
        raise invalid_combination("You must specify a SourceType with the SourceIdentifier")
    start, end = _span(region.clock.now(), params)
    wanted = set(params.get("EventCategories", ()))
    rows = [
        _row(event)
        for event in region.events
        if start <= event.date <= end
        and (kind is None or event.source_type == kind)
        and (source is None or event.source == source.lower())
        and (not wanted or wanted & set(event.categories))
    ]
    return listed("Events", rows, params)


def _span(now: datetime, params: Mapping[str, Any]) -> tuple[datetime, datetime]:
    end = params.get("EndTime", now)
    start = params.get("StartTime")
    if start is None:
        start = end - timedelta(minutes=params.get("Duration", _DEFAULT_MINUTES))
    return max(start, now - _KEPT), end


def _row(event: Event) -> Row:
    return {
        "SourceIdentifier": event.source,
        "SourceType": event.source_type,
        "SourceArn": event.arn,
        "Message": event.message,
        "EventCategories": list(event.categories),
        "Date": event.date,
    }


OPERATIONS: Final = {"DescribeEvents": describe_events}
