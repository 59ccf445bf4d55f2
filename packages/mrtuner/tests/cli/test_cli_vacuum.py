"""`mrtuner vacuum`: the same findings as text, JSON and SQL."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import NewCluster
from jsonschema import ValidationError  # type: ignore[import-untyped]

import command_line
from json_schemas import assert_valid
from mrtuner.change.journal import Journal
from mrtuner.change.record import State
from mrtuner.documents import as_builtins, read
from mrtuner.postgres.cluster import Cluster
from mrtuner.vacuum.document import VacuumDocument
from mrtuner.vacuum.page import page
from servers import sql

run = partial(command_line.run, "vacuum")


@pytest.fixture(scope="module")
def dsn(embedded: Cluster) -> Iterator[str]:
    """A database with an updated table that has a TOAST table and a storage parameter."""
    sql(embedded.dsn(), "CREATE DATABASE vacuumed")
    where = embedded.dsn("vacuumed")
    sql(
        where,
        "CREATE TABLE account (id int PRIMARY KEY, note text) WITH (fillfactor = 90)",
        "INSERT INTO account SELECT i, 'x' FROM generate_series(1, 1000) AS i",
        "UPDATE account SET note = 'y'",
        "ANALYZE account",
    )
    yield where
    sql(embedded.dsn(), "DROP DATABASE vacuumed WITH (FORCE)")


def test_text_begins_with_what_was_read(dsn: str) -> None:
    done = run(dsn)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("vacuumed: 1 table, rates since the last reset")


def test_json_is_one_document_and_nothing_else(dsn: str) -> None:
    told = json.loads(run(dsn, "--json").stdout)
    assert (told["schema"], told["database"]) == ("mrtuner.vacuum/1", "vacuumed")
    assert told["tables"][0]["options"] == {"fillfactor": "90"}
    assert json.loads(run(dsn, "--format", "json").stdout).keys() == told.keys()


def test_the_document_of_a_watch_satisfies_its_schema_and_makes_the_page_again(dsn: str) -> None:
    done = run(dsn, "--watch", "1s", "--sample", "account", "--yes", "--json")
    told = json.loads(done.stdout)
    assert told["proofs"][0]["table"] == "public.account"
    assert_valid(told, "mrtuner.vacuum/1")
    with pytest.raises(ValidationError, match="strange"):
        assert_valid(told | {"tables": ["strange"]}, "mrtuner.vacuum/1")
    again = read(done.stdout, VacuumDocument)
    assert as_builtins(again) == told
    assert told["database"] in page(again)


def test_sql_is_taken_by_the_server(dsn: str) -> None:
    done = run(dsn, "--format", "sql")
    assert done.exit_code == 0
    for line in done.stdout.splitlines():
        assert line.startswith(("--", "SET ", "ALTER ", "SELECT pg_reload_conf")) or not line


def test_a_check_that_finds_nothing_ends_with_0_and_one_that_does_with_3(dsn: str) -> None:
    sql(dsn, "ALTER TABLE account SET (autovacuum_enabled = true)")
    assert run(dsn, "--check").exit_code == 0
    sql(dsn, "ALTER TABLE account SET (autovacuum_enabled = false)")
    done = run(dsn, "--check", "--json")
    sql(dsn, "ALTER TABLE account RESET (autovacuum_enabled)")
    assert done.exit_code == 3
    advice = json.loads(done.stdout)["tables"][0]["advice"]
    assert [(one["name"], one["value"]) for one in advice] == [("autovacuum_enabled", "true")]


def test_a_watch_is_given_as_people_write_minutes() -> None:
    done = run("host=127.0.0.1 port=1 dbname=none", "--watch", "15m")
    assert done.exit_code == 1
    assert "nothing is listening there" in done.stderr
    assert run("host=127.0.0.1", "--watch", "soon").exit_code == 2


@pytest.fixture
def neglected(dsn: str) -> Iterator[str]:
    """Autovacuum is switched off for the table, so there is advice without any load."""
    sql(dsn, "ALTER TABLE account SET (autovacuum_enabled = false)")
    yield dsn
    sql(dsn, "ALTER TABLE account RESET (autovacuum_enabled)")


def options(dsn: str) -> Any:
    return sql(dsn, "SELECT reloptions FROM pg_class WHERE oid = 'account'::regclass")[0][0]


def test_apply_shows_its_plan_and_changes_nothing_unasked(neglected: str, tmp_path: Path) -> None:
    done = run("apply", neglected, "--journal", str(tmp_path))
    assert done.exit_code == 4
    assert re.search(r'"public"."account" autovacuum_enabled +false +true +autovacuum', done.stderr)
    assert "vacuumed only to prevent wraparound" in " ".join(done.stderr.split())
    assert "cannot ask for confirmation: not a terminal" in done.stderr
    assert "autovacuum_enabled=false" in options(neglected)


def test_apply_and_undo_and_their_documents(neglected: str, tmp_path: Path) -> None:
    journal = ("--journal", str(tmp_path), "--yes", "--json")
    applied = json.loads(run("apply", neglected, *journal).stdout)
    name = '"public"."account" autovacuum_enabled'
    assert applied["plan"] == [{"name": name, "before": "false", "after": "true"}]
    assert (applied["outcome"]["result"], applied["outcome"]["changed"]) == ("applied", [name])
    assert "autovacuum_enabled=true" in options(neglected)
    assert applied["undo"].startswith("mrtuner vacuum undo ")
    assert applied["undo"].endswith(f" --journal {tmp_path}")
    undone = json.loads(run("undo", neglected, *journal).stdout)
    assert undone["outcome"]["result"] == "undone"
    assert "autovacuum_enabled=false" in options(neglected)
    for told in (applied, undone):
        assert_valid(told, "mrtuner.vacuum.change/1")
    again = run("undo", neglected, *journal[:3])
    assert (again.exit_code, again.stdout) == (2, "")
    assert "nothing to undo" in again.stderr


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "not"])
def test_an_undo_that_was_killed_is_undone_once_by_the_next(
    neglected: str, tmp_path: Path, committed: bool
) -> None:
    """Two changes; the undo of the second was killed around its commit. The first change stays."""
    journal = ("--journal", str(tmp_path), "--yes")
    run("apply", neglected, *journal)
    with Journal(tmp_path) as book:
        (first,) = book.changes()
        entry = replace(first.entries[0], name='"public"."account" fillfactor')
        second = book.begin(replace(first, entries=(replace(entry, before="90", after="80"),)))
        second = book.note(second, State.VERIFIED, "verified")
        back = replace(second, entries=(replace(entry, before="80", after="90"),), undoes=second.id)
        book.note(book.begin(back), State.WRITING, "killed here")
    sql(neglected, f"ALTER TABLE account SET (fillfactor = {90 if committed else 80})")
    done = run("undo", neglected, *journal)
    assert done.exit_code == 0, done.output
    became = "finished" if committed else "reverted"
    assert f"an interrupted undo was found and {became}: " in done.stderr
    assert set(options(neglected)) == {"fillfactor=90", "autovacuum_enabled=true"}


def test_settings_of_the_server_go_to_apply_as_a_file(dsn: str) -> None:
    done = run(dsn, "--format", "conf")
    assert done.exit_code == 0
    assert done.stdout.startswith("# Autovacuum settings of the server")


def test_rows_are_not_read_without_consent(dsn: str) -> None:
    done = run(dsn, "--watch", "1s", "--sample", "account")
    assert done.exit_code == 4
    assert "up to 10,000 rows" in done.stderr
    assert run(dsn, "--sample", "account", "--yes").exit_code == 2


@pytest.mark.timed
@pytest.mark.parametrize(("verb", "said"), [((), "vacuumed: 1 table"), (("apply", "--yes"), "")])
def test_ctrl_c_tells_what_was_seen_and_sets_nothing(
    neglected: str, tmp_path: Path, verb: tuple[str, ...], said: str
) -> None:
    program = [sys.executable, "-c", "from mrtuner.cli import main; main()", "vacuum", *verb]
    with subprocess.Popen(
        [*program, neglected, "--watch", "1h"],
        env={**os.environ, "MRTUNER_STATE_DIR": str(tmp_path)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        assert child.stderr is not None
        assert child.stderr.readline() == "  watching for 3,600 s; Ctrl-C ends it early\n"
        child.send_signal(signal.SIGINT)
        told, _ = child.communicate(timeout=60)
    assert child.returncode == 130
    assert told.startswith(said)
    assert bool(told) == bool(said)
    assert "autovacuum_enabled=false" in options(neglected)


@pytest.mark.timed
def test_a_restart_ends_a_watch_which_is_unfinished_then(new_cluster: NewCluster) -> None:
    server = new_cluster()
    program = [sys.executable, "-c", "from mrtuner.cli import main; main()", "vacuum"]
    with subprocess.Popen(
        [*program, server.dsn(), "--watch", "10s"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        assert child.stderr is not None
        assert child.stderr.readline() == "  watching for 10 s; Ctrl-C ends it early\n"
        server.restart()
        told, said = child.communicate(timeout=60)
    assert child.returncode == 6
    assert said == "the server ended the session: the results below are from before that\n"
    assert told.startswith("postgres: 0 tables")
    assert "not known: the rest of the watch: the connection to the server was lost" in told


def test_a_page_that_cannot_be_written_is_told_before_the_watch() -> None:
    done = run("host=127.0.0.1 port=1", "--watch", "1h", "--html", "/no/such/place/vacuum.html")
    assert done.exit_code == 2
    assert "no directory /no/such/place" in done.stderr


def test_a_page_is_written_beside_the_text(dsn: str, tmp_path: Path) -> None:
    done = run(dsn, "--html", str(tmp_path / "vacuum.html"))
    assert (done.exit_code, done.stdout[:8]) == (0, "vacuumed")
    assert "MrTuner vacuum" in (tmp_path / "vacuum.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("undo", "--check"), "--check"),
        (("apply", "--format", "sql"), "--format"),
        (("undo", "--html", "x.html"), "--html"),
    ],
)
def test_what_a_verb_has_no_use_for_is_refused(arguments: tuple[str, ...], option: str) -> None:
    done = run(*arguments, "host=127.0.0.1 port=1")
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"no such option '{option}'" in done.stderr


def test_the_report_goes_to_a_file(dsn: str, tmp_path: Path) -> None:
    target = tmp_path / "vacuum.sql"
    done = run(dsn, "--format", "sql", "-o", str(target))
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", f"written: {target}\n")
    assert target.read_text() == run(dsn, "--format", "sql").stdout


def test_json_and_sql_exclude_each_other() -> None:
    done = run("host=127.0.0.1 port=1", "--json", "--format", "sql")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "cannot be used together" in done.stderr
