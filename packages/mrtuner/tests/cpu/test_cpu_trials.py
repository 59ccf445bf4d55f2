"""The order of trials, what spoils them, and what the gauges read: trees of files by hand."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from cpu_records import of_cpus

from mrtuner.cpu import gauges
from mrtuner.cpu.model import CpuPlan, Mode, TrialWeather
from mrtuner.cpu.session import Setup, here, most_workers, planned
from mrtuner.cpu.trials import counts, order, seconds_expected
from mrtuner.errors import UsageError
from mrtuner.host.tree import Tree


def plan(*of: int, repeats: int = 5) -> CpuPlan:
    return CpuPlan(
        mode=Mode.INTEGER, counts=of, repeats=repeats, seconds=2.0, pieces=20, seed=42,
        pairs=False, forced=False,
    )  # fmt: skip


def test_every_round_has_all_numbers_of_workers_in_an_order_of_its_own() -> None:
    drawn = order(plan(1, 2, 3, 4))
    rounds = [tuple(drawn[start : start + 4]) for start in range(0, 20, 4)]
    assert all(sorted(each) == [1, 2, 3, 4] for each in rounds)
    assert len(set(rounds)) > 1
    assert Counter(drawn) == dict.fromkeys((1, 2, 3, 4), 5)


def test_a_seed_repeats_its_order() -> None:
    assert order(plan(1, 2, 3)) == order(plan(1, 2, 3))


def test_up_to_32_workers_every_number_is_tried() -> None:
    assert counts(32, 16, 8) == tuple(range(1, 33))


def test_of_many_workers_those_around_cores_and_cpus_are_tried() -> None:
    """96 CPUs of 48 cores, up to 192: every sixth, and 47 48 49, 95 96 97."""
    tried = counts(192, 96, 48)
    assert {1, 2, 6, 47, 48, 49, 95, 96, 97, 186, 192} <= set(tried)
    assert len(tried) < 45


def test_the_forecast_counts_turns_beyond_the_cpus() -> None:
    """Two CPUs, 1 to 4 workers, 2 s and a piece of it to warm up: 2.1 x (1 + 1 + 1.5 + 2) and
    0.4 s for each start, five times."""
    assert seconds_expected(plan(1, 2, 3, 4), of_cpus(2)) == pytest.approx(5 * (2.1 * 5.5 + 1.6))


def stat(root: Path, *rows: str) -> Tree:
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc" / "stat").write_text("cpu  0 0 0 0\n" + "\n".join(rows) + "\nintr 5\n")
    return Tree(root)


def test_other_work_and_steal_are_shares_of_the_cpus_we_may_use(tmp_path: Path) -> None:
    """CPU 1 alone counts: of 200 ticks 43 are busy, 3 of them may be rounding, 20 are stolen."""
    before = gauges.read(stat(tmp_path, "cpu0 9 0 0 9 0 0 0 0", "cpu1 0 0 0 0 0 0 0 0"), {1}, ())
    tree = stat(tmp_path, "cpu0 99 0 0 9 0 0 0 0", "cpu1 40 1 2 137 0 0 0 20")
    seen = gauges.weather(before, gauges.read(tree, {1}, ()))
    assert seen.foreign == pytest.approx(0.2)
    assert seen.steal == pytest.approx(0.1)
    assert gauges.objection(seen) == "other work took 20% of our CPUs' time"


def test_what_our_workers_use_is_not_other_work(tmp_path: Path) -> None:
    """Worker 77 and its feeder 78 use 60 + 30 + 5 of 95 busy ticks."""
    for pid, used in ((77, "0 0"), (78, "0 0")):
        process(tmp_path, pid, used)
    children = tmp_path / "proc" / "77" / "task" / "77"
    children.mkdir(parents=True)
    (children / "children").write_text("78 ")
    before = gauges.read(stat(tmp_path, "cpu0 0 0 0 0 0 0 0 0"), {0}, (77,))
    process(tmp_path, 77, "60 30")
    process(tmp_path, 78, "5 0")
    after = gauges.read(stat(tmp_path, "cpu0 90 0 5 5 0 0 0 0"), {0}, (77,))
    assert gauges.weather(before, after).foreign == 0.0


def process(root: Path, pid: int, used: str) -> None:
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stat").write_text(f"{pid} (a ) b) R 1 1 1 0 -1 0 0 0 0 0 {used} 0 0 20 0 1 0 5")


@pytest.mark.parametrize(
    ("line", "mount", "folder"),
    [
        ("0::/a/b", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw", ""),
        ("3:cpu:/a/b", "30 23 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu", "cpu/"),
    ],
    ids=["v2", "v1"],
)
def test_throttled_periods_are_summed_over_our_group_and_those_above(
    tmp_path: Path, line: str, mount: str, folder: str
) -> None:
    own = tmp_path / "proc" / "self"
    own.mkdir(parents=True)
    (own / "cgroup").write_text(line + "\n")
    (own / "mountinfo").write_text(mount + "\n")
    for path, periods in (("a", 4), ("a/b", 7)):
        group = tmp_path / "sys/fs/cgroup" / folder / path
        group.mkdir(parents=True, exist_ok=True)
        (group / "cpu.stat").write_text(f"nr_periods 50\nnr_throttled {periods}\n")
    seen = gauges.read(stat(tmp_path, "cpu0 0 0 0 0 0 0 0 0"), {0}, ())
    assert seen is not None
    assert seen.throttled == 11


def test_the_mean_frequency_is_in_mhz(tmp_path: Path) -> None:
    for cpu, khz in ((0, 2400000), (1, 3600000)):
        folder = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_cur_freq").write_text(f"{khz}\n")
    assert gauges.frequency(Tree(tmp_path), (0, 1)) == 3000.0
    assert gauges.frequency(Tree(tmp_path), (7,)) is None


def test_where_nothing_can_be_read_nothing_is_claimed(tmp_path: Path) -> None:
    assert gauges.read(Tree(tmp_path), {0}, ()) is None
    unknown = TrialWeather(foreign=None, steal=None, throttled=None, mhz=None)
    assert gauges.weather(None, None) == unknown
    assert gauges.objection(unknown) is None


@pytest.fixture(scope="module")
def setup() -> Setup:
    return here(Mode.INTEGER)


def test_twice_the_cpus_are_tried_unless_asked_otherwise(setup: Setup) -> None:
    cpus = setup.usable.may_run_on
    assert most_workers(None, setup) == 2 * cpus
    assert most_workers("3x", setup) == 3 * cpus
    assert most_workers("5", setup) == 5


@pytest.mark.parametrize("text", ["many", "0", "-3", "0x", "x", "1e9x", "nanx", "infx"])
def test_a_number_of_workers_that_cannot_be_is_refused(setup: Setup, text: str) -> None:
    with pytest.raises(UsageError, match="not a number of workers"):
        most_workers(text, setup)


def test_one_cpu_is_not_tried_in_pairs(setup: Setup) -> None:
    made = planned(
        setup, up_to="2", repeats=2, seconds=0.1, seed=1, try_pairs=True, forced=True
    )  # fmt: skip
    assert made.pairs == (len(setup.usable.cpus) > 1)
