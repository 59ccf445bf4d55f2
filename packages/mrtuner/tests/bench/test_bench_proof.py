"""Whole proofs, tiny ones, on real servers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest
from conftest import PASSWORD, NewCluster

from mrtuner.bench.engine.events import Event, Stage
from mrtuner.bench.load.pgbench import find_pgbench
from mrtuner.bench.plan.cells import blocks
from mrtuner.bench.plan.durability import unequal_durability
from mrtuner.bench.plan.model import Plan, Variant, Workload
from mrtuner.bench.proof import RunningServer, check_database
from mrtuner.bench.proof import prove as prove_task
from mrtuner.bench.record.model import Record
from mrtuner.bench.series import Task
from mrtuner.documents import as_builtins
from mrtuner.errors import BadValue, MissingPart, MrTunerError, Refused
from mrtuner.postgres.cluster import Cluster
from servers import binaries

pytestmark = pytest.mark.timed

#: Limits that no machine exceeds, so that busy neighbours do not repeat blocks.
TINY: dict[str, Any] = {
    "workloads": (Workload(name="tpcb", builtin="tpcb"),), "scales": (1,), "clients": (2,),
    "seconds": 1, "warmup": 0, "blocks": 1, "seed": 7, "steal_limit": 1, "foreign_limit": 1,
}  # fmt: skip

Servers = Mapping[str, RunningServer]


def prove(servers: Servers, program: Path, *, progress: Any = None, **plan: Any) -> Record:
    """Run a whole, tiny proof; `plan` overrides values of TINY."""
    variants = tuple(Variant(name=name, collect=False) for name in servers)
    made = Plan(**TINY | {"variants": variants} | plan)
    task = Task(title="tiny", why="for the test", plan=made)
    return prove_task(
        servers, task, database="mrtuner_proof", program=program, progress=progress
    ).record


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


def two_variants(dsn: str) -> Servers:
    return {
        "default": RunningServer(dsn, with_work_mem(dsn, "4MB")),
        "advised": RunningServer(dsn, with_work_mem(dsn, "32MB")),
    }


def nothing() -> None:
    pass


def test_a_whole_proof_leaves_a_record_and_nothing_else(dsn: str, program: Path) -> None:
    before, events = databases(dsn), list[Event]()

    record = prove(two_variants(dsn), program, progress=events.append, warmup=1, blocks=2)

    assert databases(dsn) == before
    assert [
        tuple(sample.label for sample in record.samples if sample.block == block)
        for block in (1, 2)
    ] == [block.labels for block in blocks(record.plan)]
    # work_mem in base units: 4MB = 4096 kB, 32MB = 32768 kB.
    assert record.settings["default"]["work_mem"] == "4096"
    assert record.settings["advised"]["work_mem"] == "32768"
    assert record.local
    for sample in record.samples:
        assert sample.run.transactions > 0
        assert sample.wal_bytes > 100 * sample.run.transactions
        assert sample.checkpoints_requested == 0
        assert sample.tps_with_checkpoint < sample.run.tps
        assert sample.steal is not None
        assert sample.foreign is not None
    check_events(events)


def check_events(events: list[Event]) -> None:
    """One preparation, four runs of four stages, one cleanup: 18 steps, known from the start."""
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
    seen: set[object] = set()
    record = prove(
        two_variants(dsn), program, progress=lambda event: seen.update(databases(dsn)),
        workloads=(Workload(name="select", builtin="select"),), calibrate=1,
    )  # fmt: skip
    assert "mrtuner_proof" in seen
    assert "mrtuner_proof_run" not in seen
    assert [sample.phase for sample in record.samples] == ["calibration"] * 2 + ["comparison"] * 2
    first = [sample for sample in record.samples if sample.phase == "calibration"]
    assert {sample.label for sample in first} == {"default", "default'"}
    assert {sample.variant for sample in first} == {"default"}
    # Hint bits are set already: what little WAL there is does not come from reading.
    assert all(sample.wal_bytes < 100_000 for sample in record.samples)


def test_two_servers_get_a_template_each(new_cluster: NewCluster, program: Path) -> None:
    """Neither 15 nor 16 has data checksums by default, so they are equally durable."""
    servers = {f"pg{major}": RunningServer(new_cluster(major).dsn(), nothing) for major in (15, 16)}
    record = prove(servers, program)
    assert [record.settings[name]["server_version"][:2] for name in servers] == ["15", "16"]
    for server in servers.values():
        assert "mrtuner_proof" not in databases(server.dsn)


def test_unequal_durability_is_refused_before_anything_is_made(dsn: str, program: Path) -> None:

    def careless() -> None:
        query(dsn, "ALTER ROLE postgres SET synchronous_commit = off")

    def careful() -> None:
        query(dsn, "ALTER ROLE postgres RESET synchronous_commit")

    stages: list[Stage] = []
    with pytest.raises(Refused, match="synchronous_commit is on for a, off for b"):
        prove(
            {"a": RunningServer(dsn, careful), "b": RunningServer(dsn, careless)},
            program,
            progress=lambda event: stages.append(event.stage),
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
    with pytest.raises(Refused, match=f"database {name} exists and was not created"):
        prove(two_variants(dsn), program)
    assert name in databases(dsn)


def test_what_a_proof_elsewhere_may_be_using_is_not_dropped(dsn: str, program: Path) -> None:
    query(dsn, "CREATE DATABASE mrtuner_proof")
    query(
        dsn, "COMMENT ON DATABASE mrtuner_proof IS 'mrtuner proof, pid 1 on elsewhere since then'"
    )
    query(dsn, "CREATE DATABASE mrtuner_proof_run")
    with pytest.raises(Refused, match="may be using database mrtuner_proof") as refused:
        prove(two_variants(dsn), program)
    assert refused.value.hint is not None
    assert refused.value.hint.endswith(
        'DROP DATABASE "mrtuner_proof_run"; DROP DATABASE "mrtuner_proof";'
    )
    assert {"mrtuner_proof", "mrtuner_proof_run"} <= databases(dsn)


def test_databases_are_dropped_after_an_error(dsn: str, program: Path) -> None:
    calls = list[int]()

    def fails_late() -> None:
        calls.append(1)
        if len(calls) > 2:
            raise MrTunerError("the restart failed")

    with pytest.raises(MrTunerError, match="the restart failed"):
        prove({"a": RunningServer(dsn, fails_late), "b": RunningServer(dsn, nothing)}, program)
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
            {
                "a": RunningServer(cluster.dsn(), stops_late),
                "b": RunningServer(cluster.dsn(), nothing),
            },
            program,
            progress=lambda event: notes.append(event.text),
        )
    assert any("may still be there" in note for note in notes)


CHILD = """
import sys
from pathlib import Path
from mrtuner.bench.plan.model import Plan, Variant, Workload
from mrtuner.bench.proof import RunningServer, prove
from mrtuner.bench.series import Task

