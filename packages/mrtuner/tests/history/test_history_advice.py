"""What `limits`, `tune` and `vacuum` take from a history, worked out by hand from samples."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from conftest import NewCluster
from history_data import MIDNIGHT, SECOND, batch, sample
from history_story import of_source, story

from command_line import run
from mrtuner.errors import UsageError
from mrtuner.history.analysis.busiest_day import busiest_days
from mrtuner.history.analysis.period import HistoryPeriod
from mrtuner.history.reading import open_history
from mrtuner.history.recorded.host_metrics import STEP, WAITING, host_metrics
from mrtuner.history.recording.sampler import Identity, Row
from mrtuner.history.recording.source import built_in
from mrtuner.history.store.writer import Batch, Writer
from mrtuner.limits import confirmation
from mrtuner.postgres.cluster import Cluster
from mrtuner.units import parse_bytes
from servers import sql

HOUR = 3600
NIGHT = datetime.fromtimestamp(MIDNIGHT // SECOND, UTC)


def written(directory: Path, *batches: Batch) -> Path:
    with Writer(directory, built_in().values()) as writer:
        writer.commit(batches)
    return directory


def period(hours: float, instance: str = "db:5432") -> HistoryPeriod:
    return HistoryPeriod(instance=instance, begin=NIGHT, end=NIGHT + timedelta(hours=hours))


# The host, for limits.


def host_batches(seconds: int) -> Iterator[Batch]:
    """60 reads a second, of 2 ms each, and 30 writes; in the second half 300 reads a second.

    Two of four CPUs are busy. In the second half, three sessions wait for reads.
    """
    host, sessions = built_in()["host"], built_in()["sessions"]
    reads = 0
    for at in range(0, seconds + 1, STEP):
        late = at > seconds // 2
        reads += STEP * (300 if late else 60) if at else 0
        row = of_source(
            "host", cpu_user=2.0 * at, cpu_system=0.0, cpu_steal=0.0, cpu_iowait=0.0,
            cpu_idle=2.0 * at, cpus=4, disk_reads=reads, disk_read_time=0.002 * reads,
            disk_writes=30 * at, memory_available=2**30,
        )  # fmt: skip
        waiting = [
            of_source(
                "sessions", pid=pid, state="active", wait_type="IO", wait_event="DataFileRead"
            )
            for pid in (1, 2, 3)
            if late
        ]
        yield batch(sample(host, at, row), sample(sessions, at, *waiting))


def test_a_recorded_host_has_the_metrics_of_cloudwatch(tmp_path: Path) -> None:
    with open_history(written(tmp_path, *host_batches(600))) as history:
        found = host_metrics(history, period(1))
    assert found.begin == NIGHT
    # The first sample has nothing to compare with; the hour has 240 steps and its end.
    reads = found.values["ReadIOPS"]
    assert (len(reads), reads[0], reads[1], reads[21], reads[41]) == (241, None, 60, 300, None)
    assert found.values["ReadLatency"][1] == pytest.approx(0.002)
    assert found.values["WriteIOPS"][1] == 30
    assert found.values["CPUUtilization"][1] == pytest.approx(50)
    assert found.values["FreeableMemory"][1] == 2**30
    assert (found.values[WAITING][1], found.values[WAITING][21]) == (0, 3)
    assert "WriteLatency" not in found.values
    assert WAITING == confirmation.WAITING


def test_the_cpu_of_a_quota_is_all_there_is(tmp_path: Path) -> None:
    """A machine of eight CPUs; the server's group may use one and used three quarters of it."""
    host = built_in()["host"]
    rows = [
        of_source("host", cpu_user=1.0 * at, cpu_system=0.0, cpu_steal=0.0, cpu_iowait=0.0,
                  cpu_idle=7.0 * at, cpus=1, group_cpu=0.75 * at)
        for at in (0, STEP)
    ]  # fmt: skip
    batches = [batch(sample(host, STEP * n, row)) for n, row in enumerate(rows)]
    with open_history(written(tmp_path, *batches)) as history:
        assert host_metrics(history, period(1)).values["CPUUtilization"][1] == pytest.approx(75)


def test_a_host_that_was_not_recorded_is_named(tmp_path: Path) -> None:
    sessions = built_in()["sessions"]
    with open_history(written(tmp_path, batch(sample(sessions, 0)))) as history:  # noqa: SIM117
        with pytest.raises(UsageError, match="the host of db:5432 was not recorded"):
            host_metrics(history, period(1))


def test_limits_judges_what_was_recorded(embedded: Cluster, tmp_path: Path) -> None:
    """An hour and a half: the disk tops out at 300 reads and 30 writes a second, and three wait."""
    written(tmp_path, *host_batches(5400))
    done = run("limits", embedded.dsn(), "--history", str(tmp_path), "--since", "120min", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["step"] == STEP
    (pegged,) = told["pegged"]
    assert (pegged["resource"], pegged["confirmed"]) == ("iops", True)
    assert pegged["level"] == pytest.approx(330)
    assert pegged["minutes"] == pytest.approx(45, abs=1)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("my-instance",), "--history is for a server outside RDS"),
        (("local", "--watch", "10s"), "--history and --watch"),
    ],
)
def test_limits_says_what_a_history_does_not_go_with(
    arguments: tuple[str, ...], why: str, tmp_path: Path
) -> None:
    done = run("limits", *arguments, "--history", str(tmp_path))
    assert (done.exit_code, done.stdout) == (2, "")
    assert why in done.stderr


# Peaks, for tune.


