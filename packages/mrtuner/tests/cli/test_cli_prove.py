"""prove on an existing server: consent first; afterwards everything is restored and removed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from conftest import NewCluster

from command_line import run
from mrtuner import tune
from mrtuner.answers.proof.loads import Wish, ask
from mrtuner.cli.common.proving import minutes
from servers import sql

#: As short as a proof can be.
TINY = (
    "--memory", "2GB", "--cpus", "2", "--storage", "ssd", "--scale", "1", "--clients", "2",
    "--seconds", "1", "--warmup", "0", "--blocks", "1", "--calibrate", "0",
)  # fmt: skip


def as_it_was(dsn: str) -> bool:
    """Whether no database of ours is left, and the settings are those of a fresh server."""
    databases = [name for (name,) in sql(dsn, "SELECT datname FROM pg_database")]
    cost = sql(dsn, "SHOW random_page_cost")[0][0]
    return cost == "4" and sorted(databases) == ["postgres", "template0", "template1"]


def load(**said: Any) -> Wish:
    """A TPC-B load whose size is not given."""
    asked: dict[str, Any] = {
        "builtin": "tpcb", "scripts": (), "statements": None, "statements_from": None,
        "here": False, "writes": False, "rate": None, "scale": None, "clients": None,
        "seconds": None, "warmup": 0, "blocks": 1, "calibrate": 0, "delta": 0.03, "seed": 1,
        "database": "mrtuner_proof",
    }  # fmt: skip
    return Wish(**{**asked, **said})


def test_only_what_was_chosen_has_a_reason_in_the_report() -> None:
    machine = tune(memory="16GB", cpus=4, data="3GB")
    assert ask(load(), machine, "").conditions == (
        "scale 204: as much data as the server has (3 GB)",
        "16 sessions: four per CPU",
        "60 s per run: it writes",
    )
    assert ask(load(scale=10, seconds=5), machine, "").conditions == ("16 sessions: four per CPU",)


def test_a_proof_measures_both_sides_and_puts_everything_back(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    cluster, report = new_cluster(), tmp_path / "report.html"
    done = run("prove", cluster.dsn(), *TINY, "--server-bin", cluster.binaries.directory,
               "--journal", tmp_path / "journal", "--html", report, "--yes", "--json")  # fmt: skip
    assert done.exit_code in {0, 5}, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == "mrtuner.report/2"
    lines = document["proof"]["loads"][0]["lines"]
    arms = {one["variant"]: one["settings"] for one in lines if one["kind"] == "settings"}
    assert {side["bound"] for side in document["loads"][0]["sides"]} <= {
        "cpu", "storage", "locks", "rate", "nothing",
    }  # fmt: skip
    assert arms["current"]["random_page_cost"] == "4"
    assert arms["advised"]["random_page_cost"] == "1.1"
    assert arms["current"]["shared_buffers"] == arms["advised"]["shared_buffers"]
    assert "not compared, because they need a restart: " in done.stderr
    assert "a database mrtuner_proof of 46 MB will be created and dropped" in done.stderr
    assert report.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert as_it_was(cluster.dsn())


def test_a_restart_command_that_fails_is_quoted(new_cluster: NewCluster, tmp_path: Path) -> None:
    cluster = new_cluster()
    done = run("prove", cluster.dsn(), *TINY, "--server-bin", cluster.binaries.directory,
               "--restart", "echo no such unit >&2; exit 5",
               "--journal", tmp_path / "journal", "--yes")  # fmt: skip
    assert done.exit_code == 1
    assert "unexpected" not in done.stderr
    assert "the command ended with exit code 5: no such unit" in done.stderr
    assert "HINT: Correct the command that restarts the server." in done.stderr
    assert as_it_was(cluster.dsn())


def test_a_request_to_end_puts_everything_back(new_cluster: NewCluster, tmp_path: Path) -> None:
    cluster = new_cluster()
    arguments = [
        "prove", cluster.dsn(), *TINY, "--blocks", "50", "--yes",
        "--server-bin", str(cluster.binaries.directory), "--journal", str(tmp_path / "journal"),
    ]  # fmt: skip
    program = "from mrtuner.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stderr is not None
        for line in child.stderr:
            if "advised: " in line:  # measured, so its settings are in force
                child.send_signal(signal.SIGTERM)
                break
        said = child.stderr.read()
    assert child.returncode == 130
    assert "Traceback" not in said
    assert as_it_was(cluster.dsn())


def test_nobody_is_surprised_by_a_proof(new_cluster: NewCluster, tmp_path: Path) -> None:
    cluster = new_cluster()
    done = run("prove", cluster.dsn(), *TINY, "--server-bin", cluster.binaries.directory,
               "--journal", tmp_path)  # fmt: skip
    assert done.exit_code == 4
    assert "--yes" in done.stderr.splitlines()[-1]
    assert as_it_was(cluster.dsn())


@pytest.mark.parametrize("arguments", [[], ["--embedded", "postgresql://nowhere"]])
def test_one_server_has_to_be_named(arguments: list[str]) -> None:
    done = run("prove", *arguments)
    assert done.exit_code == 2
    assert done.stderr.endswith("HINT: Give a connection string, or --embedded.\n")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--blocks", "0", "blocks 0 is below 1"),
        ("--scale", "0", "scale 0 is below 1"),
        ("--seconds", "-1", "seconds -1 is below 1"),
        ("--delta", "0%", "delta 0.0 is not between 0 and 1"),
        ("--database", "Drop Table", "is not a valid database name for a proof"),
        ("--load", "tpcc", "invalid value for '--load'"),
    ],
)
def test_a_plan_that_means_nothing_is_refused_before_a_server_is_touched(
    option: str, value: str, message: str
) -> None:
    done = run("prove", "postgresql://nowhere", option, value)
    assert done.exit_code == 2
    assert message in done.stderr


def test_a_missing_installation_is_named(tmp_path: Path) -> None:
    done = run("demo", "--server-bin", tmp_path)
    assert done.exit_code == 1
    assert f"error: no program postgres in {tmp_path}" in done.stderr
    assert "--server-bin DIR" in done.stderr


def test_lengths_of_time_are_rounded_up_to_minutes() -> None:
    assert [minutes(seconds) for seconds in (1, 60, 61, 600)] == [
        "1 minute", "1 minute", "2 minutes", "10 minutes",
    ]  # fmt: skip


def test_statements_never_run_on_data_that_no_proof_made_without_an_explicit_word() -> None:
    done = run("prove", "postgresql://nowhere", "--statements", "5")
    assert done.exit_code == 4
    assert "--statements runs on the server's own data" in done.stderr
    assert "add --on-this-data" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--on-this-data"], "--on-this-data needs a load"),
        (["--writes"], "--writes is for your own data"),
        (["--statements-from", "postgresql://x"], "--statements-from needs --statements"),
    ],
)
def test_words_that_mean_nothing_alone_are_refused(arguments: list[str], message: str) -> None:
    done = run("prove", "postgresql://nowhere", *arguments)
    assert done.exit_code == 2
    assert message in done.stderr


def test_a_script_of_ones_own_runs_on_a_restored_copy_without_writing_to_it(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    """At a fixed rate, in read-only sessions; nothing is created or dropped there."""
    cluster, script = new_cluster(), tmp_path / "shop.sql"
    sql(cluster.dsn(), "CREATE TABLE shop AS SELECT generate_series(1, 1000) AS id")
    script.write_text("SELECT count(*) FROM shop;\nSHOW default_transaction_read_only;\n")
    arguments = [
        "prove", cluster.dsn(), "--memory", "2GB", "--cpus", "2", "--storage", "ssd",
        "--clients", "2", "--seconds", "2", "--warmup", "0", "--blocks", "1", "--calibrate", "0",
        "--server-bin", str(cluster.binaries.directory), "--journal", str(tmp_path / "journal"),
        "--script", str(script), "--on-this-data", "--rate", "50", "--yes", "--json",
    ]  # fmt: skip
    done = run(*arguments)
    assert done.exit_code in {0, 5}, done.stderr
    (load,) = json.loads(done.stdout)["loads"]
    assert load["title"] == "your scripts"
    assert load["measure"] == "median latency", "100 transactions have no p99"
    assert "in read-only sessions" in done.stderr
    assert sql(cluster.dsn(), "SELECT count(*) FROM shop") == [(1000,)]
    script.write_text("INSERT INTO shop VALUES (1);\n")
    refused = run(*arguments)
    assert refused.exit_code == 1
    assert "read-only transaction" in refused.stderr
    assert as_it_was(cluster.dsn())


def test_statements_of_pg_stat_statements_are_replayed_and_the_others_named(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    cluster = new_cluster(settings={"shared_preload_libraries": "pg_stat_statements"})
    with psycopg.connect(cluster.dsn(), autocommit=True) as session:
        session.execute("CREATE EXTENSION pg_stat_statements")
        # Large enough for statements that take longer than our own queries.
        session.execute("CREATE TABLE shop AS SELECT n AS id FROM generate_series(1, 100000) n")
        session.execute("ANALYZE shop")
        session.execute("SELECT pg_stat_statements_reset()")
        session.execute("SELECT count(*) FROM shop WHERE id = 7 /* of clerk Beeblebrox */")
        session.execute("SELECT id FROM shop ORDER BY id LIMIT 3")
        session.execute("UPDATE shop SET id = 1 WHERE id = 1")
    done = run("prove", cluster.dsn(), "--memory", "2GB", "--cpus", "2", "--storage", "ssd",
               "--clients", "1", "--seconds", "1", "--warmup", "0", "--blocks", "1",
               "--calibrate", "0", "--server-bin", cluster.binaries.directory,
               "--journal", tmp_path / "journal", "--statements", "10", "--on-this-data",
               "--yes", "--json")  # fmt: skip
    assert done.exit_code in {0, 5}, done.stderr
    document = json.loads(done.stdout)
    reasons = {one["title"].split()[0]: one["why"] for one in document["left_out"]}
    assert reasons["UPDATE"].startswith("it writes: add --writes")
    scripts = document["proof"]["loads"][0]["head"]["plan"]["workloads"][0]["scripts"]
    # The statements include our own queries.
    ours = {one["text"] for one in scripts if "FROM shop" in one["text"]}
    assert ours >= {
        "SELECT count(*) FROM shop WHERE id = $1", "SELECT id FROM shop ORDER BY id LIMIT $1",
    }  # fmt: skip
    assert not [one for one in scripts if "'" in one["text"]], "no value that was drawn"
    assert "Beeblebrox" not in done.stdout  # a number may be among the figures
    assert "of the time of all that were examined" in done.stderr
    assert sql(cluster.dsn(), "SELECT count(*) FROM shop") == [(100000,)]
