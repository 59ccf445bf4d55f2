"""`mrtuner record`, `history` and `export`, as a user sees them."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from history_data import SECOND, batch, queue, row, sample
from history_story import story

from command_line import run
from mrtuner.documents import read
from mrtuner.history.document import HistoryComparison, HistorySummary
from mrtuner.history.recording.source import built_in
from mrtuner.history.store.writer import Writer
from mrtuner.history.text import comparison_lines, lines


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The hour of `history_story`."""
    directory = tmp_path_factory.mktemp("history")
    story(directory)
    return str(directory)


SCREEN = """\
db:5432: 2026-11-23 02:00:00 to 2026-11-23 02:59:59 UTC
"""


def test_show_tells_what_happened(store: str) -> None:
    done = run("history", "show", "--dir", store)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(SCREEN)
    assert "SELECT count(*) FROM orders" in done.stdout
    assert "on 4 CPUs" in done.stdout
    assert "CPU used                         38%      80%" in done.stdout
    assert "time per write                6.7 ms     9 ms" in done.stdout
    assert "setting: max_wal_size: 1GB → 4GB" in done.stdout
    assert "2026-11-23 02:49:59 to 2026-11-23 02:55:00" in done.stdout


def test_show_and_compare_fit_a_terminal_of_80_columns(store: str) -> None:
    """Statement texts are cut to fit, but no shorter."""
    shown = json.loads(run("history", "show", "--dir", store, "--json").stdout)
    periods = ("--before", "2026-11-23T02:10", "--after", "2026-11-23T02:41", "--length", "8min")
    compared = json.loads(run("history", "compare", "--dir", store, *periods, "--json").stdout)
    long = "SELECT count(*) FROM orders JOIN customers USING (customer) WHERE country = $1"
    for work in shown["statements"] + shown["slowest"]["statements"]:
        work["text"] = long
    for change in compared["statements"]:
        for side in ("before", "after"):
            usual = change[side] or shown["statements"][0]
            change[side] = usual | {"calls": 7, "seconds": 2.0, "text": long}
    summary, comparison = read(shown, HistorySummary), read(compared, HistoryComparison)
    for text in ("\n".join(lines(summary, 80)), "\n".join(comparison_lines(comparison, 80))):
        assert max(map(len, text.splitlines())) in range(70, 81), text
        assert "SELECT count(*) FROM orders JOIN cu" in text
    assert "rows  read  temp  statement" not in "\n".join(lines(summary, 80))
    assert "rows  read  temp  statement" in "\n".join(lines(summary, 100))


def test_a_short_period_is_drawn_as_wide_as_a_long_one(store: str) -> None:
    """Six minutes, ten columns each; eight of ten sessions wait for I/O in the last four."""
    done = run(
        "history", "show", "--dir", store, "--since", "6min", "--until", "2026-11-23T02:34",
    )  # fmt: skip
    columns = " " * 20 + "I" * 40
    assert f"  10.0 | {columns}\n" in done.stdout
    assert f"{'':9}02:28{'':50}02:34\n" in done.stdout


def test_a_chart_of_several_days_names_the_dates(store: str) -> None:
    shown = json.loads(run("history", "show", "--dir", store, "--json").stdout)
    shown["period"]["begin"] = "2026-11-16T02:59:59Z"
    (labels,) = (
        line for line in lines(read(shown, HistorySummary), 80) if line.startswith(" " * 9)
    )
    assert labels.split() == ["11-16", "02:59", "11-23", "02:59"]


@pytest.mark.parametrize("times", [3, 40])
def test_changes_of_the_pace_do_not_bury_those_of_the_server(store: str, times: int) -> None:
    shown = json.loads(run("history", "show", "--dir", store, "--json").stdout)
    pace = {"at": "2026-11-23T02:31:00Z", "what": "pace", "detail": "sessions is sampled every 2 s"}
    shown["changes"] += [pace] * times
    told = "\n".join(lines(read(shown, HistorySummary), 80))
    assert "setting: max_wal_size: 1GB → 4GB" in told
    assert told.count("sessions is sampled every 2 s") == (3 if times == 3 else 0)
    assert ("40 times the recorder changed how often it samples" in told) == (times == 40)


