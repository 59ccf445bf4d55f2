"""What CloudWatch and RDS tell of an instance is recorded: against a stand-in for AWS."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import Queue

import boto3
import pytest
from moto import mock_aws

from command_line import run
from mrtuner.aws.session import Account
from mrtuner.errors import MrTunerError
from mrtuner.history.analysis.host_work import host_work
from mrtuner.history.analysis.period import HistoryPeriod
from mrtuner.history.reading import open_history
from mrtuner.history.recorded.machine import facts, host_of, instance_of
from mrtuner.history.recording.managed import (
    CLOUDWATCH,
    CloudWatchThread,
    ManagedInstance,
    managed_fleet,
)
from mrtuner.history.recording.source import built_in
from mrtuner.history.store.writer import Batch, Writer

#: A whole minute, so recent that CloudWatch still keeps points of a minute.
NOON = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(hours=1)
SHOP = ManagedInstance(name="shop", identifier="shop-prod")


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One instance, with points of ten minutes before noon: CPU 10 to 19 %, 100 reads a second."""
    for name, value in (("AWS_REGION", "eu-central-1"), ("AWS_ACCESS_KEY_ID", "x"),
                        ("AWS_SECRET_ACCESS_KEY", "x")):  # fmt: skip
        monkeypatch.setenv(name, value)
    with mock_aws():
        boto3.client("rds", "eu-central-1").create_db_instance(
            DBInstanceIdentifier="shop-prod", DBInstanceClass="db.r6g.large", Engine="postgres",
            MasterUsername="postgres", MasterUserPassword="not-a-secret", AllocatedStorage=100,
        )  # fmt: skip
        put(-10, 10)
        yield


def put(first: int, count: int) -> None:
    """Put a point for each of `count` minutes, each one per cent of CPU above the one before."""
    boto3.client("cloudwatch", "eu-central-1").put_metric_data(
        Namespace="AWS/RDS",
        MetricData=[
            {
                "MetricName": metric,
                "Dimensions": [{"Name": "DBInstanceIdentifier", "Value": "shop-prod"}],
                "Timestamp": NOON + timedelta(minutes=first + n),
                "Value": value,
            }
            for n in range(count)
            for metric, value in (("CPUUtilization", 20.0 + first + n), ("ReadIOPS", 100.0))
        ],
    )


def thread(clock: datetime, since: int | None = None) -> tuple[CloudWatchThread, Queue[Batch]]:
    queue: Queue[Batch] = Queue()
    found = CloudWatchThread(
        managed_fleet([SHOP], Account()),
        queue,
        threading.Event(),
        print,
        since={"shop": since},
        clock=lambda: clock,
    )
    return found, queue


def batches(queue: Queue[Batch]) -> list[Batch]:
    return [queue.get_nowait() for _ in range(queue.qsize())]


def cpu(found: list[Batch]) -> list[float]:
    return [
        sample.rows[0].values[0]
        for batch in found
        for sample in batch.samples
        if sample.source is CLOUDWATCH
    ]


@pytest.mark.usefixtures("aws")
def test_points_come_once_each_in_the_order_of_time() -> None:
    asking, queue = thread(NOON)
    asking.ask()
    # The last two minutes may still be on their way.
    assert cpu(batches(queue)) == [10, 11, 12, 13, 14, 15, 16, 17]
    asking.clock = lambda: NOON + timedelta(minutes=5)
    asking.ask()
    assert cpu(batches(queue)) == [18, 19]
    asking.ask()
    assert cpu(batches(queue)) == []


