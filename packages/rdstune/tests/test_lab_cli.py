"""`rdstune lab start` as a program: what it prints, how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab_calls import client, instance, shown, status
from rdstune.lab import Lab, seed

pytestmark = pytest.mark.timed


@contextmanager
def program(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`rdstune lab start` without servers; it is ended with the block."""
    command = [sys.executable, "-c", "from rdstune.cli import rdstune; rdstune.main()"]
    process = subprocess.Popen(
        [*command, "lab", "start", "--no-servers", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def lines(process: subprocess.Popen[str], count: int) -> Sequence[str]:
    assert process.stdout is not None
    return [process.stdout.readline().strip() for _ in range(count)]


def test_it_prints_what_to_export_and_ends_cleanly_at_ctrl_c() -> None:
    with program("--region", "eu-west-1") as process:
        exports = dict(line.removeprefix("export ").split("=", 1) for line in lines(process, 8))
        assert exports["AWS_ENDPOINT_URL"].startswith("http://127.0.0.1:")
        assert exports["AWS_DEFAULT_REGION"] == "eu-west-1"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        assert process.returncode == 0
        assert out == ""
        assert err.rstrip().endswith("nothing remains of it")


def test_a_seed_is_made_before_it_says_that_it_is_ready(tmp_path: Path) -> None:
    step = {
        "action": "CreateDBInstance",
        "region": "eu-west-1",
        "parameters": {
            "DBInstanceIdentifier": "seeded",
            "DBInstanceClass": "db.t4g.micro",
            "Engine": "postgres",
            "AllocatedStorage": 20,
            "MasterUsername": "m",
            "MasterUserPassword": "12345678",
        },
    }
    file = tmp_path / "seed.json"
    file.write_text(json.dumps([step]))
    with program("--seed", str(file), "--json") as process:
        assert process.stdout is not None
        text = ""
        for line in process.stdout:
            text += line
            if line == "}\n":
                break
        document = json.loads(text)
        assert document["schema"] == "mrtuner.rds.lab/1"
        (found,) = document["instances"]
        assert (found["identifier"], found["region"], found["status"]) == (
            "seeded",
            "eu-west-1",
            "available",
        )
        assert "12345678" not in text


def test_the_example_has_something_for_every_command(lab: Lab) -> None:
    seed.plant(lab, seed.example())
    rds = client()
    assert status(rds, "shop-production") == ("available", "pending-reboot")
    assert instance(rds, "shop-production")["MultiAZ"]
    waiting = rds.describe_pending_maintenance_actions()["PendingMaintenanceActions"]
    assert [row["ResourceIdentifier"].rpartition(":")[2] for row in waiting] == [
        "shop-production",
        "shop-staging",
    ]
    assert "CurrentApplyDate" in waiting[0]["PendingMaintenanceActionDetails"][0]
    assert shown(rds, "too-much", Source="user").keys() == {"shared_buffers"}


def test_a_bad_seed_is_a_plain_error(tmp_path: Path) -> None:
    file = tmp_path / "seed.json"
    file.write_text(json.dumps([{"action": "CreateDBInstances", "parameters": {}}]))
    with program("--seed", str(file)) as process:
        out, err = process.communicate(timeout=30)
        assert process.returncode == 1
        assert out == ""
        assert err.startswith(
            "error: step 1 of the seed, CreateDBInstances, failed: the RDS API has no such action"
        )
