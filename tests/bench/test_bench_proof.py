"""Whole proofs, tiny ones, on real servers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from conftest import PASSWORD, NewCluster
from mrtuner.bench.durability import unequal_durability
from mrtuner.bench.events import Event, Stage
from mrtuner.bench.pgbench import Load, find_pgbench
from mrtuner.bench.proof import Arm, prove
from mrtuner.bench.record import Plan, Record, from_dict
from mrtuner.bench.scratch import size_of
from mrtuner.errors import BadValue, MissingPart, MrTunerError, Refused
from mrtuner.postgres.cluster import Cluster
from mrtuner.units import MiB
from servers import binaries

pytestmark = pytest.mark.timed

#: Limits that no machine exceeds, so that busy neighbours do not repeat blocks.
TINY = Plan(
    load=Load(script="tpcb", scale=1, clients=2, threads=1, seconds=1),
    warmup=0,
    blocks=1,
    seed=7,
    steal_limit=1,
    foreign_limit=1,
)


@pytest.fixture
def program() -> Path:
    return find_pgbench(binaries(18))


def query(dsn: str, text: str) -> list[tuple[object, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(text)
        return cursor.fetchall() if cursor.description else []


def databases(dsn: str) -> set[object]:
    return {name for (name,) in query(dsn, "SELECT datname FROM pg_database")}


def with_work_mem(dsn: str, work_mem: str) -> Callable[[], None]:
    """Put a setting in force by reload, and wait until new sessions have it."""

    def activate() -> None:
        query(dsn, f"ALTER SYSTEM SET work_mem = '{work_mem}'")
        query(dsn, "SELECT pg_reload_conf()")
        while query(dsn, "SHOW work_mem") != [(work_mem,)]:
            time.sleep(0.01)

    return activate


@pytest.fixture
def dsn(embedded: Cluster) -> Iterator[str]:
    """The worker's server, left as it was found."""
    yield embedded.dsn()
    query(embedded.dsn(), "ALTER SYSTEM RESET work_mem")
    query(embedded.dsn(), "ALTER ROLE postgres RESET synchronous_commit")
    query(embedded.dsn(), "SELECT pg_reload_conf()")
    for name in ("mrtuner_proof", "mrtuner_proof_run"):
        query(embedded.dsn(), f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def two_arms(dsn: str) -> list[Arm]:
    return [
        Arm("default", dsn, with_work_mem(dsn, "4MB")),
        Arm("advised", dsn, with_work_mem(dsn, "32MB")),
    ]


def nothing() -> None:
    pass


def test_a_whole_proof_leaves_a_record_and_nothing_else(dsn: str, program: Path) -> None:
    before, events = databases(dsn), list[Event]()

    plan = replace(TINY, warmup=1, blocks=2)

    record = prove(two_arms(dsn), plan, progress=events.append, program=program)

    assert databases(dsn) == before
    assert [
        tuple(sample.label for sample in record.accepted() if sample.block == block)
        for block in (1, 2)
    ] == list(record.order)
    # work_mem in base units: 4MB = 4096 kB, 32MB = 32768 kB.
    assert record.arm("default").settings["work_mem"] == "4096"
    assert record.arm("advised").settings["work_mem"] == "32768"
    assert record.local
    for sample in record.samples:
        assert sample.run.transactions > 0
        assert sample.wal_bytes > 100 * sample.run.transactions
        assert sample.checkpoints_requested == 0
        assert sample.charged_tps < sample.run.tps
        assert sample.steal is not None
        assert sample.foreign is not None
    assert from_dict(json.loads(json.dumps(record.to_dict()))) == record
    check_events(events)


def check_events(events: list[Event]) -> None:
    """One preparation, four runs of four stages, one cleaning up: 18 steps, told beforehand."""
    assert {event.steps for event in events} == {18}
    assert [event.step for event in events] == sorted(event.step for event in events)
    assert (events[0].step, events[-1].step) == (0, 18)
    assert events[-1].stage is Stage.DONE
    assert sum(event.sample is not None for event in events) == 4
    # 2 databases of 8 MB + 15 MB.
    announced = next(event for event in events if event.stage is Stage.ANNOUNCED)
    assert "46 MB" in announced.text


def test_a_read_only_proof_needs_one_database_and_writes_no_wal(
    new_cluster: NewCluster, program: Path
) -> None:
    dsn = new_cluster(settings={"autovacuum": "off"}).dsn()
    plan = replace(TINY, load=replace(TINY.load, script="select"), calibrate=1)
    seen: set[object] = set()
    record = prove(
        two_arms(dsn), plan, progress=lambda event: seen.update(databases(dsn)), program=program
    )
    assert "mrtuner_proof" in seen
    assert "mrtuner_proof_run" not in seen
    assert [sample.phase for sample in record.samples] == ["calibration"] * 2 + ["comparison"] * 2
    assert {sample.label for sample in record.accepted("calibration")} == {"default", "default'"}
    assert {sample.arm for sample in record.accepted("calibration")} == {"default"}
    # Hint bits are settled: what little there is comes from elsewhere than reading.
    assert all(sample.wal_bytes < 100_000 for sample in record.samples)


def test_two_servers_get_a_template_each(new_cluster: NewCluster, program: Path) -> None:
    """Neither 15 nor 16 has data checksums by itself, so they are equally durable."""
    arms = [Arm(f"pg{major}", new_cluster(major).dsn(), nothing) for major in (15, 16)]
    record = prove(arms, TINY, program=program)
    assert [arm.version[:2] for arm in record.arms] == ["15", "16"]
    for arm in arms:
        assert "mrtuner_proof" not in databases(arm.dsn)


def test_unequal_durability_is_refused_before_anything_is_made(dsn: str, program: Path) -> None:

    def careless() -> None:
        query(dsn, "ALTER ROLE postgres SET synchronous_commit = off")

    def careful() -> None:
        query(dsn, "ALTER ROLE postgres RESET synchronous_commit")

    stages: list[Stage] = []
    with pytest.raises(Refused, match="synchronous_commit is on for a, off for b"):
        prove(
            [Arm("a", dsn, careful), Arm("b", dsn, careless)],
            TINY,
            progress=lambda event: stages.append(event.stage),
            program=program,
        )
    assert Stage.PREPARING not in stages


def test_durability_is_compared_by_every_setting_that_guards_a_commit() -> None:
    sure = {
        "fsync": "on",
        "full_page_writes": "on",
        "synchronous_commit": "on",
        "synchronous_standby_names": "",
        "wal_sync_method": "fdatasync",
        "data_checksums": "on",
    }
    assert unequal_durability({"a": sure, "b": sure | {"commit_delay": "100"}}) == []
    for name in sure:
        assert len(unequal_durability({"a": sure, "b": sure | {name: "other"}})) == 1
    assert unequal_durability({"a": sure, "b": sure | {"synchronous_standby_names": "s1"}}) == [
        "synchronous_standby_names is empty for a, s1 for b"
    ]


@pytest.mark.parametrize("name", ["mrtuner_proof", "mrtuner_proof_run"])
def test_a_database_that_no_proof_made_is_not_touched(dsn: str, program: Path, name: str) -> None:
    query(dsn, f"CREATE DATABASE {name}")
    query(dsn, f"COMMENT ON DATABASE {name} IS 'accounts of 2019'")
    with pytest.raises(Refused, match=f"database {name} is there"):
        prove(two_arms(dsn), TINY, program=program)
    assert name in databases(dsn)


def test_what_a_crash_left_behind_is_recognised_and_dropped(dsn: str, program: Path) -> None:
    query(dsn, "CREATE DATABASE mrtuner_proof")
    query(
        dsn, "COMMENT ON DATABASE mrtuner_proof IS 'mrtuner proof, pid 1 on elsewhere since then'"
    )
    query(dsn, "CREATE DATABASE mrtuner_proof_run")
    record = prove(two_arms(dsn), TINY, program=program)
    assert sum("an earlier proof had left database" in note for note in record.notes) == 2
    assert not {"mrtuner_proof", "mrtuner_proof_run"} & databases(dsn)


def test_databases_are_dropped_after_an_error(dsn: str, program: Path) -> None:
    calls = list[int]()

    def fails_late() -> None:
        calls.append(1)
        if len(calls) > 2:
            raise MrTunerError("the restart failed")

    with pytest.raises(MrTunerError, match="the restart failed"):
        prove([Arm("a", dsn, fails_late), Arm("b", dsn, nothing)], TINY, program=program)
    assert not {"mrtuner_proof", "mrtuner_proof_run"} & databases(dsn)


def test_an_error_is_not_hidden_by_a_server_that_is_gone(
    new_cluster: NewCluster, program: Path
) -> None:
    cluster, calls, notes = new_cluster(), list[int](), list[str]()

    def stops_late() -> None:
        calls.append(1)
        if len(calls) > 2:
            cluster.stop("immediate")
            raise MrTunerError("the server did not come back")

    with pytest.raises(MrTunerError, match="did not come back"):
        prove(
            [Arm("a", cluster.dsn(), stops_late), Arm("b", cluster.dsn(), nothing)],
            TINY,
            progress=lambda event: notes.append(event.text),
            program=program,
        )
    assert any("may still be there" in note for note in notes)


CHILD = """
import sys
from pathlib import Path
from mrtuner.bench.pgbench import Load
from mrtuner.bench.proof import Arm, prove
from mrtuner.bench.record import Plan

def show(event):
    print(event.stage, flush=True)

dsn, program = sys.argv[1:]
plan = Plan(load=Load(seconds=60, clients=1), warmup=0, blocks=2)
arms = [Arm(name, dsn, lambda: None) for name in "ab"]
prove(arms, plan, progress=show, program=Path(program))
"""


def child_while_measuring(dsn: str, program: Path) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, dsn, str(program)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    for line in child.stdout:
        if line.strip() == "measuring":
            return child
    raise AssertionError("the child ended before it measured")


def test_databases_are_dropped_on_ctrl_c(dsn: str, program: Path) -> None:
    with child_while_measuring(dsn, program) as child:
        assert {"mrtuner_proof", "mrtuner_proof_run"} <= databases(dsn)
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=20)
    assert not {"mrtuner_proof", "mrtuner_proof_run"} & databases(dsn)


