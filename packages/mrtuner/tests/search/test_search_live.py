"""A search on a server in use: in force for a window only, taken back at once, else refused."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from signal import SIGKILL

import psycopg
import pytest
from click.testing import CliRunner
from conftest import NewCluster

from mrtuner.answers.settings_search.server_in_use import Tried
from mrtuner.bench.load.pgbench import find_pgbench, initialise
from mrtuner.change.journal import Journal
from mrtuner.change.record import State
from mrtuner.cli import main
from mrtuner.postgres.cluster import Cluster
from mrtuner.search.live import LiveMeasurements, statement_times
from mrtuner.search.model import Schedule
from mrtuner.search.race import Raced, outcome, stop
from mrtuner.search.server import known
from mrtuner.stats.comparison import Verdict
from servers import binaries, sql
from waiting import until

pytestmark = pytest.mark.timed
UNTOUCHED = {"random_page_cost": "4"}
#: Sleeps for 40 ms at first, however busy the machine.
SLEEPS = "SELECT pg_sleep(current_setting('random_page_cost')::float / 100) FROM pgbench_branches;"
HARMFUL = UNTOUCHED | {"random_page_cost": "100"}
HARMLESS = UNTOUCHED | {"random_page_cost": "2"}


@pytest.fixture
def server(new_cluster: NewCluster) -> Cluster:
    made = new_cluster(18, {"shared_preload_libraries": "pg_stat_statements", "fsync": "off"})
    sql(made.dsn(), "CREATE EXTENSION pg_stat_statements")
    initialise(made.dsn(), 1, program=find_pgbench(binaries(18)))
    return made


@contextmanager
def load(server: Cluster, *script: str) -> Iterator[None]:
    """Run pgbench with two clients during the block, as an application would."""
    program = find_pgbench(binaries(18))
    with subprocess.Popen(
        [program, "-n", "-c", "2", "-T", "900", *(script or ["-N"]), server.dsn()],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as running:  # fmt: skip
        try:
            yield
        finally:
            running.kill()


def measurements(server: Cluster, journal: Journal, window: int) -> LiveMeasurements:
    dsn = server.dsn()
    tried = Tried(dsn, UNTOUCHED, known(dsn, 18), journal, lambda _values: True)
    return LiveMeasurements(
        dsn=dsn, postmaster=server.pid, untouched=UNTOUCHED, trying=tried.during,
        by_statements=True, progress=lambda _event: None,
        schedule=Schedule(
            budget=60, window=window, warmup=1, pairs=1, search=0.5, confirmation=0.25,
            ablation=0.15, reduced=0.1, runs=3,
        ),
    )  # fmt: skip


def shown(server: Cluster, name: str) -> str:
    return str(sql(server.dsn(), f"SHOW {name}")[0][0])


def never(_raced: Raced) -> bool:
    return False


def test_what_is_tried_is_in_force_in_its_window_alone_and_in_the_journal(
    server: Cluster, tmp_path: Path
) -> None:
    with Journal(tmp_path) as journal:
        measuring = measurements(server, journal, 2)
        seen = list[str]()
        inner = measuring.trying

        @contextmanager
        def watched(side: dict[str, str]) -> Iterator[None]:
            with inner(side):
                seen.append(shown(server, "random_page_cost"))
                yield

        measuring.trying = watched  # type: ignore[assignment]
        with load(server), measuring.connected():
            raced = measuring.race(UNTOUCHED, HARMLESS, 2, never, "trial")
        assert seen == ["4", "2", "4", "4", "2", "4"][: len(seen)]
        if raced.tripped is None:  # the guard sees a busy machine, too
            assert len(seen) == 6
            assert len(raced.pairs) + len(raced.unknown) == 2
        assert raced.verdict is Verdict.UNDECIDED, "two pairs decide nothing"
        assert raced.refused
        tried = [one.state for one in journal.changes() if one.undoes is None]
        assert tried == [State.REVERTED] * seen.count("2")
    assert shown(server, "random_page_cost") == "4"


def test_the_advice_against_itself_shows_what_binds(server: Cluster, tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        measuring = measurements(server, journal, 3)
        with load(server), measuring.connected():
            raced = measuring.race(UNTOUCHED, UNTOUCHED, 1, never, "in force")
        assert journal.changes() == ()
    found = {one.mechanism: one.value for one in raced.evidence}
    assert (found["WAL flushes"] or 0) >= 0
    assert found["temporary files"] == 0
    assert found["long transactions"] is not None  # 0 where no moment met one: the load is short
    assert found["CPU"] is not None, "it runs on this machine"


def test_what_hurts_is_taken_back_within_seconds(server: Cluster, tmp_path: Path) -> None:
    """A window lasts a minute; from its begin on, a statement takes a second, not 40 ms."""
    script = tmp_path / "load.sql"
    script.write_text(SLEEPS, encoding="utf-8")
    with Journal(tmp_path) as journal:
        measuring = measurements(server, journal, 3)
        with load(server, "-f", str(script)), measuring.connected():
            untouched = measuring._window(UNTOUCHED, None)
            measuring.schedule = replace(measuring.schedule, window=60)
            began = time.monotonic()
            window = measuring._window(HARMFUL, untouched)
            took = time.monotonic() - began
        assert window.tripped is not None
        assert took < 20
    assert shown(server, "random_page_cost") == "4"
    raced = Raced(pairs=(), tripped=window.tripped)
    assert stop(raced) == window.tripped
    assert outcome(raced, 4) == ("stopped", window.tripped)


def test_a_statement_that_does_not_end_any_more_is_taken_back(
    server: Cluster, tmp_path: Path
) -> None:
    """Reports of 40 ms would take 10 minutes; many more short calls go on as before."""
    report, short = tmp_path / "report.sql", tmp_path / "short.sql"
    report.write_text(SLEEPS, encoding="utf-8")
    short.write_text("\\sleep 5 ms\nSELECT 1;", encoding="utf-8")
    with Journal(tmp_path) as journal:
        measuring = measurements(server, journal, 3)
        with (
            load(server, "-f", str(short)), load(server, "-f", str(report)), measuring.connected()
        ):  # fmt: skip
            untouched = measuring._window(UNTOUCHED, None)
            measuring.schedule = replace(measuring.schedule, warmup=60)
            window = measuring._window(UNTOUCHED | {"random_page_cost": "60000"}, untouched)
    assert str(window.tripped).startswith("a statement has run for ")
    assert shown(server, "random_page_cost") == "4"


def test_rollbacks_in_other_databases_are_seen(server: Cluster, tmp_path: Path) -> None:
    sql(server.dsn(), "CREATE DATABASE other")
    with Journal(tmp_path) as journal:
        measuring = measurements(server, journal, 3)
        with measuring.connected():
            start = measuring._read()
            for _ in range(3):
                with pytest.raises(psycopg.errors.DivisionByZero):
                    sql(server.dsn("other"), "SELECT 1/0")
            until(lambda: measuring._since(start).others[1] == 3)


#: Tries a setting again and again, as a search does.
PROGRAM = """
import sys, time
from pathlib import Path
from mrtuner.answers.settings_search.server_in_use import Tried
from mrtuner.change.journal import Journal
from mrtuner.cli.common.change import undo_command
from mrtuner.search.server import known
dsn, state = sys.argv[1], Path(sys.argv[2])
untouched = {"random_page_cost": "4", "work_mem": "4MB"}
with Journal(state) as journal:
    repair = undo_command(dsn, "never", state, proof=True)
    tried = Tried(dsn, untouched, known(dsn, 18), journal, lambda _: True, print, repair)
    print("ready", flush=True)
    while True:
        with tried.during({"random_page_cost": "2", "work_mem": "8MB"}):
            time.sleep(0.2)
