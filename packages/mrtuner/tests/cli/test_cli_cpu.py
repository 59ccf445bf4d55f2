"""mrtuner cpu as a user runs it: short runs of real workers, in real control groups."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from machine import needs
from mrtuner.postgres.cluster import Cluster

pytestmark = pytest.mark.timed

PROGRAM = Path(sys.executable).parent / "mrtuner"
QUICK = ("--seconds", "0.1", "--repeats", "2", "--force", "--seed", "3")
linux = needs("/proc")


def run(*arguments: str, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*before, str(PROGRAM), "cpu", *arguments],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip


def told(*arguments: str, before: tuple[str, ...] = ()) -> dict[str, Any]:
    done = run(*QUICK, *arguments, "--json", before=before)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def one_cpu() -> str:
    return str(max(os.sched_getaffinity(0)))


@contextmanager
def group(controller: str, **files: str) -> Iterator[Path]:
    """A version 1 control group below our own, with limits; skips where none can be made."""
    line = re.search(
        rf"^\d+:{controller}:(.*)$", Path("/proc/self/cgroup").read_text(), re.MULTILINE
    )
    if line is None:
        pytest.skip(f"no version 1 hierarchy of {controller} here")
    folder = Path("/sys/fs/cgroup", controller, line[1].strip("/"), f"mrtuner-cpu-{os.getpid()}")
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"may not make a control group here: {error.strerror}")
    try:
        for name, text in files.items():
            (folder / name.replace("__", ".")).write_text(text)
        yield folder
    finally:
        folder.rmdir()


def inside(folder: Path) -> tuple[str, ...]:
    """A prefix that starts a program in the group."""
    return ("sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(folder))


@linux
def test_one_cpu_is_saturated_by_the_second_worker(tmp_path: Path) -> None:
    """Pinned by taskset: two workers get no more done than one."""
    pinned = ("taskset", "-c", one_cpu())
    page = tmp_path / "cpu.html"
    seen = told("--html", str(page), before=pinned)
    assert seen["schema"] == "mrtuner.cpu/1"
    assert seen["plan"]["counts"] == [1, 2]
    assert len(seen["trials"]) == 4
    assert seen["pairs"] == []
    if os.cpu_count() != 1:
        assert seen["usable"]["words"].startswith("1 of ")
        assert seen["usable"]["bound"] in ("affinity", "cpuset")
    assert len(seen["diagnosis"]["levels"]) == 2
    assert "</html>" in page.read_text()


@linux
@pytest.mark.quiet
def test_on_one_cpu_the_second_worker_makes_both_wait() -> None:
    """On an idle machine only: beside other work even a single worker waits."""
    one, two = told(before=("taskset", "-c", one_cpu()))["diagnosis"]["levels"]
    assert two["cpu"] == pytest.approx(one["cpu"], rel=0.5)
    assert two["delay"] > one["delay"]


@linux
@needs("two CPUs")
def test_a_cpuset_is_named_as_what_binds() -> None:
    """The field notes' pod: a quota of two CPUs, and a cpuset of one."""
    memory = Path("/sys/fs/cgroup/cpuset/cpuset.mems")
    nodes = memory.read_text().strip() if memory.exists() else "0"
    limits = {"cpuset__cpus": one_cpu(), "cpuset__mems": nodes}
    with (
        group("cpuset", **limits) as cpus,
        group("cpu", cpu__cfs_quota_us="200000", cpu__cfs_period_us="100000") as time,
    ):
        seen = told("--up-to", "1", before=(*inside(cpus), *inside(time)))
    assert seen["usable"]["words"].startswith("1 of 2, because of the cpuset (cgroup v1 cpuset.")
    assert any("cpuset" in item for item in seen["advice"])


@linux
def test_a_quota_is_what_there_is_to_use() -> None:
    """The quota of a fifth of a CPU throttles the workers."""
    with group("cpu", cpu__cfs_period_us="100000", cpu__cfs_quota_us="20000") as time:
        seen = told("--up-to", "2", "--no-pairs", before=inside(time))
    assert (seen["usable"]["count"], seen["usable"]["bound"]) == (0.2, "quota")
    assert sum(trial["weather"]["throttled"] for trial in seen["trials"]) > 0


@linux
@pytest.mark.quiet
def test_a_quota_is_named_as_the_cause_of_the_knee() -> None:
    """A fifth of a CPU: periods are throttled. Beside other work no knee may be visible."""
    with group("cpu", cpu__cfs_period_us="100000", cpu__cfs_quota_us="20000") as time:
        seen = told("--up-to", "3", "--no-pairs", before=inside(time))
    assert (seen["usable"]["count"], seen["usable"]["bound"]) == (0.2, "quota")
    bend = seen["diagnosis"]["bends"][0]  # noise may show a second knee in so few trials
    assert (bend["at"], bend["cause"]) == (1, "quota")
    assert bend["throttled"] > 0


