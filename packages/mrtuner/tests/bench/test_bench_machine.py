"""A /proc of our own making, 100 ticks a second, and the real one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from machine import needs
from mrtuner.bench.engine.machine import CpuTime, Noise, noise_between, read
from mrtuner.host.tree import Tree

pytestmark = needs("/proc")


def add_process(proc: Path, pid: int, name: str, parent: int, *ticks: int) -> None:
    """ticks: utime, stime, cutime, cstime; the fields between do not matter."""
    between = " ".join("0" for _ in range(9))
    (proc / str(pid)).mkdir(parents=True)
    (proc / str(pid) / "stat").write_text(
        f"{pid} ({name}) S {parent} {between} {' '.join(map(str, ticks))} 20 0 1 0 5\n"
    )


def test_the_server_is_the_postmaster_its_children_and_the_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10+20+300+70 of the postmaster, 40+60 of its child: 500 ticks, 5 s at 100 a second."""
    monkeypatch.setattr(os, "sysconf", lambda name: 100)
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "stat").write_text("cpu  600 100 300 8000 500 30 70 400 0 0\ncpu0 1\n")
    add_process(proc, 7, "postgres", 1, 10, 20, 300, 70)
    add_process(proc, 8, "postgres", 7, 40, 60, 0, 0)
    add_process(proc, 9, "odd (name) 7", 1, 5000, 0, 0, 0)
    seen = read(7, Tree(tmp_path))
    assert seen is not None
    assert (seen.total, seen.steal, seen.busy, seen.server) == (100, 4, 10, 5)


def test_what_is_neither_ours_nor_the_servers_is_foreign() -> None:
    """Of 200 s: 6 stolen; 120 busy less 20 of ours and 90 of the server leaves 10."""
    before = CpuTime(total=1000, steal=0, busy=500, own=0, server=50)
    after = CpuTime(total=1200, steal=6, busy=620, own=20, server=140)
    assert noise_between(before, after) == Noise(steal=0.03, foreign=0.05)


def test_a_server_out_of_sight_leaves_the_foreign_share_unknown() -> None:
    before = CpuTime(total=1000, steal=0, busy=500, own=0, server=None)
    after = CpuTime(total=1200, steal=6, busy=620, own=20, server=None)
    assert noise_between(before, after) == Noise(steal=0.03, foreign=None)


def test_without_proc_nothing_is_claimed(tmp_path: Path) -> None:
    assert read(None, Tree(tmp_path)) is None
    assert noise_between(None, None) == Noise(None, None)


#: Forks children that burn CPU and end, one after another, as backends do.
POSTMASTER = """
import os, time
while True:
    child = os.fork()
    if child == 0:
        until = time.process_time() + 0.05
        while time.process_time() < until:
            pass
        os._exit(0)
    os.waitpid(child, 0)
"""


def test_a_backend_that_ends_while_we_look_is_not_forgotten() -> None:
    """CPU time never falls; it once did when a child was reaped between reading two files."""
    with subprocess.Popen([sys.executable, "-c", POSTMASTER]) as parent:
        try:
            seen = [read(parent.pid) for _ in range(300)]
        finally:
            parent.kill()
    used = [reading.server for reading in seen if reading and reading.server is not None]
    assert len(used) == 300
    assert used[-1] > used[0]
    assert used == sorted(used)
