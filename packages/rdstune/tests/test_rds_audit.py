"""The audit of a fleet, in the lab: its findings, and how it goes through regions."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

import boto3
import pytest

from mrtuner.aws.rows import GroupUse, Instance, Member, RdsCluster, Scope
from mrtuner.aws.session import Account
from mrtuner.catalog import Value
from mrtuner.inputs import Workload
from mrtuner.units import GiB
from rdstune.fleet.audit import (
    AuditFinding,
    AuditRow,
    Event,
    Failure,
    Surveyed,
    _Region,
    audit,
)
from rdstune.fleet.document import audited_instance
from rdstune.group.derive import design
from rdstune.lab import Lab
from rdstune.live.assessment import far

HERE = "eu-west-1"
#: Twenty of the regions that botocore knows.
REGIONS = (
    "af-south-1", "ap-east-1", "ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-south-1",
    "ap-southeast-1", "ap-southeast-2", "ca-central-1", "eu-central-1", "eu-north-1", "eu-south-1",
    "eu-west-1", "eu-west-2", "eu-west-3", "sa-east-1", "us-east-1", "us-east-2", "us-west-1",
    "us-west-2",
)  # fmt: skip


def rds(region: str = HERE) -> Any:
    return boto3.client("rds", region_name=region)


def make(lab: Lab, name: str, class_name: str = "db.r6g.xlarge", **more: Any) -> None:
    rds().create_db_instance(
        DBInstanceIdentifier=name, DBInstanceClass=class_name, MasterUsername="postgres",
        MasterUserPassword="only in the lab",
        **({"Engine": "postgres", "EngineVersion": "17", "AllocatedStorage": 100} | more),
    )  # fmt: skip
    lab.settle()


def make_group(name: str, values: dict[str, str], method: str = "pending-reboot") -> None:
    rds().create_db_parameter_group(
        DBParameterGroupName=name, DBParameterGroupFamily="postgres17", Description="a test's"
    )
    items = list(values.items())
    for start in range(0, len(items), 20):
        rds().modify_db_parameter_group(
            DBParameterGroupName=name,
            Parameters=[
                {"ParameterName": key, "ParameterValue": value, "ApplyMethod": method}
                for key, value in items[start : start + 20]
            ],
        )


def rows(events: Iterable[Event]) -> dict[str, AuditRow]:
    return {event.instance: event for event in events if isinstance(event, AuditRow)}


def fill(lab: Lab, region: str, instances: int, groups: int = 0) -> None:
    """Create many instances, without an HTTP request for each."""
    for number in range(groups):
        lab.call(
            "CreateDBParameterGroup", region, DBParameterGroupName=f"group{number}",
            DBParameterGroupFamily="postgres17", Description="a test's",
        )  # fmt: skip
        value = {"ParameterName": "work_mem", "ParameterValue": "4096", "ApplyMethod": "immediate"}
        lab.call(
            "ModifyDBParameterGroup", region, DBParameterGroupName=f"group{number}",
            Parameters=[value],
        )  # fmt: skip
    for number in range(instances):
        group = {"DBParameterGroupName": f"group{number % groups}"} if groups else {}
        lab.call(
            "CreateDBInstance", region, DBInstanceIdentifier=f"shop{number:03}",
            DBInstanceClass="db.r6g.xlarge", Engine="postgres", EngineVersion="17",
            AllocatedStorage=100, MasterUsername="postgres",
            MasterUserPassword="only in the lab", **group,
        )  # fmt: skip


def test_an_instance_with_awss_own_group(lab: Lab) -> None:
    """RDS's default allows some 3,400 sessions. With all open and 100 active they fit. By hand:
    8.2 GB at 2.5 MB each, 7.8 GB shared, 0.8 GB for 104 sorts of 8 MB, 3 GB for autovacuum;
    there are 30.5 GB.
    """
    make(lab, "shop", MultiAZ=True)
    row = rows(audit([HERE]))["shop"]
    assert (row.region, row.class_name, row.group) == (HERE, "db.r6g.xlarge", "default.postgres17")
    assert (row.engine, row.status, row.multi_az) == ("postgres", "available", True)
    assert AuditFinding.DEFAULT in row.findings
    assert AuditFinding.OVER not in row.findings
    assert "random_page_cost" in row.assessment.drift


def test_an_instance_with_our_group_keeps_within_memory_and_does_not_drift(lab: Lab) -> None:
    group = design(
        family_name="postgres17", class_name="db.r6g.xlarge", workload="oltp", connections=200
    )
    make_group("ours", group.values)
    make(lab, "shop", DBParameterGroupName="ours")
    row = rows(audit([HERE], workload=Workload.OLTP))["shop"]
    assert row.assessment.unknown is None
    assert row.assessment.holds
    assert row.assessment.drift == ()
    assert row.findings == ()


def test_a_group_that_asks_for_bytes_where_pages_are_meant_is_over_and_out_of_range(
    lab: Lab,
) -> None:
    """A quarter of the bytes as pages of 8 kB: 2,048 times the memory."""
    make(lab, "shop")
    make_group("bytes", {"work_mem": "4096"})
    rds().modify_db_instance(
        DBInstanceIdentifier="shop", DBParameterGroupName="bytes", ApplyImmediately=True
    )
    lab.settle()
    lab.set_parameter("bytes", "shared_buffers", "{DBInstanceClassMemory/4}", region=HERE)
    row = rows(audit([HERE]))["shop"]
    assert {AuditFinding.OVER, AuditFinding.OUTSIDE} <= set(row.findings)
    assert (row.assessment.share or 0) > 2000
    assert any("shared_buffers" in one for one in row.assessment.outside)


def test_parameters_that_wait_for_a_reboot_are_seen(lab: Lab) -> None:
    make_group("waits", {})
    make(lab, "shop", DBParameterGroupName="waits")
    rds().modify_db_parameter_group(
        DBParameterGroupName="waits",
        Parameters=[
            {"ParameterName": "max_connections", "ParameterValue": "200",
             "ApplyMethod": "pending-reboot"},
        ],
    )  # fmt: skip
    lab.settle()
    row = rows(audit([HERE]))["shop"]
    assert row.apply_status == "pending-reboot"
    assert AuditFinding.WAITING in row.findings


def test_changes_that_wait_for_the_window_are_seen(lab: Lab) -> None:
    make(lab, "shop")
    rds().modify_db_instance(DBInstanceIdentifier="shop", DBInstanceClass="db.r6g.2xlarge")
    row = rows(audit([HERE]))["shop"]
    assert row.pending == ("DBInstanceClass",)
    assert AuditFinding.CHANGING in row.findings


def test_a_class_that_only_ec2_knows_is_judged_by_what_ec2_says(lab: Lab) -> None:
    make(lab, "shop")
    lab.instance("shop", HERE).class_name = "db.c5.large"
    row = rows(audit([HERE]))["shop"]
    assert row.note == (
        "class db.c5.large is not in our catalog: memory and vCPUs are taken from EC2"
    )
    assert row.assessment.unknown is None
    assert 3 * GiB < (row.assessment.memory or 0) < 4 * GiB  # a c5.large has 4 GiB


def test_a_class_that_nobody_knows_is_unknown_and_not_fine(lab: Lab) -> None:
    make(lab, "shop")
    lab.instance("shop", HERE).class_name = "db.z9x.tiny"
    row = rows(audit([HERE]))["shop"]
    assert AuditFinding.UNKNOWN in row.findings
    assert row.assessment.share is None
    assert "db.z9x.tiny" in (row.assessment.unknown or "")


def test_a_group_that_may_not_be_read_leaves_its_instances_unknown(lab: Lab) -> None:
    make_group("closed", {"work_mem": "4096"})
    make(lab, "shop", DBParameterGroupName="closed")
    lab.deny("rds:DescribeDBParameters")
    events = list(audit([HERE]))
    row = rows(events)["shop"]
    assert row.assessment.unknown == "AWS denies rds:DescribeDBParameters in eu-west-1"
    assert isinstance(events[-1], Surveyed)


def test_members_of_a_cluster_are_judged_by_the_clusters_group(lab: Lab) -> None:
    rds().create_db_cluster_parameter_group(
        DBClusterParameterGroupName="ours", DBParameterGroupFamily="aurora-postgresql16",
        Description="a test's",
    )  # fmt: skip
    rds().modify_db_cluster_parameter_group(
        DBClusterParameterGroupName="ours",
        Parameters=[
            {"ParameterName": "max_connections", "ParameterValue": "100",
             "ApplyMethod": "pending-reboot"},
        ],
    )  # fmt: skip
    rds().create_db_cluster(
        DBClusterIdentifier="orders", Engine="aurora-postgresql", EngineVersion="16",
        DBClusterParameterGroupName="ours", MasterUsername="postgres",
        MasterUserPassword="only in the lab",
    )  # fmt: skip
    rds().create_db_instance(
        DBInstanceIdentifier="orders-1", DBInstanceClass="db.r6g.large", Engine="aurora-postgresql",
        DBClusterIdentifier="orders",
    )  # fmt: skip
    lab.settle()
    row = rows(audit([HERE]))["orders-1"]
    assert (row.cluster, row.group, row.pending) == ("orders", "ours", ())
    assert row.assessment.unknown is None
    assert "max_connections" not in row.assessment.drift


def test_what_waits_on_a_cluster_is_seen_at_its_instances() -> None:
    cluster = RdsCluster(
        identifier="orders", arn="", resource_id="", engine="aurora-postgresql",
        engine_version="16.8", status="available", group="ours",
        members=(Member(identifier="orders-1", writer=True, group_status="pending-reboot"),),
        pending={"EngineVersion": "16.9", "Empty": {}},
    )  # fmt: skip
    instance = Instance(
        identifier="orders-1", arn="", resource_id="", class_name="db.r6g.large",
        engine="aurora-postgresql", engine_version="16.8", status="available", cluster="orders",
        groups=(GroupUse(name="default.aurora-postgresql16", status="failed-to-apply"),),
    )  # fmt: skip
    place = _Region(
        api=None, account=Account(HERE), workload=Workload.MIXED, clusters={"orders": cluster},
        groups={(Scope.CLUSTER, "ours"): {}},
    )  # fmt: skip
    row = place.row(instance)
    assert row.pending == ("EngineVersion (cluster orders)",)
    assert row.apply_status == "failed-to-apply"
    assert {AuditFinding.CHANGING, AuditFinding.REFUSED} <= set(row.findings)


def test_a_group_is_read_once_however_many_instances_use_it(lab: Lab) -> None:
    fill(lab, HERE, instances=12, groups=3)
    lab.forget_calls()
    assert len(rows(audit([HERE]))) == 12
    assert Counter(lab.calls) == {
        ("rds", "DescribeDBInstances"): 1,
        ("rds", "DescribeDBParameters"): 3,
    }


def test_a_region_that_fails_is_named_and_the_others_are_delivered(lab: Lab) -> None:
    for region in REGIONS[:3]:
        fill(lab, region, instances=2)
    lab.fail_region(REGIONS[1], "closed")
    events = list(audit(REGIONS[:3]))
    assert Counter(type(event) for event in events) == {AuditRow: 4, Surveyed: 2, Failure: 1}
    (failure,) = [event for event in events if isinstance(event, Failure)]
    assert failure.region == REGIONS[1]
    assert "credentials" in failure.error.message


@pytest.mark.parametrize("how", ["empty", "page"])
def test_an_answer_that_cannot_be_parsed_ends_its_region_only(
    lab: Lab, how: Literal["empty", "page"]
) -> None:
    """A proxy answers with an empty 403, or with an HTML page and status 200."""
    for region in REGIONS[:3]:
        fill(lab, region, instances=2)
    lab.fail_region(REGIONS[1], how)
    events = list(audit(REGIONS[:3]))
    assert Counter(type(event) for event in events) == {AuditRow: 4, Surveyed: 2, Failure: 1}
    (failure,) = [event for event in events if isinstance(event, Failure)]
    assert failure.region == REGIONS[1]
    assert failure.error.message == (
        f"the answer to rds:DescribeDBInstances in {REGIONS[1]} is not a valid AWS response"
    )


class Nameless(BaseHTTPRequestHandler):
    """Answers every call with an instance that has no identifier."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = (
            b"<DescribeDBInstancesResponse><DescribeDBInstancesResult><DBInstances><DBInstance>"
            b"<Engine>postgres</Engine></DBInstance></DBInstances></DescribeDBInstancesResult>"
            b"</DescribeDBInstancesResponse>"
        )
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


