"""The whole grid of the documentation, measured on this kernel: two minutes, mostly waiting."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.timed, pytest.mark.quiet]


def test_every_setting_hangs_as_long_as_predicted(namespaces: None) -> None:
    script = "from mrtuner.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, "failover", "self-test", "--whole", "--json"],
        capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    trials = json.loads(done.stdout)["trials"]
    assert [sum(one["case"] == case for one in trials) for case in (1, 2, 3)] == [9, 14, 6]
    for trial in trials:
        band = trial["predicted"]
        for hang in trial["measured"]:
            assert band["low"] - 0.1 <= hang <= band["high"] + 0.1, trial
    assert done.returncode == 0
