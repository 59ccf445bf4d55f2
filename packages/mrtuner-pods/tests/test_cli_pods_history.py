"""`pods plan` and `pods check` with a history of `mrtuner record`, as a user runs them.

Ten minutes of 2026-11-23, from midnight on: `web` runs two statements at all times, in the second
five minutes six, and has one session idle in a transaction; `jobs` runs one. 20 clients are
connected, in the last minute 33, and max_connections is 40. The server has eight CPUs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from history_data import MIDNIGHT, SECOND
from history_story import of_source

import command_line
from json_schemas import assert_valid
from mrtuner.history.recording.sampler import Row, SourceSample
from mrtuner.history.recording.source import built_in
from mrtuner.history.store.writer import Batch, Writer

pytestmark = pytest.mark.usefixtures("short_simulations")
LOAD = ("--rate", "100/s", "--service-time", "100ms", "--cpu-time", "10ms")


def session(application: str, state: str = "active") -> Row:
    return of_source(
        "sessions", application=application, state=state, database="shop", role="app",
        backend_type="client backend",
    )  # fmt: skip


def samples(second: int) -> Iterator[tuple[str, list[Row]]]:
    web = 2 if second < 300 else 6
    idle = session("web", "idle in transaction")
    yield "sessions", [*[session("web")] * web, session("jobs"), idle]
    if second % 60 == 0:
        clients = 33 if second == 540 else 20
        yield "connections", [of_source("connections", clients=clients, active=3, maximum=40)]
    if second == 0:
        yield "machine", [of_source("machine", name="cpus", value="8", origin="/proc/cpuinfo")]


def recorded(directory: Path, *, without: str = "", instance: str = "db:5432") -> Path:
    with Writer(directory, built_in().values()) as writer:
        for second in range(0, 600, 10):
            made = tuple(
                SourceSample(source=built_in()[name], at=MIDNIGHT + second * SECOND, cost=0.001,
                       monotonic=float(second), rows=tuple(rows))
                for name, rows in samples(second) if name != without
            )  # fmt: skip
            writer.commit([Batch(instance=instance, samples=made)])
    return directory


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("history"))


run = partial(command_line.run, "pods")


def told(*arguments: str | Path) -> dict[str, Any]:
    done = run(*arguments, "--json")
    assert done.exit_code in {0, 3}, done.output
    document: dict[str, Any] = json.loads(done.stdout)
    return document


# Plan.


def test_the_time_in_the_database_is_that_of_the_busiest_minutes(history: Path) -> None:
    """Six statements at a time at 100 requests a second: 60 ms each, on eight CPUs."""
    plan = told("plan", *LOAD, "--history", history, "--application", "web")
    assert_valid(plan, "mrtuner.pods.plan/1")
    assert plan["load"]["database_time"] == pytest.approx(0.060)
    figures = {one["name"]: one for one in plan["observed"]}
    assert figures["database_time"]["used"]
    assert figures["database_time"]["source"] == (
        f"db:5432 in {history}, the 5 min from 2026-11-23 00:05 UTC: 6 sessions running a "
        "statement / 100 requests/s"
    )
    assert (figures["database_cpus"]["value"], figures["database_cpus"]["used"]) == (8, True)
    assert (figures["max_connections"]["value"], figures["max_connections"]["used"]) == (40, True)
    (web,) = plan["sessions"]
    assert (web["application"], web["active"], web["in_transaction"]) == ("web", 6, 1)


def test_what_is_given_wins_over_the_history(history: Path) -> None:
    plan = told(
        "plan", *LOAD, "--database-time", "20ms", "--history", history, "--application", "web"
    )
    assert plan["load"]["database_time"] == pytest.approx(0.020)
    figures = {one["name"]: one for one in plan["observed"]}
    assert not figures["database_time"]["used"]
    screen = run(
        "plan", *LOAD, "--database-time", "20ms", "--history", history, "--application", "web"
    ).stdout
    assert "time in the database 60 ms" in " ".join(screen.split())
    assert "web, app in shop" in screen


def test_the_page_shows_the_sessions(history: Path, tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    given = ("--history", history, "--application", "web", "--html", page)
    assert run("plan", *LOAD, *given).exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert '<caption id="sessions">Sessions at the database</caption>' in text
    assert '<th scope="row">web, app in shop</th><td class="n">7</td><td class="n">6</td>' in text
    assert 'id="pools"' not in text


def test_more_in_the_database_than_a_request_takes_is_not_used(history: Path) -> None:
    """At 20 requests a second six statements are 300 ms of each request's 100: others' load."""
    plan = told(
        "plan", "--rate", "20/s", "--service-time", "100ms", "--cpu-time", "10ms",
        "--history", history, "--application", "web",
    )  # fmt: skip
    assert plan["load"]["database_time"] == 0
    assert any("300 ms in the database" in one for one in plan["warnings"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "has sessions of several applications: jobs and web"),
        (("--application", "shop"), "no session of shop was active"),
        (("--application", "web", "--instance", "other"), "the store has no instance other"),
    ],
)
def test_what_the_history_cannot_tell_is_said(
    history: Path, arguments: tuple[str, ...], said: str
) -> None:
    done = run("plan", *LOAD, "--history", history, *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr
    assert "HINT:" in done.stderr


# Check.


def test_the_most_sessions_ever_seen_stand_beside_what_can_be_reached(history: Path) -> None:
    """4 pods of 5: 40 during a rollout, more than the 33 seen."""
    options = ("--pods", "4", "--pool", "5", "--max-connections", "50", "--history", history)
    document = told("check", *options)
    assert_valid(document, "mrtuner.pods.check/1")
    assert document["seen"] == {
        "value": 33, "source": f"db:5432 in {history}, 2026-11-23 00:09 UTC",
    }  # fmt: skip
    assert document["warnings"] == []
    assert "most seen: 33 sessions (db:5432 in" in run("check", *options).stdout


def test_the_busiest_moment_of_each_application_is_compared(history: Path) -> None:
    """web had 6 that ran a statement and one in a transaction, jobs one: a pod of 5 is too few."""
    options = ("--pods", "1", "--pool", "5", "--surge", "0", "--unavailable", "1",
               "--rollout", "none", "--max-connections", "50", "--history", history)  # fmt: skip
    document = told("check", *options)
    assert_valid(document, "mrtuner.pods.check/1")
    (one,) = document["compared"]
    assert (one["name"], one["seen"], one["verdict"]) == ("pods", 7, "too low")
    assert one["source"] == f"busy sessions of db:5432 in {history}"
    assert document["unjudged"][0]["name"] == "pods"
    assert run("check", *options).exit_code == 3


def test_a_history_of_a_role_that_saw_no_sessions_says_so(tmp_path: Path) -> None:
    directory = recorded(tmp_path, without="sessions")
    options = ("--pods", "4", "--pool", "5", "--max-connections", "50", "--history", directory)
    done = run("check", *options)
    assert done.exit_code == 3
    assert done.stdout.startswith("not judged: sessions by application: the history has no")


def test_more_sessions_than_can_be_reached_are_somebody_elses(history: Path) -> None:
    """2 pods of 5: 20 during a rollout."""
    options = ("--pods", "2", "--pool", "5", "--max-connections", "50", "--history", history)
    (warning,) = told("check", *options)["warnings"]
    assert warning.startswith("33 sessions were open: db:5432 in")
    assert "more than the 20 possible: something else connects" in warning


def test_a_history_of_several_servers_has_to_be_told_which(tmp_path: Path) -> None:
    for instance in ("db:5432", "other:5432"):
        recorded(tmp_path, instance=instance)
    options = ("--pods", "4", "--pool", "5", "--max-connections", "50", "--history", tmp_path)
    done = run("check", *options)
    assert done.exit_code == 2
    assert "the store has 2 instances" in done.stderr
    assert told("check", *options, "--instance", "db:5432")["seen"]["value"] == 33


def test_a_history_without_sessions_is_refused(tmp_path: Path) -> None:
    directory = recorded(tmp_path, without="connections")
    done = run(
        "check", "--pods", "4", "--pool", "5", "--max-connections", "50", "--history", directory
    )
    assert done.exit_code == 2
    assert "the sessions of db:5432 were not recorded" in done.stderr


def test_a_server_of_a_history_needs_the_history() -> None:
    for command in (
        ("check", "--pods", "4", "--pool", "5", "--max-connections", "50"),
        ("plan", *LOAD),
    ):
        done = run(*command, "--instance", "db:5432")
        assert done.exit_code == 2
        assert "--instance requires --history" in done.stderr