"""


@pytest.mark.parametrize("kills", [3, pytest.param(60, marks=pytest.mark.slow)])
def test_killed_at_random_moments_it_is_as_before_within_seconds(
    kills: int, server: Cluster, tmp_path: Path
) -> None:
    chance = Random(1)
    for _ in range(kills):
        with subprocess.Popen(
            [sys.executable, "-c", PROGRAM, server.dsn(), str(tmp_path)],
            stdout=subprocess.PIPE, text=True,
        ) as child:  # fmt: skip
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            time.sleep(chance.uniform(0.0, 1.5))
            child.send_signal(SIGKILL)
        assert (shown(server, "random_page_cost"), shown(server, "work_mem")) in {
            ("4", "4MB"),
            ("2", "8MB"),
        }
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not _untouched(server, tmp_path):
            time.sleep(0.1)
        assert _untouched(server, tmp_path)


def _untouched(server: Cluster, state: Path) -> bool:
    with Journal(state) as journal:
        done = all(one.state is State.REVERTED or one.undoes for one in journal.changes())
    return done and (shown(server, "random_page_cost"), shown(server, "work_mem")) == ("4", "4MB")


def search(server: Cluster, place: Path, *more: str) -> tuple[int, str]:
    words = ["search", server.dsn(), "--reload-only", "--dir", str(place / "search"), "--yes"]
    state = {"MRTUNER_STATE_DIR": str(place / "state")}
    done = CliRunner(env=state).invoke(main, [*words, "--journal", str(place / "journal"), *more])
    return done.exit_code, done.output


def test_a_server_whose_standby_could_stop_is_refused(server: Cluster, tmp_path: Path) -> None:
    sql(server.dsn(), "SELECT pg_create_physical_replication_slot('away')")
    code, said = search(server, tmp_path)
    assert code == 4, said
    assert "the one of the slot away, away now would stop replay" in said
    assert "HINT: Add --keep wal_compression." in said
    assert not (tmp_path / "search" / "search.json").exists()
    with Journal(tmp_path / "journal") as journal:
        assert journal.changes() == ()


def test_no_journal_no_search(server: Cluster, tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "journal.sqlite3").write_text("no database" * 99, encoding="utf-8")
    code, said = search(server, tmp_path)
    assert code == 1
    assert "cannot use the journal" in said
    assert "HINT:" in said


def test_a_search_that_cannot_read_statement_times_knows_it(server: Cluster) -> None:
    from mrtuner.postgres.connect import connect

    sql(server.dsn(), "CREATE ROLE blind LOGIN")
    with connect(f"{server.dsn()} user=blind") as session:
        assert statement_times(session) is None
    with connect(server.dsn()) as session:
        assert statement_times(session)


@pytest.mark.slow
def test_a_search_under_a_load_finds_what_was_planted_and_ends_untouched(
    server: Cluster, tmp_path: Path
) -> None:
    """The load sleeps for random_page_cost / 100 s."""
    script = tmp_path / "load.sql"
    script.write_text(SLEEPS, encoding="utf-8")
    before = dict(sql(server.dsn(), "SELECT name, setting FROM pg_settings"))
    with load(server, "-f", str(script)):
        code, said = search(server, tmp_path, "--budget", "5min", "--seed", "1")
    assert code == 0, said
    assert dict(sql(server.dsn(), "SELECT name, setting FROM pg_settings")) == before
    found = json.loads((tmp_path / "search" / "search.json").read_text(encoding="utf-8"))
    assert found["goal"] == "statement time"
    assert found["calibration"]["verdict"] != "better"
    assert all(one["against"] == 0 for one in found["trials"])
    assert not any(one["restart"] for one in found["searched"])
    assert {one["name"] for one in found["left_out"]} >= {"shared_buffers", "wal_buffers"}
    assert found["result"]["found"], said
    settings = {one["name"]: one["value"] for one in found["result"]["differences"]}
    assert float(settings["random_page_cost"]) < 4
    least = 0.9 * 4 / float(settings["random_page_cost"])  # a round trip is no sleep
    assert found["result"]["measured"]["ratio"] > least
