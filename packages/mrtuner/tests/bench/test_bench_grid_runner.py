"""A whole grid, a tiny one, on real servers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench_grids import a_plan
from machine import missing
from mrtuner.bench.engine.collect import differences
from mrtuner.bench.engine.grid import run_grid
from mrtuner.bench.engine.run import RunFiles, RunPosition, RunTarget, warm_up
from mrtuner.bench.plan.cells import Block
from mrtuner.bench.plan.model import GridCell, Plan, Script, Variant, Workload
from mrtuner.bench.record.archive import Archive
from mrtuner.bench.record.document import RunDocument
from mrtuner.bench.record.model import Record
from mrtuner.bench.verdict.summary import summaries
from mrtuner.documents import as_builtins, read
from mrtuner.errors import MrTunerError, Refused
from mrtuner.postgres.binaries import find_binaries
from servers import binaries

pytestmark = pytest.mark.timed

SCRIPT = "SELECT aid FROM pgbench_accounts WHERE aid = 1;"


def tiny(**other: object) -> Plan:
    known = {
        "scales": (1,), "clients": (1,), "blocks": 1, "seconds": 2, "warmup": 1,
        "steal_limit": 1.0, "foreign_limit": 1.0,
    }  # fmt: skip
    return a_plan(**known | other)


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """Full speed and half of it, over the socket and over TCP."""
    binaries(18)
    plan = tiny(
        workloads=(Workload(name="own", scripts=(Script(name="s.sql", text=SCRIPT),)),),
        variants=(
            Variant(name="a", settings={"work_mem": "5MB"}),
            Variant(name="b", connect="tcp", conf="work_mem = 6MB\nport = 1\n"),
        ),
        rates=("", "50%"),
    )
    return run_grid(plan, tmp_path_factory.mktemp("grid") / "run")


def test_every_cell_is_measured_with_both_variants(record: Record) -> None:
    assert record.sealed
    assert [(one.cell.rate, one.rejected) for one in record.samples] == [
        ("", None), ("", None), ("50%", None), ("50%", None),
    ]  # fmt: skip
    assert not record.failures


def test_settings_of_both_kinds_are_in_force(record: Record) -> None:
    assert record.settings["a"]["work_mem"] == "5120"
    assert record.settings["b"]["work_mem"] == "6144"
    assert record.settings["a"]["server_version"] == find_binaries().version


def test_a_share_of_capacity_is_of_the_slower_variant(record: Record) -> None:
    full = [one.run.tps for one in record.samples if not one.cell.rate]
    asked = record.rates["own s1 c1 @50%"]
    assert asked == pytest.approx(min(full) / 2, abs=0.1)
    assert [one.rate for one in record.samples] == [None, None, asked, asked]
    for side in summaries(record):
        if side.cell.rate:
            assert side.tps < asked * 1.25


def test_what_happened_meanwhile_is_kept(record: Record) -> None:
    one = record.samples[0]
    assert one.times.total == one.run.transactions
    assert one.deltas["pg_stat_database"]["xact_commit"] >= one.run.transactions
    assert one.collector_cpu < 0.5
    assert one.canary > 0
    assert one.warmup == 1
    assert not one.settled  # one second is too short to tell
    if Path("/proc/stat").exists():
        assert max(one.series["context switches"]) > 0
        # One client, whose backend sleeps and is woken for every transaction, or spins.
        assert any(kind == "client backend" for kind, _, _ in one.backends)
        assert any(kind == "checkpointer" for kind, _, _ in one.backends)


def test_what_did_not_move_is_no_difference() -> None:
    before = {"v": {"x": 1.0, "y": 5.0}}
    assert differences(before, {"v": {"x": 4.0, "y": 5.0}, "w": {"z": 2.0}}) == {
        "v": {"x": 3.0}, "w": {"z": 2.0},
    }  # fmt: skip


def test_a_less_durable_variant_has_to_own_up(tmp_path: Path) -> None:
    plan = tiny(variants=(Variant(name="a"), Variant(name="b", settings={"fsync": "off"})))
    with pytest.raises(Refused, match=r"not equally durable: fsync is on for a, off for b"):
        run_grid(plan, tmp_path / "run")


def test_a_setting_that_no_server_takes_is_found_first(tmp_path: Path) -> None:
    plan = tiny(variants=(Variant(name="a", conf="work_mem = much\n"), Variant(name="b")))
    with pytest.raises(MrTunerError, match='invalid value for parameter "work_mem"'):
        run_grid(plan, tmp_path / "run")


def test_a_scale_beyond_the_disk_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    """15 MB x 100 million: 1.5 PB."""
    with pytest.raises(Refused, match=r"the databases need 1\.\d+ ?PB|the databases need \d+ TB"):
        run_grid(tiny(scales=(100_000_000,)), tmp_path / "run")


def test_a_run_begun_under_another_kernel_or_machine_is_not_gone_on_with(tmp_path: Path) -> None:
    head = {
        "schema": "mrtuner.bench.run/2", "plan": as_builtins(tiny()), "host": {},
        "kernel": "Plan 9", "pgbench": "18.6", "mrtuner": "0",
        "started": "2026-01-01T00:00:00+00:00", "local": True, "forced": False,
    }  # fmt: skip
    Archive.create(tmp_path / "run", read(head, RunDocument))
    with pytest.raises(
        Refused, match=r"another machine: kernel Plan 9 against .*; memory None against "
    ):
        run_grid(None, tmp_path / "run")


def test_limits_need_their_machinery(tmp_path: Path) -> None:
    """A limit that cannot be set is an error; the test is skipped where limits can be set."""
    if not (missing("root") or missing("cgroup v1 memory")):
        pytest.skip("limits can be set here")
    plan = tiny(variants=(Variant(name="a"), Variant(name="b", memory=2**30)))
    with pytest.raises(MrTunerError, match=r"cgroup v1|root"):
        run_grid(plan, tmp_path / "run")


#: A program with pgbench's options and output that ends at once. Each of its runs is `factor` times
#: as fast as the one before; the first and the last second of a log are not whole.
FAKE = """
import pathlib, sys
beside = pathlib.Path(__file__).with_suffix(".turn")
turn = int(beside.read_text()) if beside.exists() else 0
beside.write_text(str(turn + 1))
given = dict(word.split("=", 1) for word in sys.argv if "=" in word)
seconds, rate = int(given["--time"]), {factor} ** turn
with open(given["--log-prefix"] + ".1", "w") as log:
    for second in range(seconds + 1):
        for number in range(rate):
            log.write(f"0 {{second + number}} 1000 0 {{second}} {{number}}\\n")
