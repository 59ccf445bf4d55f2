"""Undo in the lab: exactly what was there, or a refusal with names."""

from __future__ import annotations

from typing import Any

import pytest

from mrtuner.aws import rds
from mrtuner.change.journal import Journal
from mrtuner.errors import Refused, UsageError
from rds_flows import FEW, MANY, PACE, everything, new_group, new_instance, values, wanted
from rdstune.lab import Lab
from rdstune.live.apply import Reboot, apply, make
from rdstune.live.plan import Wanted
from rdstune.live.target import read_target
from rdstune.live.undo import undo


def put(
    client: Any,
    journal: Journal,
    settings: tuple[Wanted, ...] = FEW,
    group: str | None = None,
    reboot: Reboot = "never",
) -> None:
    plan = make(client, read_target(client, "db1"), settings, group)
    apply(client, plan, journal, reboot=reboot, shared=True, pace=PACE)


def test_values_that_were_set_return_and_the_others_are_reset(
    lab: Lab, client: Any, journal: Journal
) -> None:
    new_group(client, work_mem="8192", log_temp_files="0")
    new_instance(client, lab, group="shop")
    before, running = everything(client), dict(lab.instance("db1").running)
    put(client, journal, MANY, reboot="now")
    assert everything(client) != before
    outcome = undo(client, "db1", journal, reboot="now", pace=PACE)
    assert (outcome.result, outcome.change, outcome.waiting) == ("undone", 1, ())
    assert len(outcome.changed) == 45
    assert everything(client) == before
    assert lab.instance("db1").running == running


def test_a_group_that_we_made_is_taken_off_and_deleted(
    lab: Lab, client: Any, journal: Journal
) -> None:
    new_instance(client, lab)
    before, running = everything(client), dict(lab.instance("db1").running)
    put(client, journal, reboot="now")
    undo(client, "db1", journal, reboot="now", pace=PACE)
    assert everything(client) == before
    assert lab.instance("db1").running == running


def test_a_group_that_was_there_is_taken_off_and_kept(
    lab: Lab, client: Any, journal: Journal
) -> None:
    new_group(client, log_temp_files="0")
    new_group(client, "other", work_mem="8192")
    new_instance(client, lab, group="shop")
    before = everything(client)
    put(client, journal, group="other")
    assert rds.instance(client, "db1").groups[0].name == "other"
    undo(client, "db1", journal, pace=PACE)
    assert everything(client) == before


def test_undone_again_it_takes_back_the_change_before(
    lab: Lab, client: Any, journal: Journal
) -> None:
    new_group(client, work_mem="8192")
    new_instance(client, lab, group="shop")
    put(client, journal, wanted(work_mem="16384"))
    put(client, journal, wanted(work_mem="32768", jit="0"))
    undo(client, "db1", journal, pace=PACE)
    assert values(client, "shop") == {"work_mem": "16384"}
    undo(client, "db1", journal, pace=PACE)
    assert values(client, "shop") == {"work_mem": "8192"}
    with pytest.raises(UsageError, match="nothing to undo"):
        undo(client, "db1", journal, pace=PACE)


def test_only_the_change_that_was_agreed_to_is_reverted(
    lab: Lab, client: Any, journal: Journal
) -> None:
    new_group(client, work_mem="8192")
    new_instance(client, lab, group="shop")
    put(client, journal, wanted(work_mem="16384"))
    put(client, journal, wanted(work_mem="32768"))
    with pytest.raises(Refused, match="another change was made or undone since"):
        undo(client, "db1", journal, only=1, pace=PACE)
    assert values(client, "shop") == {"work_mem": "32768"}


def test_what_somebody_changed_since_is_refused_by_name_and_overwritten_by_force(
    lab: Lab, client: Any, journal: Journal
) -> None:
    new_group(client, work_mem="8192")
    new_instance(client, lab, group="shop")
    put(client, journal)
    rds.modify_group(client, "shop", [("work_mem", "65536", "immediate")])
    with pytest.raises(Refused, match=r"work_mem \(now 65536, applied 32768\)"):
        undo(client, "db1", journal, pace=PACE)
    undo(client, "db1", journal, force=True, pace=PACE)
    assert values(client, "shop") == {"work_mem": "8192"}


def test_another_group_attached_since_is_refused(lab: Lab, client: Any, journal: Journal) -> None:
    new_group(client)
    new_instance(client, lab)
    put(client, journal)
    rds.attach_group(client, "db1", "shop")
    lab.settle()
    with pytest.raises(Refused, match="db1 uses group shop"):
        undo(client, "db1", journal, pace=PACE)


def test_a_group_of_ours_that_others_took_up_stays_theirs(
    lab: Lab, client: Any, journal: Journal
) -> None:
    new_instance(client, lab)
    put(client, journal)
    new_instance(client, lab, "db2", group="mrtuner-db1")
    undo(client, "db1", journal, pace=PACE)
    after = everything(client)
    assert after["attached"] == {"db1": "default.postgres17", "db2": "mrtuner-db1"}
    assert after["groups"]["mrtuner-db1"]["work_mem"] == "32768"


def test_what_else_is_in_the_group_stays(lab: Lab, client: Any, journal: Journal) -> None:
    new_group(client)
    new_instance(client, lab, group="shop")
    put(client, journal)
    rds.modify_group(client, "shop", [("log_temp_files", "0", "immediate")])
    undo(client, "db1", journal, pace=PACE)
    assert values(client, "shop") == {"log_temp_files": "0"}


def test_an_instance_that_no_longer_starts_is_brought_back(
    lab: Lab, client: Any, journal: Journal
) -> None:
    """A value written without a reboot fails at a later reboot: 256 GB on 32 GiB."""
    new_instance(client, lab)
    before = everything(client)
    put(client, journal, wanted(shared_buffers="33554432"))
    rds.reboot(client, "db1")
    lab.settle()
    assert rds.instance(client, "db1").status == "incompatible-parameters"
    undo(client, "db1", journal, pace=PACE)
    assert rds.instance(client, "db1").status == "available"
    assert everything(client) == before


def test_a_journal_without_a_change_has_nothing_to_undo(
    lab: Lab, client: Any, journal: Journal
) -> None:
    new_instance(client, lab)
    with pytest.raises(UsageError, match="the journal has no change of db1"):
        undo(client, "db1", journal, pace=PACE)
