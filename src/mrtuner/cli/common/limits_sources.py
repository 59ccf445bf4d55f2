"""Where the answers of `mrtuner limits` come from: a file, an instance, a fleet, a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mrtuner.cli.common import exit_codes, options, progress, terminal
from mrtuner.cli.common.targets import TargetKind, instance_named, kind_of
from mrtuner.errors import BadValue, MrTunerError, UsageError

if TYPE_CHECKING:
    from mrtuner.aws.session import Account
    from mrtuner.limits import Limits, Series
    from mrtuner.limits.fleet import CheckedInstance

    Given = Mapping[str, Any]

_SERVERS: Final = {TargetKind.SERVER, TargetKind.LOCAL}
#: Options that some kinds of target do not accept, with the names that users type.
_OF_FILES: Final = {
    "class_name": "--class", "storage": "--volume",
    "timezone": "--timezone", "throughput_unit": "--throughput-unit",
}  # fmt: skip
_OF_ONE: Final = {**_OF_FILES, "what_if": "--what-if"}


def answer(target: str, given: Given) -> tuple[Limits, int]:
    """Return the limits of an instance, server or file, and the exit code of a watch cut short."""
    kind = kind_of(target)
    if kind in _SERVERS:
        _refuse(given, {**_OF_ONE, "max_connections": "--max-connections"}, "a server")
        if given["history"] is not None:
            return _recorded("" if kind is TargetKind.LOCAL else target, given), exit_codes.DONE
        return _watched("" if kind is TargetKind.LOCAL else target, given["watch"])
    if given["watch"] is not None:
        raise UsageError(
            "--watch is for a server outside RDS",
            "Run mrtuner limits local --watch 10m; for RDS, use --since.",
        )
    if given["history"] is not None:
        raise UsageError(
            "--history is for a server outside RDS",
            "Name the server that was recorded, such as local.",
        )
    if kind is TargetKind.FILE:
        return _of_file(Path(target), given), exit_codes.DONE
    _refuse(given, _OF_FILES, "an instance")
    return _of_instance(instance_named(target), given), exit_codes.DONE


def _refuse(given: Given, names: Mapping[str, str], what: str) -> None:
    """Raise UsageError for a given option that would not be used."""
    for key, option in names.items():
        if given[key]:
            raise UsageError(f"{option} cannot be used with {what}", "Leave it out.")


# A server that is not on RDS.


def _watched(dsn: str, seconds: float | None) -> tuple[Limits, int]:
    from mrtuner.limits.watch import watch

    options.warn_of_password(dsn)
    length = seconds or 0
    with terminal.sigterm_as_interrupt(), progress.bar() as shown:
        found = watch(dsn, length, tell=lambda left: shown.move(length - left, length, "watching"))
    if found.interrupted:
        return found.limits, exit_codes.INTERRUPTED
    return found.limits, exit_codes.UNFINISHED if found.lost else exit_codes.DONE


def _recorded(dsn: str, given: Given) -> Limits:
    import numpy as np

    from mrtuner.cli.history.remembered import remembered
    from mrtuner.history.host_metrics import host_metrics
    from mrtuner.limits import Series
    from mrtuner.limits.watch import recorded

    options.warn_of_password(dsn)
    opened = remembered(
        given["history"], given["instance"], since=given["since"], watch=given["watch"]
    )
    with opened as (history, about):
        found = host_metrics(history, about)
    metrics = {name: np.array(values, dtype=float) for name, values in found.values.items()}
    return recorded(dsn, Series(start=found.begin, step=found.step, metrics=metrics, apart=True))


# A file.


def _of_file(metrics: Path, given: Given) -> Limits:
    from mrtuner.limits import limits

    if given["class_name"] is None:
        raise UsageError(
            "the instance class is missing", "Add --class, such as --class db.r5.2xlarge."
        )
    return limits(
        _read(metrics, given["timezone"], given["throughput_unit"]),
        class_name=given["class_name"],
        storage=given["storage"],
        what_if=given["what_if"],
        connections=_connections(given["class_name"], given["max_connections"]),
    )


def _read(path: Path, timezone: str | None, unit: str | None) -> Series:
    """Read the file; if its unit cannot be right, ask the user. WrongUnit without a terminal."""
    from mrtuner.limits.metric_units import WrongUnit
    from mrtuner.limits.read import read

    try:
        return read(path, timezone=timezone, throughput_unit=unit)
    except WrongUnit as error:
        if not terminal.is_interactive():
            raise
        terminal.print_note(error.message)
        terminal.confirm(f"Read it as {error.unit}?", yes=False)
        return read(path, timezone=timezone, throughput_unit=error.unit)


# Instances of RDS.


def _of_instance(name: str, given: Given) -> Limits:
    from mrtuner.limits import limits
    from mrtuner.limits.fetch import fetch

    accounts = _accounts(given)
    if len(accounts) > 1:
        raise UsageError("an instance is in one region", "Give --region once.")
    start, end = _time(given["since"])
    with progress.bar() as shown:
        fetched = fetch(
            name, start, end, accounts[0],
            tell=lambda points, of: shown.move(points, of, f"CloudWatch: {points:,} points"),
        )  # fmt: skip
    return limits(
        fetched.series,
        name=name,
        class_name=fetched.class_name,
        storage=fetched.storage,
        what_if=given["what_if"],
        connections=_connections(fetched.class_name, given["max_connections"]),
    )


def fleet(names: Sequence[str], given: Given) -> dict[str, Any]:
    """Return the document of a fleet. It names failed regions; a sole region's error is raised."""
    from mrtuner.documents import as_builtins
    from mrtuner.limits.document import fleet_document

    _check_fleet(names, given)
    start, end = _time(given["since"])
    rows: list[CheckedInstance] = []
    failures = []
    accounts = _accounts(given)
    for account in accounts:
        try:
            rows += _region(account, names, start, end, given["max_connections"])
        except MrTunerError as error:
            if len(accounts) == 1:
                raise
            failures.append((account.region or "", error.message))
    return as_builtins(fleet_document(rows, start, end, failures))


