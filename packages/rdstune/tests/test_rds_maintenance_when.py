"""What waits for an instance, and when it will come. Dates are worked out on a calendar.

7 January 2026 is a Wednesday; the window is on Sundays at 05:00 UTC: the 11th, 18th, 25th.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from mrtuner.aws.rows import GroupUse, Instance, Member, PendingAction, RdsCluster
from rdstune.fleet.document import pending_work
from rdstune.fleet.maintenance import Origin, Upkeep, upkeep, when
from rdstune.fleet.maintenance_windows import Window

NOW = datetime(2026, 1, 7, 12, tzinfo=UTC)
SUNDAYS = Window.parse("sun:05:00-sun:05:30")
ARN = "arn:aws:rds:eu-west-1:1:db:orders"
ORDERS = Instance(
    identifier="orders", arn=ARN, resource_id="db-1", class_name="db.r6g.large",
    engine="postgres", engine_version="17.2", status="available",
    groups=(GroupUse(name="orders17", status="in-sync"),),
    maintenance_window="sun:05:00-sun:05:30", backup_window="03:00-03:30",
)  # fmt: skip


def day(number: int, hour: int = 0) -> datetime:
    return datetime(2026, 1, number, hour, tzinfo=UTC)


def patch(**dates: Any) -> PendingAction:
    return PendingAction(resource=ARN, action="system-update", description="an update", **dates)


def read(instance: Instance, *actions: PendingAction) -> Upkeep:
    return upkeep(instance, None, {ARN: list(actions)}, now=NOW)


@pytest.mark.parametrize(
    ("dates", "expected", "because"),
    [
        ({}, None, "optional"),
        ({"auto_applied_after": day(5)}, day(11, 5), "first window after 2026-01-05"),
        ({"auto_applied_after": day(12)}, day(18, 5), "first window after 2026-01-12"),
        ({"auto_applied_after": day(11, 5)}, day(11, 5), "first window after 2026-01-11"),
        ({"forced_apply": day(9, 8)}, day(9, 8), "following days"),
        ({"auto_applied_after": day(12), "forced_apply": day(14)}, day(14), "following days"),
        ({"auto_applied_after": day(5), "forced_apply": day(20)}, day(11, 5), "first window"),
        ({"forced_apply": day(2)}, NOW, "following days"),
        ({"current_apply": day(16)}, day(16), "AWS gives"),
        ({"opt_in": "immediate"}, NOW, "cannot be undone"),
        ({"opt_in": "next-maintenance"}, day(11, 5), "opted in"),
        ({"opt_in": "next-maintenance", "current_apply": day(18, 5)}, day(18, 5), "opted in"),
    ],
)
def test_when_an_action_comes_and_why_then(
    dates: dict[str, Any], expected: datetime | None, because: str
) -> None:
    found, reason = when(patch(**dates), SUNDAYS, NOW)
    assert found == expected
    assert because in reason


def test_while_the_window_is_open_what_is_overdue_may_begin_any_minute() -> None:
    """Sunday the 11th, ten minutes after the window opened; at 05:30 it is the 18th again."""
    overdue = patch(auto_applied_after=day(5))
    assert when(overdue, SUNDAYS, day(11, 5).replace(minute=10))[0] == day(11, 5)
    assert when(overdue, SUNDAYS, day(11, 5).replace(minute=31))[0] == day(18, 5)


def test_nothing_waits_for_an_instance_in_order() -> None:
    found = read(ORDERS)
    assert found.work == ()
    assert found.next_window is not None
    assert found.next_window.start == day(11, 5)
    assert not found.windows_collide


def test_parameters_that_wait_are_found_though_aws_lists_them_nowhere() -> None:
    waiting = replace(ORDERS, groups=(GroupUse(name="orders17", status="pending-reboot"),))
    (work,) = read(waiting).work
    assert (work.origin, work.what, work.expected) == (Origin.PARAMETERS, "orders17", None)
    assert work.because == "no maintenance window applies them: reboot the instance yourself"


def test_another_restart_in_the_window_is_said_to_bring_waiting_parameters_too() -> None:
    waiting = replace(ORDERS, groups=(GroupUse(name="orders17", status="pending-reboot"),))
    _, work = read(waiting, patch(auto_applied_after=day(5))).work
    assert work.expected == day(11, 5)
    assert work.because.startswith("system-update restarts the server then")


def test_a_failover_does_not_bring_waiting_parameters() -> None:
    """A group newly attached waits for a reboot without failover (RDS API, ModifyDBInstance)."""
    waiting = replace(
        ORDERS, multi_az=True, groups=(GroupUse(name="orders17", status="pending-reboot"),)
    )
    _, work = read(waiting, patch(auto_applied_after=day(5))).work
    assert work.expected is None


def test_values_that_could_not_be_applied_are_told() -> None:
    failed = replace(ORDERS, groups=(GroupUse(name="orders17", status="failed-to-apply"),))
    (work,) = read(failed).work
    assert "failed-to-apply" in work.because


def test_a_pending_change_waits_for_the_window() -> None:
    (work,) = read(replace(ORDERS, pending={"DBInstanceClass": "db.r6g.xlarge"})).work
    assert (work.origin, work.expected) == (Origin.CHANGE, day(11, 5))
    assert work.description == "DBInstanceClass changes to db.r6g.xlarge"


def test_a_pending_password_is_not_shown() -> None:
    (work,) = read(replace(ORDERS, pending={"MasterUserPassword": "hunter2"})).work
    assert "hunter2" not in str(pending_work(work))


def test_empty_entries_of_pending_values_are_no_changes() -> None:
    assert read(replace(ORDERS, pending={"ProcessorFeatures": [], "Port": None})).work == ()


def test_a_clusters_own_list_and_window_count_for_its_members() -> None:
    cluster = RdsCluster(
        identifier="c", arn="arn:aws:rds:eu-west-1:1:cluster:c", resource_id="cluster-1",
        engine="aurora-postgresql", engine_version="16.4", status="available", group="c16",
        members=(
            Member(identifier="orders", writer=True, group_status="pending-reboot"),
            Member(identifier="other", writer=False, group_status="in-sync"),
        ),
        maintenance_window="tue:02:00-tue:02:30", pending={"EngineVersion": None},
    )  # fmt: skip
    member = replace(ORDERS, engine="aurora-postgresql", cluster="c")
    action = PendingAction(
        resource=cluster.arn, action="db-upgrade", description="a patch",
        auto_applied_after=day(8),
    )  # fmt: skip
    found = upkeep(member, cluster, {cluster.arn: [action]}, now=NOW)
    upgrade, parameters = found.work
    assert (upgrade.what, upgrade.expected) == ("db-upgrade", day(13, 2))
    assert (parameters.what, parameters.expected) == ("c16", day(13, 2))


def test_an_instance_whose_two_windows_overlap_is_told() -> None:
    assert read(replace(ORDERS, backup_window="05:15-05:45")).windows_collide