def test_show_as_json_is_one_document(store: str) -> None:
    told = json.loads(run("history", "show", "--dir", store, "--json").stdout)
    assert told["schema"] == "mrtuner.history/1"
    assert told["checkpoints"]["requested"] == 10


def test_compare_puts_two_periods_side_by_side(store: str) -> None:
    done = run(
        "history", "compare", "--dir", store, "--before", "2026-11-23T02:10", "--after",
        "2026-11-23T03:41+01:00", "--length", "8min",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "active sessions" in done.stdout
    assert "SELECT count(*) FROM orders" in done.stdout


def test_compare_says_which_side_was_recorded_in_part(store: str) -> None:
    """From 02:46 to 02:54 nothing was recorded after 02:50: four of eight minutes."""
    done = run(
        "history", "compare", "--dir", store, "--before", "2026-11-23T02:10", "--after",
        "2026-11-23T02:46", "--length", "8min",
    )  # fmt: skip
    assert done.stdout.splitlines()[:2] == [
        "before  2026-11-23 02:10:00 to 2026-11-23 02:18:00 UTC",
        "after   2026-11-23 02:46:00 to 2026-11-23 02:54:00 UTC, 50% of the time sampled",
    ]


@pytest.mark.parametrize("sides", [("01:00", "02:40"), ("02:40", "04:00"), ("02:40", "02:51")])
def test_compare_refuses_a_side_that_was_not_recorded(store: str, sides: tuple[str, str]) -> None:
    """Before the first sample, after the last, and in the gap: all would seem new, or gone."""
    before, after = (f"2026-11-23T{clock}" for clock in sides)
    done = run(
        "history", "compare", "--dir", store, "--before", before, "--after", after,
        "--length", "3min",
    )  # fmt: skip
    assert done.exit_code == 2
    assert "nothing was recorded from 2026-11-23 " in done.stderr
    assert "was recorded from 2026-11-23 02:00:00 to 2026-11-23 02:59:59 UTC" in done.stderr


@pytest.mark.parametrize(
    "sql",
    [
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{out}'",
        "explain (analyze) COPY (SELECT 1) TO '{out}'",
        "/* a */ EXPLAIN ANALYZE COPY (SELECT 1) TO '{out}'",
        "-- a\nEXPLAIN COPY (SELECT 1) TO '{out}'",
        "EXPLAIN ANALYZE CREATE TABLE t AS SELECT 1",
        "COPY (SELECT 1) TO '{out}'",
        "SELECT 1; COPY (SELECT 1) TO '{out}'",
    ],
)
def test_a_query_writes_nothing(store: str, sql: str) -> None:
    """Not even into the store's own files, which it may read."""
    lake = Path(store) / "lake"
    before = {path: path.stat().st_mtime_ns for path in lake.rglob("*")}
    out = next((path for path in lake.rglob("*.parquet")), lake / "new.parquet")
    done = run("history", "query", "--dir", store, "--", sql.format(out=out))
    assert (done.exit_code, "can only read" in done.stderr) == (2, True)
    assert {path: path.stat().st_mtime_ns for path in lake.rglob("*")} == before


def test_a_query_can_be_explained(store: str) -> None:
    for words in ("EXPLAIN", "EXPLAIN ANALYZE", "explain (format json)"):
        done = run("history", "query", f"{words} SELECT count(*) FROM sessions", "--dir", store)
        assert done.exit_code == 0, done.output


def test_a_query_is_answered_as_table_json_and_csv(store: str) -> None:
    sql = "SELECT wait_event, count(*) AS n FROM sessions WHERE wait_type = 'IO' GROUP BY 1"
    assert "WALSync     4800" in run("history", "query", sql, "--dir", store).stdout
    told = json.loads(run("history", "query", sql, "--dir", store, "--json").stdout)
    assert (told["columns"], told["rows"]) == (["wait_event", "n"], [["WALSync", 4800]])
    text = run("history", "query", sql, "--dir", store, "--format", "csv").stdout
    assert list(csv.reader(io.StringIO(text))) == [["wait_event", "n"], ["WALSync", "4800"]]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("show", "--dir", "/nowhere"), "there is no history in /nowhere"),
        (("query", "SELEKT 1"), "the query failed"),
        (("query", "SELECT * FROM nothing"), "the query failed"),
        (("query", "DROP VIEW wal"), "only a single query can be run"),
        (("query", "SELECT 1; SELECT 2"), "only a single query can be run"),
        (("status", "--instance", "other"), "no instance other"),
        (("views", "nothing"), "no view nothing"),
        (("show", "--instance", "other"), "no instance other"),
        (("show", "--until", "yesterday"), "is not a time"),
        (("show", "--since", "6x"), "--since"),
    ],
)
def test_what_cannot_be_done_is_said_with_a_hint(
    store: str, arguments: tuple[str, ...], why: str
) -> None:
    more = () if "--dir" in arguments else ("--dir", store)
    done = run("history", *arguments, *more)
    assert done.exit_code == 2, done.output
    assert why in done.stderr
    assert "HINT:" in done.stderr
    assert done.stdout == ""


