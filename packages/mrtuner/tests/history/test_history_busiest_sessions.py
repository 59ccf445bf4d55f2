"""The busiest minutes of sessions in the hour of `history_story`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from history_story import BEGIN, INSTANCE, of_source, opened_story, sample

from mrtuner.errors import UsageError
from mrtuner.history.analysis.busiest_sessions import STEP, busiest_sessions, most_clients
from mrtuner.history.analysis.period import HistoryPeriod
from mrtuner.history.reading import History, open_history
from mrtuner.history.recording.source import built_in
from mrtuner.history.store.writer import Batch, Writer

TWO = datetime(2026, 11, 23, 2, tzinfo=UTC)
HOUR = HistoryPeriod(instance=INSTANCE, begin=TWO, end=TWO + timedelta(hours=1))


@pytest.fixture(scope="module", params=["in SQLite", "in files"])
def history(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[History]:
    with opened_story(tmp_path_factory.mktemp("history"), request.param) as history:
        yield history


def test_the_busiest_five_minutes_have_ten_sessions_at_work(history: History) -> None:
    """By hand: two at all times, eight more from 02:30 to 02:40; one idles in a transaction."""
    found = busiest_sessions(history, HOUR)
    assert found.begin in {TWO + timedelta(minutes=30), TWO + timedelta(minutes=35)}
    (web,) = found.applications
    assert (web.role, web.database, web.active, web.in_transaction) == ("web", "app", 10.0, 1.0)
    assert found.max_connections == 100


def test_the_most_sessions_of_clients(history: History) -> None:
    most, at, maximum = most_clients(history, HOUR)
    assert (most, maximum) == (20, 100)
    assert at is not None
    assert HOUR.begin <= at < HOUR.end


def test_an_application_that_is_not_there_is_named(history: History) -> None:
    with pytest.raises(UsageError, match="no session of shop was active") as refused:
        busiest_sessions(history, HOUR, "shop")
    assert refused.value.hint == "Applications in it: one without a name."


def test_the_workers_of_a_ruby_server_are_one_application(tmp_path: Path) -> None:
    """By hand: two Puma workers and one unicorn worker are active for five minutes."""
    titles = ("puma: cluster worker 0: 1 [shop]", "puma: cluster worker 1: 1 [shop]",
              "unicorn_rails worker[3] -D")  # fmt: skip
    rows = [
        of_source("sessions", pid=pid, application=title, backend_type="client backend",
                  state="active")
        for pid, title in enumerate(titles)
    ]  # fmt: skip
    at = [sample("sessions", second, *rows) for second in range(BEGIN, BEGIN + STEP + 1)]
    with Writer(tmp_path, built_in().values()) as writer:
        writer.commit([Batch(instance=INSTANCE, samples=tuple(at))])
    with open_history(tmp_path) as history:
        (shop,) = busiest_sessions(history, HOUR, "puma: cluster worker [shop]").applications
        (other,) = busiest_sessions(history, HOUR, "unicorn_rails worker -D").applications
    assert (shop.active, other.active) == (2, 1)
