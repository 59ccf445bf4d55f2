"""Killed at any step, a recorder has lost nothing that it acknowledged, and kept nothing twice.

A child process writes, seals and merges, and tells a pipe after each commit. It is killed at the
first, second, third … line of our code that it runs; then the store is compared with what came
through the pipe.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import pytest
from history_data import MIDNIGHT, SECOND, batch, queue, row, sample
from history_story import of_source

from mrtuner.errors import UsageError
from mrtuner.history.reading import open_history
from mrtuner.history.recording.source import built_in
from mrtuner.history.store import compaction, opening
from mrtuner.history.store.parquet import engine
from mrtuner.history.store.writer import Writer

SOURCE = queue()
SESSIONS = built_in()["sessions"]
HOUR = 3600
#: Commits of a child that is killed: they reach into a second day, so that it seals and merges.
COMMITS = 6
#: Commits of the next child, which finds what the killed one left.
MORE_COMMITS = 2
OURS = str(Path(compaction.__file__).parent)


#: Summaries, and their columns that count sessions; each sample has one session.
SUMMARIES = {
    "sessions_by_minute": "samples", "sessions_by_hour": "samples",
    "sessions_at_work_by_minute": "samples", "samples_by_minute": "session_samples",
}  # fmt: skip


def work(directory: Path, numbers: range, pipe: int) -> None:
    """Commit, tell, seal, merge: what a recorder does in a day, within a moment."""
    with Writer(directory, [SOURCE, SESSIONS]) as writer, writer.another() as keeper:
        for number in numbers:
            at = number * 5 * HOUR
            working = sample(SESSIONS, at, of_source("sessions", pid=number, state="active"))
            queued = sample(SOURCE, at, row("mail", number, 0.0, number))
            writer.commit([batch(queued, working)])
            os.write(pipe, f"{number}\n".encode())
            now = MIDNIGHT + at * SECOND
            compaction.move_to_parquet(keeper, now, everything=number % 2 == 0)
        compaction.compact(keeper, now + 48 * HOUR * SECOND)
        compaction.sweep(keeper, now)


def child(directory: Path, numbers: range, kill_at: int = 0) -> tuple[list[int], bool]:
    """Run `work` in a child that is killed at its line number `kill_at`; 0 for never.

    Return the commits that it told of, and whether it was killed.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        lines = 0

        def trace(frame: FrameType, event: str, _arg: Any) -> Any:
            nonlocal lines
            if not frame.f_code.co_filename.startswith(OURS):
                return None
            if event == "line":
                lines += 1
                if lines == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)
            return trace

        code = 1
        try:
            if kill_at:
                sys.settrace(trace)
            work(directory, numbers, writing)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as told:
        acknowledged = [int(line) for line in told]
    _, state = os.waitpid(pid, 0)
    killed = os.WIFSIGNALED(state)
    assert killed or os.WEXITSTATUS(state) == 0
    return acknowledged, killed


def stored(directory: Path) -> list[int]:
    """The numbers of the samples that are in the store."""
    with ExitStack() as stack:
        try:
            history = stack.enter_context(open_history(directory))
        except UsageError:  # killed before there was a store
            return []
        (seen,) = history.row("SELECT count(*) AS n FROM sessions").values()
        for view, column in SUMMARIES.items():
            (summed,) = history.row(f"SELECT sum({column}) AS n FROM {view}").values()
            assert (summed or 0) == seen, f"{view} has another number of samples than there are"
        return [row[0] for row in history.table("SELECT waiting FROM queue ORDER BY 1")[1]]


def killed_at(directory: Path, line: int) -> bool:
    """Kill a child at a line and check; run another to its end and check again.

    Return False if the first child ended before it reached that line.
    """
    acknowledged, killed = child(directory, range(COMMITS), line)
    found = stored(directory)
    assert len(found) == len(set(found)), f"killed at line {line}, something is there twice"
    assert set(acknowledged) <= set(found), f"killed at line {line}, something is lost"
    assert len(found) <= len(acknowledged) + 1
    more, _ = child(directory, range(100, 100 + MORE_COMMITS))
    assert stored(directory) == [*found, *more], f"after line {line}, recording went on wrongly"
    shutil.rmtree(directory)
    return killed


@pytest.fixture(autouse=True)
def warm() -> None:
    """Import DuckDB before children are made, so that none has to import it."""
    engine().close()


def kills(directory: Path, first: int, step: int) -> int:
    """Kill a child at one line after another, each in a store of its own, until one ends before its
    line; return how many were killed."""
    lines = itertools.count(first, step)
    return sum(1 for _ in itertools.takewhile(lambda at: killed_at(directory / str(at), at), lines))


def kills_on_all_cpus(directory: Path, step: int) -> int:
    """Call `kills` from the first line on, with the lines divided among one process per CPU."""
    workers = len(os.sched_getaffinity(0))
    stripes = [(directory, 1 + step * n, step * workers) for n in range(workers)]
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        return sum(pool.starmap(kills, stripes))


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory, where possible: a killed process leaves the same files there as on a
    disk, without waiting for the disk."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with TemporaryDirectory(prefix="mrtuner-killed-", dir="/dev/shm") as name:
        yield Path(name)


def test_killed_at_steps_all_over_it_loses_nothing_and_keeps_nothing_twice(memory: Path) -> None:
    """Each 797th line, a prime, so that loops are hit at different lines."""
    assert kills(memory, 1, 797) > 6


@pytest.mark.slow
@pytest.mark.timeout(2 * 3600)
def test_killed_at_a_thousand_steps_it_loses_nothing_and_keeps_nothing_twice(memory: Path) -> None:
    assert kills_on_all_cpus(memory, 7) >= 1000


def test_the_check_sees_a_lost_sample_and_one_that_is_there_twice(tmp_path: Path) -> None:
    """The same check on stores that are wrong on purpose."""
    acknowledged, killed = child(tmp_path, range(COMMITS))
    assert not killed
    assert stored(tmp_path) == acknowledged == list(range(COMMITS))
    with Writer(tmp_path, [SOURCE]) as writer, writer.transaction():
        writer.db.execute("INSERT INTO recent_queue (time, instance, waiting) VALUES (1, 'x', 0)")
    assert stored(tmp_path) == [0, *acknowledged]
    db = opening.for_reading(tmp_path)
    names = [file.path for file in opening.listed(db) if file.view == "queue"]
    db.close()
    assert names
    (tmp_path / "lake" / names[0]).unlink()
    assert set(stored(tmp_path)) < set(acknowledged)
