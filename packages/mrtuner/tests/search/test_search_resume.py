"""A search that is interrupted, or killed at any moment, goes on where it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from search_surface import Surface, new_search, procedure

from json_schemas import assert_valid
from mrtuner import __version__
from mrtuner.answers.settings_search.own_server import Clock, kept_in, resume
from mrtuner.bench.engine.events import Event
from mrtuner.documents import as_builtins
from mrtuner.errors import BadValue, Refused, UsageError
from mrtuner.search.model import Measured, Worth
from mrtuner.search.record import document, load, require_new, save
from mrtuner.stats.comparison import Verdict
from servers import binaries

HERE = Path(__file__).parent
#: Runs a search on the simulated server, and pauses in each race, so that kills find it there.
PROGRAM = """
import sys, time
from pathlib import Path
from search_surface import Surface, new_search, procedure
from mrtuner.search.record import load

class Slow(Surface):
    def race(self, *given):
        time.sleep(0.02)
        return super().race(*given)

place = Path(sys.argv[1])
search = load(place) if (place / "search.json").exists() else new_search(1, minutes=20)
print("ready", flush=True)
procedure(search, Slow(int(sys.argv[2])), place).run()
"""


def test_a_record_says_everything_and_is_read_back(tmp_path: Path) -> None:
    done = procedure(new_search(1), Surface(1), tmp_path).run()
    assert load(tmp_path) == done
    text = json.loads((tmp_path / "search.json").read_text(encoding="utf-8"))
    assert text["schema"] == "mrtuner.search/1"
    assert_valid(text, "mrtuner.search/1")


@pytest.mark.parametrize("race", [1, 2, 3, 6])
def test_an_interrupted_search_keeps_its_trials_and_ends(race: int, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        procedure(new_search(1), Surface(1, killed_at=race), tmp_path).run()
    if race == 1:
        assert list(tmp_path.iterdir()) == [], "nothing was measured"
        return
    before = load(tmp_path)
    assert len(before.trials) == race - 2, "the first race is the advice with itself"
    done = procedure(load(tmp_path), Surface(2), tmp_path).run()
    assert done.trials[: race - 2] == before.trials
    assert done.result is not None
    assert [one.number for one in done.trials] == list(range(1, len(done.trials) + 1))


def test_every_stage_can_be_interrupted(tmp_path: Path) -> None:
    """Interrupted after each race in turn, and resumed each time: no race is taken again."""
    search, stops = new_search(1, minutes=20), 0
    while search.result is None:
        try:
            procedure(search, Surface(stops, killed_at=2), tmp_path).run()
        except KeyboardInterrupt:
            stops += 1
            search = load(tmp_path)
    parts = len(search.trials) + len(search.ablation) + 3
    assert stops <= parts
    assert search.confirmation is not None


def test_a_finished_search_is_not_measured_again(tmp_path: Path) -> None:
    procedure(new_search(1, minutes=20), Surface(1), tmp_path).run()
    again = Surface(1, killed_at=1)
    done = procedure(load(tmp_path), again, tmp_path).run()
    assert again.races == 0
    assert done.result is not None


def test_a_search_killed_at_random_moments_is_readable_and_ends(tmp_path: Path) -> None:
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path}
    chance, kills, trials = Random(1), 0, 0
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline:
        with subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(tmp_path), str(kills)], env=environment,
            stdout=subprocess.PIPE, text=True,
        ) as child:  # fmt: skip
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            try:
                child.wait(chance.uniform(0.0, 0.9) if kills < 6 else 60)
            except subprocess.TimeoutExpired:
                child.send_signal(signal.SIGKILL)
                kills += 1
        if (tmp_path / "search.json").exists():
            now = load(tmp_path)
            assert len(now.trials) >= trials
            trials = len(now.trials)
            if now.result is not None:
                break
    assert kills > 0
    assert load(tmp_path).result is not None
    assert [one.name for one in tmp_path.iterdir() if not one.name.startswith(".")] == [
        "search.json"
    ]


def test_what_is_no_search_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no search in"):
        load(tmp_path)
    (tmp_path / "search.json").write_text("{", encoding="utf-8")
    with pytest.raises(BadValue, match="not a JSON document"):
        load(tmp_path)
    with pytest.raises(Refused, match="there is a search in") as refused:
        require_new(tmp_path)
    assert refused.value.hint is not None
    assert "--resume" in refused.value.hint


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"cpus": 99}, "the number of CPUs was 99, is "),
        ({"memory": 1 << 50}, "the memory was 1024 TB, is "),
        ({"advice": {"wal_compression": "gzip"}}, "does not accept every value of wal_compression"),
    ],
)
def test_a_search_goes_on_only_on_such_a_machine_with_such_a_build(
    changed: dict[str, object], said: str, tmp_path: Path
) -> None:
    programs = binaries(18)
    begun = replace(new_search(1), mrtuner=__version__, postgres=str(programs.version))
    here = {"cpus": os.cpu_count(), "memory": None}
    save(replace(begun, **(here if "advice" not in changed else {}) | changed), tmp_path)  # type: ignore[arg-type]
    told = list[str]()
    with pytest.raises(Refused, match=said):
        resume(tmp_path, server_bin=programs.directory, tell=told.append)
    assert not any("filling" in one for one in told)


def test_the_clock_counts_all_that_was_measured_and_shows_an_overrun() -> None:
    """30 s against itself, 4 + 5 s of trials, 6 s confirmed, 7 s of ablation and 8 s reduced."""
    done = Measured(
        verdict=Verdict.UNDECIDED, ratio=1.0, low=None, high=None, pairs=1, detectable=None,
        refused=(), cautions=(), seconds=30.0,
    )  # fmt: skip
    search = procedure(new_search(1, minutes=20), Surface(1)).run()
    search.schedule = replace(search.schedule, budget=50.0)
    search.trials = [replace(search.trials[0], seconds=seconds) for seconds in (4.0, 5.0)]
    search.calibration = done
    search.confirmation, search.reduced = (replace(done, seconds=one) for one in (6.0, 8.0))
    search.ablation = [
        Worth(name="work_mem", advice="4MB", value="8MB", measured=one)
        for one in (replace(done, seconds=7.0), None)
    ]
    told = list[Event]()
    Clock(search, told.append, told_nothing).say("a line")
    assert (told[0].step, told[0].steps) == (60, 50)


def test_settings_to_keep_are_as_advised_in_what_else_one_might_use() -> None:
    advice = {"wal_buffers": "16MB", "work_mem": "8MB"}
    pgtune = {"wal_buffers": "32MB", "jit": "off", "work_mem": "9MB"}
    keep = ("wal_buffers", "jit")
    assert kept_in(pgtune, advice, keep) == {"wal_buffers": "16MB", "work_mem": "9MB"}
    assert kept_in({}, advice, keep) == {"wal_buffers": "16MB"}


def told_nothing(_text: str) -> None:
    raise AssertionError


def test_a_record_of_a_later_version_is_refused(tmp_path: Path) -> None:
    plain = as_builtins(document(new_search(1))) | {"schema": "mrtuner.search/2"}
    (tmp_path / "search.json").write_text(json.dumps(plain), encoding="utf-8")
    with pytest.raises(BadValue, match=r"has version mrtuner\.search/2"):
        load(tmp_path)


def test_a_record_is_replaced_as_a_whole(tmp_path: Path) -> None:
    search = new_search(1)
    save(search, tmp_path)
    save(replace(search, busy="30 % of the CPU"), tmp_path)
    assert load(tmp_path).busy == "30 % of the CPU"
    assert [one.name for one in tmp_path.iterdir()] == ["search.json"]
