"""The demo records its own loads, both sides alike, and names the command that shows them.

Its loads are cut to seconds here; everything else is the demo's own.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from machine import PAGE, require
from mrtuner.answers.proof.recorded_loads import has_statements, with_statements
from mrtuner.cli.demo import _ourselves
from mrtuner.history.reading import open_history
from mrtuner.postgres.binaries import Binaries
from mrtuner.postgres.server_user import scratch_directory
from mrtuner.web.answers import screen_answer

pytestmark = pytest.mark.timed

#: The demo with loads of some seconds on little data, and without the volume.
SHORT = """
import sys
from dataclasses import replace
from mrtuner.bench.plan import demo as loads
from mrtuner.bench.series import LeftOut
from mrtuner.cli import demo, main

whole = loads.in_memory
def few(*given):
    return [replace(task, lead_in=1, plan=replace(task.plan, seconds=SECONDS, blocks=BLOCKS))
            for task in whole(*given)[::2][:LOADS]]
loads.in_memory, loads.scale_for = few, lambda memory: 1
why = LeftOut(title="small cloud volume", why="it would take minutes", remedy="none")
demo._why_no_volume = lambda host: why
sys.argv[0] = "mrtuner"
main()
"""


@contextmanager
def demo(
    place: Path,
    *options: str,
    seconds: int = 2,
    blocks: int = 2,
    loads: int = 1,
    scratch: Path | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """A short demo in a process group of its own, as a terminal gives it one."""
    program = SHORT
    for name, number in (("SECONDS", seconds), ("BLOCKS", blocks), ("LOADS", loads)):
        program = program.replace(name, str(number))
    elsewhere = {} if scratch is None else {"TMPDIR": str(scratch)}
    with subprocess.Popen(
        [sys.executable, "-c", program, "demo", "--dir", str(place), *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env=os.environ | elsewhere,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Run a demo; its directory and the lines it printed."""
    place = tmp_path_factory.mktemp("demo")
    with demo(place, loads=2) as process:
        out, errors = process.communicate()
        assert process.returncode == 0, errors
    return place, out.splitlines()


def ask(place: Path, screen: str, instance: str) -> Any:
    with open_history(place / "demo-history") as history:
        return screen_answer(history, screen, {"instance": instance, "since": "1h"})


def table(told: Any, name: str) -> Any:
    """The table of a screen with this name."""
    (found,) = [one for one in told.tables if one.name == name]
    return found


@pytest.mark.parametrize("side", ["default", "advised"])
def test_of_both_sides_one_sees_statements_waits_and_headroom(
    once: tuple[Path, list[str]], side: str
) -> None:
    place, _ = once
    statements = table(ask(place, "statements", side), "statements")
    texts = " ".join(str(row[0]) for row in statements.rows)
    assert "UPDATE pgbench_accounts SET abalance = abalance" in texts
    assert "generate_series" in texts
    assert table(ask(place, "load", side), "events").rows
    headroom = table(ask(place, "headroom", side), "headroom")
    assert "connections" in {row[0] for row in headroom.rows}


def test_both_sides_are_sampled_alike(once: tuple[Path, list[str]]) -> None:
    """Both sides bear the cost of the library."""
    place, _ = once
    with open_history(place / "demo-history") as history:
        loaded = history.rows(
            "SELECT instance, arg_max(value, time) AS value FROM settings "
            "WHERE name = 'shared_preload_libraries' GROUP BY 1 ORDER BY 1"
        )
        sampled = history.rows(
            "SELECT DISTINCT instance FROM samples WHERE source = 'statements' ORDER BY 1"
        )
    assert [row["instance"] for row in loaded] == ["advised", "default"]
    assert all("pg_stat_statements" in row["value"] for row in loaded)
    assert [row["instance"] for row in sampled] == ["advised", "default"]


