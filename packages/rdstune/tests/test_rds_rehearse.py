"""Outages rehearsed in the lab with a real PostgreSQL, and what the report says of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from mrtuner.aws.rows import Instance
from mrtuner.aws.session import client
from mrtuner.errors import ConnectError, MrTunerError, Refused, UsageError
from mrtuner.rehearsal.observation import (
    USUAL,
    Attempt,
    Observation,
    ProbeKind,
    ServerIdentity,
    balanced,
)
from mrtuner.rehearsal.probes import Schedule
from mrtuner.rehearsal.run import TimelineMark
from rdstune.fleet import rehearsal_report
from rdstune.fleet.document import rehearsal_document
from rdstune.fleet.outage import Deployment
from rdstune.fleet.rehearsal import (
    RehearsalPatience,
    RehearsalPlan,
    Run,
    leads_elsewhere,
    plan,
    rehearse,
)
from rdstune.lab import Lab

pytestmark = pytest.mark.timed

QUICK = Schedule(interval=0.1, timeout=3)
HASTY = RehearsalPatience(before=0.5, settle=0.5, quiet=3, whole=60, between=0.1, poll=0.1)


def create(name: str, *, multi_az: bool = False, **more: Any) -> Any:
    """Create an instance in the lab and return the RDS client."""
    rds = client("rds")
    rds.create_db_instance(
        DBInstanceIdentifier=name, Engine="postgres", EngineVersion="18",
        DBInstanceClass="db.t4g.micro", AllocatedStorage=20, MultiAZ=multi_az,
        MasterUsername="app", MasterUserPassword="not-a-secret", DBName="shop", **more,
    )  # fmt: skip
    return rds


def tags(**given: str) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in given.items()]


@pytest.fixture
def multi_az(server_lab: Lab) -> tuple[Lab, Any]:
    """A Multi-AZ instance named orders with a real server behind it."""
    rds = create("orders", multi_az=True, Tags=tags(environment="test"))
    server_lab.settle()
    return server_lab, rds


def test_a_reboot_is_timed_from_the_clients_side(multi_az: tuple[Lab, Any]) -> None:
    lab, rds = multi_az
    (run,) = rehearse(rds, lab.dsn("orders"), plan(rds, "orders"), schedule=QUICK, patience=HASTY)
    assert run.settled
    assert run.observation.restarted
    figures = rehearsal_report.phases(run)
    assert {one.kind for one in figures.outages_by_client} == set(USUAL)
    for one in figures.outages_by_client:
        assert one.most is not None
        assert 0.2 < one.most < 15
        assert one.first_success is not None
        assert one.first_success > 0
    assert figures.first_failure is not None
    assert figures.first_write is not None
    assert figures.first_failure < figures.first_write
    said = [mark.text for mark in run.marks]
    assert said[0] == "rebooting"
    assert "available" in said
    assert "DB instance restarted" in said
    ledger = run.observation.ledger
    assert ledger is not None
    assert ledger.lost == ()
    assert ("rds", "RebootDBInstance") in lab.calls


def test_a_failover_changes_the_zone_and_its_events_are_on_the_line(
    multi_az: tuple[Lab, Any],
) -> None:
    lab, rds = multi_az
    before = plan(rds, "orders", failover=True)
    (run,) = rehearse(rds, lab.dsn("orders"), before, schedule=QUICK, patience=HASTY)
    assert run.zone != before.instance.zone
    texts = " ".join(mark.text for mark in run.marks)
    assert "failover started" in texts
    assert "failover completed" in texts
    told = rehearsal_document(before, [run], endpoint=lab.endpoint_url, aws=False)
    assert told.went_away
    assert "This was a stand-in for AWS" in told.limits[0]
    assert any("60 to 120 s" in line for line in told.expectations)
    assert not any("at least that in production" in line for line in told.expectations)


def test_a_pending_update_can_be_what_is_rehearsed(multi_az: tuple[Lab, Any]) -> None:
    """Patched while the database is up (60 s in the lab, 1 s here), then a failover."""
    lab, rds = multi_az
    lab.add_maintenance("orders", "system-update")
    drawn = plan(rds, "orders", action="system-update")
    (run,) = rehearse(rds, lab.dsn("orders"), drawn, schedule=QUICK, patience=HASTY)
    figures = rehearsal_report.phases(run)
    assert run.settled
    assert figures.up is not None
    assert figures.up > 0.1  # of the second, what is left once a busy lab has answered
    assert any("atch" in mark.text for mark in run.marks)


def test_several_runs_in_a_row(multi_az: tuple[Lab, Any]) -> None:
    lab, rds = multi_az
    runs = rehearse(
        rds, lab.dsn("orders"), plan(rds, "orders", times=2), schedule=QUICK, patience=HASTY
    )
    assert [run.settled for run in runs] == [True, True]
    assert all(run.observation.went_away for run in runs)


def test_a_rehearsal_of_which_the_probes_see_nothing_says_so(
    multi_az: tuple[Lab, Any],
) -> None:
    """The connection string leads to another instance, which stays up."""
    lab, rds = multi_az
    create("other")
    lab.settle()
    drawn = plan(rds, "orders")
    dsn = lab.dsn("other")
    assert "does not name the endpoint of orders" in (leads_elsewhere(dsn, drawn.instance) or "")
    (run,) = rehearse(rds, dsn, drawn, schedule=QUICK, patience=HASTY)
    told = rehearsal_document(drawn, [run], endpoint=lab.endpoint_url, aws=False)
    assert not told.went_away
    assert told.runs[0].verdict.startswith("No outage was measured")
    assert "may lead to another server" in str(told.runs[0].why_nothing)
    assert told.runs[0].phases.clients == []


def test_the_connection_string_of_the_instance_leads_there(multi_az: tuple[Lab, Any]) -> None:
    lab, rds = multi_az
    assert leads_elsewhere(lab.dsn("orders"), plan(rds, "orders").instance) is None


def test_nothing_is_rebooted_where_the_server_cannot_be_reached(lab: Lab) -> None:
    rds = create("orders")
    lab.settle()
    drawn = plan(rds, "orders")
    lab.forget_calls()
    with pytest.raises(ConnectError):
        rehearse(rds, "host=127.0.0.1 port=1 dbname=x", drawn, schedule=QUICK, patience=HASTY)
    assert ("rds", "RebootDBInstance") not in lab.calls


@pytest.mark.parametrize(("key", "value"), [("environment", "production"), ("Stage", "LIVE")])
def test_an_instance_tagged_production_is_refused_by_the_name_of_its_tag(
    lab: Lab, key: str, value: str
) -> None:
    rds = create("orders", Tags=tags(**{key: value}))
    lab.settle()
    with pytest.raises(Refused, match=f"tagged {key}={value}") as caught:
        plan(rds, "orders")
    assert caught.value.exit_code == 4


def test_a_failover_needs_multi_az(lab: Lab) -> None:
    rds = create("orders")
    lab.settle()
    with pytest.raises(
        UsageError, match="cannot reboot with failover: its deployment is single-AZ"
    ):
        plan(rds, "orders", failover=True)


def test_an_action_that_is_not_pending_cannot_be_applied(lab: Lab) -> None:
    rds = create("orders")
    lab.settle()
    with pytest.raises(UsageError, match="no maintenance action db-upgrade is pending"):
        plan(rds, "orders", action="db-upgrade")


def test_an_instance_that_is_not_available_is_left_alone(lab: Lab) -> None:
    rds = create("orders")
    lab.settle()
    rds.reboot_db_instance(DBInstanceIdentifier="orders")
    with pytest.raises(MrTunerError, match="orders is rebooting"):
        plan(rds, "orders")


# Reports on runs written by hand: one attempt a second, requested at second 2.

BEFORE = ServerIdentity(datetime(2026, 1, 1, tzinfo=UTC), False)
AFTER = ServerIdentity(datetime(2026, 1, 2, tzinfo=UTC), False)
ORDERS = Instance(
    identifier="orders", arn="", resource_id="", class_name="db.r6g.large", engine="postgres",
    engine_version="17.2", status="available", groups=(),
)  # fmt: skip
PLAN = RehearsalPlan(instance=ORDERS, deployment=Deployment.SINGLE)


def attempt(kind: ProbeKind, due: float, error: str | None, server: ServerIdentity) -> Attempt:
    return Attempt(
        kind=kind, due=due, sent=due, ended=due + 0.5, error=error,
        server=None if error else server,
    )  # fmt: skip


def run(bad: set[int], after: ServerIdentity = AFTER, marks: tuple[TimelineMark, ...] = ()) -> Run:
    attempts = [
        attempt(kind, n, "refused" if n in bad else None, after if n > max(bad or {4}) else BEFORE)
        for kind in USUAL
        for n in range(12)
    ]
    seen = Observation(
        began=datetime(2026, 1, 3, tzinfo=UTC), seconds=12.5, interval=1, timeout=5,
        kinds=USUAL, attempts=tuple(attempts), skipped=0,
        ledger=balanced(9, set(range(1, 9)), set(range(1, 10))),
    )  # fmt: skip
    return Run(asked=2, accepted=2.1, settled=True, observation=seen, marks=marks, zone=None)


def test_the_figures_of_a_run_count_from_the_request() -> None:
    """Attempts at 5, 6, 7 fail: last answer at 4.5, next at 8.5; requested at 2."""
    marks = (
        TimelineMark(at=2.2, text="rebooting", origin="status"),
        TimelineMark(at=9.0, text="available", origin="status"),
    )
    figures = rehearsal_report.phases(run({5, 6, 7}, marks=marks))
    assert (figures.up, figures.first_failure) == (3, 3.5)
    assert (figures.first_read, figures.first_write, figures.available) == (6.5, 6.5, 7)
    write = figures.outages_by_client[-1]
    assert (write.last_success, write.least, write.most, write.failed) == (2.5, 2, 4, 3)


def test_the_verdict_gives_both_bounds() -> None:
    assert rehearsal_report.verdict(run({5, 6, 7})) == (
        "Clients got no answer for 2.0 to 4.0 s (new connection, read)."
    )


def test_a_restart_between_two_probes_is_not_called_zero_seconds() -> None:
    assert rehearsal_report.verdict(run(set())) == (
        "The server restarted, but no probe noticed: it was down for less than the 1 s between "
        "two probes."
    )


def test_nothing_that_went_away_is_not_called_zero_seconds() -> None:
    quiet = run(set(), after=BEFORE)
    assert rehearsal_report.verdict(quiet).startswith("No outage was measured")
    assert "RDS reported nothing either" in rehearsal_report.why_nothing(quiet)


def test_an_abandoned_failover_is_recognised() -> None:
    mark = TimelineMark(at=3, text="Abandoning user requested failover", origin="event")
    assert "abandoned the failover" in rehearsal_report.why_nothing(run(set(), BEFORE, (mark,)))


def test_an_outage_without_an_end_has_no_length() -> None:
    assert "no more answers until the probes ended" in rehearsal_report.verdict(run({9, 10, 11}))


def test_production_is_told_what_was_measured_and_what_aws_documents() -> None:
    told = list(rehearsal_report.expectations(PLAN, [run({5, 6, 7})], aws=True))
    assert told[0].startswith("New connections got no answer for up to 4.0 s here")
    assert any("Open connections do not survive." in line for line in told)
    assert any("AWS gives no figure" in line for line in told)
    assert any("Multi-AZ instance" in line and "60 to 120 s" in line for line in told)
    assert any("10 to 15 minutes" in line for line in told)
    assert "No acknowledged write was lost (8 were acknowledged)." in told
    assert any(line.startswith("1 write was committed although") for line in told)


def test_lost_writes_are_shouted() -> None:
    bad = run({5})
    lost = replace(bad, observation=replace(bad.observation, ledger=balanced(3, {1, 2}, {1})))
    assert any(
        "1 write was LOST" in line for line in rehearsal_report.expectations(PLAN, [lost], aws=True)
    )
