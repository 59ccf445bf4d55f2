"""A fleet in the lab: every instance judged from few calls, with a cache; and what Aurora has."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import command_line
from json_schemas import assert_valid
from mrtuner.aws.session import Account, client
from mrtuner.limits import Resource, limits
from mrtuner.limits.document import fleet_document
from mrtuner.limits.examples.week import CLASS, simulated_week
from mrtuner.limits.fleet import METRICS, fleet, instances
from mrtuner.limits.metrics.fetch import fetch, fetch_all
from mrtuner.limits.text import fleet_lines
from rdstune.lab import Lab

#: The example from 7:30 on: half an hour of calm, then the day at 213 MB/s.
FROM, POINTS = 7 * 60 + 30, 180
SHOWN = (
    "ReadThroughput", "WriteThroughput", "ReadIOPS", "WriteIOPS", "DiskQueueDepth",
    "CPUUtilization", "NetworkReceiveThroughput", "NetworkTransmitThroughput",
    "DatabaseConnections",
)  # fmt: skip


@pytest.fixture
def began() -> datetime:
    return datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=POINTS + 2)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MRTUNER_CACHE_DIR", str(tmp_path))
    return tmp_path


def make(name: str, **more: Any) -> None:
    rds: Any = client("rds")
    rds.create_db_instance(
        DBInstanceIdentifier=name,
        **(
            {
                "DBInstanceClass": CLASS, "Engine": "postgres", "AllocatedStorage": 1000,
                "StorageType": "io1", "Iops": 30000, "MasterUsername": "me",
                "MasterUserPassword": "correct-horse",
            }
            | more
        ),
    )  # fmt: skip


def make_aurora(name: str) -> None:
    rds: Any = client("rds")
    rds.create_db_cluster(
        DBClusterIdentifier=f"{name}-cluster", Engine="aurora-postgresql", MasterUsername="me",
        MasterUserPassword="correct-horse",
    )  # fmt: skip
    rds.create_db_instance(
        DBInstanceIdentifier=name, DBClusterIdentifier=f"{name}-cluster", DBInstanceClass=CLASS,
        Engine="aurora-postgresql",
    )  # fmt: skip


def measure(name: str, began: datetime, **more: NDArray[np.float64]) -> None:
    told = {
        metric: simulated_week().metrics[metric][FROM : FROM + POINTS] for metric in SHOWN
    } | more
    for metric, values in told.items():
        data = [
            {
                "MetricName": metric,
                "Dimensions": [{"Name": "DBInstanceIdentifier", "Value": name}],
                "Timestamp": began + timedelta(minutes=minute),
                "Value": float(values[minute]),
            }
            for minute in range(POINTS)
        ]
        client("cloudwatch").put_metric_data(Namespace="AWS/RDS", MetricData=data)


@pytest.fixture
def three(lab: Lab, began: datetime) -> Lab:
    """Three instances: one at its limit, one of Aurora with the same metrics, one without any."""
    make("slow")
    make_aurora("far")
    make("new")
    for name in ("slow", "far"):
        measure(name, began)
    lab.forget_calls()
    return lab


run = partial(command_line.run, "limits")


def asked(lab: Lab) -> list[str]:
    return [action for _, action in lab.calls]


def test_a_fleet_is_judged_from_two_calls(three: Lab, began: datetime) -> None:
    """Three instances with 13 metrics each fit into one call of 500."""
    now = datetime.now(UTC)
    rows = {row.instance: row for row in fleet(instances(Account()), began, now, Account())}
    assert asked(three) == ["DescribeDBInstances", "GetMetricData"]
    (at,) = rows["slow"].pegged
    assert at.ceiling == "instance throughput, before December 2019"
    assert at.level == pytest.approx(213e6, rel=0.01)
    assert rows["slow"].unjudged == ()
    assert rows["new"].unknown == "CloudWatch has no data for new in that period"
    told = fleet_document(list(rows.values()), began, now)
    assert told.instances[-1].instance == "new"
    text = list(fleet_lines(told))
    assert any("instance throughput, before December 2019" in line for line in text)
    assert any(line.startswith("2 of 3 instances reached a limit") for line in text)
    assert text[0] == "not judged: 1 x CloudWatch has no data for new in that period"


def test_an_instance_of_a_fleet_is_judged_by_its_network_too(lab: Lab, began: datetime) -> None:
    """A db.r5.2xlarge sustains 2.5 Gbps: 312.5 MB/s; half of the time it sends just that."""
    make("sends")
    random = np.random.default_rng(2)
    sent = 60e6 * random.lognormal(0, 0.2, POINTS)
    sent[POINTS // 2 :] = 312.5e6 * random.normal(1, 0.001, POINTS // 2)
    calm = {metric: random.lognormal(4, 0.3, POINTS) for metric in SHOWN[:5]}
    measure("sends", began, NetworkTransmitThroughput=sent, **calm)
    (row,) = fleet(instances(Account()), began, datetime.now(UTC), Account())
    assert [one.ceiling for one in row.pegged] == ["instance network out"]


def test_the_command_lists_them_and_a_check_ends_with_3(three: Lab) -> None:
    done = run("--all", "--since", "4h", "--json", "--check")
    assert done.exit_code == 3, done.output
    told = json.loads(done.stdout)
    assert told["schema"] == "mrtuner.limits.fleet/1"
    assert {one["instance"] for one in told["instances"]} == {"slow", "far", "new"}
    assert "3 of 3 instances" in done.stderr
    assert_valid(told, "mrtuner.limits.fleet/1")


def test_some_may_be_named(lab: Lab) -> None:
    for name in ("new", "newer", "newest"):
        make(name)
    named = run("newer", "new", "--since", "4h")
    assert named.exit_code == 0, named.output
    assert "0 of 2 instances reached a limit" in named.stdout
    assert "not judged: 1 x CloudWatch has no data for new in that period" in named.stdout


def test_no_more_goes_into_a_call_than_cloudwatch_takes(lab: Lab, began: datetime) -> None:
    """38 instances of 13 metrics are 494 queries, so 130 need four calls."""
    make("one")
    (one,) = instances(Account())
    many = [replace(one, identifier=f"i{n}", resource_id=f"db-{n}") for n in range(130)]
    lab.forget_calls()
    found = list(fetch_all(many, began, datetime.now(UTC), Account(), metrics=METRICS))
    assert len(found) == 130
    assert asked(lab) == ["GetMetricData"] * 4


def test_days_of_a_fleet_serve_a_fleet_but_not_one_instance_with_more_metrics(
    three: Lab, began: datetime
) -> None:
    """A day is kept with the metrics that were asked for, even with those that have no points."""
    midnight = began.replace(hour=0, minute=0) - timedelta(days=3)
    until = midnight + timedelta(days=2)
    some = instances(Account(), ["slow"])
    three.forget_calls()
    for _ in range(2):
        list(fetch_all(some, midnight, until, Account(), metrics=METRICS))
    assert asked(three) == ["GetMetricData"] * 2  # the second ends too late to be kept
    three.forget_calls()
    whole = midnight + timedelta(days=1)
    list(fetch_all(some, midnight, whole - timedelta(minutes=1), Account(), metrics=METRICS))
    assert asked(three) == []
    list(fetch_all(some, midnight, whole - timedelta(minutes=1), Account()))
    assert asked(three) == ["GetMetricData"]


def test_of_aurora_what_holds_is_told_and_ebs_is_not_compared(three: Lab, began: datetime) -> None:
    """The metrics of `slow`: flat, and operations wait, but no limit is published."""
    found = fetch("far", began, datetime.now(UTC), Account())
    assert found.storage == "aurora"
    answer = limits(found.series, class_name=found.class_name, storage=found.storage)
    kinds = {one.resource for one in answer.ceilings}
    assert {Resource.CPU, Resource.MEMORY, Resource.NETWORK_OUT} <= kinds
    assert kinds.isdisjoint({Resource.THROUGHPUT, Resource.IOPS})
    assert any("not an EBS volume" in text for text in answer.notices)
    (one,) = answer.pegged
    assert one.ceiling is None
    assert answer.candidates == ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a", "b", "--what-if", "db.r5.large"], "--what-if cannot be used with a fleet"),
        (["a", "local"], "must be the only target"),
        (["--all", "--html", "x.html"], "--html is for a single instance"),
        (["--all", "--all-regions", "--region", "eu-west-1"], "cannot be used together"),
        (["a", "b", "--all-regions"], "must be in one region"),
        (["a", "--all-regions"], "--all-regions needs --all"),
        (["a", "--region", "eu-west-1", "--region", "eu-west-2"], "an instance is in one region"),
        (["local", "--class", "db.r5.large"], "--class cannot be used with a server"),
        (["a", "--volume", "gp3:100GB"], "--volume cannot be used with an instance"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments: list[str], message: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert message in done.stderr.splitlines()[0]


def test_regions_that_fail_are_named_and_the_exit_code_tells(lab: Lab) -> None:
    lab.deny("rds:DescribeDBInstances")
    done = run("--all", "--region", "us-east-1", "--region", "eu-west-2", "--json")
    assert done.exit_code == 1
    told = json.loads(done.stdout)
    assert [one["region"] for one in told["failures"]] == ["us-east-1", "eu-west-2"]
    alone = run("--all", "--region", "us-east-1")
    assert alone.exit_code == 1
    assert alone.stderr.startswith("error: ")