def test_tune_uses_the_busiest_quarter_of_an_hour(new_cluster: NewCluster, tmp_path: Path) -> None:
    """By hand, from `history_story`: ten minutes of 16 MB a second and five of 1, times 1.9; the
    server's own counters show nothing yet.
    """
    story(tmp_path)
    dsn = new_cluster().dsn()
    # With a volume of its own for WAL, free space on this machine does not limit the advice.
    machine = ("--memory", "16GB", "--cpus", "4", "--disk", "1TB", "--wal-disk", "1TB", "--json")
    found = []
    for more in ((), ("--history", str(tmp_path))):
        done = run("tune", dsn, *machine, *more)
        assert done.exit_code == 0, done.output
        advice = {one["name"]: one for one in json.loads(done.stdout)["advice"]}
        found.append(advice["max_wal_size"])
    without, remembered = found
    assert remembered["basis"] == "observed"
    by_hand = 1.9 * (600 * 16 + 300) * 1_000_000
    assert parse_bytes(remembered["value"]) == pytest.approx(by_hand, rel=0.05)
    assert without["basis"] != "observed"


# Tables, for vacuum.


def table_batches(database: str, relation: int) -> Iterator[Batch]:
    """Two days of 100 updated rows an hour, but 10,000 an hour from hour 20 to hour 30."""
    tables = built_in()["tables"]
    updated = 0
    for hour in range(49):
        updated += (10_000 if 20 < hour <= 30 else 100) if hour else 0
        row = of_source(
            "tables", database=database, schema="public", name="t", relation=relation,
            inserted=1000, updated=updated, hot_updated=0, deleted=0, vacuums=hour // 10,
            toast_inserted=0, toast_deleted=0, live=1000,
        )  # fmt: skip
        yield batch(sample(tables, hour * HOUR, row))


def test_the_busiest_day_of_a_table_is_that_in_which_most_rows_died(tmp_path: Path) -> None:
    """Ten busy hours and fourteen others."""
    with open_history(written(tmp_path, *table_batches("app", 4711))) as history:
        (day,) = busiest_days(history, period(72)).values()
    assert day.seconds == 24 * HOUR
    assert day.updated == 10 * 10_000 + 14 * 100
    assert (day.inserted, day.deleted) == (0, 0)


def test_what_was_not_recorded_of_the_busiest_day_is_no_time(tmp_path: Path) -> None:
    """A server that runs from 8 to 18 each day: a row is updated each second, for ten hours."""

    def days() -> Iterator[Batch]:
        for day in range(3):
            started = Identity(version_num=180000, started=f"day {day}", system="1", standby=False)
            for hour in range(8, 19):
                row = of_source(
                    "tables", database="app", schema="public", name="t", relation=1, inserted=0,
                    updated=HOUR * (hour - 8), hot_updated=0, deleted=0, vacuums=0, live=1000,
                )  # fmt: skip
                taken = sample(built_in()["tables"], (24 * day + hour) * HOUR, row)
                yield batch(taken, identity=started)

    with open_history(written(tmp_path, *days())) as history:
        (day,) = busiest_days(history, period(72)).values()
    assert (day.seconds, day.updated) == (10 * HOUR, 10 * HOUR)


def test_the_quiet_hours_after_the_only_changes_of_a_record_count(tmp_path: Path) -> None:
    """3,600 rows are updated in the first hour of two days, and then none."""

    def row(updated: int) -> Row:
        return of_source(
            "tables", database="app", schema="public", name="t", relation=1, inserted=0,
            updated=updated, hot_updated=0, deleted=0, vacuums=0, live=1000,
        )  # fmt: skip

    tables = built_in()["tables"]
    batches = (batch(sample(tables, hour * HOUR, row(HOUR if hour else 0))) for hour in range(49))
    with open_history(written(tmp_path, *batches)) as history:
        (day,) = busiest_days(history, period(72)).values()
    # The first hour of the record is only that in which it begins.
    assert (day.seconds, day.updated) == (23 * HOUR, HOUR)


def test_vacuum_uses_the_busiest_day(embedded: Cluster, tmp_path: Path) -> None:
    """101,400 rows a day are 1.17 a second."""
    sql(embedded.dsn(), "CREATE TABLE t (id int)", "INSERT INTO t SELECT generate_series(1, 1000)")
    ((oid,),) = sql(embedded.dsn(), "SELECT 't'::regclass::oid::int")
    written(tmp_path, *table_batches("postgres", oid))
    try:
        done = run("vacuum", embedded.dsn(), "--history", str(tmp_path), "--json")
        shown = run("vacuum", embedded.dsn(), "--history", str(tmp_path))
    finally:
        sql(embedded.dsn(), "DROP TABLE t")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["recorded"] is True
    (table,) = (one for one in told["tables"] if one["name"] == "t")
    assert table["rates"]["updates"] == pytest.approx(101_400 / 86_400)
    assert "rates of each table's busiest day in the history" in shown.stdout


def test_vacuum_names_a_database_that_was_not_recorded(embedded: Cluster, tmp_path: Path) -> None:
    written(tmp_path, *table_batches("other", 1))
    done = run("vacuum", embedded.dsn(), "--history", str(tmp_path))
    assert done.exit_code == 2
    assert "no change of a table of database postgres was recorded" in done.stderr


def test_tables_that_were_not_recorded_are_named(tmp_path: Path) -> None:
    sessions = built_in()["sessions"]
    with open_history(written(tmp_path, batch(sample(sessions, 0)))) as history:  # noqa: SIM117
        with pytest.raises(UsageError, match="have fewer than two samples"):
            busiest_days(history, period(1))
