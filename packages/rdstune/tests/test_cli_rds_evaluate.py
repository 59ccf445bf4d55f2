"""`rdstune evaluate` through the real command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from command_line import run
from rdstune.cli import rdstune

if TYPE_CHECKING:
    from conftest import NewCluster

CACHE = ("{DBInstanceClassMemory*75/819200}", "--parameter", "effective_cache_size")


def evaluate(*arguments: str) -> Result:
    return CliRunner().invoke(rdstune, ["evaluate", *arguments])


def document(*arguments: str) -> Any:
    return json.loads(evaluate(*arguments, "--json").stdout)


def test_the_value_comes_with_its_size_its_bounds_and_where_the_memory_is_from() -> None:
    """64 GiB less 326 MiB and 3.62 % is 62,838 MiB; 75 % of it is 46.0 GB, give or take 2 %."""
    done = evaluate(*CACHE, "--class", "db.r5.2xlarge")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "{DBInstanceClassMemory*75/819200} as effective_cache_size"
    assert lines[1].endswith("in units of 8kB: 46 GB")
    assert "45.1 GB to 46.9 GB" in lines[2]
    assert "61.4 GB, estimated (60.1 GB to 62.6 GB), on db.r5.2xlarge" in lines[3]
    assert "extrapolated above 32 GiB" in done.stdout


def test_604_on_an_m1_large() -> None:
    found = document("{DBInstanceClassMemory/12582880}", "--class", "db.m1.large")
    assert found["value"] == 604
    assert found["schema"] == "mrtuner.rds.evaluate/1"
    assert found["class"] == "db.m1.large"


def test_a_memory_is_bytes_or_a_size() -> None:
    """15 GiB x 75 / 819200 = 1,474,560 pages."""
    for memory in ("15GB", str(15 * 1024**3)):
        found = document(*CACHE, "--memory", memory)
        assert (found["value"], found["low"], found["high"]) == (1474560, 1474560, 1474560)
        assert found["pretty"] == "11.2 GB"
        assert found["bytes"] == 1474560 * 8192
        assert found["memory"]["measured"] is True
    shown = evaluate(*CACHE, "--memory", "15GB").stdout.splitlines()
    assert [line.split()[0] for line in shown[1:]] == ["value", "memory"]


def test_bytes_meant_as_pages_end_with_3_and_the_formula_to_write() -> None:
    asked = ("{DBInstanceClassMemory/4}", "--parameter", "shared_buffers", "--memory", "15GB")
    done = evaluate(*asked, "--check")
    assert done.exit_code == 3
    assert (evaluate(*asked).exit_code, evaluate(*asked).stdout) == (0, done.stdout)
    assert "2,048 times the memory: is the formula in bytes?" in done.stdout
    assert "write {DBInstanceClassMemory/32768}." in done.stdout


def test_every_class_is_a_table() -> None:
    done = evaluate("{DBInstanceClassMemory/32768}", "--parameter", "shared_buffers",
                    "--all-classes")  # fmt: skip
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert len(lines) == 1 + 1 + 299
    assert lines[1].split() == ["class", "memory", "vCPUs", "value", "size", "from", "to"]
    micro = next(line for line in lines if line.startswith("db.t4g.micro "))
    # 722 MiB / 32768 = 23104 pages = 180.5 MiB
    assert micro.split()[:7] == ["db.t4g.micro", "722", "MB", "2", "23104", "180", "MB"]


def test_every_class_is_a_document() -> None:
    found = document("{DBInstanceVCPU*2}", "--all-classes", "--engine", "aurora-postgresql")
    assert found["engine"] == "aurora-postgresql"
    assert len(found["classes"]) == 96
    assert {each["class"]: each["value"] for each in found["classes"]}["db.r6g.xlarge"] == 8


def test_a_class_with_a_problem_is_named_in_the_table_and_ends_with_3() -> None:
    done = evaluate("{DBInstanceClassMemory/107374182400}", "--parameter", "max_connections",
                    "--all-classes", "--check")  # fmt: skip
    assert done.exit_code == 3
    assert "problem" in done.stdout.splitlines()[1]
    micro = next(line for line in done.stdout.splitlines() if line.startswith("db.t4g.micro "))
    assert micro.endswith("out-of-range")


def test_processors_and_storage_can_be_given() -> None:
    assert document("{DBInstanceVCPU*2}", "--vcpus", "6")["value"] == 12
    assert document("{AllocatedStorage/1048576}", "--allocated-storage", "100")["value"] == 102400


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{DBInstanceClassMemory/4}"], "the formula needs DBInstanceClassMemory (bytes)"),
        (["{DBInstanceClassMemory/4}", "--class", "db.r6.large"], "unknown instance class"),
        (["{DBInstanceClassMemory/4}", "--memory", "much"], "cannot read 'much' as a size"),
        (["{DBInstanceClassMemory/4}", "--memory", "0"], "size 0 is not above zero"),
        (["200", "--parameter", "work_men"], "PostgreSQL 18 has no parameter 'work_men'"),
        (["{ DBInstanceClassMemory}", "--memory", "1GB"], "at character 2"),
        (["200", "--all-classes", "--memory", "1GB"], "--all-classes and --memory cannot"),
        (["200", "--all-classes", "--class", "db.t3.micro"], "--all-classes and --class cannot"),
        (["200", "--all-classes", "--vcpus", "2"], "--all-classes and --vcpus cannot"),
        (
            ["200", "--connect", "host=x", "--memory", "1GB"],
            "--memory and --connect cannot be used together",
        ),
        (["200", "--parameter", "work_mem", "--pg", "12"], "PostgreSQL 12 is not supported"),
        (
            ["200", "--parameter", "work_mem", "--pg", "19"],
            "unknown parameter group family 'postgres19'",
        ),
    ],
)
def test_what_cannot_be_used_is_one_error_with_a_hint(arguments: list[str], message: str) -> None:
    done = evaluate(*arguments)
    assert done.exit_code == 2
    first, second = done.stderr.splitlines()
    assert first.startswith("error: ")
    assert message in first
    assert second.startswith("HINT: ")
    assert done.stdout == ""


def test_a_class_that_the_engine_does_not_offer_is_warned_of() -> None:
    done = evaluate("200", "--class", "db.m1.large", "--engine", "aurora-postgresql")
    assert done.exit_code == 0
    assert "aurora-postgresql does not run on db.m1.large" in done.stderr
    assert evaluate("200", "--class", "db.c6gd.large").stderr == ""  # in Multi-AZ clusters only


def test_mrtuner_rds_is_the_same() -> None:
    done = run("rds", "evaluate", "{DBInstanceVCPU*2}", "--vcpus", "6")
    assert done.stdout.splitlines()[1].split() == ["value", "12"]


def test_a_running_instance_tells_its_memory(new_cluster: NewCluster) -> None:
    """1 GiB under the defaults: 32768 pages, 65536 pages, 112 connections."""
    settings = {"shared_buffers": 32768, "effective_cache_size": 65536, "max_connections": 112}
    cluster = new_cluster(17, settings)
    found = document("{DBInstanceClassMemory/16384}", "--parameter", "work_mem",
                     "--connect", cluster.dsn())  # fmt: skip
    assert found["value"] == 65536
    assert found["memory"]["measured"] is True
    assert "rds.*" in found["notes"][0]
