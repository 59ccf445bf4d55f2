"""A run of `mrtuner bench` that is interrupted and continued."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from test_cli_bench import PROGRAM, QUICK, bench

from mrtuner.bench.record.archive import load
from servers import binaries

pytestmark = pytest.mark.timed

#: Kills the postmaster, our backend's parent, if work_mem is not the default.
DEADLY = r"""
SELECT setting <> '4096' AS odd FROM pg_settings WHERE name = 'work_mem' \gset
\if :odd
COPY (SELECT 1) TO PROGRAM 'kill -QUIT $(ps -o ppid= -p $PPID)';
SELECT pg_sleep(5);
\endif
"""


def test_an_interrupted_run_keeps_what_it_measured_and_goes_on(tmp_path: Path) -> None:
    """One variant's server dies in every run: those runs are rejected, the other is measured."""
    binaries(18)
    (tmp_path / "plan.toml").write_text(QUICK)
    (tmp_path / "w.sql").write_text(DEADLY)
    errors = tmp_path / "stderr"
    with errors.open("w") as said:
        run = subprocess.Popen(
            [*PROGRAM, "run", "plan.toml", "--dir", "run"], cwd=tmp_path, stderr=said,
            stdout=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        lines = tmp_path / "run" / "lines.jsonl"
        deadline = time.monotonic() + 150
        while time.monotonic() < deadline:
            time.sleep(0.05)
            if lines.exists() and '"kind":"sample"' in lines.read_text():
                break
        os.kill(run.pid, signal.SIGINT)
        assert run.wait(120) == 130, errors.read_text()
    assert "to continue: mrtuner bench run --resume run" in errors.read_text()
    before = len(load(tmp_path / "run").samples)

    done = bench("run", "--resume", "run", "--json", cwd=tmp_path)
    record = load(tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert record.sealed
    assert len(record.samples) > before
    assert {one.label for one in record.failures} == {"b"}
    assert re.search("died|terminat|closed", record.failures[-1].reason)
    told = json.loads(done.stdout)
    assert told["cells"][0]["verdicts"] == []
    assert [side["variant"] for side in told["cells"][0]["sides"]] == ["a"]

    again = bench("run", "--resume", "run", cwd=tmp_path)
    assert again.returncode == 4
    assert "is already finished" in again.stderr