def test_an_instance_without_what_every_instance_has_ends_its_region_only(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Nameless) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL_RDS", f"http://127.0.0.1:{server.server_port}")
        (failure,) = audit([HERE])
        server.shutdown()
    assert isinstance(failure, Failure)
    assert (failure.region, "DBInstanceIdentifier" in failure.error.message) == (HERE, True)


def test_a_thousand_instances_in_twenty_regions(lab: Lab) -> None:
    for region in REGIONS:
        fill(lab, region, instances=50, groups=10)
    lab.forget_calls()
    events = list(audit(REGIONS))
    found = [event for event in events if isinstance(event, AuditRow)]
    assert len({(row.region, row.instance) for row in found}) == 1000
    assert {event.region for event in events if isinstance(event, Surveyed)} == set(REGIONS)
    assert Counter(lab.calls) == {
        ("rds", "DescribeDBInstances"): 20,
        ("rds", "DescribeDBParameters"): 200,
    }


def test_throttling_is_obeyed_and_costs_no_instance(lab: Lab) -> None:
    for region in REGIONS[:4]:
        fill(lab, region, instances=30, groups=2)
    lab.throttle(1)
    events = list(audit(REGIONS[:4]))
    assert lab.throttled > 0
    assert Counter(type(event) for event in events) == {AuditRow: 120, Surveyed: 4}


