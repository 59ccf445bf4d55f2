"""`mrtuner check rds:NAME`: what AWS tells of an instance, beside the checks of its server."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from command_line import run
from json_schemas import assert_valid
from mrtuner.answers import check
from mrtuner.aws.errors import AwsError
from mrtuner.aws.session import client as aws_client
from mrtuner.catalog.classes import instance_class
from mrtuner.catalog.families import family
from mrtuner.checks.report import CheckReport
from mrtuner.errors import BadValue
from mrtuner.findings import Finding
from mrtuner.formula.class_memory import class_memory
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from mrtuner.postgres.platform import managed
from mrtuner.postgres.read_server import read
from mrtuner.tuning import gather, tune_server
from mrtuner.units import Bytes, GiB
from rds_flows import new_group, new_instance, new_slow_instance
from rdstune.group.request import in_force
from rdstune.lab import Lab
from rdstune.live.assessment import assess

#: The lab's endpoints resolve to nothing, so that only AWS's side is judged.
OF_AWS = {
    "rds-backups-off", "rds-ceiling-reached", "rds-group", "rds-maintenance", "rds-status",
    "rds-storage", "rds-waiting",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRTUNER_CACHE_DIR", str(tmp_path))


def of(report: CheckReport, name: str) -> list[Finding]:
    return [one for one in report.findings if one.id == name]


def why(report: CheckReport, name: str) -> str:
    (found,) = [one.why for one in report.unjudged if one.name == name]
    return found


def free(name: str, *gigabytes: float) -> None:
    """Free storage, every five minutes until now."""
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    points = [
        {
            "MetricName": "FreeStorageSpace",
            "Dimensions": [{"Name": "DBInstanceIdentifier", "Value": name}],
            "Timestamp": now - timedelta(minutes=5 * (len(gigabytes) - place)),
            "Value": each * GiB,
        }
        for place, each in enumerate(gigabytes)
    ]
    aws_client("cloudwatch").put_metric_data(Namespace="AWS/RDS", MetricData=points)


def test_a_healthy_instance_passes_and_what_nobody_measured_is_not_judged(
    client: object, lab: Lab
) -> None:
    new_instance(client, lab, "db1", BackupRetentionPeriod=7)
    report = check("rds:db1")
    assert report.findings == ()
    assert set(report.passed) == OF_AWS - {"rds-storage", "rds-ceiling-reached"}
    assert why(report, "rds-storage") == "CloudWatch has no FreeStorageSpace of the last day"
    assert why(report, "rds-ceiling-reached").startswith("CloudWatch has no data for db1")
    assert "lock-queue" in {one.name for one in report.unjudged}  # the server is not there
    assert "free-space" in report.skipped  # rds-storage answers it


def test_an_instance_in_trouble_is_told_with_what_is_lost_first(client: object, lab: Lab) -> None:
    """8,192 kB of work_mem are 8 MB; 8 million are 8 GB for each sort."""
    new_group(client, "big", work_mem="8000000")
    new_instance(client, lab, "db1", "big", BackupRetentionPeriod=0)
    lab.add_maintenance("db1", forced=datetime.now(UTC) + timedelta(days=3))
    free("db1", *([50.0] * 100), 3.0)  # of 100 GB
    report = check("rds:db1")
    assert [(one.id, one.severity.value) for one in report.findings] == [
        ("rds-group", "danger"), ("rds-storage", "danger"), ("rds-backups-off", "to do"),
        ("rds-maintenance", "to know"),
    ]  # fmt: skip
    assert of(report, "rds-storage")[0].text == ("the volume of db1 has 3 GB free of 100 GB (3%)")
    (maintenance,) = of(report, "rds-maintenance")
    assert maintenance.harm_in == pytest.approx(3 * 86_400, abs=60)
    assert "system-update" in maintenance.text


def test_storage_that_fills_up_is_told_with_its_time(client: object, lab: Lab) -> None:
    """80 GB and 1 GB less every five minutes for 100 minutes: 60 GB last five hours."""
    new_instance(client, lab, "db1", BackupRetentionPeriod=7)
    free("db1", *(float(80 - step) for step in range(21)))
    (found,) = of(check("rds:db1"), "rds-storage")
    assert found.severity == "danger"
    assert found.harm_in == pytest.approx(5 * 3600, rel=0.01)


def test_values_that_wait_for_a_reboot_and_an_instance_that_is_down(
    client: object, lab: Lab
) -> None:
    new_group(client, "ours")
    new_instance(client, lab, "db1", "ours", BackupRetentionPeriod=7)
    aws_client("rds").modify_db_parameter_group(
        DBParameterGroupName="ours",
        Parameters=[{"ParameterName": "max_connections", "ParameterValue": "200",
                     "ApplyMethod": "pending-reboot"}],
    )  # fmt: skip
    lab.settle()
    (waiting,) = of(check("rds:db1"), "rds-waiting")
    assert waiting.text == "values of group ours wait for a reboot of db1"
    assert waiting.severity == "to know"
    lab.instance("db1").status = "storage-full"
    (down,) = of(check("rds:db1"), "rds-status")
    assert (down.severity, down.text) == ("danger", "db1 is storage-full")
    lab.instance("db1").status = "modifying"
    assert "rds-status" in check("rds:db1").passed
    lab.instance("db1").status = "incompatible-create"
    unknown = check("rds:db1")
    assert "rds-status" not in unknown.passed
    assert why(unknown, "rds-status") == ("db1 is incompatible-create, a status unknown to MrTuner")


def test_what_aws_denies_is_not_judged_and_an_unknown_instance_is_an_error(
    client: object, lab: Lab
) -> None:
    new_group(client, "closed", work_mem="4096")
    new_instance(client, lab, "db1", "closed", BackupRetentionPeriod=7)
    lab.deny("rds:DescribeDBParameters", "rds:DescribePendingMaintenanceActions")
    report = check("rds:db1")
    assert why(report, "rds-group").startswith("AWS denies rds:DescribeDBParameters")
    assert why(report, "rds-maintenance").startswith(
        "AWS denies rds:DescribePendingMaintenanceActions"
    )
    assert "rds-group" not in report.passed
    with pytest.raises(AwsError, match="db9"):
        check("rds:db9")
    done = run("check", "rds:db1", "rds:db9")
    assert done.exit_code == 3, done.output
    assert "not judged: rds:db9: every check" in done.stdout
    assert "not judged: rds:db1: " in done.stdout


def test_a_ceiling_of_the_last_day_is_told(lab: Lab) -> None:
    """Five hours until ten minutes ago, from the week whose load ran flat at 213 MB/s."""
    began = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=310)
    names = ("ReadThroughput", "WriteThroughput", "DiskQueueDepth")
    new_slow_instance(began, 300, names, 7 * 60 + 30)
    (found,) = of(check("rds:slow"), "rds-ceiling-reached")
    assert found.severity == "to do"
    assert "213 MB/s" in " ".join(found.evidence)
    assert found.basis.startswith("CloudWatch")


def test_the_server_behind_an_instance_is_checked_as_well(
    server_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory is that of the class, so that the budget is judged without --memory."""
    from mrtuner.postgres.connect import resolved

    new_instance(
        aws_client("rds"), server_lab, "db1", DBInstanceClass="db.t4g.medium", EngineVersion="18",
        DBName="shop",
    )  # fmt: skip
    known = resolved(server_lab.dsn("db1"))
    monkeypatch.setenv("PGUSER", known["user"].value)
    monkeypatch.setenv("PGDATABASE", "shop")
    monkeypatch.setenv("PGPASSFILE", known["passfile"].value)
    done = run("check", "rds:db1", "--json")
    assert done.exit_code == 3, done.output
    told = json.loads(done.stdout)
    assert_valid(told, "mrtuner.check/1")
    (server,) = told["servers"]
    assert server["target"] == "rds:db1"
    assert server["database"] == "shop"
    assert {"lock-queue", "rds-status", "rds-group"} <= set(server["passed"])
    # The lab's servers do not wait for their disk. Of memory the group's check judges.
    assert {one["id"] for one in server["findings"]} == {"durability-off"}
    assert "memory-overcommitted" in server["skipped"]
    assert "DB parameter group" in server["findings"][0]["remedy"][0]
    assert "ALTER SYSTEM" not in done.stdout