def test_views_and_their_columns_are_explained(store: str) -> None:
    assert "statement_texts" in run("history", "views", "--dir", store).stdout
    columns = run("history", "views", "wal_by_hour", "--dir", store).stdout
    assert "bytes_peak" in columns
    assert "highest per second" in columns


def test_status_is_for_a_health_check(store: str) -> None:
    done = run("history", "status", "--dir", store)
    assert done.exit_code == 0
    assert "no recorder is running" in done.stdout
    assert run("history", "status", "--dir", store, "--check").exit_code == 3


def test_a_recorder_that_has_sampled_nothing_is_not_healthy(tmp_path: Path) -> None:
    """For example, one whose only server never answered."""
    source = queue()
    with Writer(tmp_path, [source]) as writer:
        idle = run("history", "status", "--dir", str(tmp_path), "--check")
        assert (idle.exit_code, "a recorder is running" in idle.stdout) == (3, True)
        now = round(time.time() * SECOND)
        writer.commit([batch(replace(sample(source, 0, row("mail", 1, 0.0, 1)), at=now))])
        assert run("history", "status", "--dir", str(tmp_path), "--check").exit_code == 0


def test_size_verify_and_compact(store: str) -> None:
    moved = run("history", "compact", "--dir", store, "--all")
    assert moved.exit_code == 0, moved.output
    assert "rows moved" in moved.stdout
    again = json.loads(run("history", "compact", "--dir", store, "--all", "--json").stdout)
    assert again == {
        "schema": "mrtuner.history.compacted/1", "directory": store,
        "moved": 0, "merged": 0, "deleted": 0,
    }  # fmt: skip
    assert "All files are intact." in run("history", "verify", "--dir", store).stdout
    assert "sessions_by_minute" in run("history", "size", "--dir", store).stdout
    damaged = next(Path(store).glob("lake/wal/*/*.parquet"))
    damaged.write_bytes(b"PAR1")
    failed = run("history", "verify", "--dir", store)
    assert failed.exit_code == 1
    assert damaged.name in failed.stdout
    assert damaged.name in run("history", "show", "--dir", store).stdout


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "no server to record"),
        (("rds:prod", "rds:prod"), "two servers are named prod"),
        (("rds:a", "rds:b", "--name", "a"), "--name is for a single"),
        (("postgresql://a@h/x", "--publish", "bucket"), "is not an S3 address"),
        (("postgresql://a@h/x", "postgresql://b@h/y"), "two servers are named h:5432"),
        (("postgresql://a@h/x", "--name", "a b"), "cannot be called"),
        (("postgresql://a@h/x", "postgresql://b@g/y", "--name", "a"), "--name is for a single"),
    ],
)
def test_a_target_that_cannot_be_recorded_is_refused(
    tmp_path: Path, arguments: tuple[str, ...], why: str
) -> None:
    done = run("record", *arguments, "--dir", str(tmp_path / "history"))
    assert done.exit_code == 2, done.output
    assert why in done.stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no table [instances]"),
        ("[instances]\na = 1", "a is not a connection string"),
        ("[instances.a]\nmemory = '8GB'", "a is not a connection string"),
        ("[instances.a]\ndsn = ''\nram = '8GB'", "a has 'ram'"),
        ("[instances.a]\ndsn = ''\ncpus = 0", "a: cpus"),
        ("[instances", "is not TOML"),
    ],
)
def test_a_fleet_that_is_not_understood_is_refused(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "fleet.toml").write_text(text)
    done = run("record", "--config", str(tmp_path / "fleet.toml"), "--dir", str(tmp_path / "h"))
    assert done.exit_code == 2
    assert why in done.stderr