def test_a_killed_proof_is_tidied_up_by_the_next_and_a_running_one_is_left_alone(
    dsn: str, program: Path
) -> None:
    with child_while_measuring(dsn, program) as child:
        with pytest.raises(Refused, match="another proof is using"):
            prove(two_arms(dsn), TINY, program=program)
        child.kill()
    assert {"mrtuner_proof", "mrtuner_proof_run"} <= databases(dsn)
    prove(two_arms(dsn), TINY, program=program)
    assert not {"mrtuner_proof", "mrtuner_proof_run"} & databases(dsn)


def test_a_disturbed_block_is_repeated_once_and_kept_on_record(dsn: str, program: Path) -> None:
    plan = replace(TINY, foreign_limit=0.0)
    burner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        record = prove(two_arms(dsn), plan, program=program)
    finally:
        burner.kill()
        burner.wait()
    assert [sample.attempt for sample in record.samples] == [1, 1, 2, 2]
    assert all(
        sample.rejected and "CPU used by others" in sample.rejected for sample in record.samples[:2]
    )
    assert [sample.attempt for sample in record.accepted()] == [2, 2]
    assert any("not quiet before the first run" in note for note in record.notes)


def test_arms_may_restart_and_a_password_stays_out_of_record_and_events(
    new_cluster: NewCluster, program: Path
) -> None:
    cluster = new_cluster(listen=True)
    dsn = psycopg.conninfo.make_conninfo(cluster.dsn(tcp=True), password=PASSWORD)

    def with_buffers(size: str) -> Callable[[], None]:
        def activate() -> None:
            cluster.configure({"shared_buffers": size})
            cluster.restart()

        return activate

    arms = [Arm(size, dsn, with_buffers(size)) for size in ("16MB", "32MB")]
    heard: list[Event] = []
    record = prove(arms, TINY, progress=heard.append, program=program)
    # In base units of 8 kB.
    assert [arm.settings["shared_buffers"] for arm in record.arms] == ["2048", "4096"]
    assert record.local
    assert all(sample.foreign is not None for sample in record.samples)
    for text in (repr(arms), repr(record), repr(heard), json.dumps(record.to_dict())):
        assert PASSWORD not in text


