"""Which hard limit was reached: of an instance, a fleet, a server, or what a file tells of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mrtuner.answers.recorded import remembered
from mrtuner.answers.targets import TargetKind, instance_named, kind_of
from mrtuner.errors import BadValue, MrTunerError, UsageError
from mrtuner.units import parse_duration

if TYPE_CHECKING:
    from mrtuner.aws.session import Account
    from mrtuner.catalog.volumes import Volume
    from mrtuner.limits import Limits
    from mrtuner.limits.fleet import CheckedInstance
    from mrtuner.limits.metrics.fetch import Fetched

_SERVERS: Final = {TargetKind.SERVER, TargetKind.LOCAL}
#: Called with what is done, of how much, and the same in words; both 0 where that is not known.
Shown = Callable[[float, float, str], None]


def _hidden(_done: float, _of: float, _text: str) -> None:
    """Show no progress."""


def limits(
    target: str,
    *,
    class_name: str | None = None,
    storage: str | None = None,
    what_if: Sequence[str] = (),
    since: float | str = "14d",
    max_connections: int | None = None,
    timezone: str | None = None,
    throughput_unit: str | None = None,
    watch: float | str | None = None,
    history: Path | str | None = None,
    instance: str | None = None,
    region: str | None = None,
    profile: str | None = None,
    shown: Shown = _hidden,
) -> Limits:
    """Find which hard limit was reached, when, and what to change.

    `target` is an instance of RDS (``shop`` or ``rds:shop``), whose class, volume and CloudWatch
    metrics of the last `since` [s, or a text such as ``"14d"``] are looked up; a file of metrics,
    with its `class_name` and `storage`; or a server elsewhere, ``local`` or a connection string,
    which is watched for `watch`, or whose host was recorded in a `history`. `what_if` are classes
    or volumes to compare with. An interrupted watch (KeyboardInterrupt) answers with what was
    measured by then: `Limits.interrupted`, and `Limits.lost` where the server ended the session.

    Raises:
        UsageError: an input is missing, or is not used with such a target.
        BadValue: a class, a volume or the file cannot be used.
        ConnectError: the server cannot be read.
        AwsError: AWS refuses.
    """
    kind = kind_of(target)
    of_file = {
        "--class": class_name, "--volume": storage,
        "--timezone": timezone, "--throughput-unit": throughput_unit,
    }  # fmt: skip
    if kind in _SERVERS:
        _refuse(of_file | {"--what-if": what_if, "--max-connections": max_connections}, "a server")
        dsn = "" if kind is TargetKind.LOCAL else target
        if history is not None:
            if watch is not None:
                raise UsageError(
                    "--history and --watch cannot be used together", "Omit one of them."
                )
            return _recorded(dsn, history, instance, parse_duration(since))
        return _watched(dsn, 0.0 if watch is None else parse_duration(watch), shown)
    if watch is not None:
        raise UsageError(
            "--watch is for a server outside RDS",
            "Run mrtuner limits local --watch 10m; for RDS, use --since.",
        )
    if history is not None:
        raise UsageError(
            "--history is for a server outside RDS",
            "Name the server that was recorded, such as local.",
        )
    from mrtuner.limits import limits as judged

    if kind is TargetKind.FILE:
        if class_name is None:
            raise UsageError(
                "the instance class is missing", "Add --class, such as --class db.r5.2xlarge."
            )
        return judged(
            Path(target), class_name=class_name, storage=storage, what_if=what_if,
            timezone=timezone, throughput_unit=throughput_unit,
            connections=_connections(class_name, storage, max_connections),
        )  # fmt: skip
    _refuse(of_file, "an instance")
    from mrtuner.aws.session import Account
    from mrtuner.limits.metrics.fetch import fetch

    start, end = _time(since)
    fetched = fetch(
        instance_named(target), start, end, Account(region, profile),
        tell=lambda points, of: shown(points, of, f"CloudWatch: {points:,} points"),
    )  # fmt: skip
    return judged(
        fetched.series, name=instance_named(target), class_name=fetched.class_name,
        storage=fetched.storage, what_if=what_if,
        connections=_connections(fetched.class_name, fetched.storage, max_connections),
    )  # fmt: skip


def _refuse(given: Mapping[str, object], what: str) -> None:
    for option, value in given.items():
        if value:
            raise UsageError(f"{option} cannot be used with {what}", "Leave it out.")


def _watched(dsn: str, length: float, shown: Shown) -> Limits:
    from mrtuner.limits.metrics.watch import watch

    return watch(dsn, length, tell=lambda left: shown(length - left, length, "watching"))


def _recorded(dsn: str, directory: Path | str, instance: str | None, since: float) -> Limits:
    import numpy as np

    from mrtuner.history.recorded.host_metrics import host_metrics
    from mrtuner.limits import MetricSeries
    from mrtuner.limits.metrics.watch import recorded

    with remembered(directory, instance, since=since) as (history, about):
        found = host_metrics(history, about)
    metrics = {name: np.array(values, dtype=float) for name, values in found.values.items()}
    return recorded(
        dsn, MetricSeries(start=found.begin, step=found.step, metrics=metrics, apart=True)
    )


# A fleet.


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetLimits:
    """What each instance reached, and the regions that failed, each with the reason."""

    instances: tuple[CheckedInstance, ...]
    start: datetime
    end: datetime
    failures: tuple[tuple[str, str], ...] = ()


def limits_of_fleet(
    names: Sequence[str] = (),
    *,
    regions: Sequence[str] = (),
    all_regions: bool = False,
    since: float | str = "14d",
    max_connections: int | None = None,
    profile: str | None = None,
    shown: Shown = _hidden,
) -> FleetLimits:
    """Find which instances reached a limit: those named, or all of the regions.

    A region that fails is among the `failures`; if it is the only one, its error is raised.
    """
    if names and (all_regions or len(regions) > 1):
        raise UsageError("instances given by name must be in one region", "Give --region once.")
    if any(kind_of(name) is not TargetKind.NAME for name in names):
        raise UsageError(
            "a file or a server outside RDS must be the only target",
            "Run mrtuner limits for it alone.",
        )
    start, end = _time(since)
    rows: list[CheckedInstance] = []
    failures = []
    accounts = _accounts(regions, profile, all_regions=all_regions)
    for account in accounts:
        try:
            rows += _region(account, names, start, end, max_connections, shown)
        except MrTunerError as error:
            if len(accounts) == 1:
                raise
            failures.append((account.region or "", error.message))
    return FleetLimits(instances=tuple(rows), start=start, end=end, failures=tuple(failures))


def _region(
    account: Account, names: Sequence[str], start: datetime, end: datetime, most: int | None,
    shown: Shown,
) -> list[CheckedInstance]:  # fmt: skip
    from mrtuner.limits.fleet import fleet, instances

    found = instances(account, names)
    each = fleet(found, start, end, account, connections=lambda one: _connections_of(one, most))
    rows: list[CheckedInstance] = []
    for row in each:
        rows.append(row)
        shown(len(rows), len(found), f"{len(rows):,} of {len(found):,} instances")
    return rows


def _accounts(regions: Sequence[str], profile: str | None, *, all_regions: bool) -> list[Account]:
    from mrtuner.aws.regions import enabled_regions
    from mrtuner.aws.session import Account

    if all_regions and regions:
        raise UsageError("--all-regions and --region cannot be used together", "Use one of them.")
    chosen = enabled_regions(profile) if all_regions else tuple(dict.fromkeys(regions))
    return [Account(region, profile) for region in chosen or (None,)]


def _time(since: float | str) -> tuple[datetime, datetime]:
    now = datetime.now(UTC)
    return now - timedelta(seconds=parse_duration(since)), now


def _connections_of(one: Fetched, given: int | None) -> tuple[int, str] | None:
    """Like `_connections`, but None for an unknown class: the result then says so itself."""
    try:
        return _connections(one.class_name, one.storage, given)
    except BadValue:
        return None


def _connections(
    class_name: str, storage: Volume | str | None, given: int | None
) -> tuple[int, str]:
    """The given max_connections, or what RDS's own formula gives, and its origin in words."""
    if given is not None:
        return given, "as given"
    from mrtuner.limits.ceilings import AURORA, default_connections

    return default_connections(class_name, aurora=storage == AURORA)