print("number of transactions actually processed:", rate * seconds)
print(f"tps = {{rate}}.0 (without initial connection time)")
"""


@pytest.mark.parametrize(
    ("factor", "length", "patience", "taken", "settled"),
    [
        (1, 15, 2, 30, True),  # of one run 14 whole seconds, of two runs 28
        (1, 30, 2, 30, True),
        (16, 15, 2, 45, False),  # batches of 1 1 4 16 16, then 112 256 256: a late cut is best
        (1, 15, 0, 15, False),  # too short to tell
        (1, 14, 2, 14, False),  # shorter than ours: as it was asked for
    ],
)
def test_a_warm_up_goes_on_until_the_load_has_settled(
    tmp_path: Path, factor: int, length: int, patience: int, taken: int, settled: bool
) -> None:
    program = tmp_path / "pgbench"
    program.write_text(f"#!{sys.executable}\n{FAKE.format(factor=factor)}")
    program.chmod(0o755)
    plan = tiny(warmup=length)
    cell = GridCell("select", 1, 1)
    found = warm_up(
        RunFiles(plan, tmp_path, program, patience=patience),
        RunPosition(Block(cell, "comparison", 1, ("a", "b")), 1, 1, "a", "a"),
        RunTarget("dbname=none", None, local=True, rate=None),
    )
    assert (found.seconds, found.settled) == (taken, settled)


def test_cells_are_named_for_people() -> None:
    assert GridCell("tpcb", 100, 8, "500").key == "tpcb s100 c8 @500"
