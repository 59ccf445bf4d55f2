"""Difficult names that PostgreSQL allows, recorded from a real server and read back."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from conftest import NewCluster
from history_data import batch, queue, row, sample
from history_recorder import PROGRAM, WAIT, recorder, rows, samples

from machine import needs
from mrtuner.history.store.writer import Writer
from servers import counted, sql
from waiting import until

#: As identifiers; no name can hold a null character.
NAMES = (
    'a"b', "a'b", "a,b;--", "line\nbreak\ttab", "\\N", "NULL", " blanks ", "é", "e\u0301", "😀",
    "\u202eright to left", "\u200bnothing", "\ufeffmark", "\x01\x1b[31m", "ﬁ", "%s {0} $1",
    "../../x", "x" * 63,
)  # fmt: skip


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def test_tables_databases_and_roles_come_back_as_they_are_called(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    cluster = new_cluster(18, {"shared_preload_libraries": "pg_stat_statements"})
    sql(cluster.dsn(), "CREATE EXTENSION pg_stat_statements",
        *(f"CREATE TABLE {identifier(name)} (id int)" for name in NAMES),
        *(f"CREATE ROLE {identifier(name)} LOGIN SUPERUSER" for name in NAMES[:12]),
        *(f"CREATE DATABASE {identifier(name)}" for name in NAMES[:3]))  # fmt: skip
    with recorder(tmp_path, cluster.dsn()) as process:
        until(lambda: samples(tmp_path, "tables") and samples(tmp_path, "statements"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT) == 0
    for number, name in enumerate(NAMES):
        counted(cluster.dsn(), *[f"INSERT INTO {identifier(name)} VALUES (1)"] * (number + 1))
    for name in NAMES[:3]:
        counted(cluster.dsn(name), "SELECT 1")
    for name in NAMES[:12]:
        with psycopg.connect(cluster.dsn(), user=name, application_name="x") as conn:
            conn.execute("SELECT 1 AS one, pg_backend_pid()")
    with recorder(tmp_path, cluster.dsn()) as process:
        until(lambda: samples(tmp_path, "tables") > 1 and samples(tmp_path, "statements") > 1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT) == 0

    def check() -> None:
        found = rows(tmp_path, "SELECT name, sum(inserted) FROM tables GROUP BY 1")
        assert {name: count for name, count in found if name in NAMES} == {
            name: number + 1 for number, name in enumerate(NAMES)
        }
        assert set(NAMES[:3]) <= {
            row[0] for row in rows(tmp_path, "SELECT database FROM databases")
        }
        roles = {row[0] for row in rows(tmp_path, "SELECT role FROM statements")}
        assert set(NAMES[:12]) <= roles

    check()
    program = [sys.executable, "-c", PROGRAM, "history"]
    moved = subprocess.run([*program, "compact", "--all", "--dir", tmp_path], check=False)
    assert moved.returncode == 0
    check()
    asked = "SELECT name, sum(inserted) FROM tables GROUP BY 1"
    told = subprocess.run(
        [*program, "query", asked, "--json", "--dir", tmp_path],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert set(NAMES) <= {row[0] for row in json.loads(told.stdout)["rows"]}
    screen = subprocess.run(
        [*program, "query", asked, "--dir", tmp_path], capture_output=True, text=True, check=True
    )
    assert "\x1b" not in screen.stdout
    assert "\u202e" not in screen.stdout


def test_a_text_in_no_encoding_keeps_nothing_else_from_being_recorded(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    """A SQL_ASCII database takes any bytes; the server cannot convert them to UTF-8."""
    cluster = new_cluster(18, {"shared_preload_libraries": "pg_stat_statements"})
    sql(cluster.dsn(), "CREATE EXTENSION pg_stat_statements",
        "CREATE DATABASE old ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")  # fmt: skip
    sql(cluster.dsn("old"), "CREATE EXTENSION pg_stat_statements")
    with psycopg.connect(cluster.dsn("old"), client_encoding="SQL_ASCII") as conn:
        conn.execute(b'CREATE TABLE "caf\xe9" (id int)')
        conn.execute(b'SELECT 1 AS "caf\xe9"')

    def recorded(database: str) -> Path:
        store = tmp_path / database
        with recorder(store, cluster.dsn(database)) as process:
            until(lambda: samples(store, "statements") and samples(store, "sessions") > 1)
            process.send_signal(signal.SIGTERM)
            assert process.wait(WAIT) == 0
        assert rows(store, "SELECT count(*) FROM events WHERE kind = 'lost'") == [(0,)]
        return store

    store = recorded("postgres")
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM, "history", "status", "--json", "--dir", store],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    (lacks,) = [one for one in json.loads(told.stdout)["sources"] if one["why"]]
    assert lacks["source"] == "statement_texts"
    assert "invalid byte sequence" in lacks["why"]
    assert not lacks["late"]
    texts = "SELECT count(*) FROM statement_texts WHERE text LIKE 'SELECT $1 AS \"caf%'"
    assert rows(store, texts) == [(0,)]
    store = recorded("old")
    assert rows(store, texts) == [(1,)]
    assert rows(store, "SELECT count(*) FROM tables WHERE name = 'caf\ufffd'") == [(1,)]


@needs("root", "unshare")
def test_the_clock_that_never_jumps_goes_on_while_the_machine_is_suspended() -> None:
    """A namespace whose time since boot is 100,000 s ahead, as after so long a suspension."""
    program = (
        "import time; from mrtuner.history.moments import steady; "
        "print(steady() - time.monotonic())"
    )
    ahead = ["unshare", "--time", "--boottime", "100000", "--fork"]
    usual, later = (
        subprocess.run(
            [*before, sys.executable, "-c", program], capture_output=True, text=True, check=False
        )
        for before in ([], ahead)
    )
    if later.returncode != 0 and "unshare" in later.stderr:
        pytest.skip(later.stderr.strip())
    assert float(later.stdout) - float(usual.stdout) == pytest.approx(100_000, abs=5)


@pytest.mark.parametrize("jump", [-660, 7200])
def test_a_clock_that_jumps_changes_no_rate_and_is_told(tmp_path: Path, jump: int) -> None:
    """The clock is set back by eleven minutes, or forward by two hours, while a minute passes."""
    source = queue()
    with Writer(tmp_path, [source]) as writer:
        writer.commit([batch(sample(source, 10_000, row("mail", 100, 1.0, 3), monotonic=10.0))])
        for number in (1, 2):
            at = 10_000 + jump + 60 * number
            after = row("mail", 100 + 60 * number, 2.0, 5)
            writer.commit([batch(sample(source, at, after, monotonic=10.0 + 60 * number))])
        found = rows(tmp_path, "SELECT done, seconds FROM queue WHERE done IS NOT NULL")
        assert found == [(60, 60.0), (60, 60.0)]
        assert rows(tmp_path, "SELECT kind, detail FROM events") == [
            ("clock", f"the recorder's clock jumped by {float(jump):+.1f} s")
        ]
