"""`mrtuner vacuum`: the same findings as text, JSON and SQL."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mrtuner.cli import main
from mrtuner.postgres.cluster import Cluster
from servers import sql

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "json.md"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["vacuum", *arguments])


@pytest.fixture(scope="module")
def dsn(embedded: Cluster) -> Iterator[str]:
    """A database with a table that has a TOAST table, was updated, and has an option."""
    sql(embedded.dsn(), "CREATE DATABASE vacuumed")
    where = embedded.dsn("vacuumed")
    sql(
        where,
        "CREATE TABLE account (id int PRIMARY KEY, note text) WITH (fillfactor = 90)",
        "INSERT INTO account SELECT i, 'x' FROM generate_series(1, 1000) AS i",
        "UPDATE account SET note = 'y'",
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


def test_every_key_is_described(dsn: str) -> None:
    section = PAGE.read_text(encoding="utf-8").split("## `mrtuner.vacuum/1`\n")[1]
    described = set(re.findall(r"`([\w.]+)`", section.split("\n## ")[0]))
    assert set(keys(json.loads(run(dsn, "--json").stdout))) - described == set()


def keys(document: Any) -> Iterator[str]:
    if isinstance(document, Mapping):
        for key, value in document.items():
            yield key
            if key != "options":
                yield from keys(value)
    elif isinstance(document, list):
        for item in document:
            yield from keys(item)


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
    assert "nothing listens there" in done.stderr
    assert run("host=127.0.0.1", "--watch", "soon").exit_code == 2


def test_json_and_sql_exclude_each_other() -> None:
    done = run("host=127.0.0.1 port=1", "--json", "--format", "sql")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "exclude each other" in done.stderr
