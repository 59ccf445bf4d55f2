"""Metrics read from files; values that cannot be right are refused with a way to correct them."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from mrtuner.errors import BadValue, UsageError
from mrtuner.limits import Resource, limits
from mrtuner.limits.metrics.metric_units import WrongUnit
from mrtuner.limits.metrics.read import read

HEADER = "timestamp,ReadThroughput,WriteThroughput,ReadIOPS,WriteIOPS"


def table(
    tmp_path: Path,
    *,
    points: int = 200,
    row: str = "1.5e8,5e7,4000,2000",
    stamp: str = "2026-03-01T{hour:02}:{minute:02}:00Z",
    header: str = HEADER,
) -> Path:
    lines = [header]
    lines += [
        f"{stamp.format(hour=place // 60, minute=place % 60)},{row}" for place in range(points)
    ]
    path = tmp_path / "metrics.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_csv_is_read_in_utc(tmp_path: Path) -> None:
    found = read(table(tmp_path, stamp="2026-03-01T{hour:02}:{minute:02}:00+01:00"))
    assert (found.start, found.step) == (datetime(2026, 2, 28, 23, tzinfo=UTC), 60)
    assert found.metrics["ReadIOPS"].tolist() == [4000.0] * 200


def test_json_rows_columns_and_what_cloudwatch_prints_are_the_same(tmp_path: Path) -> None:
    stamps = [f"2026-03-01T{place // 60:02}:{place % 60:02}:00Z" for place in range(150)]
    values = [40 + place for place in range(150)]
    pairs = zip(stamps, values, strict=True)
    rows = [{"timestamp": stamp, "CPUUtilization": value} for stamp, value in pairs]
    columns = {"timestamp": stamps, "CPUUtilization": values}
    result = {"Label": "CPUUtilization", "Timestamps": stamps[::-1], "Values": values[::-1]}
    documents: tuple[object, ...] = (rows, columns, {"MetricDataResults": [result]})
    for document in documents:
        path = tmp_path / "metrics.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        assert read(path).metrics["CPUUtilization"].tolist() == [40.0 + n for n in range(150)]


def test_gaps_are_gaps_and_negative_values_none(tmp_path: Path) -> None:
    path = table(tmp_path)
    lines = path.read_text(encoding="utf-8").splitlines()
    del lines[50:60]
    lines[20] = lines[20].replace("4000", "-1").replace("5e7", "")
    path.write_text("\n".join(lines), encoding="utf-8")
    found = read(path)
    assert found.points == 200
    assert np.isnan(found.metrics["ReadIOPS"]).sum() == 11
    assert np.isnan(found.metrics["WriteThroughput"]).sum() == 11


def test_negative_and_infinite_values_are_left_out_and_told(tmp_path: Path) -> None:
    path = table(tmp_path)
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[20] = lines[20].replace("4000", "-1")
    lines[30] = lines[30].replace("4000", "inf")
    lines[40] = lines[40].replace("5e7", "-inf")
    path.write_text("\n".join(lines), encoding="utf-8")
    found = read(path)
    assert np.isnan(found.metrics["ReadIOPS"]).sum() == 2
    assert found.notices == (
        "1 value is left out of WriteThroughput: negative or infinite",
        "2 values are left out of ReadIOPS: negative or infinite",
    )


@pytest.mark.parametrize(
    ("row", "column"),
    [("1.5e8,50,4000,2000", "WriteThroughput"), ("150000,5e7,4000,2000", "ReadThroughput")],
)
def test_a_unit_mistake_in_one_of_two_columns_is_refused(
    tmp_path: Path, row: str, column: str
) -> None:
    """50 MB/s in MB/s beside bytes: 0.025 bytes an operation; 150 MB/s in kB/s: 37.5 bytes."""
    with pytest.raises(BadValue, match=f"{column} over .* bytes per operation") as caught:
        read(table(tmp_path, row=row))
    assert "bytes per second" in (caught.value.hint or "")


def test_points_in_any_order_are_put_in_order_and_doubles_are_told(tmp_path: Path) -> None:
    path = table(tmp_path)
    first, *rest = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([first, *rest[::-1], rest[5]]), encoding="utf-8")
    found = read(path)
    assert found.points == 200
    assert found.notices == ("1 timestamps occur twice; the later values are used",)


@pytest.mark.parametrize(
    ("row", "unit", "bytes_per_second"),
    [("150,50,4000,2000", "MB/s", 1.5e8), ("150000,50000,4000,2000", "kB/s", 1.5e8)],
)
def test_throughput_in_another_unit_is_noticed_by_its_scale(
    tmp_path: Path, row: str, unit: str, bytes_per_second: float
) -> None:
    """150 a second by 4,000 operations would be less than a byte for each."""
    path = table(tmp_path, row=row)
    with pytest.raises(WrongUnit, match=f"looks like {unit}") as caught:
        read(path)
    assert caught.value.unit == unit
    assert f"--throughput-unit {unit}" in str(caught.value.hint)
    read_as = read(path, throughput_unit=unit)
    assert read_as.metrics["ReadThroughput"][0] == bytes_per_second


def test_megabytes_without_iops_are_noticed_too(tmp_path: Path) -> None:
    header = "timestamp,ReadThroughput,WriteThroughput"
    with pytest.raises(WrongUnit):
        read(table(tmp_path, header=header, row="150,50"))


def test_latency_in_milliseconds_is_refused(tmp_path: Path) -> None:
    path = table(tmp_path, header=HEADER + ",ReadLatency", row="1.5e8,5e7,4000,2000,5.1")
    with pytest.raises(BadValue, match="cannot be in seconds"):
        read(path)


@pytest.mark.parametrize(("queue", "refused"), [("300", False), ("0.3", True)])
def test_a_latency_of_seconds_is_believed_if_the_queue_says_so(
    tmp_path: Path, queue: str, refused: bool
) -> None:
    """By hand: 60 reads a second that take 3 s are 180 in flight; in milliseconds, 0.18."""
    header = HEADER + ",ReadLatency,DiskQueueDepth"
    path = table(tmp_path, header=header, row=f"5e5,3e5,60,40,3.0,{queue}")
    if refused:
        with pytest.raises(BadValue, match="cannot be in seconds"):
            read(path)
    else:
        assert read(path).metrics["ReadLatency"][0] == 3.0


def test_times_without_a_zone_are_asked_about(tmp_path: Path) -> None:
    path = table(tmp_path, stamp="2026-03-01 {hour:02}:{minute:02}")
    with pytest.raises(UsageError, match="has no time zone") as caught:
        read(path)
    assert "--timezone" in str(caught.value.hint)
    assert read(path, timezone="Europe/Zagreb").start == datetime(2026, 2, 28, 23, tzinfo=UTC)
    with pytest.raises(BadValue, match="unknown time zone 'Mars'"):
        read(path, timezone="Mars")


def test_too_few_points_are_told_with_how_many_are_needed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="90 points are too few") as caught:
        read(table(tmp_path, points=90))
    assert "at least 120" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no timestamp column"),
        ("time,ReadIOPS\n1,2\n", "no timestamp column"),
        ("timestamp,Reads\n2026-03-01T00:00:00Z,2\n", "no RDS metrics"),
        ("timestamp,ReadIOPS\nyesterday,2\n", "cannot read the timestamp 'yesterday'"),
        ("timestamp,ReadIOPS\n2026-03-01T00:00:00Z,many\n", "ReadIOPS has the value 'many'"),
        ("{", "is not JSON"),
    ],
)
def test_a_file_that_is_something_else_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=message) as caught:
        read(path)
    assert caught.value.hint


@pytest.mark.parametrize("name", ["ReadIOPS", "timestamp"])
def test_a_column_that_is_there_twice_is_refused(tmp_path: Path, name: str) -> None:
    path = table(tmp_path, header=f"{HEADER},{name}", row="1.5e8,5e7,4000,2000,4000")
    with pytest.raises(UsageError, match=f"the column {name} is there more than once"):
        read(path)


def test_an_unknown_column_may_be_there_twice(tmp_path: Path) -> None:
    path = table(tmp_path, header=f"{HEADER},host,host", row="1.5e8,5e7,4000,2000,a,a")
    assert read(path).points == 200


@pytest.mark.parametrize("length", [149, 151])
def test_columns_of_different_lengths_are_refused(tmp_path: Path, length: int) -> None:
    stamps = [f"2026-03-01T{place // 60:02}:{place % 60:02}:00Z" for place in range(150)]
    result = {"Label": "CPUUtilization", "Timestamps": stamps, "Values": [40] * length}
    documents: tuple[object, ...] = (
        {"timestamp": stamps, "CPUUtilization": [40] * length}, {"MetricDataResults": [result]},
    )  # fmt: skip
    for document in documents:
        path = tmp_path / "metrics.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        with pytest.raises(UsageError, match=f"has {length} values for 150 timestamps"):
            read(path)


def test_two_instances_in_one_answer_of_cloudwatch_are_refused(tmp_path: Path) -> None:
    stamps = [f"2026-03-01T{place // 60:02}:{place % 60:02}:00Z" for place in range(150)]
    result = {"Label": "CPUUtilization", "Timestamps": stamps, "Values": [40] * 150}
    path = tmp_path / "metrics.json"
    path.write_text(json.dumps({"MetricDataResults": [result, result]}), encoding="utf-8")
    with pytest.raises(UsageError, match="two values of CPUUtilization"):
        read(path)


@pytest.mark.parametrize(
    ("seconds", "off", "step"),
    [(60, 0.001, 60), (15, 0.002, 15), (1, 0.0004, 1)],
)
def test_a_step_is_the_nearest_number_of_seconds(
    tmp_path: Path, seconds: int, off: float, step: int
) -> None:
    """Each point is a bit earlier than due, so the median is a bit below the interval."""
    began = datetime(2026, 3, 1, tzinfo=UTC)
    moments = [began + timedelta(seconds=n * (seconds - off)) for n in range(200)]
    path = tmp_path / "metrics.csv"
    lines = [f"{moment.isoformat()},{n}" for n, moment in enumerate(moments)]
    path.write_text("\n".join(["timestamp,CPUUtilization", *lines]), encoding="utf-8")
    found = read(path)
    assert (found.step, found.points) == (step, 200)
    assert found.metrics["CPUUtilization"].tolist() == list(range(200))


def test_points_closer_than_a_second_are_refused(tmp_path: Path) -> None:
    moments = [datetime(2026, 3, 1, tzinfo=UTC) + timedelta(seconds=n / 2) for n in range(200)]
    path = tmp_path / "metrics.csv"
    lines = [f"{moment.isoformat()},40" for moment in moments]
    path.write_text("\n".join(["timestamp,CPUUtilization", *lines]), encoding="utf-8")
    with pytest.raises(UsageError, match=r"the points are 0\.5 s apart"):
        read(path)


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read(tmp_path / "none.csv")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_parquet_says_the_same_as_csv(tmp_path: Path, unit: str) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    times = [datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=n) for n in range(150)]
    columns = {
        "timestamp": pa.array(times, pa.timestamp(unit, tz="UTC")),
        "CPUUtilization": pa.array([40.0 + n for n in range(149)] + [None]),
        "host": pa.array(["a"] * 150),
    }
    parquet.write_table(pa.table(columns), tmp_path / "metrics.parquet")
    found = read(tmp_path / "metrics.parquet")
    assert (found.start, found.step, found.points) == (times[0], 60, 150)
    assert found.metrics["CPUUtilization"][:149].tolist() == [40.0 + n for n in range(149)]
    assert np.isnan(found.metrics["CPUUtilization"][149])


def test_a_file_that_is_no_parquet_or_not_there_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "metrics.parquet"
    with pytest.raises(UsageError, match=r"cannot read .*: No such file or directory$"):
        read(path)
    path.write_text("timestamp,ReadIOPS\n", encoding="utf-8")
    with pytest.raises(UsageError, match="is not Parquet"):
        read(path)


def test_parquet_without_pyarrow_is_one_sentence(tmp_path: Path) -> None:
    """Run in a separate process in which pyarrow cannot be imported."""
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from pathlib import Path; from mrtuner.limits.metrics.read import read\n"
        "from mrtuner.errors import MissingPart\n"
        "try: read(Path('metrics.parquet'))\n"
        "except MissingPart as error: print(error.message, error.hint)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout == (
        "not installed: pyarrow Run: pip install 'mrtuner[parquet]', or take CSV or JSON.\n"
    )


def test_reads_without_writes_are_not_judged_and_that_is_said(tmp_path: Path) -> None:
    header = "timestamp,ReadThroughput,ReadIOPS,CPUUtilization"
    path = table(tmp_path, header=header, row="1.5e8,4000,40")
    found = limits(path, class_name="db.r5.2xlarge")
    assert [(one.name, one.why) for one in found.unjudged] == [
        ("throughput", "WriteThroughput missing"),
        ("iops", "WriteIOPS missing"),
        ("network in", "NetworkReceiveThroughput missing"),
        ("network out", "NetworkTransmitThroughput missing"),
        ("connections", "DatabaseConnections missing"),
    ]
    assert found.verdict.endswith(
        "throughput, iops, network in, network out and connections could not be judged"
    )


@pytest.mark.parametrize(
    ("even", "odd", "iops", "cpu"),
    [
        (
            "1e7,5e6,,,40", "1e7,5e6,,,40",
            "ReadIOPS, WriteIOPS missing", None,
        ),
        (
            "1e7,5e6,900,,40", "1e7,5e6,,300,",
            "fewer than 120 points have ReadIOPS and WriteIOPS",
            "fewer than 120 points have CPUUtilization",
        ),
    ],
    ids=["empty", "never in the same minute"],
)  # fmt: skip
def test_columns_with_too_few_values_are_not_judged(
    tmp_path: Path, even: str, odd: str, iops: str, cpu: str | None
) -> None:
    """Of 200 minutes every second one has a CPUUtilization: 100."""
    path = table(tmp_path, header=f"{HEADER},CPUUtilization", row=even)
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[2::2] = [line.replace(even, odd) for line in lines[2::2]]
    path.write_text("\n".join(lines), encoding="utf-8")
    found = limits(path, class_name="db.r5.2xlarge")
    why = {one.name: one.why for one in found.unjudged}
    assert (why["iops"], why.get("cpu")) == (iops, cpu)
    assert "throughput" not in why
    assert (Resource.CPU in found.needs) is (cpu is None)  # a class needs as many vCPUs without it


def test_nothing_to_judge_at_all_is_refused(tmp_path: Path) -> None:
    path = table(tmp_path, header="timestamp,ReadThroughput,ReadIOPS", row="1.5e8,4000")
    with pytest.raises(UsageError, match="no resource can be judged"):
        limits(path, class_name="db.r5.2xlarge")


def test_a_class_that_does_not_exist_names_close_ones(tmp_path: Path) -> None:
    with pytest.raises(BadValue, match="unknown instance class") as caught:
        limits(table(tmp_path), class_name="db.r5.3xlarge")
    assert "db.r5." in str(caught.value.hint)
