"""What holds processes back: by hand, on trees of files, and with real processes and groups."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from command_line import run
from groups import real_group
from machine import needs
from mrtuner.errors import UsageError
from mrtuner.facts import Fact
from mrtuner.host.cgroup import ControlGroup
from mrtuner.host.cpus import Bound
from mrtuner.host.tree import Tree
from mrtuner_pods.measure import Cause, Measurement, held_back, measure, processes
from mrtuner_pods.measure.reading import ProcessUse, QuotaUse
from mrtuner_pods.measure.runtimes import beliefs, usable

linux = needs("/proc")

#: A loop that never waits, in so many threads of one interpreter.
BURN = """
import sys, threading
def burn():
    while True:
        pass
for _ in range(int(sys.argv[1]) - 1):
    threading.Thread(target=burn, daemon=True).start()
print(flush=True)
burn()
"""
SLEEP = "import sys; print(flush=True); sys.stdin.read()"


@contextmanager
def running(code: str, *args: str) -> Iterator[int]:
    """Run this code in a process until the block ends; yield its PID once the code has begun."""
    with subprocess.Popen(
        [sys.executable, "-c", code, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"\n"
        try:
            yield child.pid
        finally:
            child.kill()


# By hand.

OWN = ControlGroup(version=2, name=PurePosixPath("/pods/web"), folder=PurePosixPath("/g/pods/web"))
ABOVE = ControlGroup(version=2, name=PurePosixPath("/pods"), folder=PurePosixPath("/g/pods"))
EIGHT = frozenset(range(8))


def process(*threads: float, delay: float | None = 0.0, pid: int = 100) -> ProcessUse:
    return ProcessUse(pid=pid, name="puma", threads=threads, delay=delay, memory=None)


def quota(of: ControlGroup, cpus: int, share: float) -> QuotaUse:
    return QuotaUse(
        group=of, quota=Fraction(cpus), source=of.source("cpu.max"), own=of is OWN, share=share,
        throttled=share,
    )  # fmt: skip


def seen(*uses: ProcessUse, bounds: Sequence[Bound] = (), **more: Any) -> Measurement:
    """Ten seconds on eight CPUs of which six were idle."""
    online = Bound("online", Fact(EIGHT, "/sys/devices/system/cpu/online"))
    given: dict[str, Any] = {
        "seconds": 10.0, "quotas": (), "hidden": (), "idle": 6.0, "steal": 0.0, "waiting": (0, 0),
    } | more  # fmt: skip
    return Measurement(processes=uses, bounds=(online, *bounds), **given)


ONE_CPU = Bound("cpuset", Fact(frozenset({3}), "cgroup v2 cpuset.cpus.effective of /pods/web"))
ONE_BY_MASK = Bound("affinity", Fact(frozenset({3}), "/proc/100/status: Cpus_allowed_list"))


@pytest.mark.parametrize(
    ("measured", "cause", "evidence"),
    [
        (seen(process(0.5, 0.5), quotas=(quota(OWN, 1, 0.8),)), Cause.QUOTA,
         "the quota of 1 CPU (cgroup v2 cpu.max of /pods/web) was used up in 80% of periods"),
        (seen(process(0.5, 0.5), quotas=(quota(OWN, 2, 0.0), quota(ABOVE, 1, 0.8))),
         Cause.QUOTA_ABOVE, "the quota of 1 CPU (cgroup v2 cpu.max of /pods) was used up in 80%"),
        (seen(process(0.99, delay=1.0), bounds=(ONE_CPU,), idle=0.0), Cause.CPUSET,
         "it used 0.99 of the 1 CPU it may run on"),
        (seen(process(0.99, delay=1.0), bounds=(ONE_BY_MASK,), idle=0.0), Cause.AFFINITY,
         "/proc/100/status: Cpus_allowed_list; 8 are online"),
        (seen(process(*[1.0] * 8), idle=0.0), Cause.MACHINE, "it used 8.00 of the 8 CPUs"),
        (seen(process(0.5, delay=1.5), idle=0.0), Cause.OTHERS,
         "on average, 1.50 threads were ready to run but had no CPU"),
        (seen(process(0.5, delay=1.5), hidden=("/sys/fs/cgroup begins below the root",)),
         Cause.QUOTA_HIDDEN, "6.00 CPUs were idle meanwhile"),
        (seen(process(0.4, 0.35, 0.25, delay=0.01), process(0.01, pid=99)), Cause.LOCK,
         "3 of its threads shared that"),
        (seen(process(0.98, 0.02, delay=0.01)), Cause.ONE_THREAD, "used nearly all of that"),
        (seen(process(0.2, 0.1), waiting=(3, 5)), Cause.ELSEWHERE,
         "4.0 connections waited to be accepted, on average"),
        (seen(process(0.2, 0.1)), Cause.LOAD, "nothing kept it from using more"),
        (seen(process(0.2, 0.1), waiting=None), Cause.LOAD, "its sockets are not shown"),
    ],
    ids=lambda given: given.name if isinstance(given, Cause) else "",
)  # fmt: skip
def test_the_cause_and_what_shows_it(measured: Measurement, cause: Cause, evidence: str) -> None:
    told = held_back(measured)
    assert told.cause is cause
    assert any(evidence in one for one in told.evidence), told.evidence


def test_what_can_be_had_is_the_least_of_sets_and_quotas() -> None:
    assert usable(seen(process(0.1))) == 8
    assert usable(seen(process(0.1), bounds=(ONE_CPU,))) == 1
    assert usable(seen(process(0.1), quotas=(quota(OWN, 4, 0.0), quota(ABOVE, 2, 0.0)))) == 2


def test_what_runtimes_count() -> None:
    """Eight CPUs online, four by affinity, a quota of 2.5 of its own, one of 1 above."""
    four = Bound("affinity", Fact(frozenset(range(4)), "status"))
    own = QuotaUse(
        group=OWN, quota=Fraction(5, 2), source="cpu.max", own=True, share=0.0, throttled=0.0
    )
    measured = seen(process(0.1), bounds=(four,), quotas=(own, quota(ABOVE, 1, 0.0)))
    counted = {one.runtime.partition(" ")[0]: one.cpus for one in beliefs(measured)[::-1]}
    assert counted == {"Python": 8, "Ruby": 4, "Puma": 2, "Go": 4, "JVM": 3, "Node.js": 4}
    by_version = {one.runtime: one.cpus for one in beliefs(measured)}
    assert by_version["Python 3.13 os.process_cpu_count"] == 4
    assert by_version["Go 1.25"] == 3
    assert by_version["Node.js os.availableParallelism, libuv 1.51"] == 2


@linux
def test_this_python_counts_as_we_say() -> None:
    (here,) = [
        one.cpus
        for one in beliefs(measure(Tree(), [os.getpid()], 0.01))
        if one.runtime.startswith("Python os.cpu_count")
    ]
    assert here == os.cpu_count()


# On trees of files.


def write(root: Path, path: str, text: str) -> None:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n")


def container(root: Path, *, throttled: int, cpu: int) -> Tree:
    """A process of one thread in /pods/web, whose parent has a quota of one CPU (version 2)."""
    write(root, "/proc/100/comm", "puma")
    write(root, "/proc/100/stat", "100 (puma: a) b) S 1 0")
    write(root, "/proc/100/cgroup", "0::/pods/web")
    write(root, "/proc/self/mountinfo",
          "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw")  # fmt: skip
    write(root, "/proc/100/status", "Cpus_allowed_list:\t0-3")
    write(root, "/sys/devices/system/cpu/online", "0-3")
    write(root, "/proc/100/task/100/schedstat", f"{cpu} {cpu // 2} 9")
    write(root, "/proc/stat", "\n".join(f"cpu{n} 0 0 0 0 0 0 0 0" for n in range(4)))
    write(root, "/sys/fs/cgroup/pods/web/cpu.max", "200000 100000")
    write(root, "/sys/fs/cgroup/pods/web/cpu.stat",
          "nr_periods 100\nnr_throttled 0\nthrottled_usec 0")  # fmt: skip
    write(root, "/sys/fs/cgroup/pods/cpu.max", "100000 100000")
    write(root, "/sys/fs/cgroup/pods/cpu.stat",
          f"nr_periods {100 + throttled}\nnr_throttled {throttled}\n"
          f"throttled_usec {throttled * 50_000}")  # fmt: skip
    return Tree(root, 100)


def test_version_2_counters_are_read_twice(tmp_path: Path) -> None:
    """Ten seconds pass between the two looks: 10 CPU seconds, 90 of 90 periods throttled."""
    now = [0.0]
    tree = container(tmp_path, throttled=0, cpu=0)

    def sleep(_seconds: float) -> None:
        now[0] = 10.0
        container(tmp_path, throttled=90, cpu=10_000_000_000)

    found = measure(tree, [100], 10.0, sleep=sleep, clock=lambda: now[0])
    (one,) = found.processes
    assert (one.threads, one.delay) == ((1.0,), 0.5)
    own, above = found.quotas
    assert (float(own.quota), own.own, own.share) == (2.0, True, 0.0)
    assert (float(above.quota), above.own) == (1.0, False)
    assert (above.share, above.throttled) == (1.0, 0.45)
    told = held_back(found)
    assert told.cause is Cause.QUOTA_ABOVE
    assert told.evidence[1] == "its own quota is 2 CPUs (cgroup v2 cpu.max of /pods/web)"


# With real processes.


@linux
def test_a_real_quota_is_found() -> None:
    """A hundredth of a CPU: used up even where the machine is busy."""
    with real_group("cpu", cpu__cfs_quota_us="1000") as folder, running(BURN, "2") as pid:
        (folder / "cgroup.procs").write_text(str(pid))
        found = measure(Tree(), [pid], 3.0)
        told = held_back(found)
        subprocess.run(["kill", "-9", str(pid)], check=True)
    assert told.cause is Cause.QUOTA, found
    assert usable(found) == Fraction(1, 100)
    assert found.processes[0].pid == pid
    assert len(found.processes[0].threads) == 2


@linux
def test_a_real_quota_of_the_group_above_is_found() -> None:
    with real_group("cpu", cpu__cfs_quota_us="1000") as above, ExitStack() as stack:
        own = above / "web"
        own.mkdir()
        stack.callback(own.rmdir)
        pid = stack.enter_context(running(BURN, "1"))
        (own / "cgroup.procs").write_text(str(pid))
        found = measure(Tree(), [pid], 3.0)
    assert held_back(found).cause is Cause.QUOTA_ABOVE, found


@linux
def test_a_real_affinity_is_found() -> None:
    """Whether it gets its one CPU depends on the machine; that it may use only one does not."""
    with running(BURN, "1") as pid:
        one = min(os.sched_getaffinity(pid))
        os.sched_setaffinity(pid, {one})
        found = measure(Tree(), [pid], 0.5)
    assert found.narrowest is not None
    assert found.narrowest[0] == 1
    if (os.cpu_count() or 1) > 1:
        assert found.narrowest[1].by == "affinity"


@linux
@needs("two CPUs")
def test_a_real_cpuset_is_found() -> None:
    """The field notes' pod: whether it gets all of its one CPU depends on the machine."""
    memory = Path("/sys/fs/cgroup/cpuset/cpuset.mems")
    nodes = memory.read_text().strip() if memory.exists() else "0"
    one = str(min(os.sched_getaffinity(0)))
    with (
        real_group("cpuset", cpuset__cpus=one, cpuset__mems=nodes) as folder,
        running(BURN, "1") as pid,
    ):
        (folder / "cgroup.procs").write_text(str(pid))
        found = measure(Tree(), [pid], 0.5)
    assert found.narrowest is not None
    assert (found.narrowest[0], found.narrowest[1].by) == (1, "cpuset")
    assert usable(found) == 1