@linux
@pytest.mark.quiet
def test_under_a_quota_two_workers_take_twice_as_long_as_one() -> None:
    """On an idle machine only: other work makes a single worker's times vary."""
    with group("cpu", cpu__cfs_period_us="100000", cpu__cfs_quota_us="20000") as time:
        one, two = told("--up-to", "2", "--no-pairs", before=inside(time))["diagnosis"]["levels"]
    assert two["wall"] == pytest.approx(2 * one["wall"], rel=0.4)
    assert two["cpu"] == pytest.approx(one["cpu"], rel=0.4)


@linux
def test_gzip_mode_runs_and_says_so() -> None:
    seen = told("--mode", "gzip", "--up-to", "2", "--no-pairs")
    assert seen["plan"]["mode"] == "gzip"
    assert all(worker["wall"] > 0 for trial in seen["trials"] for worker in trial["workers"])


def test_sql_mode_burns_in_the_sessions_of_a_server(embedded: Cluster) -> None:
    seen = told(embedded.dsn(), "--up-to", "2", "--yes")
    assert seen["plan"]["mode"] == "sql"
    assert seen["usable"]["cpus"]
    assert {trial["count"] for trial in seen["trials"]} == {1, 2}


def test_sql_mode_does_not_go_beyond_the_cpus_unless_asked(embedded: Cluster) -> None:
    seen = told(embedded.dsn(), "--yes")
    assert max(seen["plan"]["counts"]) == seen["usable"]["may_run_on"]


def test_a_server_is_not_burnt_on_without_consent(embedded: Cluster) -> None:
    done = run(embedded.dsn(), "--seconds", "0.1", "--force")
    assert done.returncode == 4
    assert "cannot ask for confirmation" in done.stderr


@linux
@needs("unshare")
def test_the_cpus_of_a_server_elsewhere_have_to_be_given(embedded: Cluster) -> None:
    """Run in its own process namespace, the command cannot see the server's processes."""
    elsewhere = ("unshare", "--pid", "--fork", "--mount-proc")
    if subprocess.run([*elsewhere, "true"], check=False).returncode:
        pytest.skip("may not make namespaces here")
    asked = run(embedded.dsn(), "--yes", before=elsewhere)
    assert asked.returncode == 2
    assert "--cpus" in asked.stderr
    seen = told(embedded.dsn(), "--cpus", "2", "--yes", before=elsewhere)
    assert seen["diagnosis"]["identity"] is None
    assert any("only elapsed time" in note for note in seen["notes"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--mode", "sql"), "--mode sql needs a server"),
        (("host=/nowhere", "--mode", "gzip"), "--mode gzip is not for a server"),
        (("--cpus", "4"), "--cpus is for a server on another machine"),
        (("--up-to", "lots"), "'lots' is not a number of workers"),
        (("--seconds", "0"), "0.0 is not in the range"),
    ],
)
def test_what_does_not_fit_together_is_refused_before_anything_burns(
    arguments: tuple[str, ...], message: str
) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_password_on_the_command_line_is_warned_of_and_never_shown() -> None:
    done = run("postgresql://app:hunter2@localhost:1/x", "--cpus", "1", "--yes")
    assert done.returncode == 1
    assert "can be read by every user" in done.stderr
    assert "hunter2" not in done.stdout + done.stderr


@linux
def test_a_busy_machine_is_refused_and_says_what_is_busy() -> None:
    """Another program uses our only CPU; it is killed when the test ends."""
    pinned = ("taskset", "-c", one_cpu())
    with subprocess.Popen([*pinned, sys.executable, "-c", "while True: pass"]) as neighbour:
        try:
            done = run("--seconds", "0.1", before=pinned)
        finally:
            neighbour.kill()
    assert done.returncode == 4
    assert "the machine is busy: other work took" in done.stderr
    assert "--force" in done.stderr


@pytest.mark.quiet
@linux
def test_a_quiet_machine_is_saturated_at_its_cpus() -> None:
    """Natively: as many effective cores as CPUs (siblings aside), the last knee at the CPUs."""
    done = run("--seconds", "1", "--json")
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    last = seen["diagnosis"]["bends"][-1]
    assert (last["at"], last["cause"]) == (seen["usable"]["may_run_on"], "saturation")
    assert seen["diagnosis"]["identity"] < 0.05
