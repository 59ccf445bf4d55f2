"""Metrics from a file: CSV, JSON or Parquet with CloudWatch's names and units.

A CSV has a column ``timestamp`` (ISO 8601) and one for every metric. JSON is a list of such rows,
an object of such columns, or the output of ``aws cloudwatch get-metric-data``. Parquet needs
pyarrow. Impossible values are refused with a hint on what to specify: bytes or megabytes, or the
time zone.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mrtuner.errors import BadValue, UsageError
from mrtuner.extras import without
from mrtuner.limits.metrics.metric_units import in_cloudwatch_units
from mrtuner.limits.metrics.series import FEWEST, UNITS, MetricSeries
from mrtuner.stats.plateaus import numpy
from mrtuner.wording import plural

if TYPE_CHECKING:
    from mrtuner.stats.plateaus import Values

#: Steps are whole seconds: points of every second are hardly closer than this [s].
_CLOSEST: Final = 0.9
#: Most steps of a grid: with more, most would be gaps (a year of minutes is half as many).
MOST: Final = 1_100_000


def read(
    path: Path, *, timezone: str | None = None, throughput_unit: str | None = None
) -> MetricSeries:
    """Read the file as a series in UTC.

    `timezone` applies to timestamps without one; `throughput_unit` is one of THROUGHPUT_UNITS.
    Raises UsageError for a file that cannot be read or is too short, BadValue for values whose
    unit cannot be right, MissingPart for Parquet without pyarrow.
    """
    columns = _columns(path)
    stamps = columns.pop("timestamp", None)
    if stamps is None:
        raise UsageError(
            f"{path.name} has no timestamp column",
            "Give ISO 8601 times in a column named timestamp.",
        )
    known = {name: values for name, values in columns.items() if name in UNITS}
    if not known:
        raise UsageError(
            f"{path.name} has no RDS metrics",
            f"Use CloudWatch's names, such as {', '.join(list(UNITS)[:4])}.",
        )
    for name, values in known.items():
        _check_length(name, values, stamps)
    times = moments(stamps, _zone(timezone))
    metrics = {name: [_number(value, name) for value in values] for name, values in known.items()}
    notices = tuple(_impossible(metrics))
    series = in_cloudwatch_units(on_grid(times, metrics), throughput_unit)
    return replace(series, notices=(*notices, *series.notices))


def _check_length(name: str, values: Sequence[Any], stamps: Sequence[Any]) -> None:
    if len(values) != len(stamps):
        raise UsageError(
            f"{name} has {len(values)} values for {len(stamps)} timestamps",
            "Give one value for each timestamp, and leave missing values empty.",
        )


def _impossible(metrics: dict[str, list[float]]) -> Iterator[str]:
    """Remove impossible values, and report how many there were."""
    for name, values in metrics.items():
        wrong = [place for place, value in enumerate(values) if value < 0 or math.isinf(value)]
        for place in wrong:
            values[place] = math.nan
        if wrong:
            verb = "is" if len(wrong) == 1 else "are"
            yield f"{plural(len(wrong), 'value')} {verb} left out of {name}: negative or infinite"


def moments(stamps: Sequence[Any], zone: tzinfo | None) -> list[datetime]:
    """Timestamps in UTC; UsageError for one without a zone if none is given."""
    return [_moment(stamp, zone) for stamp in stamps]


def on_grid(
    times: Sequence[datetime], metrics: Mapping[str, Sequence[float] | Values]
) -> MetricSeries:
    """Put points in any order on equal steps of the usual size; if two coincide, the later wins.

    A metric without a value is left out. UsageError if there are too few points.
    """
    np = numpy()
    if len(times) < 2:
        raise _too_few(len(times), 60)
    seconds = np.array([time.timestamp() for time in times])
    order = np.argsort(seconds, kind="stable")
    seconds = seconds[order]
    apart = np.diff(seconds)
    usual = float(np.median(apart[apart > 0])) if (apart > 0).any() else 60.0
    if usual < _CLOSEST:
        raise UsageError(f"the points are {usual:.2g} s apart", "Give at most one per second.")
    step = round(usual)
    places = np.rint((seconds - seconds[0]) / step).astype(int)
    length = int(places[-1]) + 1
    if length > MOST:
        raise UsageError(
            f"the metrics span {length} steps of {step} s",
            "Give a shorter period, such as 14 days.",
        )
    grid = {name: _placed(values, order, places, length) for name, values in metrics.items()}
    grid = {name: values for name, values in grid.items() if np.isfinite(values).any()}
    most = max((int(np.isfinite(values).sum()) for values in grid.values()), default=0)
    if most < FEWEST:
        raise _too_few(most, step)
    repeated = int((np.diff(places) == 0).sum())
    notices = (f"{repeated} timestamps occur twice; the later values are used",) if repeated else ()
    return MetricSeries(
        start=datetime.fromtimestamp(float(seconds[0]), UTC),
        step=step,
        metrics=grid,
        notices=notices,
    )


def _too_few(points: int, step: int) -> UsageError:
    needed = FEWEST * step // 60
    return UsageError(
        f"{points} points are too few to find a ceiling",
        f"Give at least {FEWEST}: {needed} minutes at one point per {step} s. A week shows "
        "weekly patterns.",
    )


def _placed(values: Sequence[float] | Values, order: Any, places: Any, length: int) -> Values:
    np = numpy()
    grid: Values = np.full(length, np.nan)
    sorted_values = np.asarray(values, dtype=float)[order]
    known = np.isfinite(sorted_values)
    grid[places[known]] = sorted_values[known]
    return grid


def _number(value: Any, name: str) -> float:
    if value is None or value == "":
        return float("nan")
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise BadValue(
            f"{name} has the value {str(value)[:40]!r}",
            "Give numbers, and leave missing values empty.",
        ) from None
    return number


def _moment(stamp: Any, zone: tzinfo | None) -> datetime:
    if isinstance(stamp, datetime):
        moment = stamp
    else:
        try:
            moment = datetime.fromisoformat(str(stamp).strip())
        except ValueError:
            raise BadValue(
                f"cannot read the timestamp {str(stamp)[:40]!r}",
                "Give ISO 8601, such as 2026-11-01T00:00:00Z.",
            ) from None
    if moment.tzinfo is None:
        if zone is None:
            raise UsageError(
                f"the timestamp {stamp} has no time zone",
                "Give it with --timezone, such as UTC or Europe/Zagreb.",
            )
        moment = moment.replace(tzinfo=zone)
    return moment.astimezone(UTC)


def _zone(name: str | None) -> tzinfo | None:
    if name is None:
        return None
    try:
        return UTC if name.upper() == "UTC" else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise BadValue(f"unknown time zone {name!r}", "Give one such as Europe/Zagreb.") from None


# Files.


def _columns(path: Path) -> dict[str, list[Any]]:
    if path.suffix.lower() in {".parquet", ".pq"}:
        return _parquet(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", "Name another file.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path.name} is not text", "Give CSV, JSON or Parquet.") from None
    return _json(text, path) if text.lstrip()[:1] in {"{", "["} else _csv(text)


def _check_repeated(names: Sequence[str]) -> None:
    for name in ("timestamp", *UNITS):
        if names.count(name) > 1:
            raise UsageError(f"the column {name} is there more than once", "Keep one of them.")


def _csv(text: str) -> dict[str, list[Any]]:
    rows = csv.reader(text.splitlines())
    header = [name.strip() for name in next(rows, [])]
    _check_repeated(header)
    columns: dict[str, list[Any]] = {name: [] for name in header}
    for row in rows:
        if row:
            for place, name in enumerate(header):
                columns[name].append(row[place].strip() if place < len(row) else None)
    return columns


def _json(text: str, path: Path) -> dict[str, list[Any]]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise UsageError(
            f"{path.name} is not JSON: {error}", "Check whether the file is complete."
        ) from None
    if isinstance(document, list):
        return _from_rows(document)
    if "MetricDataResults" in document:
        return _from_rows(_from_cloudwatch(document["MetricDataResults"]))
    return {name: list(values) for name, values in document.items() if isinstance(values, list)}


def _from_rows(rows: Iterable[Any]) -> dict[str, list[Any]]:
    listed = [row for row in rows if isinstance(row, Mapping)]
    names = dict.fromkeys(name for row in listed for name in row)
    return {name: [row.get(name) for row in listed] for name in names}


def _from_cloudwatch(results: Iterable[Mapping[str, Any]]) -> Iterable[dict[str, Any]]:
    """One row per point; the label is the metric's name, GetMetricData's default."""
    rows: dict[str, dict[str, Any]] = {}
    for result in results:
        label, stamps = str(result.get("Label")), result.get("Timestamps", ())
        values = result.get("Values", ())
        _check_length(label, values, stamps)
        for stamp, value in zip(stamps, values, strict=True):
            row = rows.setdefault(str(stamp), {"timestamp": stamp})
            if label in row and label in UNITS:
                raise UsageError(
                    f"there are two values of {label} at {stamp}", "Give one instance's metrics."
                )
            row[label] = value
    return rows.values()


def _parquet(path: Path) -> dict[str, list[Any]]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise without("pyarrow") from None
    try:
        with path.open("rb") as file:
            names = [one for one in parquet.read_schema(file).names if one in ("timestamp", *UNITS)]
            _check_repeated(names)
            table = parquet.read_table(file, columns=names)
    except pyarrow.ArrowInvalid:
        raise UsageError(f"{path.name} is not Parquet", "Give CSV, JSON or Parquet.") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", "Name another file.") from None
    return {name: _plain(table.column(name)).to_pylist() for name in table.column_names}


def _plain(column: Any) -> Any:
    """Convert times to microseconds: Python has nothing finer, and a metric needs nothing finer."""
    import pyarrow

    kind = column.type
    if not pyarrow.types.is_timestamp(kind):
        return column
    return column.cast(pyarrow.timestamp("us", tz=kind.tz), safe=False)
