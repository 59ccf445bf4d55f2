"""What a search on a server in use must not do to it, nor to what others do there meanwhile."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import NewCluster

from mrtuner.answers.proof.sides import Alone
from mrtuner.answers.settings_search.own_server import SearchWish
from mrtuner.answers.settings_search.server_in_use import Tried, _known, search_live
from mrtuner.change.journal import Journal
from mrtuner.change.record import State
from mrtuner.change.settings.apply import Wanted, apply, plan
from mrtuner.errors import MissingPart, NotPutBack, Refused, UsageError
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect, impatient
from mrtuner.postgres.read_server import read
from mrtuner.search import live
from mrtuner.search.live import LiveMeasurements, behind
from mrtuner.search.model import Schedule, Search, Settings
from mrtuner.search.race import Raced
from mrtuner.search.server import known
from mrtuner.tuning import tune
from servers import binaries, sql, standby_of
from waiting import until

pytestmark = pytest.mark.timed
UNTOUCHED = {"random_page_cost": "4", "work_mem": "4MB"}
TRIED = {"random_page_cost": "2", "work_mem": "8MB"}


@pytest.fixture
def server(new_cluster: NewCluster) -> Cluster:
    return new_cluster(18, {"fsync": "off"})


@pytest.fixture
def tried(server: Cluster, journal: Journal) -> Tried:
    dsn = server.dsn()
    return Tried(dsn, UNTOUCHED, known(dsn, 18), journal, lambda _values: True)


@pytest.fixture
def measuring(server: Cluster, tried: Tried) -> LiveMeasurements:
    return LiveMeasurements(
        dsn=server.dsn(), postmaster=server.pid, untouched=UNTOUCHED, trying=tried.during,
        by_statements=False, progress=lambda _event: None,
        schedule=Schedule(
            budget=60, window=3, warmup=1, pairs=1, search=0.5, confirmation=0.25,
            ablation=0.15, reduced=0.1, runs=3,
        ),
    )  # fmt: skip


def in_force(server: Cluster) -> Settings:
    rows = sql(server.dsn(), "SELECT name, current_setting(name) FROM pg_settings")
    return {name: value for name, value in rows if name in UNTOUCHED}


def never(_raced: Raced) -> bool:
    return False


@pytest.mark.parametrize("major", [15, 18])
def test_a_role_that_may_not_see_replay_is_told_so(major: int, new_cluster: NewCluster) -> None:
    binaries(major)
    primary = new_cluster(major)
    for line in (
        "CREATE ROLE blind LOGIN", "GRANT pg_read_all_settings TO blind",
        "CREATE ROLE seeing LOGIN", "GRANT pg_read_all_stats TO seeing",
    ):  # fmt: skip
        sql(primary.dsn(), line)
    blind, seeing = (f"{primary.dsn()} user={name}" for name in ("blind", "seeing"))
    with connect(blind) as session:
        assert behind(session) is None, "without a standby, there is nothing to hide"
    with standby_of(primary) as standby:
        until(lambda: sql(primary.dsn(), "SELECT 1 FROM pg_stat_replication") != [])
        with connect(blind) as session, pytest.raises(MissingPart, match="hidden"):
            behind(session)
        sql(standby.dsn(), "SELECT pg_wal_replay_pause()")
        paused = "SELECT pg_get_wal_replay_pause_state()"
        until(lambda: sql(standby.dsn(), paused) == [("paused",)])
        sql(primary.dsn(), "CREATE TABLE filler AS SELECT generate_series(1, 50000)")
        with connect(seeing) as session:
            until(lambda: (behind(session) or 0) > 1_000_000, "50,000 rows of 24 bytes and more")


def test_a_restart_during_a_trial_takes_it_back_and_the_search_goes_on(
    server: Cluster, measuring: LiveMeasurements, journal: Journal
) -> None:
    inner = measuring.trying
    restarts = list[threading.Thread]()

    @contextmanager
    def restarted(side: Settings) -> Iterator[None]:
        with inner(side):
            if side == TRIED:
                restarts.append(threading.Thread(target=server.restart))
                restarts[-1].start()
            yield

    measuring.trying = restarted
    with measuring.connected():
        raced = measuring.race(UNTOUCHED, TRIED, 1, never, "trial")
        restarts[-1].join()
        assert in_force(server) == UNTOUCHED
        assert [one.state for one in journal.changes() if one.undoes is None] == [State.REVERTED]
        assert not raced.pairs
        # The server's last words may be lost: then nobody knows that it was no crash.
        assert (
            "closed it" in raced.tripped if raced.tripped else "administrator" in raced.unknown[0]
        )
        assert measuring._window(UNTOUCHED, None).seconds >= 3, "over a new session"


def test_a_reading_that_stalls_takes_a_trial_back(
    server: Cluster, measuring: LiveMeasurements
) -> None:
    def stalled() -> None:
        if in_force(server) == TRIED:
            measuring.session.execute("SELECT pg_sleep(60)")

    with measuring.connected():
        untouched = measuring._window(UNTOUCHED, None)
        measuring._statements = stalled  # type: ignore[method-assign]
        began = time.monotonic()
        window = measuring._window(TRIED, untouched)
        assert time.monotonic() - began < 30
        assert in_force(server) == UNTOUCHED
    assert "could not be watched" in (window.tripped or "")


def test_connections_of_a_search_end_if_the_network_stalls(server: Cluster) -> None:
    with connect(impatient(f"{server.dsn()} keepalives_idle=9")) as session:
        said = session.info.get_parameters()
    assert (said["tcp_user_timeout"], said["keepalives_idle"]) == ("5000", "9")


#: Stops the server during a trial, so that it cannot take it back itself.
GIVES_UP = """
import os, signal, sys, time
from pathlib import Path
from mrtuner.answers.settings_search.server_in_use import Tried, _known, search_live
from mrtuner.change.journal import Journal
from mrtuner.cli.common.change import undo_command
from mrtuner.search import live
from mrtuner.answers.settings_search.own_server import SearchWish
from mrtuner.search.server import known
from mrtuner.search.window import Statements
dsn, state, postmaster = sys.argv[1:]
live.PATIENCE = 2.0
untouched = {"random_page_cost": "4", "work_mem": "4MB"}
with Journal(Path(state)) as journal:
    repair = undo_command(dsn, "never", Path(state), proof=True)
    tried = Tried(dsn, untouched, known(dsn, 18), journal, lambda _: True, print, repair)
    with tried.during({"random_page_cost": "2", "work_mem": "8MB"}):
        os.kill(int(Path(postmaster).read_text().split()[0]), signal.SIGINT)
        while Path(postmaster).exists():
            time.sleep(0.1)
