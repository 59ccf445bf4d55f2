"""`mrtuner limits`: from a file to a verdict, a page and a document."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

import command_line
from mrtuner.limits.examples.week import as_csv, simulated_week
from rds_flows import new_slow_instance
from rdstune.lab import Lab

CLASS = ["--class", "db.r5.2xlarge", "--volume", "io1:1000GB,30000iops"]


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("limits") / "metrics.csv"
    path.write_text(as_csv(simulated_week()), encoding="utf-8")
    return path


run = partial(command_line.run, "limits")


def test_the_example_is_a_file_that_the_command_reads(tmp_path: Path) -> None:
    made = run("--example")
    assert made.exit_code == 0
    path = tmp_path / "metrics.csv"
    path.write_text(made.stdout, encoding="utf-8")
    assert run(path, *CLASS).exit_code == 0


def test_the_story_is_told_on_stdout(metrics: Path) -> None:
    done = run(metrics, *CLASS, "--what-if", "db.r5.4xlarge")
    assert done.exit_code == 0, done.output
    first = done.stdout.splitlines()[0]
    assert first.startswith("db.r5.2xlarge: throughput pegged at 213 MB/s for ")
    assert " and 443 MB/s for " in first
    for words in (
        "instance throughput, before December 2019",
        "Stop and start the instance",
        "Raising provisioned IOPS will not help",
        "what if\n  db.r5.4xlarge",
        "confirms: DiskQueueDepth",
        "hour of the day, UTC",
    ):
        assert words in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 140


def test_the_document_and_the_page(metrics: Path, tmp_path: Path) -> None:
    page = tmp_path / "limits.html"
    done = run(metrics, *CLASS, "--json", "--html", page)
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    assert told["schema"] == "mrtuner.limits/1"
    assert [one["ceiling"]["value"] for one in told["pegged"]] == [212.5e6, 437.5e6]
    html = page.read_text(encoding="utf-8")
    assert "<svg" in html
    assert "437.5 MB/s instance before 12/2019" in html


def test_an_instance_is_looked_up_with_its_class_storage_and_metrics(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MRTUNER_CACHE_DIR", str(tmp_path))
    began = datetime.now(UTC) - timedelta(minutes=175)
    new_slow_instance(began, 175, ("ReadThroughput", "WriteThroughput"), first=8 * 60)
    done = run("slow", "--since", "3h", "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert (document["instance"], document["class"]) == ("slow", "db.r5.2xlarge")
    assert document["storage"] == "io1:1000GB,30000iops"
    assert [one["ceiling"]["value"] for one in document["pegged"]] == [212.5e6]


def test_an_instance_that_is_not_there_is_one_sentence(lab: Lab) -> None:
    done = run("nobody")
    assert done.exit_code == 1
    assert done.stderr.startswith("error: DBInstance nobody not found")


def test_a_check_ends_with_3_where_a_limit_was_reached(metrics: Path) -> None:
    assert run(metrics, *CLASS, "--check").exit_code == 3


def test_max_connections_are_a_ceiling_as_given_or_estimated(metrics: Path) -> None:
    """By hand: 64 GiB / 9,531,392 are above 5,000, where RDS caps its default."""
    estimated = json.loads(run(metrics, *CLASS, "--json").stdout)
    given = json.loads(run(metrics, *CLASS, "--max-connections", "300", "--json").stdout)
    for told, expected in ((estimated, 5000), (given, 300)):
        (found,) = [one for one in told["ceilings"] if one["resource"] == "connections"]
        assert found["value"] == expected


def test_an_aurora_class_has_its_own_default_of_max_connections(metrics: Path) -> None:
    """AWS's own table: 420 on an Aurora db.t3.medium. RDS: 4096 less 326 and 148 MiB is 398."""
    for storage, expected in (("aurora", 420), ("gp3:100GB", 398)):
        told = json.loads(
            run(metrics, "--class", "db.t3.medium", "--volume", storage, "--json").stdout
        )
        assert [one["value"] for one in told["ceilings"] if one["resource"] == "connections"] == [
            expected
        ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give an instance or a file of metrics"),
        (["db", "x.csv"], "must be the only target"),
        (["x.csv"], "the instance class is missing"),
        (["x.csv", "--class", "db.r5.2xlarge"], "cannot read x.csv"),
        (["--example", "--json"], "--example prints CSV"),
        (["db", "--since", "soon"], "cannot read 'soon' as a duration"),
        (["db", "--since", "0h"], "duration '0h' is not above zero"),
        (["db", "--watch", "10m"], "--watch is for a server outside RDS"),
        (["local", "--watch", "soon"], "cannot read 'soon' as a duration"),
    ],
)
def test_what_cannot_be_done_is_said_in_two_lines(arguments: list[str], message: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    error, hint = done.stderr.splitlines()
    assert message in error
    assert hint.startswith("HINT: ")


def test_an_unknown_class_or_storage_is_refused(metrics: Path) -> None:
    assert "unknown instance class" in run(metrics, "--class", "db.r5.3xlarge").stderr
    wrong = run(metrics, "--class", "db.r5.2xlarge", "--volume", "gp4:100GB")
    assert "unknown storage type 'gp4'" in wrong.stderr


def test_a_wrong_unit_is_not_guessed_where_nobody_can_be_asked(
    metrics: Path, tmp_path: Path
) -> None:
    head, *rows = metrics.read_text(encoding="utf-8").splitlines()
    lines = [head]
    for row in rows:
        stamp, reads, writes, *others = row.split(",")
        lines.append(",".join([stamp, f"{float(reads) / 1e6}", f"{float(writes) / 1e6}", *others]))
    path = tmp_path / "megabytes.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    refused = run(path, *CLASS)
    assert refused.exit_code == 2
    assert "looks like MB/s" in refused.stderr
    taken = run(path, *CLASS, "--throughput-unit", "MB/s")
    assert "pegged at 213 MB/s" in taken.stdout
