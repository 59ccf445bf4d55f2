"""What a server's counters suggest for a table or a role; records are built by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from test_tune_gather import server, setting, table

from mrtuner.formula.expression import Constant
from mrtuner.inputs import Workload
from mrtuner.postgres.model import Archiver, Relation, RoleSpills, Setting, Slot
from mrtuner.tuning import Tuning, gather, tune_server
from mrtuner.tuning.advice import Level
from mrtuner.tuning.budget import Amount, Chosen
from mrtuner.tuning.suggestions import kept_by, memory_of_roles, not_archived, notices
from mrtuner.units import Bytes, MiB

MIB, GIB = 2**20, 2**30


def said(relation: Relation) -> list[str]:
    return [notice.text for notice in notices(server(relations=(relation,)))]


def updated(**counters: Any) -> Relation:
    usual = {"updated": 1_000_000, "hot_updated": 300_000, "newpage_updated": 400_000}
    return replace(table("orders", 2_000_000, 0), **(usual | counters))


# --- room on a page


def test_a_table_whose_updates_find_no_room_is_told_its_command() -> None:
    assert said(updated()) == [
        "public.orders: 40% of 1,000,000 updates found no room on their page: "
        'ALTER TABLE "public"."orders" SET (fillfactor = 90) leaves room on new pages'
    ]


def test_updates_that_an_index_keeps_from_being_hot_are_not_mended_by_room() -> None:
    """30 % are HOT, but nearly all others found room: an index covers what they change."""
    assert said(updated(newpage_updated=100_000)) == []


def test_before_16_the_reason_is_not_known_and_the_condition_is_said() -> None:
    [text] = said(updated(newpage_updated=None))
    assert text.startswith("public.orders: 30% of 1,000,000 updates were HOT; if no index covers")
    assert said(updated(newpage_updated=None, hot_updated=500_000)) == []


def test_few_updates_and_tables_with_room_are_no_matter() -> None:
    assert said(updated(updated=99_999, newpage_updated=99_999)) == []
    assert said(updated(options=("fillfactor=90",))) == []


# --- WAL that is kept


def warned(**facts: Any) -> list[str]:
    """The warnings with max_wal_size 1 GB."""
    found = server(setting("max_wal_size", "1024", "MB"), **facts)
    return [notice.text for notice in notices(found) if notice.level is Level.WARNING]


def slot(**facts: Any) -> Slot:
    usual: dict[str, Any] = {
        "kind": "logical", "active": False, "status": "extended", "retained": Bytes(3 * GIB),
    }  # fmt: skip
    return Slot(name="cdc", **(usual | facts))


def test_a_slot_that_nobody_reads_is_named_with_what_drops_it() -> None:
    assert warned(slots=(slot(),)) == [
        "replication slot cdc is not in use and keeps 3 GB of WAL: it grows until the disk is "
        "full. Start its consumer, or drop the slot. SELECT pg_drop_replication_slot('cdc');"
    ]
    [text] = warned(slots=(slot(active=True),))
    assert text.startswith("the consumer of replication slot cdc is 3 GB of WAL behind")
    assert "pg_drop_replication_slot" not in text


def test_a_slot_that_keeps_no_more_than_checkpoints_do_is_no_matter() -> None:
    assert warned(slots=(slot(retained=Bytes(GIB)), slot(retained=None))) == []


def test_a_slot_with_a_cap_endangers_its_consumer_and_not_the_disk() -> None:
    """3 GB kept, 1 GB by checkpoints alone; a day has 86,400 s."""
    limited = setting("max_slot_wal_keep_size", "10240", "MB")
    unlimited = setting("max_slot_wal_keep_size", "-1", "MB")
    usual = (setting("max_wal_size", "1024", "MB"), setting("checkpoint_timeout", "300", "s"))

    def told(cap: Setting, full: float | None, **facts: Any) -> tuple[str, float | None]:
        one = kept_by(slot(**facts), server(*usual, cap), full)
        assert one is not None
        return one.severity, one.harm_in

    assert told(unlimited, 3600.0) == ("danger", 3600.0)
    assert told(unlimited, None) == ("danger", None)
    assert told(unlimited, 86_401.0, active=True) == ("to do", 86_401.0)
    assert told(unlimited, 86_399.0, active=True) == ("danger", 86_399.0)
    assert told(unlimited, None, active=True) == ("to do", None)
    assert told(limited, 3600.0) == told(limited, 3600.0, active=True) == ("to do", None)
    assert told(limited, 3600.0, status="unreserved") == ("danger", 300.0)
    # From 18 on, a slot that nobody uses may be given up after a time; a copy of another is not.
    timeout = setting("idle_replication_slot_timeout", "86400", "s")
    # It comes at the checkpoint after a day without its consumer: 86,700 s.
    each: list[tuple[dict[str, Any], float | None, str]] = [
        ({}, None, "to do"), ({}, 86_701.0, "to do"), ({}, 86_699.0, "danger"),
        ({"idle": 86_000.0}, 701.0, "to do"), ({"synced": True}, 86_701.0, "danger"),
    ]  # fmt: skip
    for facts, full, severity in each:
        one = kept_by(slot(**facts), server(*usual, unlimited, timeout), full)
        assert one is not None
        assert one.severity == severity, (facts, full)
    assert "idle_replication_slot_timeout" not in warned(slots=(slot(active=True),))[0]
    [text] = [one.text for one in notices(server(*usual, limited, slots=(slot(),)))]
    assert "beyond max_slot_wal_keep_size (10 GB) it loses WAL" in text


def test_a_slot_that_has_lost_its_wal_is_told_whatever_it_keeps() -> None:
    [text] = warned(slots=(slot(status="lost", retained=None),))
    assert text.startswith("replication slot cdc has lost WAL that its consumer needs")


def test_an_archiver_that_fails_or_is_late_is_told() -> None:
    working = Archiver(archived=9, failed=4, failing=False, behind=Bytes(GIB))
    assert warned(archiver=working) == []
    late = replace(working, behind=Bytes(2 * GIB))
    [text] = warned(archiver=late)
    assert text.startswith("archiving is late: 2 GB of WAL waits until the disk is full")
    [text] = warned(archiver=replace(working, failing=True))
    assert text.startswith(
        "archiving fails (4 times so far, including the last attempt): 1 GB of WAL waits until"
    )
    [text] = warned(archiver=replace(working, failing=True, behind=None))
    assert ": WAL waits until" in text


@pytest.mark.parametrize(
    ("waits", "idle", "told"),
    [(299.0, None, 0), (300.0, None, 1), (None, 900.0, 0), (310.0, 900.0, 1), (900.0, 2.0, 0)],
)
def test_a_file_that_waits_while_none_is_archived(
    waits: float | None, idle: float | None, told: int
) -> None:
    """After five minutes without any; one that works through a backlog is left alone."""
    archiver = Archiver(
        archived=9, failed=0, failing=False, behind=Bytes(GIB), waits=waits, idle=idle
    )
    assert len(warned(archiver=archiver)) == told


def test_an_archiver_with_nothing_to_run_is_told_where_it_would_run() -> None:
    idle = Archiver(archived=0, failed=0, failing=False, behind=Bytes(GIB))

    def told(command: str, library: str | None, mode: str = "on", **facts: Any) -> int:
        library_ = (setting("archive_library", library),) if library is not None else ()
        found = server(
            setting("archive_mode", mode), setting("archive_command", command), *library_,
            archiver=idle, **facts,
        )  # fmt: skip
        return len(list(not_archived(found)))

    assert told("", "") == told("", None) == told("", "", "always", standby=True) == 1
    assert told("cp", "") == told("cp", None) == told("", "basic_archive") == 0
    assert told("", "", standby=True) == 0


# --- work_mem of one role


def tuned(*spills: RoleSpills) -> Tuning:
    """64 GB for 100 connections."""
    settings = (
        setting("max_connections", "100"),
        setting("work_mem", "4096", "kB"),
        setting("shared_buffers", "16384", "8kB"),
    )
    machine = gather.flags(memory="64GB", cpus=8, storage="ssd", workload="oltp")
    return tune_server(server(*settings, role_spills=spills), machine)


def spilt(role: str, largest: int, sessions: int = 2) -> RoleSpills:
    return RoleSpills(
        role=role, statements=1, calls=40, size=Bytes(largest * 40), largest=Bytes(largest),
        sessions=sessions,
    )  # fmt: skip


def test_a_role_that_spills_much_is_offered_its_own_work_mem_and_the_way_back() -> None:
    """By hand: one merge pass of 64 GB needs the root of 65,536 MB * 272 kB: 131.9 MB."""
    tuning = tuned(spilt('Re"port', 64 * GIB))
    [step] = [step for step in tuning.steps if "temporary files" in step.purpose]
    assert step.commands == (
        'ALTER ROLE "Re""port" SET work_mem = \'132MB\';',
        'ALTER ROLE "Re""port" RESET work_mem;  -- undoes it',
    )
    assert "wrote 2.5 TB of temporary files in 40 calls, up to 64 GB in one" in step.purpose
    assert not any("ALTER ROLE" in line for line in tuning.as_sql().splitlines())


def test_a_role_of_an_analytic_server_needs_room_for_two_operations_each() -> None:
    """By hand, as the budget counts: (132 - 4) MB * 4 sessions * 2 (hash_mem_multiplier) are 1 GB,
    and twice that for OLAP.
    """
    found = server(
        setting("max_connections", "100"), setting("work_mem", "4096", "kB"),
        role_spills=(spilt("report", 64 * GIB, sessions=4),),
    )  # fmt: skip
    usual = tune_server(found, gather.flags(memory="64GB", cpus=8, storage="ssd", workload="oltp"))
    budget = usual.budget
    assert budget is not None
    chosen = Chosen(plain={"hash_mem_multiplier": 2.0, "work_mem": 4096})
    chosen.sizes["work_mem"] = chosen.actual["work_mem"] = Constant(4 * MiB)

    def offered(room: int, workload: Workload) -> bool:
        parts = (Amount("all", Bytes(budget.ceiling - room), ""),)
        left = replace(budget, parts=parts)
        return bool([*memory_of_roles(found, chosen, left, workload)])

    assert offered(1024 * MiB, Workload.OLTP)
    assert not offered(1023 * MiB, Workload.OLTP)
    assert offered(2048 * MiB, Workload.OLAP)
    assert not offered(2047 * MiB, Workload.OLAP)


def test_small_files_and_roles_with_too_many_sessions_are_offered_nothing() -> None:
    """8 MB for everybody suffice for 240 MB; 5,000 sessions would take 580 GB more."""
    for spills in (spilt("app", 200 * MIB), spilt("crowd", 64 * GIB, sessions=5000)):
        assert not [step for step in tuned(spills).steps if "temporary files" in step.purpose]
