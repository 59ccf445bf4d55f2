"""`rdstune maintenance` through the real command line, against the lab."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3
from click.testing import CliRunner, Result

from rdstune.cli import rdstune
from rdstune.lab import Lab

QUICKLY = ("--every", "0.1s", "--steady", "0.6s", "--start-timeout", "4s", "--between", "0.2s")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(rdstune, ("maintenance", *arguments))


def make(lab: Lab, name: str, window: str = "sun:05:00-sun:05:30", **more: Any) -> Any:
    rds = boto3.client("rds")
    given: dict[str, Any] = {
        "DBInstanceIdentifier": name, "DBInstanceClass": "db.t4g.micro", "Engine": "postgres",
        "EngineVersion": "18", "AllocatedStorage": 20, "MasterUsername": "app",
        "MasterUserPassword": "only in the lab", "PreferredMaintenanceWindow": window,
        "PreferredBackupWindow": "01:00-01:30",
    }  # fmt: skip
    rds.create_db_instance(**given, **more)
    lab.settle()
    return rds


def test_nothing_to_do_ends_with_0(lab: Lab) -> None:
    make(lab, "shop")
    done = run("shop", "--check", "--timezone", "Europe/Vienna")
    assert done.exit_code == 0
    assert "nothing pending" in done.stdout
    assert "(sun:05:00-sun:05:30 UTC)" in done.stdout


def test_an_update_is_shown_with_its_dates_and_its_outage_and_check_ends_with_3(lab: Lab) -> None:
    make(lab, "shop", MultiAZ=True)
    lab.add_maintenance(
        "shop", auto_applied_after=lab.now() + timedelta(days=1),
        forced=lab.now() + timedelta(days=30),
    )  # fmt: skip
    assert run("shop").exit_code == 0
    done = run("shop", "--check", "--timezone", "UTC")
    assert done.exit_code == 3
    assert "system-update" in done.stdout
    assert "AutoAppliedAfterDate" in done.stdout
    assert "ForcedApplyDate" in done.stdout
    assert "one failover, 60 to 120 s [documented]" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_an_optional_update_says_that_it_will_not_come_by_itself(lab: Lab) -> None:
    make(lab, "shop")
    lab.add_maintenance("shop")
    assert "optional: AWS applies it only after an opt-in" in run("shop").stdout


def test_parameters_that_wait_for_a_reboot_are_shown(lab: Lab) -> None:
    rds = make(lab, "shop")
    rds.create_db_parameter_group(
        DBParameterGroupName="shop18", DBParameterGroupFamily="postgres18", Description="ours"
    )
    rds.modify_db_instance(DBInstanceIdentifier="shop", DBParameterGroupName="shop18")
    lab.settle()
    done = run("shop", "--check", "--json")
    assert done.exit_code == 3
    (work,) = json.loads(done.stdout)["instances"][0]["work"]
    assert work["origin"] == "parameters waiting for a reboot"
    assert work["because"] == "no maintenance window applies them: reboot the instance yourself"


def test_a_change_that_waits_for_the_window_is_shown(lab: Lab) -> None:
    rds = make(lab, "shop")
    rds.modify_db_instance(
        DBInstanceIdentifier="shop", DBInstanceClass="db.t4g.small", ApplyImmediately=False
    )
    done = run("shop", "--check")
    assert done.exit_code == 3
    assert "DBInstanceClass changes to db.t4g.small" in done.stdout


def test_instances_of_one_tag_take_turns(lab: Lab) -> None:
    for name in ("one", "two"):
        make(lab, name, Tags=[{"Key": "app", "Value": "shop"}])
    make(lab, "alone")
    assert run("--all", "--check").exit_code == 0
    done = run("--all", "--check", "--stagger-by", "app", "--json")
    assert done.exit_code == 3
    told = json.loads(done.stdout)
    assert told["schema"] == "mrtuner.rds.maintenance/1"
    assert [one["instance"] for one in told["instances"]] == ["alone", "one", "two"]
    (move,) = told["calendar"]["moves"]
    assert (move["instance"], move["to"]) == ("two", "sun:06:00-sun:06:30")
    text = run("--all", "--stagger-by", "app").stdout
    assert "one and two (app = shop): windows at the same time" in text
    assert "--preferred-maintenance-window sun:06:00-sun:06:30" in text


def test_the_list_calls_what_it_must_and_no_more(lab: Lab) -> None:
    make(lab, "shop")
    lab.forget_calls()
    run("--all")
    assert set(lab.calls) == {
        ("rds", "DescribeDBInstances"),
        ("rds", "DescribePendingMaintenanceActions"),
    }


def test_neither_names_nor_all_is_an_error_of_usage(lab: Lab) -> None:
    done = run()
    assert done.exit_code == 2
    assert "--all" in done.stderr
    assert run("shop", "--all").exit_code == 2


def test_an_instance_that_is_not_there_is_one_clear_error(lab: Lab) -> None:
    done = run("nowhere")
    assert done.exit_code == 1
    assert "HINT:" in done.stderr


def test_a_missing_permission_is_named(lab: Lab) -> None:
    make(lab, "shop")
    lab.deny("rds:DescribePendingMaintenanceActions")
    done = run("shop")
    assert done.exit_code == 1
    assert "rds:DescribePendingMaintenanceActions" in done.stderr


def test_help_shows_both_ways() -> None:
    done = run("--help")
    assert done.exit_code == 0
    assert "rdstune maintenance orders-db" in done.stdout
    assert "rehearse" in done.stdout


def test_production_is_refused_with_4_even_with_yes(lab: Lab) -> None:
    make(lab, "shop", Tags=[{"Key": "Environment", "Value": "Production"}])
    lab.forget_calls()
    done = run("rehearse", "shop", "--connect", "host=127.0.0.1 port=1", "--yes")
    assert done.exit_code == 4
    assert "Environment=Production" in done.stderr
    assert ("rds", "RebootDBInstance") not in lab.calls


def test_without_yes_and_without_a_terminal_it_is_refused_with_4(lab: Lab) -> None:
    make(lab, "shop")
    lab.forget_calls()
    done = run("rehearse", "shop", "--connect", "host=127.0.0.1 port=1")
    assert done.exit_code == 4
    assert "planned: reboot" in done.stderr
    assert "--yes" in done.stderr
    assert ("rds", "RebootDBInstance") not in lab.calls


def test_a_rehearsal_leaves_its_report_and_its_document(server_lab: Lab, tmp_path: Path) -> None:
    page = tmp_path / "rehearsal.html"
    make(server_lab, "shop", DBName="shop")
    asked = ("rehearse", "shop", "--connect", server_lab.dsn("shop"), "--yes", "--json")
    done = run(*asked, *QUICKLY, "--html", str(page))
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["schema"] == "mrtuner.rds.rehearsal/1"
    assert told["went_away"] is True
    assert told["aws"] is False
    assert told["runs"][0]["verdict"].startswith("Clients got no answer for")
    assert "triggered: RDS, reboot, shop" in done.stderr
    html = page.read_text(encoding="utf-8")
    assert "<svg" in html
    assert "What to expect in production" in html


def test_a_clusters_update_is_shown_for_its_members(lab: Lab) -> None:
    rds = boto3.client("rds")
    rds.create_db_cluster(
        DBClusterIdentifier="fleet", Engine="aurora-postgresql", EngineVersion="16",
        MasterUsername="app", MasterUserPassword="only in the lab",
    )  # fmt: skip
    for name in ("writer", "reader"):
        rds.create_db_instance(
            DBInstanceIdentifier=name, DBInstanceClass="db.r6g.large", Engine="aurora-postgresql",
            DBClusterIdentifier="fleet",
        )  # fmt: skip
    lab.settle()
    lab.add_maintenance("fleet", "db-upgrade", description="a minor version")
    for names in (("--all",), ("writer", "reader")):
        told = json.loads(run(*names, "--json").stdout)["instances"]
        found = {one["instance"]: [work["what"] for work in one["work"]] for one in told}
        assert found == {"writer": ["db-upgrade"], "reader": ["db-upgrade"]}
        assert {one["deployment"] for one in told} == {"Aurora with a replica"}