def _check_fleet(names: Sequence[str], given: Given) -> None:
    if names and (given["all_regions"] or len(given["regions"]) > 1):
        raise UsageError("instances given by name must be in one region", "Give --region once.")
    if any(kind_of(name) is not TargetKind.NAME for name in names):
        raise UsageError(
            "a file or a server outside RDS must be the only target",
            "Run mrtuner limits for it alone.",
        )
    _refuse(given, {**_OF_ONE, "watch": "--watch", "history": "--history"}, "a fleet")


def _region(
    account: Account, names: Sequence[str], start: datetime, end: datetime, most: int | None
) -> list[CheckedInstance]:
    from mrtuner.limits.fleet import fleet, instances

    found = instances(account, names)
    each = fleet(found, start, end, account, connections=lambda c: _connections_of(c, most))
    rows: list[CheckedInstance] = []
    with progress.bar() as shown:
        for row in each:
            rows.append(row)
            said = f"{len(rows):,} of {len(found):,} instances"
            shown.move(len(rows), len(found), said)
            if len(rows) == len(found) or not len(rows) % 100:
                shown.line(said)
    return rows


def _accounts(given: Given) -> list[Account]:
    from mrtuner.aws.fleet import enabled_regions
    from mrtuner.aws.session import Account

    profile, regions = given["profile"], tuple(dict.fromkeys(given["regions"]))
    if given["all_regions"] and regions:
        raise UsageError("--all-regions and --region cannot be used together", "Use one of them.")
    if given["all_regions"]:
        regions = enabled_regions(profile)
    return [Account(region, profile) for region in regions or (None,)]


def _time(since: float) -> tuple[datetime, datetime]:
    now = datetime.now(UTC)
    return now - timedelta(seconds=since), now


def _connections_of(class_name: str, given: int | None) -> tuple[int, str] | None:
    """Like `_connections`, but None for an unknown class: the result then says so itself."""
    try:
        return _connections(class_name, given)
    except BadValue:
        return None


def _connections(class_name: str, given: int | None) -> tuple[int, str]:
    """The given max_connections, or what RDS's own formula gives, and its origin in words."""
    if given is not None:
        return given, "as given"
    from mrtuner.limits.ceilings import default_connections

    return default_connections(class_name)