"""


def test_what_cannot_be_taken_back_is_once_we_have_ended(server: Cluster, tmp_path: Path) -> None:
    postmaster = str(server.data / "postmaster.pid")
    done = subprocess.run(
        [sys.executable, "-c", GIVES_UP, server.dsn(), str(tmp_path), postmaster],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert "NotPutBack: the settings are not restored" in done.stderr, done.stderr + done.stdout
    assert "cannot restore the settings yet" in done.stdout
    server.start()
    until(lambda: in_force(server) == UNTOUCHED)


def test_one_search_at_a_time_whatever_its_database(server: Cluster) -> None:
    sql(server.dsn(), "CREATE DATABASE other")
    with Alone(server.dsn()) as first:
        other = f"{server.dsn()} dbname=other"
        with pytest.raises(Refused, match="another proof or search"), Alone(other):
            pass
        server.restart()
        first.hold()
        with pytest.raises(Refused, match="another proof or search"), Alone(server.dsn()):
            pass
    with Alone(server.dsn()):
        pass


def test_what_somebody_applies_during_a_trial_stays(
    server: Cluster, tried: Tried, journal: Journal
) -> None:
    with tried.during(TRIED):
        with connect(server.dsn()) as session:
            wanted = plan(read(session), [Wanted(name="maintenance_work_mem", value="99MB")])
        apply(server.dsn(), wanted, journal)
    assert in_force(server) == UNTOUCHED
    assert sql(server.dsn(), "SHOW maintenance_work_mem") == [("99MB",)]
    last = journal.last(journal.changes()[0].server)
    assert last is not None
    assert last.names == ("maintenance_work_mem",)


@pytest.mark.parametrize("role", ["", "limited"])
def test_what_somebody_sets_by_hand_stays_and_the_rest_is_taken_back(
    role: str, server: Cluster, tried: Tried
) -> None:
    for line in (
        "CREATE ROLE limited LOGIN", "GRANT pg_read_all_settings TO limited",
        "GRANT EXECUTE ON FUNCTION pg_reload_conf() TO limited",
        "GRANT ALTER SYSTEM ON PARAMETER random_page_cost, work_mem TO limited",
    ):  # fmt: skip
        sql(server.dsn(), line)
    said = list[str]()
    dsn = f"{server.dsn()} user={role}" if role else server.dsn()
    with replace(tried, dsn=dsn, tell=said.append).during(TRIED):
        sql(server.dsn(), "ALTER SYSTEM SET work_mem = '16MB'")
        sql(server.dsn(), "SELECT pg_reload_conf()")
        until(lambda: in_force(server)["work_mem"] == "16MB")
    assert in_force(server) == UNTOUCHED | {"work_mem": "16MB"}
    assert said == ["kept, since somebody else has set it: work_mem"]


def test_entries_are_put_back_even_in_files_that_cannot_be_read(
    server: Cluster, tried: Tried, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "PATIENCE", 1.0)
    conf, auto = (server.data / name for name in ("postgresql.conf", "postgresql.auto.conf"))
    text = conf.read_text(encoding="utf-8")
    with pytest.raises(NotPutBack, match=r"contain an error: .* nonsense"), tried.during(TRIED):
        conf.write_text(f"{text}\nnonsense = 1\n", encoding="utf-8")
    assert in_force(server) == TRIED, "the server applies nothing"
    assert "work_mem" not in auto.read_text(encoding="utf-8")
    conf.write_text(text, encoding="utf-8")
    with tried.during(UNTOUCHED):
        assert in_force(server) == UNTOUCHED


def test_a_server_that_is_no_longer_untouched_is_refused(server: Cluster, tried: Tried) -> None:
    sql(server.dsn(), "ALTER SYSTEM SET work_mem = '16MB'")
    sql(server.dsn(), "SELECT pg_reload_conf()")
    until(lambda: in_force(server)["work_mem"] == "16MB")
    with pytest.raises(Refused, match="work_mem was 4MB, is 16MB"), tried.during(TRIED):
        pass
    with pytest.raises(Refused, match="work_mem was 4MB, is 16MB"), tried.during(UNTOUCHED):
        pass


def test_what_a_window_cannot_show_is_not_tried_on_a_live_server(server: Cluster) -> None:
    fixed = _known(server.dsn(), tune(server.dsn(), memory="1GB")).fixed
    assert fixed["commit_delay"] == "on a live server, no statement's time shows a commit"
    later = {"max_wal_size", "bgwriter_delay", "bgwriter_lru_maxpages"}
    later |= {"backend_flush_after", "checkpoint_flush_after"}
    assert {fixed[name] for name in later} == {"its cost comes after a window of a live server"}


def test_the_forecast_that_is_confirmed_is_what_runs(
    server: Cluster, journal: Journal, tmp_path: Path
) -> None:
    """Without statement times, no window is shorter than 20 s; a budget of 11 min gives 5 s.

    Nine pairs of three windows of 20 s, each after 3 s, take 621 s.
    """
    told = list[str]()
    asked = list[Search]()

    def refuse(search: Search) -> None:
        asked.append(search)
        raise Refused("no")

    def searched(budget: str) -> None:
        search_live(
            server.dsn(), tmp_path / budget, SearchWish(budget=budget), journal=journal,
            confirm=refuse, tell=told.append, memory="1GB",
        )  # fmt: skip

    with pytest.raises(UsageError, match="5 min has no room for runs of 20 s") as short:
        searched("5min")
    assert short.value.hint == "Make pg_stat_statements readable, or give at least --budget 11min."
    assert asked == []
    with pytest.raises(Refused, match="no"):
        searched("11min")
    assert (asked[0].goal, asked[0].schedule.window) == ("throughput", 20)
    assert any("a run measures 20 s" in line for line in told)