def test_a_role_without_the_rights_is_told_which(new_cluster: NewCluster, program: Path) -> None:
    cluster = new_cluster()
    query(cluster.dsn(), "CREATE ROLE plain LOGIN")
    arms = [Arm(name, cluster.dsn(user="plain"), nothing) for name in "ab"]
    with pytest.raises(MissingPart, match="may not create databases"):
        prove(arms, TINY, program=program)
    query(cluster.dsn(), "ALTER ROLE plain CREATEDB")
    with pytest.raises(MissingPart, match="may not run CHECKPOINT"):
        prove(arms, TINY, program=program)
    query(cluster.dsn(), "GRANT pg_checkpoint TO plain")
    record = prove(arms, TINY, program=program)
    assert len(record.samples) == 2


@pytest.mark.parametrize("major", [13, 17])
def test_older_servers_are_proved_alike(major: int, new_cluster: NewCluster, program: Path) -> None:
    """17 moved the checkpoint counters; 15 and 16, above, copy databases with other words."""
    dsn = new_cluster(major).dsn()
    record = prove(two_arms(dsn), TINY, program=program)
    assert [sample.checkpoints_requested for sample in record.samples] == [0, 0]
    assert record.arm("default").version.startswith(f"{major}.")


def test_arms_need_different_names_and_a_partner(embedded: Cluster, program: Path) -> None:
    arm = Arm("a", embedded.dsn(), nothing)
    for arms in ([], [arm], [arm, arm], [arm, replace(arm, name="a'")]):
        with pytest.raises(BadValue, match="two arms"):
            prove(arms, TINY, program=program)


@pytest.mark.parametrize(
    "wrong",
    [{"blocks": 0}, {"warmup": -1}, {"calibrate": -1}, {"delta": 0.0}, {"database": "My DB"},
     {"database": "x" * 60}],
)  # fmt: skip
def test_a_plan_that_cannot_be_run_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(BadValue):
        Plan(load=Load(), **wrong)  # type: ignore[arg-type]


def test_the_size_is_told_by_the_scale() -> None:
    """Scale 100: 1500 MB of tables and 8 MB of catalogs, twice for a load that writes."""
    assert size_of(Load(scale=100)) == 2 * 1508 * MiB
    assert size_of(Load(scale=100, script="select")) == 1508 * MiB


def test_another_document_is_not_taken_for_a_record() -> None:
    with pytest.raises(BadValue, match="not a record of a proof"):
        from_dict({"schema": "mrtuner.proof/2"})
    with pytest.raises(BadValue, match="damaged"):
        from_dict({"schema": "mrtuner.proof/1", "plan": {}})


def test_records_hold_no_verdict() -> None:
    assert "verdict" not in Record.__dataclass_fields__
