"""Apply in the lab: which group, which calls, what waits, and what is refused."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner

from mrtuner.aws import rds
from mrtuner.aws.errors import AwsError
from mrtuner.change.journal import Journal
from mrtuner.change.record import Change, GroupChange
from mrtuner.errors import ApplyError, BadValue, Refused
from rds_flows import FEW, MANY, PACE, everything, new_group, new_instance, values, wanted
from rdstune.cli import rdstune
from rdstune.lab import Lab
from rdstune.live.apply import RdsOutcome, RdsPlan, Reboot, apply, finish_or_revert_group, make
from rdstune.live.plan import Wanted
from rdstune.live.target import read_target


def planned(client: Any, settings: tuple[Wanted, ...] = FEW, group: str | None = None) -> RdsPlan:
    return make(client, read_target(client, "db1"), settings, group)


def applied(client: Any, plan: RdsPlan, journal: Journal, reboot: Reboot = "never") -> RdsOutcome:
    return apply(client, plan, journal, reboot=reboot, pace=PACE)


def writes(lab: Lab) -> list[str]:
    """The calls that changed something, in order."""
    return [action for _, action in lab.calls if not action.startswith("Describe")]


def test_a_default_group_is_left_and_a_new_one_is_made_and_attached(
    lab: Lab, client: Any, journal: Journal
) -> None:
    new_instance(client, lab)
    lab.forget_calls()
    outcome = applied(client, planned(client), journal)
    assert outcome == RdsOutcome(
        result="applied",
        target="db1",
        group="mrtuner-db1",
        change=1,
        changed=("max_connections", "random_page_cost", "work_mem", "effective_cache_size"),
        calls=1,
        waiting=("db1",),
    )
    assert writes(lab) == ["CreateDBParameterGroup", "ModifyDBParameterGroup", "ModifyDBInstance"]
    assert everything(client) == {
        "groups": {
            "mrtuner-db1": {
                "max_connections": "200",
                "random_page_cost": "1.1",
                "work_mem": "32768",
                "effective_cache_size": "{DBInstanceClassMemory*3/32768}",
            }
        },
        "attached": {"db1": "mrtuner-db1"},
    }


def test_a_reboot_that_is_allowed_brings_everything_into_force(
    lab: Lab, client: Any, journal: Journal
) -> None:
    new_instance(client, lab)
    outcome = applied(client, planned(client), journal, "now")
    assert outcome.waiting == ()
    assert lab.instance("db1").running["max_connections"] == "200"
    assert lab.instance("db1").running["work_mem"] == "32768"


def test_without_leave_nothing_is_rebooted(lab: Lab, client: Any, journal: Journal) -> None:
    new_instance(client, lab)
    lab.forget_calls()
    assert applied(client, planned(client), journal, "never").waiting == ("db1",)
    assert "RebootDBInstance" not in writes(lab)


def test_what_waits_is_rebooted_by_the_next_apply_that_may(
    lab: Lab, client: Any, journal: Journal
) -> None:
    new_instance(client, lab)
    applied(client, planned(client), journal)
    outcome = applied(client, planned(client), journal, "now")
    assert (outcome.result, outcome.waiting) == ("rebooted", ())
    assert applied(client, planned(client), journal, "now").result == "nothing"


def test_in_a_custom_group_only_what_differs_is_written_and_dynamic_ones_at_once(
    lab: Lab, client: Any, journal: Journal
) -> None:
    new_group(client, max_connections="200", work_mem="8192", log_temp_files="0")
    new_instance(client, lab, group="shop")
    lab.forget_calls()
    outcome = applied(client, planned(client), journal)
    assert set(outcome.changed) == {"random_page_cost", "work_mem", "effective_cache_size"}
    assert outcome.waiting == ()
    assert writes(lab) == ["ModifyDBParameterGroup"]
    assert lab.instance("db1").running["work_mem"] == "32768"
    assert values(client, "shop")["log_temp_files"] == "0"


def test_forty_five_parameters_go_through_in_three_journalled_calls(
    lab: Lab, client: Any, journal: Journal
) -> None:
    """The second call mixes static and dynamic ones: 9 static and 36 dynamic, 20 a call."""
    assert len(MANY) == 45
    new_instance(client, lab)
    lab.forget_calls()
    outcome = applied(client, planned(client, MANY), journal, "now")
    assert outcome.calls == 3
    assert writes(lab).count("ModifyDBParameterGroup") == 3
    written = [step for step in journal.steps(journal.changes()[0]) if step.startswith("set (")]
    assert [len(step.split(", ")) for step in written] == [20, 20, 5]
    running = lab.instance("db1").running
    assert {one.name: running[one.name] for one in MANY} == {one.name: one.value for one in MANY}


def test_the_exact_batch_of_static_and_dynamic_parameters_goes_through(
    lab: Lab, client: Any, journal: Journal
) -> None:
    """RDS answers such a batch with InvalidParameterCombination if any method is wrong."""
    new_group(client)
    new_instance(client, lab, group="shop")
    mixed = wanted(max_connections="300", work_mem="4096", shared_buffers="100000", jit="0")
    with pytest.raises(AwsError) as refused:
        rds.modify_group(client, "shop", [(one.name, one.value, "immediate") for one in mixed])
    assert refused.value.code == "InvalidParameterCombination"
    assert values(client, "shop") == {}
    outcome = applied(client, planned(client, mixed), journal)
    assert (outcome.calls, outcome.waiting) == (1, ("db1",))


def test_a_group_that_is_named_is_made_with_what_the_old_one_had(
    lab: Lab, client: Any, journal: Journal
) -> None:
    new_group(client, log_temp_files="0", work_mem="8192")
    new_instance(client, lab, group="shop")
    applied(client, planned(client, group="Shop-Tuned"), journal)
    assert values(client, "shop") == {"log_temp_files": "0", "work_mem": "8192"}
    assert values(client, "shop-tuned") == {
        "log_temp_files": "0",
        "max_connections": "200",
        "random_page_cost": "1.1",
        "work_mem": "32768",
        "effective_cache_size": "{DBInstanceClassMemory*3/32768}",
    }


def test_a_group_that_exists_is_attached_and_says_what_is_lost(lab: Lab, client: Any) -> None:
    new_group(client, log_temp_files="0")
    new_group(client, "other", work_mem="8192", max_locks_per_transaction="256", jit="0")
    new_instance(client, lab, group="shop")
    plan = planned(client, group="other")
    assert plan.attaches
    assert plan.warnings == (
        "other lacks values that shop sets: log_temp_files",
        "other differs from shop: jit = 0 instead of the default, max_locks_per_transaction = 256 "
        "instead of 64",
    )


def test_a_default_group_cannot_be_asked_for(lab: Lab, client: Any) -> None:
    new_instance(client, lab)
    with pytest.raises(Refused, match="is a default group"):
        planned(client, group="default.postgres17")


def test_a_group_of_another_family_is_refused_by_name(lab: Lab, client: Any) -> None:
    new_group(client, "old", family="postgres16")
    new_instance(client, lab)
    wrong = "group old is of family postgres16, but db1 needs postgres17"
    with pytest.raises(BadValue, match=wrong):
        planned(client, group="old")


def test_a_shared_group_is_refused_with_those_who_use_it_and_changed_when_told(
    lab: Lab, client: Any, journal: Journal
) -> None:
    new_group(client)
    for name in ("db1", "db2", "db3"):
        new_instance(client, lab, name, group="shop")
    plan = planned(client)
    assert plan.shared == ("db2", "db3")
    with pytest.raises(Refused, match="group shop is also used by db2, db3"):
        applied(client, plan, journal)
    assert values(client, "shop") == {}
    assert apply(client, plan, journal, shared=True, pace=PACE).result == "applied"


def test_what_somebody_changed_since_the_plan_is_refused_by_name(
    lab: Lab, client: Any, journal: Journal
) -> None:
    new_group(client, work_mem="8192")
    new_instance(client, lab, group="shop")
    plan = planned(client)
    rds.modify_group(client, "shop", [("work_mem", "16384", "immediate")])
    with pytest.raises(Refused, match=r"work_mem \(now 16384, was 8192\)"):
        applied(client, plan, journal)
    assert values(client, "shop") == {"work_mem": "16384"}


def test_another_group_attached_since_the_plan_is_refused(
    lab: Lab, client: Any, journal: Journal
) -> None:
    new_group(client)
    new_instance(client, lab)
    plan = planned(client)
    rds.attach_group(client, "db1", "shop")
    lab.settle()
    with pytest.raises(Refused, match=r"db1 uses group shop instead of default\.postgres17"):
        applied(client, plan, journal)


def test_a_group_of_our_name_made_since_the_plan_is_somebody_elses(
    lab: Lab, client: Any, journal: Journal
) -> None:
    new_instance(client, lab)
    plan = planned(client)
    new_group(client, "mrtuner-db1", work_mem="8192")
    with pytest.raises(Refused, match="group mrtuner-db1 has been created"):
        applied(client, plan, journal)
    assert values(client, "mrtuner-db1") == {"work_mem": "8192"}


def test_an_instance_that_shares_the_group_since_the_plan_is_refused(
    lab: Lab, client: Any, journal: Journal
) -> None:
    new_group(client)
    new_instance(client, lab, group="shop")
    plan = planned(client)
    new_instance(client, lab, "db2", group="shop")
    with pytest.raises(Refused, match="group shop is now used by db2 too"):
        applied(client, plan, journal)


def test_an_instance_that_is_modifying_is_left_alone(
    lab: Lab, client: Any, journal: Journal
) -> None:
    new_instance(client, lab)
    plan = planned(client)
    lab.go_on_at(1)  # so that it is still modifying when a busy machine gets to look
    client.modify_db_instance(
        DBInstanceIdentifier="db1", AllocatedStorage=200, ApplyImmediately=True
    )
    before = everything(client)
    with pytest.raises(Refused, match="db1 is modifying, not available"):
        applied(client, plan, journal)
    assert everything(client) == before
    lab.settle()


def test_what_else_is_pending_is_not_set_off_by_attaching_a_group(
    lab: Lab, client: Any, journal: Journal
) -> None:
    """ApplyImmediately would also apply a new class that waits for the window."""
    new_instance(client, lab)
    client.modify_db_instance(DBInstanceIdentifier="db1", DBInstanceClass="db.r6g.2xlarge")
    lab.settle()
    applied(client, planned(client), journal, "now")
    found = rds.instance(client, "db1")
    assert found.class_name == "db.r6g.xlarge"
    assert found.pending == {"DBInstanceClass": "db.r6g.2xlarge"}


def test_a_name_that_is_nowhere_says_so_with_the_region(lab: Lab, client: Any) -> None:
    with pytest.raises(AwsError, match="nowhere not found in us-east-1"):
        read_target(client, "nowhere")


def test_without_a_permission_everything_is_put_back_and_the_action_is_named(
    lab: Lab, client: Any, journal: Journal
) -> None:
    new_instance(client, lab)
    before = everything(client)
    plan = planned(client)
    lab.deny("rds:ModifyDBInstance")
    with pytest.raises(ApplyError) as error:
        applied(client, plan, journal)
    assert error.value.message == (
        "AWS denies rds:ModifyDBInstance in us-east-1; the group is as it was before"
    )
    assert error.value.hint == "Allow rds:ModifyDBInstance for this identity in IAM."
    lab.allow()
    assert everything(client) == before
    assert [one.state for one in journal.changes()] == ["reverted"]


def test_without_leave_of_iam_to_reboot_it_is_as_before_and_not_rebooted(
    lab: Lab, client: Any, journal: Journal
) -> None:
    new_group(client, work_mem="8192")
    new_instance(client, lab, group="shop")
    before = everything(client)
    lab.deny("rds:RebootDBInstance")
    with pytest.raises(ApplyError, match="AWS denies rds:RebootDBInstance in us-east-1; the group"):
        applied(client, planned(client), journal, "now")
    lab.allow()
    assert everything(client) == before
    assert [one.state for one in journal.changes()] == ["reverted"]


def test_a_batch_that_rds_refuses_undoes_those_before_it(
    lab: Lab, client: Any, journal: Journal
) -> None:
    """Two calls: the second names what the lab refuses although the catalogue allows it."""
    new_group(client, work_mem="8192")
    new_instance(client, lab, group="shop")
    plan = planned(client, MANY[:25])
    broken = replace(plan.steps[-1], value="no number")
    plan = replace(plan, steps=(*plan.steps[:-1], broken))
    with pytest.raises(ApplyError, match="the group is as it was before"):
        applied(client, plan, journal)
    assert values(client, "shop") == {"work_mem": "8192"}


def test_a_rollback_that_fails_says_what_is_in_force_and_which_command_repairs_it(
    lab: Lab, client: Any, journal: Journal
) -> None:
    """Somebody changes the group while it is written, and IAM denies the rollback."""
    new_group(client, work_mem="8192")
    new_instance(client, lab, group="shop")
    plan = planned(client, wanted(jit="0", work_mem="16384"))

    def meanwhile(step: str) -> None:
        if step == "check the group":
            rds.modify_group(client, "shop", [("jit", "1", "immediate")])
            lab.deny("rds:ModifyDBParameterGroup")

    with pytest.raises(ApplyError) as error:
        apply(client, plan, journal, pace=PACE, at=meanwhile)
    said, hint = error.value.message, error.value.hint or ""
    assert "the old values could not be restored: AWS denies rds:ModifyDBParameterGroup" in said
    assert "now db1 is available with group shop (in-sync)" in said
    assert "group shop holds the new value of work_mem" in said
    assert hint.startswith("Allow rds:ModifyDBParameterGroup for this identity in IAM.")
    command = shlex.split(hint.partition("with: ")[2])
    assert command[:3] == ["rdstune", "undo", "db1"]
    lab.allow()
    done = CliRunner().invoke(rdstune, [*command[1:], "--yes", "--poll", "0.02s"])
    assert done.exit_code == 0, done.stderr
    assert values(client, "shop")["work_mem"] == "8192"


def test_parameters_that_do_not_start_are_recognised_and_undone(
    lab: Lab, client: Any, journal: Journal
) -> None:
    """32 million pages of 8 kB are 256 GB; the class has 32 GiB."""
    new_group(client, work_mem="8192")
    new_instance(client, lab, group="shop")
    plan = planned(client, wanted(shared_buffers="33554432"))
    with pytest.raises(ApplyError) as error:
        applied(client, plan, journal, "now")
    assert "db1 does not start with these parameters (incompatible-parameters)" in (
        error.value.message
    )
    assert "the group is as it was before" in error.value.message
    assert values(client, "shop") == {"work_mem": "8192"}
    assert rds.instance(client, "db1").status == "available"


def test_a_new_group_that_does_not_start_is_taken_off_and_removed(
    lab: Lab, client: Any, journal: Journal
) -> None:
    new_instance(client, lab)
    before = everything(client)
    with pytest.raises(ApplyError, match="incompatible-parameters"):
        applied(client, planned(client, wanted(shared_buffers="33554432")), journal, "now")
    assert everything(client) == before
    assert rds.instance(client, "db1").status == "available"


class Stopped(Exception):
    """What an observer raises to stop a change."""


def test_a_group_attached_by_somebody_else_meanwhile_is_left_to_them(
    lab: Lab, client: Any, journal: Journal
) -> None:
    new_group(client, "other")
    new_instance(client, lab)

    def at(step: str) -> None:
        if step == "wait until RDS has applied it":
            lab.settle()
            rds.attach_group(client, "db1", "other")
            lab.settle()
            raise Stopped

    with pytest.raises(ApplyError):
        apply(client, planned(client), journal, pace=PACE, at=at)
    assert everything(client) == {"groups": {"other": {}}, "attached": {"db1": "other"}}


def test_a_group_of_ours_taken_up_by_somebody_else_meanwhile_is_not_deleted(
    lab: Lab, client: Any, journal: Journal
) -> None:
    new_instance(client, lab)
    new_instance(client, lab, "db2")

    def at(step: str) -> None:
        if step == "wait until RDS has applied it":
            lab.settle()
            rds.attach_group(client, "db2", "mrtuner-db1")
            lab.settle()
            raise Stopped

    with pytest.raises(ApplyError):
        apply(client, planned(client), journal, pace=PACE, at=at)
    assert everything(client)["attached"] == {"db1": "default.postgres17", "db2": "mrtuner-db1"}
    assert [one.state for one in journal.changes()] == ["reverted"]


def test_a_group_of_our_name_that_somebody_else_made_is_not_deleted(
    lab: Lab, client: Any, journal: Journal
) -> None:
    """The run was killed before it created its group; by its description this is another one."""
    new_instance(client, lab)
    new_group(client, "shop")
    target = read_target(client, "db1")
    journal.begin(
        Change(
            server=target.arn, address="us-east-1/db1", method="parameter group", entries=(),
            restarts=False,
            group=GroupChange(
                region="us-east-1", scope="db", identifier="db1", name="shop",
                family="postgres17", attached_before=target.group, attached_after="shop",
                creates=True, description="MrTuner for db1, 2026-01-01T00:00:00+00:00",
            ),
        )
    )  # fmt: skip
    found = finish_or_revert_group(client, "db1", journal, pace=PACE)
    assert found is not None
    assert found.result == "reverted"
    assert everything(client) == {"groups": {"shop": {}}, "attached": {"db1": target.group}}


def test_throttling_slows_an_apply_down_and_does_not_stop_it(
    lab: Lab, client: Any, journal: Journal
) -> None:
    new_group(client)
    new_instance(client, lab, group="shop")
    plan = planned(client)
    lab.throttle(2)
    assert applied(client, plan, journal).result == "applied"
    lab.throttle(None)
    assert lab.throttled > 0


def test_recover_has_nothing_to_do_where_nothing_was_interrupted(
    lab: Lab, client: Any, journal: Journal
) -> None:
    new_instance(client, lab)
    assert finish_or_revert_group(client, "db1", journal, pace=PACE) is None