@linux
@pytest.mark.quiet
def test_a_global_lock_is_told_from_one_thread() -> None:
    """Needs a machine with a CPU to spare."""
    for threads, cause in (("4", Cause.LOCK), ("1", Cause.ONE_THREAD)):
        with running(BURN, threads) as pid:
            found = measure(Tree(), [pid], 3.0)
        assert held_back(found).cause is cause, found


@linux
def test_children_count_and_the_idle_has_too_little_load() -> None:
    spawns = (
        "import subprocess, sys; "
        f"subprocess.Popen([sys.executable, '-c', {SLEEP!r}], stdin=subprocess.PIPE).wait()"
    )
    with running(spawns) as pid:
        found = measure(Tree(), [pid], 0.5)
    assert len(found.processes) == 2
    assert pid in {one.pid for one in found.processes}
    assert found.cpu < 0.5
    assert all(one.memory for one in found.processes)


@linux
def test_connections_that_wait_to_be_accepted_are_counted() -> None:
    """Three connections to one socket and one to another; the process has all four."""
    with ExitStack() as stack:
        ours, other = (stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in "ab")
        for to in (ours, ours, ours, other):
            stack.enter_context(socket.create_connection(to.getsockname()))
        sockets = frozenset({os.fstat(ours.fileno()).st_ino})
        assert processes.waiting_to_be_accepted(Tree(), os.getpid(), sockets) == 3
        held = processes.sockets_of(Tree(), os.getpid())
        assert held is not None
        assert sockets < held
        found = measure(Tree(), [os.getpid()], 0.3)
    assert found.waiting
    assert set(found.waiting) == {4}