def test_a_region_is_read_no_further_than_somebody_takes(lab: Lab) -> None:
    """100 rows a page, 200 rows read ahead: no page after the fourth may have been asked for."""
    fill(lab, HERE, instances=600)
    lab.forget_calls()
    with closing(audit([HERE])) as events:
        next(events)
        time.sleep(0.5)  # long enough to read all six pages, if nothing held it back
        assert 1 <= lab.calls.count(("rds", "DescribeDBInstances")) <= 4
    assert lab.calls.count(("rds", "DescribeDBInstances")) <= 4
    assert not [one for one in threading.enumerate() if one.name.startswith("audit")]


def test_a_document_has_every_figure(lab: Lab) -> None:
    make(lab, "shop")
    document = audited_instance(rows(audit([HERE]))["shop"])
    assert document.memory is not None
    assert document.worst_case is not None
    assert 29 * GiB < document.memory < 32 * GiB  # of 32 GiB, less what RDS keeps
    assert document.share == pytest.approx(document.worst_case / document.memory, abs=1e-3)
    assert document.findings[-1] == "default-group"


@pytest.mark.parametrize(
    ("now", "advised", "answer"),
    [
        (100, 100, False),
        (100, 199, False),
        (100, 201, True),
        (201, 100, True),
        (4.0, 1.1, True),
        (-1, 64, True),
        (0, 0, False),
        (True, False, True),
        ("pglz", "lz4", True),
        (None, 8, True),
    ],
)
def test_values_drift_beyond_a_factor_of_two(now: Value, advised: Value, answer: bool) -> None:
    assert far(now, advised) is answer
