"""Real processes: the accounts add up, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from machine import needs
from mrtuner.cpu.crew import crew, steps_per_second
from mrtuner.cpu.model import Mode
from mrtuner.errors import MrTunerError

pytestmark = pytest.mark.timed

linux = needs("/proc")


def alive(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


def gone(pid: int) -> bool:
    end = time.monotonic() + 10
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not alive(pid)


@linux
@pytest.mark.parametrize("mode", [Mode.INTEGER, Mode.GZIP])
def test_wall_is_cpu_and_run_delay_and_next_to_nothing(mode: Mode) -> None:
    """The reference saw at most 6 ms of rest; a pipe adds short sleeps of its own."""
    count = max(1, round(0.01 * steps_per_second(mode)))
    with crew(mode, 2) as workers:
        done = workers.run(10, count, expected=0.1)
    for worker in done:
        assert worker.cpu is not None
        assert worker.cpu > 0.02
        assert worker.rest is not None
        assert worker.wall == pytest.approx(sum(worker.pieces))
        if mode is Mode.INTEGER:
            assert abs(worker.rest) < 0.02 + 0.02 * worker.wall


@linux
@pytest.mark.quiet
def test_the_same_work_takes_the_same_cpu_time_however_many_wait_for_one_cpu() -> None:
    """Three on one CPU of an idle machine: more run delay, not more CPU time; pinning does not
    emulate siblings."""
    cpu = min(os.sched_getaffinity(0))
    count = max(1, round(0.01 * steps_per_second(Mode.INTEGER)))
    with crew(Mode.INTEGER, 1, [cpu]) as alone:
        (one,) = alone.run(10, count, expected=0.1)
    with crew(Mode.INTEGER, 3, [cpu] * 3) as crowd:
        three = crowd.run(10, count, expected=0.3)
    assert one.cpu is not None
    for worker in three:
        assert worker.cpu == pytest.approx(one.cpu, rel=0.5)
        assert worker.delay is not None
        assert worker.delay > one.cpu
        assert set(worker.cpus) == {cpu}


@linux
def test_a_worker_burns_on_until_the_crew_is_dismissed() -> None:
    with crew(Mode.INTEGER, 1) as workers:
        workers.run(1, 1000, expected=0.01)
        (pid,) = workers.pids
        before = ticks(pid)
        end = time.monotonic() + 20
        while ticks(pid) - before < 10:
            assert time.monotonic() < end
            time.sleep(0.05)
    assert gone(pid)


def ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@linux
def test_workers_and_their_feeders_end_with_the_program_that_started_them() -> None:
    program = (
        "import time\nfrom mrtuner.cpu.crew import crew\nfrom mrtuner.cpu.model import Mode\n"
        "with crew(Mode.GZIP, 2) as workers:\n"
        "    workers.run(1, 10, expected=0.1)\n"
        "    print(*workers.pids, flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        feeders = [
            int(child)
            for pid in pids
            for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
        assert len(pids) == len(feeders) == 2
        parent.send_signal(signal.SIGKILL)
    assert all(gone(pid) for pid in (*pids, *feeders))


def test_a_worker_that_dies_ends_the_test_with_a_reason() -> None:
    with crew(Mode.INTEGER, 2) as workers:
        os.kill(workers.pids[1], signal.SIGKILL)
        with pytest.raises(MrTunerError, match="a worker died"):
            workers.run(1, 1000, expected=0.01)


@linux
def test_a_cpu_that_is_not_ours_ends_the_test_with_a_reason() -> None:
    with pytest.raises(MrTunerError, match="a worker died"), crew(Mode.INTEGER, 1, [4095]):
        pass
