"""Servers side by side: the same files, their own settings, warm, and gone at the end."""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from mrtuner.bench.load.pgbench import find_pgbench
from mrtuner.bench.plan.model import Plan, Script, Variant, Workload
from mrtuner.bench.series import LeftOut, Series, Task, from_dict, measure
from mrtuner.bench.server.instance import huge_pages
from mrtuner.bench.server.standing import DATABASE, evict, filled, side_by_side
from mrtuner.errors import MrTunerError
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.server_user import scratch_directory
from servers import binaries, sql

SIDES = {"default": {}, "advised": {"work_mem": "12MB"}}


@pytest.fixture
def template() -> Iterator[Cluster]:
    base = scratch_directory()
    try:
        yield filled(binaries(18), base / "template", 1)
    finally:
        shutil.rmtree(base)


def a_plan(workload: Workload, **other: object) -> Plan:
    known: dict[str, object] = {
        "workloads": (workload,), "scales": (1,), "clients": (2,), "blocks": 1, "seconds": 1,
        "warmup": 0, "seed": 1, "steal_limit": 1.0, "foreign_limit": 1.0, "standing": True,
        "variants": tuple(Variant(name=name, settings=text) for name, text in SIDES.items()),
    }  # fmt: skip
    return Plan(**known | other)  # type: ignore[arg-type]


def test_both_sides_start_from_the_same_data_and_their_own_settings(template: Cluster) -> None:
    base = template.directory.parent
    with side_by_side(template, SIDES, place=base) as servers:
        found = {name: sql(one.dsn, "SHOW work_mem")[0][0] for name, one in servers.items()}
        assert found == {"default": "4MB", "advised": "12MB"}
        shown = [sql(one.dsn, "SHOW shared_buffers")[0][0] for one in servers.values()]
        assert shown == ["128MB", "128MB"], "what helped to fill it is not kept"
        for one in servers.values():
            rows = sql(one.cluster.dsn(DATABASE), "SELECT count(*) FROM pgbench_accounts")
            assert rows[0][0] == 100_000
    assert list(base.iterdir()) == []


def test_a_series_is_measured_without_a_restart_and_read_back_from_json(template: Cluster) -> None:
    reads = Workload(name="reads", reads=True, scripts=(Script(name="a.sql", text="SELECT 1;"),))
    writes = Workload(name="writes", builtin="tpcb")
    program = find_pgbench(binaries(18))
    with side_by_side(template, SIDES, place=template.directory.parent) as servers:
        before = {name: one.cluster.pid for name, one in servers.items()}
        measured = [
            measure(
                Task(title=workload.name, why="a test", plan=a_plan(workload)),
                servers, program=program,
            )
            for workload in (reads, writes)
        ]  # fmt: skip
        assert {name: one.cluster.pid for name, one in servers.items()} == before
        history = sql(servers["default"].cluster.dsn(DATABASE), "TABLE pgbench_history LIMIT 1")
        assert history, "what writes goes on from where it was"
    series = Series(
        measured=tuple(measured), left_out=(LeftOut(title="x", why="y", remedy="z"),), busy="1%"
    )
    again = from_dict(series.to_dict())
    assert again.to_dict() == series.to_dict()
    assert [one.title for one in again.findings] == ["reads", "writes"]
    assert all(one.a.pause is not None for one in again.findings)
    assert again.findings[0].record.settings["advised"]["work_mem"] == "12288"


def test_a_load_that_says_it_only_reads_is_held_to_it(template: Cluster) -> None:
    text = "INSERT INTO pgbench_history (tid) VALUES (1);"
    liar = Workload(name="liar", reads=True, scripts=(Script(name="a.sql", text=text),))
    with side_by_side(template, SIDES, place=template.directory.parent) as servers:
        task = Task(title="liar", why="a test", plan=a_plan(liar, warmup=1))
        with pytest.raises(MrTunerError, match="read-only transaction"):
            measure(task, servers, program=find_pgbench(binaries(18)))


def test_parts_of_a_script_are_timed_apart(template: Cluster) -> None:
    """The first part takes longer with the default's work_mem, the second with ours."""
    text = (
        "SELECT pg_sleep(0.02);\n"
        "SELECT pg_sleep(CASE current_setting('work_mem') WHEN '4MB' THEN 0.15 ELSE 0.03 END);\n"
        "SELECT pg_sleep(0.02);\nSELECT pg_sleep(0.02);\n"
        "SELECT pg_sleep(CASE current_setting('work_mem') WHEN '4MB' THEN 0.03 ELSE 0.15 END);\n"
        "SELECT pg_sleep(0);\n"
    )
    parts = ("first", "second")
    script = Script(name="a.sql", text=text)
    halves = Workload(name="halves", reads=True, scripts=(script,), parts=parts)
    with side_by_side(template, SIDES, place=template.directory.parent) as servers:
        task = Task(title="halves", why="a test", plan=a_plan(halves, clients=(1,), seconds=2))
        measured = measure(task, servers, program=find_pgbench(binaries(18)))
    [found] = from_dict(Series(measured=(measured,)).to_dict()).findings
    ratios = dict(found.parts)
    assert list(ratios) == ["first", "second"]
    # By hand: 190/70 = 2.7 and 50/170 = 0.29. A busy machine lengthens all parts, one side's more.
    assert 1.3 < ratios["first"] < 4
    assert 0.2 < ratios["second"] < 0.8


def test_what_we_read_ourselves_leaves_the_kernels_cache(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "data"
    file.parent.mkdir()
    file.write_bytes(b"x" * 65536)
    assert _is_cached(file)
    evict(tmp_path)
    assert not _is_cached(file)
    assert file.read_bytes() == b"x" * 65536


def _is_cached(file: Path) -> bool:
    """Whether the first page is in the kernel's cache; unlike reading, asking loads nothing."""
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), mmap.PAGESIZE) as mapped:
        page = ctypes.c_char.from_buffer(mapped)
        resident = ctypes.c_ubyte()
        libc = ctypes.CDLL(None, use_errno=True)
        asked = libc.mincore(
            ctypes.c_void_p(ctypes.addressof(page)), ctypes.c_size_t(1), ctypes.byref(resident)
        )
        del page  # or the file could not be unmapped
        assert asked == 0, os.strerror(ctypes.get_errno())
        return bool(resident.value & 1)


def test_reserved_huge_pages_are_given_back(tmp_path: Path) -> None:
    """A file in place of the kernel's: it takes every number, as a machine with room does."""
    knob = tmp_path / "nr_hugepages"
    knob.write_text("7\n")
    with huge_pages(5, knob) as got:
        assert (got, knob.read_text()) == (5, "12")
    assert knob.read_text() == "7"
    with huge_pages(5, tmp_path / "none") as got:
        assert got == 0


def test_huge_pages_that_others_reserve_meanwhile_stay(tmp_path: Path) -> None:
    """Two benchmarks that overlap, the first of which ends first, and a person who adds two."""
    knob = tmp_path / "nr_hugepages"
    knob.write_text("7\n")
    first, second = huge_pages(5, knob), huge_pages(100, knob)
    first.__enter__()
    second.__enter__()
    assert int(knob.read_text()) == 112
    first.__exit__(None, None, None)
    assert int(knob.read_text()) == 107
    knob.write_text("109\n")
    second.__exit__(None, None, None)
    assert int(knob.read_text()) == 9