def test_an_instance_goes_with_a_server_that_is_reached_in_another_way(
    embedded: Cluster, client: object, lab: Lab
) -> None:
    new_instance(client, lab, "db1", BackupRetentionPeriod=0)
    report = check(embedded.dsn(), including=["rds:db1"], memory="8GB")
    (found,) = of(report, "rds-backups-off")
    assert str(found.remedy[0]).endswith("--backup-retention-period 7 --apply-immediately  "
                                         "# a short pause of I/O")  # fmt: skip
    assert "lock-queue" in report.passed
    aws_client("rds").modify_db_instance(
        DBInstanceIdentifier="db1", DBInstanceClass="db.r6g.2xlarge"
    )
    (found,) = of(check(embedded.dsn(), including=["rds:db1"], memory="8GB"), "rds-backups-off")
    # It would start the change of the class, too.
    assert " --apply-immediately  #" not in found.remedy[0]
    assert "--apply-immediately would start DBInstanceClass as well" in found.remedy[0]
    lab.deny("rds:DescribeDBInstances")
    denied = check(embedded.dsn(), including=["rds:db1"], memory="8GB")
    assert {one.name for one in denied.unjudged} >= OF_AWS
    with pytest.raises(BadValue, match="nothing looks at 'azure:db1'"):
        check(embedded.dsn(), including=["azure:db1"])


