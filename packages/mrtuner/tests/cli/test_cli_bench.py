"""`mrtuner bench` as a user meets it, on real servers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import run
from machine import needs
from mrtuner.bench.record.archive import load
from servers import binaries

pytestmark = pytest.mark.timed

PROGRAM = [sys.executable, "-c", "from mrtuner.cli import main; main()", "bench"]
QUICK = """
scales = [1]
clients = [1]
blocks = 1
seconds = 1
warmup = 0
steal_limit = 1
foreign_limit = 1
[[workload]]
name = "w"
scripts = ["w.sql"]
[[variant]]
name = "a"
[[variant]]
name = "b"
settings = { work_mem = "5MB" }
"""


def bench(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments], cwd=cwd, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    binaries(18)
    (tmp_path / "w.sql").write_text("SELECT 1;\n")
    (tmp_path / "plan.toml").write_text(QUICK)
    return tmp_path


def test_init_writes_a_plan_whose_length_is_forecast(tmp_path: Path) -> None:
    """10 blocks of 2 runs of 30 + 60 s are 30 minutes, plus some seconds around each run."""
    made = run("bench", "init")
    assert made.exit_code == 0
    (tmp_path / "plan.toml").write_text(made.stdout)
    told = run("bench", "run", tmp_path / "plan.toml", "--forecast", "--json")
    seen = json.loads(told.stdout)
    assert seen["schema"] == "mrtuner.bench.forecast/1"
    assert (seen["cells"], seen["runs"]) == (1, 20)
    assert 1800 < seen["seconds"] < 2000


@pytest.mark.parametrize("name", ["init", "run", "report", "compare"])
def test_every_command_leads_its_help_with_examples(name: str) -> None:
    shown = run("bench", name, "--help")
    assert shown.exit_code == 0
    assert f"  mrtuner bench {name}" in shown.output
    assert shown.output.index("Examples:") < shown.output.index("Options:")
    assert "--json" in shown.output
    assert "--debug" in shown.output


def test_what_cannot_be_run_is_a_usage_error(tmp_path: Path) -> None:
    for arguments in (["run"], ["run", "none.toml"], ["report", str(tmp_path)]):
        assert run("bench", *arguments).exit_code == 2


def test_a_script_with_a_mistake_is_found_before_anything_is_measured(folder: Path) -> None:
    (folder / "w.sql").write_text("SELEKT 1;\n")
    done = bench("run", "plan.toml", "--dir", "run", cwd=folder)
    assert done.returncode == 1
    assert 'syntax error at or near "SELEKT"' in done.stderr
    assert "measured" not in done.stderr
    (folder / "w.sql").write_text("SELECT 1;\n")
    again = bench("run", "plan.toml", "--dir", "run", cwd=folder)
    assert again.returncode == 0, again.stderr


@needs("/proc")
def test_a_busy_machine_is_refused_and_named(folder: Path) -> None:
    text = QUICK.replace("foreign_limit = 1", "foreign_limit = 0.001")
    (folder / "plan.toml").write_text(text)
    burner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        done = bench("run", "plan.toml", "--dir", "run", cwd=folder)
    finally:
        burner.kill()
        burner.wait()
    left = (folder / "run").exists()
    again = bench("run", "plan.toml", "--dir", "run", "--force", cwd=folder)
    assert done.returncode == 4
    assert "the machine is busy: CPU used by others" in done.stderr
    assert "--force" in done.stderr
    assert not left, "the hint must work when it is followed with the same name"
    assert again.returncode == 0, again.stderr
    assert load(folder / "run").forced


def test_two_files_of_settings_are_compared_and_the_page_is_written(folder: Path) -> None:
    (folder / "a.conf").write_text("work_mem = 4MB\n")
    (folder / "b.conf").write_text("work_mem = 8MB\nport = 1\n")
    done = bench(
        "compare", "--a", "a.conf", "--b", "b.conf", "--load", "select", "--scale", "1",
        "--clients", "1", "--seconds", "1", "--warmup", "0", "--blocks", "1", "--force",
        "--dir", "run", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "b against a: undecided" in done.stdout
    assert "work_mem: 4MB | 8MB" in done.stdout
    shown = bench("report", "run", "--against", "run", "--html", "run.html", cwd=folder)
    assert shown.returncode == 0, shown.stderr
    assert "no verdict" in shown.stdout
    assert "<svg" in (folder / "run.html").read_text()