def test_the_report_says_that_it_was_recorded(once: tuple[Path, list[str]]) -> None:
    place, _ = once
    report = json.loads((place / "report.json").read_text(encoding="utf-8"))
    (told,) = [text for text in report["proof"]["conditions"] if "recorded" in text]
    assert told.startswith("both servers were recorded alike")
    assert told.endswith("pg_stat_statements was loaded into both")


def test_the_last_line_is_the_command_that_shows_it(once: tuple[Path, list[str]]) -> None:
    place, said = once
    words = shlex.split(said[-1])
    assert words[-4:] == ["mrtuner", "serve", "--dir", str(place / "demo-history")]


def test_a_second_demo_goes_on_with_it_and_serve_shows_it_until_it_is_asked_to_end(
    once: tuple[Path, list[str]],
) -> None:
    require(PAGE)
    place, _ = once
    with demo(place, "--serve", seconds=1) as process:
        assert process.stdout is not None
        line = next(line for line in process.stdout if " is shown at http://" in line)
        address = line.split(" is shown at ")[1].split(";")[0]
        with urllib.request.urlopen(f"{address}api/fleet", timeout=60) as answer:
            names = {one["instance"] for one in json.load(answer)["instances"]}
        assert names == {"default", "advised"}
        changed = table(ask(place, "changes", "default"), "changes").rows
        assert {row[1] for row in changed} & {"restart", "replaced"}
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=120)
        assert "Traceback" not in errors


def test_an_interrupted_demo_leaves_nothing_running(tmp_path: Path) -> None:
    """It is interrupted while a load runs and is recorded."""
    scratch = scratch_directory()
    try:
        with demo(tmp_path, seconds=1, blocks=500, scratch=scratch) as process:
            assert process.stderr is not None
            next(line for line in process.stderr if " tps" in line)
            assert "postgres" in " ".join(named(scratch))
            os.killpg(process.pid, signal.SIGINT)
            _, errors = process.communicate(timeout=240)
            assert process.returncode == 130, errors
            assert "Traceback" not in errors
        assert named(scratch) == []
        assert list(scratch.iterdir()) == []
    finally:
        shutil.rmtree(scratch)


def named(directory: Path) -> list[str]:
    """Command lines of processes that mention this directory."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with suppress(OSError):
                words = (process / "cmdline").read_bytes().replace(bytes(1), b" ").decode()
                if str(directory) in words:
                    found.append(words)
    return found


def test_a_directory_that_is_no_history_is_refused_before_anything_is_measured(
    tmp_path: Path,
) -> None:
    (tmp_path / "demo-history").write_text("mine")
    with demo(tmp_path) as process:
        out, errors = process.communicate()
    assert (process.returncode, out) == (2, "")
    assert "cannot keep history in" in errors
    assert (tmp_path / "demo-history").read_text() == "mine"


@pytest.mark.parametrize(
    ("advised", "loaded"),
    [
        ({}, "pg_stat_statements"),
        ({"shared_preload_libraries": "pg_stat_statements"}, "pg_stat_statements"),
        ({"shared_preload_libraries": "auto_explain"}, "auto_explain,pg_stat_statements"),
    ],
)
def test_the_library_is_loaded_once_beside_others(advised: dict[str, str], loaded: str) -> None:
    assert with_statements(advised) == {"shared_preload_libraries": loaded}


@pytest.mark.parametrize("place", ["lib", "lib/postgresql"])
def test_without_the_library_a_server_is_not_told_to_load_it(tmp_path: Path, place: str) -> None:
    binaries = Binaries(directory=tmp_path / "bin", version="18.1", major=18)
    assert not has_statements(binaries)
    (tmp_path / place).mkdir(parents=True)
    (tmp_path / place / "pg_stat_statements.so").touch()
    assert has_statements(binaries)


def test_the_command_is_named_as_this_program_was_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.setattr(sys, "argv", [".venv/bin/nobody-has-this"])
    assert _ourselves() == ".venv/bin/nobody-has-this"
    monkeypatch.setenv("SUDO_UID", "1000")
    assert _ourselves() == "sudo .venv/bin/nobody-has-this"