@pytest.mark.parametrize("engine", ["postgres", "aurora-postgresql"])
@pytest.mark.parametrize("class_name", ["db.t4g.medium", "db.r6g.large", "db.r5.2xlarge"])
def test_the_group_and_its_server_are_judged_alike(
    class_name: str, engine: str, embedded: Cluster
) -> None:
    """By default no class is blamed, although thousands of sessions may use 4 MB each, and hashes
    twice that. With 640 MB of work_mem even one of 100 for 64 GB takes too much.
    """

    def verdicts(**values: str) -> tuple[bool, bool]:
        return judged(class_name, engine, values), _of_server(class_name, engine, values, embedded)

    assert verdicts() == (False, False)
    assert verdicts(work_mem="5120") == (False, False)
    assert verdicts(max_connections="8000") == (True, True)
    assert verdicts(work_mem=str(640 * 1024)) == (True, True)
    # In between, they change their minds at the same value.
    alike = [verdicts(work_mem=str(2**power)) for power in range(12, 20)]
    assert [group for group, _ in alike] == [server for _, server in alike]


def judged(class_name: str, engine: str, values: dict[str, str]) -> bool:
    found = assess(
        values, family_name=f"{engine}18", each=instance_class(class_name),
        storage=Bytes(100 * GiB),
    )  # fmt: skip
    assert found.unknown is None
    return found.overcommitted is not None


def _of_server(class_name: str, engine: str, values: dict[str, str], cluster: Cluster) -> bool:
    """The same of a real server, told with the settings that the group gives it on the class."""
    kind = instance_class(class_name)
    memory = class_memory(kind, engine).low
    machine = {"DBInstanceClassMemory": memory, "DBInstanceVCPU": kind.vcpus,
               "AllocatedStorage": 100 * GiB, "EndPointPort": 5432}  # fmt: skip
    texts, _ = in_force(family(f"{engine}18"), machine, values)
    texts["wal_buffers"] = "2048"  # a server shows what -1 came to
    if kind.name == "db.t4g.medium":  # RDS User Guide, Huge pages: not on micro, small and medium
        texts["huge_pages"] = "off"
    with connect(cluster.dsn()) as conn:
        server = read(conn)
    server = replace(
        server, local_pid=None,
        platform=managed("aurora" if engine.startswith("aurora") else "rds", "stated"),
        settings={
            name: replace(one, setting=texts[name], origin="file") if name in texts else one
            for name, one in server.settings.items()
        },
    )  # fmt: skip
    found = tune_server(server, gather.flags(memory=memory, cpus=kind.vcpus)).findings
    return "memory-overcommitted" in {one.id for one in found}