def test_prometheus_reads_the_last_sample_unless_it_is_old(store: str, tmp_path: Path) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    def exported(directory: str) -> dict[str, Any]:
        done = run("export", "prometheus", "--dir", directory, "--once")
        assert done.exit_code == 0, done.output
        return {one.name: one for one in text_string_to_metric_families(done.stdout)}

    with Writer(tmp_path, built_in().values()) as writer:
        for name, values in {"wal": (7_000_000, 2, 3, 4), "wal_directory": (64, 4)}.items():
            found = sample(built_in()[name], 0, row(*values))
            writer.commit([batch(replace(found, at=time.time_ns() // 1000))])
    families = exported(str(tmp_path))
    (wal,) = families["mrtuner_wal_bytes"].samples
    assert (wal.value, wal.labels) == (7e6, {"server": "db:5432"})
    assert families["mrtuner_wal_bytes"].type == "counter"
    assert families["mrtuner_wal_directory_files"].type == "gauge"
    old = exported(store)
    assert [one.value for one in old["mrtuner_up"].samples] == [0]
    assert "mrtuner_wal_bytes" not in old


def test_a_time_in_a_time_zone_needs_no_further_package(store: str) -> None:
    """2026-11-23 02:00 UTC; twice under one name, in a list, and null."""
    code = (
        "import sys\n"
        "sys.modules['pytz'] = None  # as if it were not installed\n"
        "from mrtuner.cli import main\n"
        "main()"
    )
    query = (
        "SELECT min(time) AT TIME ZONE 'UTC' AS first, min(time) AT TIME ZONE 'UTC' AS first, "
        "[min(time) AT TIME ZONE 'UTC'] AS list, NULL::TIMESTAMPTZ AS none, 7 AS n "
        "FROM connections;"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "history", "query", query, "--json", "--dir", store],
        capture_output=True, text=True, check=False, env={**os.environ, "TZ": "Asia/Tokyo"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ((first, again, listed, none, number),) = json.loads(done.stdout)["rows"]
    assert first == again
    assert datetime.fromisoformat(first) == datetime(2026, 11, 23, 2, tzinfo=UTC)
    assert listed == "['2026-11-23 02:00:00+00']"
    assert (none, number) == (None, 7)


def test_ctrl_c_ends_a_query_with_130(store: str) -> None:
    program = "from mrtuner.cli import main; main()"
    many = "range(1000000000)"
    query = f"SELECT count(*) FROM {many} AS a, {many} AS b WHERE a.range > b.range"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "history", "query", query, "--dir", store],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    time.sleep(5)  # until DuckDB is at work
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert "failed" not in err