def show(event):
    print(event.stage, flush=True)

dsn, program = sys.argv[1:]
plan = Plan(
    workloads=(Workload(name="tpcb", builtin="tpcb"),),
    variants=tuple(Variant(name=name) for name in "ab"),
    scales=(1,), clients=(1,), seconds=60, warmup=0, blocks=2,
)
servers = {name: RunningServer(dsn, lambda: None) for name in "ab"}
task = Task(title="long", why="to be killed", plan=plan)
prove(servers, task, database="mrtuner_proof", progress=show, program=Path(program))
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
            prove(two_variants(dsn), program)
        child.kill()
    assert {"mrtuner_proof", "mrtuner_proof_run"} <= databases(dsn)
    record = prove(two_variants(dsn), program)
    assert sum("which an earlier proof left behind" in note for note in record.notes) == 2
    assert not {"mrtuner_proof", "mrtuner_proof_run"} & databases(dsn)


def test_a_disturbed_block_is_repeated_once_and_kept_on_record(dsn: str, program: Path) -> None:
    burner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        record = prove(two_variants(dsn), program, foreign_limit=0.0)
    finally:
        burner.kill()
        burner.wait()
    assert [sample.attempt for sample in record.samples] == [1, 1, 2, 2]
    assert all(
        sample.rejected and "CPU used by others" in sample.rejected for sample in record.samples[:2]
    )
    assert [sample.attempt for sample in record.samples if not sample.rejected] == [2, 2]
    assert any("busy before the first run" in note for note in record.notes)


def test_variants_may_restart_and_a_password_stays_out_of_record_and_events(
    new_cluster: NewCluster, program: Path
) -> None:
    cluster = new_cluster(listen=True)
    dsn = psycopg.conninfo.make_conninfo(cluster.dsn(tcp=True), password=PASSWORD)

    def with_buffers(size: str) -> Callable[[], None]:
        def activate() -> None:
            cluster.configure({"shared_buffers": size})
            cluster.restart()

        return activate

    servers = {size: RunningServer(dsn, with_buffers(size)) for size in ("16MB", "32MB")}
    heard: list[Event] = []
    record = prove(servers, program, progress=heard.append)
    # In base units of 8 kB.
    found = [record.settings[size]["shared_buffers"] for size in ("16MB", "32MB")]
    assert found == ["2048", "4096"]
    assert record.local
    assert all(sample.foreign is not None for sample in record.samples)
    for text in (repr(servers), repr(record), repr(heard), json.dumps(as_builtins(record.plan))):
        assert PASSWORD not in text


def test_a_role_without_the_rights_is_told_which(new_cluster: NewCluster, program: Path) -> None:
    cluster = new_cluster()
    query(cluster.dsn(), "CREATE ROLE plain LOGIN")
    servers = {name: RunningServer(cluster.dsn(user="plain"), nothing) for name in "ab"}
    with pytest.raises(MissingPart, match="may not create databases"):
        prove(servers, program)
    query(cluster.dsn(), "ALTER ROLE plain CREATEDB")
    with pytest.raises(MissingPart, match="may not run CHECKPOINT"):
        prove(servers, program)
    query(cluster.dsn(), "GRANT pg_checkpoint TO plain")
    record = prove(servers, program)
    assert len(record.samples) == 2


@pytest.mark.parametrize("major", [pytest.param(13, marks=pytest.mark.slow), 17])
def test_older_servers_are_proved_alike(major: int, new_cluster: NewCluster, program: Path) -> None:
    """17 moved the checkpoint counters; 15, tested above, added a clause for copying databases."""
    dsn = new_cluster(major).dsn()
    record = prove(two_variants(dsn), program)
    assert [sample.checkpoints_requested for sample in record.samples] == [0, 0]
    assert record.settings["default"]["server_version"].startswith(f"{major}.")


def test_each_variant_needs_its_server_and_a_name_of_its_own(dsn: str, program: Path) -> None:
    server = RunningServer(dsn, nothing)
    with pytest.raises(BadValue, match="two variants"):
        prove({"a": server}, program)
    variants = (Variant(name="a"), Variant(name="b"))
    with pytest.raises(BadValue, match="a server for each of a, b"):
        prove({"a": server, "c": server}, program, variants=variants)


@pytest.mark.parametrize("name", ["My DB", "x" * 60, ""])
def test_a_name_that_no_database_of_a_proof_can_have_is_refused(name: str) -> None:
    with pytest.raises(BadValue, match="is not a valid database name"):
        check_database(name)


def test_records_hold_no_verdict() -> None:
    assert "verdict" not in Record.__dataclass_fields__