# The command.


def test_a_process_that_is_not_there_is_named() -> None:
    with pytest.raises(UsageError, match="there is no process 99999999"):
        measure(Tree(), [99999999], 0.1)
    done = run("pods", "measure", str(os.getpid()), "99999999")
    assert (done.exit_code, "there is no process 99999999" in done.stderr) == (2, True)


@linux
def test_a_process_that_ended_since_it_was_found_is_left_out() -> None:
    with running(SLEEP) as pid:
        found = measure(Tree(), [99999999, pid], 0.1)
    assert [one.pid for one in found.processes] == [pid]


@linux
def test_the_command_answers_in_text_and_json() -> None:
    with running(SLEEP, "look for me") as pid:
        options = ["pods", "measure", "--name", "look for me$", "--seconds", "0.5"]
        shown = run(*options)
        told = json.loads(run(*options, "--json").stdout)
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.startswith("Too little load: it used 0.0")
    assert "what runtimes count here" in shown.stdout
    assert told["schema"] == "mrtuner.pods.measure/1"
    assert [one["pid"] for one in told["processes"]] == [pid]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["1", "--name", "x"], "give PID or --name, not both"),
        (["--name", "("], "is not a regular expression"),
        (["--name", "no such program$"], "no process matches"),
        (["0"], "is not in the range"),
        (["1", "--seconds", "0"], "is not in the range"),
    ],
)
def test_bad_input_is_named(given: list[str], message: str) -> None:
    done = run("pods", "measure", *given)
    assert done.exit_code == 2, done.output
    assert message in done.output


@pytest.mark.parametrize(
    ("line", "title"),
    [(["shop: worker 1"], "shop: worker 1"), (["shop", "-"], "cat"), (["/opt/my shop"], "cat")],
)
def test_a_process_is_shown_by_the_title_that_it_gave_itself(line: list[str], title: str) -> None:
    """A title is one argument with blanks that replaces the command line."""
    with subprocess.Popen(
        line, executable="cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"\n")
        assert process.stdout.read(1) == b"\n"  # the program runs, so the command line is its own
        found = processes.title_of(Tree(), process.pid)
    assert found == title