@pytest.mark.usefixtures("aws")
def test_a_recorder_that_starts_again_goes_on_where_it_was(tmp_path: Path) -> None:
    with Writer(tmp_path, [CLOUDWATCH, built_in()["machine"]]) as writer:
        asking, queue = thread(
            NOON - timedelta(minutes=5), writer.last_sample("shop", "cloudwatch")
        )
        asking.ask()
        writer.commit(batches(queue))
    with Writer(tmp_path, [CLOUDWATCH, built_in()["machine"]]) as writer:
        asking, queue = thread(NOON + timedelta(hours=1), writer.last_sample("shop", "cloudwatch"))
        asking.ask()
        writer.commit(batches(queue))
    with open_history(tmp_path) as history:
        assert [row["cpu"] for row in history.rows("SELECT cpu FROM cloudwatch ORDER BY time")] == [
            float(one) for one in range(10, 20)
        ]
        host = host_work(
            history, HistoryPeriod(instance="shop", begin=NOON - timedelta(hours=1), end=NOON)
        )
    assert host is not None
    assert host.cpu is not None
    assert host.cpu.average == pytest.approx(0.145)
    assert host.cpu.highest == pytest.approx(0.19)
    assert host.reads is not None
    assert host.reads.average == 100
    assert host.writes is None


@pytest.mark.usefixtures("aws")
def test_the_class_and_the_volume_of_an_instance_are_recorded_each_hour(tmp_path: Path) -> None:
    sources = [CLOUDWATCH, built_in()["machine"]]
    rds = boto3.client("rds", "eu-central-1")
    with Writer(tmp_path, sources) as writer:
        asking, queue = thread(NOON)
        asking.ask()
        rds.modify_db_instance(
            DBInstanceIdentifier="shop-prod", DBInstanceClass="db.r6g.xlarge", ApplyImmediately=True
        )
        asking.clock = lambda: NOON + timedelta(minutes=5)
        asking.ask()
        writer.commit(batches(queue))
        with open_history(tmp_path) as history:
            before = instance_of(facts(history, "shop"))
        asking.clock = lambda: NOON + timedelta(minutes=65)
        asking.ask()
        writer.commit(batches(queue))
    with open_history(tmp_path) as history:
        known = facts(history, "shop")
        asked = "SELECT count(*) FROM machine WHERE name = 'engine'"
        assert history.table(asked)[1] == [(1,)]  # what stays the same is stored once
    after = instance_of(known)
    assert before is not None
    assert after is not None
    assert (before.class_name, after.class_name) == ("db.r6g.large", "db.r6g.xlarge")
    assert (after.identifier, after.engine) == ("shop-prod", "postgres")
    assert (after.allocated_storage, after.multi_az) == (100, False)
    assert host_of(known) is None


@pytest.mark.usefixtures("aws")
def test_an_instance_that_is_not_there_is_named_at_once() -> None:
    wrong = ManagedInstance(name="shop", identifier="shop-test")
    with pytest.raises(MrTunerError, match="shop-test"):
        managed_fleet([wrong], Account())


@pytest.mark.usefixtures("aws")
def test_the_command_records_an_instance_of_rds(tmp_path: Path) -> None:
    store = str(tmp_path)
    done = run("record", "rds:shop-prod", "--dir", store, "--for", "2s")
    assert done.exit_code == 0, done.output
    asked = "SELECT DISTINCT instance FROM samples"
    told = run("history", "query", asked, "--dir", store, "--format", "csv")
    assert told.exit_code == 0, told.output


@pytest.mark.usefixtures("aws")
def test_the_region_is_an_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a region no store is made, and the hint names the command's option."""
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    store = tmp_path / "store"
    command = ["record", "rds:shop-prod", "--dir", str(store), "--for", "1s"]
    none = run(*command)
    assert none.exit_code == 1
    assert "no AWS region is set" in none.stderr
    assert "HINT: Use --region or set AWS_REGION." in none.stderr
    assert not store.exists()
    other = run(*command, "--region", "us-west-2")
    assert other.exit_code == 1
    assert "shop-prod" in other.stderr
    assert not store.exists()
    done = run(*command, "--region", "eu-central-1")
    assert done.exit_code == 0, done.output


def test_a_fleet_names_servers_and_instances_of_rds(tmp_path: Path) -> None:
    from mrtuner.history.fleet_file import read_fleet

    file = tmp_path / "fleet.toml"
    file.write_text('[instances]\nshop = "service=shop"\n[rds]\nshop = "shop-prod"\n')
    fleet = read_fleet(file)
    assert [one.name for one in fleet.instances] == ["shop"]
    assert fleet.managed == [SHOP]
