"""What rdstune writes with --json satisfies the JSON Schemas in docs/reference/schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from click.testing import CliRunner
from test_docs_json import schema_of

from labs import lead_to
from mrtuner.aws import rds
from mrtuner.aws.session import client
from mrtuner.documents import as_builtins
from mrtuner.rehearsal.observation import Attempt, Observation, ProbeKind, ServerIdentity, balanced
from mrtuner.rehearsal.run import TimelineMark
from rdstune.cli import rdstune
from rdstune.fleet.document import rehearsal_document
from rdstune.fleet.outage import Deployment
from rdstune.fleet.rehearsal import RehearsalPlan, Run
from rdstune.lab import Lab
from rdstune.lab.document import lab_document

MACHINE = ("--class", "db.m7g.large", "--family", "postgres18", "--connections", "100")


@pytest.fixture(scope="module")
def _shop() -> Iterator[Lab]:
    """Two instances that share a maintenance window, and a parameter group with a mistake."""
    with Lab(speed=6000) as lab:
        lab.call(
            "CreateDBParameterGroup", DBParameterGroupName="wrong",
            DBParameterGroupFamily="postgres18", Description="bytes where pages are meant",
        )  # fmt: skip
        wrong = {"ParameterName": "shared_buffers", "ParameterValue": "{DBInstanceClassMemory/4}",
                 "ApplyMethod": "pending-reboot"}  # fmt: skip
        lab.call("ModifyDBParameterGroup", DBParameterGroupName="wrong", Parameters=[wrong])
        for name in ("first", "second"):
            lab.call(
                "CreateDBInstance", DBInstanceIdentifier=name, DBInstanceClass="db.m7g.large",
                Engine="postgres", EngineVersion="18", AllocatedStorage=100,
                MasterUsername="master", MasterUserPassword="not a secret at all",
                PreferredMaintenanceWindow="sun:05:00-sun:05:30",
                Tags=[{"Key": "app", "Value": "shop"}],
            )  # fmt: skip
        lab.settle()
        yield lab


@pytest.fixture
def shop(_shop: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lab:
    lead_to(_shop, monkeypatch)
    monkeypatch.setenv("MRTUNER_STATE_DIR", str(tmp_path))
    return _shop


def output(*arguments: str, code: int = 0) -> Any:
    """The document that a command writes."""
    done = CliRunner().invoke(rdstune, [*arguments, "--json"], prog_name="rdstune")
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def check(schema: str, *documents: Any) -> None:
    """Check documents against their schema, which must reject a wrong value in any field."""
    satisfied = schema_of(f"{schema.replace('/', '-')}.json")
    for document in documents:
        assert document["schema"] == schema
        jsonschema.validate(document, satisfied)
        for name in document:
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate(document | {name: [[]]}, satisfied)


def test_a_group() -> None:
    without = output("show", *MACHINE[:-2])
    check("mrtuner.rds.group/1", output("show", *MACHINE), without)


def test_an_evaluation() -> None:
    formula = ("{DBInstanceClassMemory/4}", "--parameter", "shared_buffers")
    check(
        "mrtuner.rds.evaluate/1",
        output("evaluate", *formula, "--class", "db.m7g.large"),
        output("evaluate", *formula, "--all-classes"),
    )


def test_what_lint_finds(shop: Lab) -> None:
    check("mrtuner.rds.lint/1", output("lint", "wrong"))


def test_a_rendered_group() -> None:
    check("mrtuner.rds.render/2", output("render", *MACHINE))


def test_a_comparison(shop: Lab) -> None:
    check("mrtuner.rds.diff/1", output("diff", "first"))


def test_a_change_and_the_way_back(shop: Lab) -> None:
    applied = output("apply", "first", "--group", "first", "--yes", "--poll", "0.02")
    check("mrtuner.rds.apply/1", applied)
    assert applied["server"] is None
    undone = output("undo", "first", "--yes", "--poll", "0.02")
    check("mrtuner.rds.undo/1", undone)


def test_maintenance(shop: Lab) -> None:
    shop.add_maintenance("first", auto_applied_after=shop.now() + timedelta(days=3))
    told = output("maintenance", "--all", "--stagger-by", "app")
    assert told["calendar"]["clashes"]
    assert told["calendar"]["moves"]
    check("mrtuner.rds.maintenance/1", told)


def test_a_rehearsal(shop: Lab) -> None:
    instance = rds.instance(client("rds"), "first")
    plan = RehearsalPlan(
        instance=instance, deployment=Deployment.SINGLE, failover=False, action=None, times=2
    )
    runs = [run(away=True), run(away=False)]
    told = as_builtins(rehearsal_document(plan, runs, endpoint=shop.endpoint_url, aws=False))
    check("mrtuner.rds.rehearsal/1", json.loads(json.dumps(told)))


def run(*, away: bool) -> Run:
    """Ten seconds of reads, the middle of them without an answer, or all answered."""
    server = ServerIdentity(started=datetime(2026, 1, 1, tzinfo=UTC), standby=False)
    attempts = tuple(
        Attempt(kind=ProbeKind.READ, due=due, sent=due, ended=due + 0.01, error="refused")
        if away and 3 <= due < 6
        else Attempt(kind=ProbeKind.READ, due=due, sent=due, ended=due + 0.01, server=server)
        for due in map(float, range(10))
    )
    seen = Observation(
        began=datetime(2026, 1, 2, tzinfo=UTC), seconds=10.0, interval=1.0, timeout=5.0,
        kinds=(ProbeKind.READ,), attempts=attempts, skipped=0, ledger=balanced(2, {1, 2}, {1, 2}),
    )  # fmt: skip
    marks = (TimelineMark(at=3.0, text="rebooting", origin="status"),)
    return Run(
        asked=2.0, accepted=2.1, settled=True, observation=seen, marks=marks, zone="us-east-1a"
    )


def test_copies_of_snapshots(shop: Lab) -> None:
    shop.add_automated_snapshot("first")
    shop.settle()
    way = ("--from-region", "us-east-1", "--to-region", "eu-west-1")
    check("mrtuner.rds.snapshots/1", output("snapshots", "copy", *way, "--poll", "0.02"))


def test_an_audit(shop: Lab) -> None:
    shop.fail_region("eu-central-1", "closed")
    regions = ("--region", "us-east-1", "--region", "eu-central-1")
    try:
        check("mrtuner.rds.audit/1", output("audit", *regions, code=1))
    finally:
        shop.heal_region("eu-central-1")


def test_a_policy() -> None:
    check("mrtuner.rds.policy/1", output("policy", "apply"))


def test_what_the_lab_says_when_it_is_ready(shop: Lab) -> None:
    check("mrtuner.rds.lab/1", as_builtins(lab_document(shop, servers=False)))
