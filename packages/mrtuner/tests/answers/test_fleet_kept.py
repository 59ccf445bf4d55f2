"""The page of all instances keeps what it has read, and still shows the store as it is.

The expected values are counted in Python, from the same samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from history_data import MIDNIGHT, SECOND, batch, sample
from history_story import of_source

from mrtuner.answers.overview import InstanceOverview, overview
from mrtuner.history.reading import open_history
from mrtuner.history.recording.source import built_in
from mrtuner.history.store import compaction
from mrtuner.history.store.writer import HistoryEvent, Writer
from mrtuner.history.workspace import Workspace

HOUR, DAY = 3600, 86_400
START = datetime(2026, 11, 23, tzinfo=UTC)


@pytest.fixture
def work() -> Iterator[Workspace]:
    with closing(Workspace()) as kept:
        yield kept


@dataclass
class Recorded:
    """What was recorded of one instance, by the second after midnight."""

    sessions: dict[int, int] = field(default_factory=dict)  # at work
    clients: dict[int, int] = field(default_factory=dict)  # of 100
    age: float = 0.0  # share of the transaction IDs
    changes: list[int] = field(default_factory=list)
    sampled: list[int] = field(default_factory=list)

    def expected(self) -> tuple[datetime, float, dict[str, float], int]:
        """Last sample, load, shares and changes of the last day."""
        last = max(self.sampled)
        hour = last // HOUR * HOUR
        inside = [n for at, n in self.sessions.items() if at >= hour]
        shares = {"transaction IDs": self.age} if self.age else {}
        clients = [n for at, n in self.clients.items() if at >= hour]
        if clients:
            shares["connections"] = max(clients) / 100
        return (
            START + timedelta(seconds=last), sum(inside) / len(inside), shares,
            sum(hour - DAY + HOUR <= at < hour + HOUR for at in self.changes),
        )  # fmt: skip


class Fleet:
    """A store, and what is expected of it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.writer = Writer(directory, built_in().values())
        self.known: dict[str, Recorded] = {}

    def sampled(self, name: str, at: int, sessions: int, clients: int | None = None) -> None:
        """Sessions at work, besides one that is idle in a transaction."""
        of = self.known.setdefault(name, Recorded())
        of.sampled.append(at)
        of.sessions[at] = sessions
        states = ["active"] * sessions + ["idle in transaction"]
        found = [
            sample(built_in()["sessions"], at, *(
                of_source("sessions", pid=pid, state=state) for pid, state in enumerate(states)
            ))
        ]  # fmt: skip
        if clients is not None:
            of.clients[at] = clients
            row = of_source("connections", clients=clients, maximum=100, ordinary=100)
            found.append(sample(built_in()["connections"], at, row))
        self.writer.commit([batch(*found, instance=name)])

    def setting(self, name: str, at: int, value: int, *, change: bool = True) -> None:
        """Record a setting, next to one that never changes."""
        rows = [
            of_source("settings", name=which, value=str(number), pending=False)
            for which, number in (("work_mem", value), ("port", 5432))
        ]
        self.writer.commit([batch(sample(built_in()["settings"], at, *rows), instance=name)])
        self.known[name].sampled.append(at)
        if change:
            self.known[name].changes.append(at)

    def aged(self, name: str, at: int, share: float) -> None:
        """How old the oldest transaction ID of a database is."""
        row = of_source("ages", database="app", age=round(share * 2**31), multixact_age=0)
        self.writer.commit([batch(sample(built_in()["ages"], at, row), instance=name)])
        self.known[name].sampled.append(at)
        self.known[name].age = share

    def event(self, name: str, at: int) -> None:
        """A restart, and a recorder that connected, which is no change."""
        events = tuple(
            HistoryEvent(at=MIDNIGHT + at * SECOND, instance=name, kind=kind, detail="x")
            for kind in ("restart", "connected")
        )
        self.writer.commit([batch(instance=name, events=events)])
        self.known[name].changes.append(at)

    def sealed(self, until: int, *, hourly: bool = False, everything: bool = False) -> None:
        compaction.move_to_parquet(
            self.writer, MIDNIGHT + until * SECOND, hourly=hourly, everything=everything
        )


def shown(one: InstanceOverview) -> tuple[datetime, float | None, dict[str, float], int]:
    used = {name: share for name, share in one.used.items() if name != "multixact IDs"}
    return one.last, one.load, used, one.changes


def check(fleet: Fleet, work: Workspace) -> None:
    """Assert that the page shows what was recorded, at a first and at a second look."""
    for _ in range(2):
        with open_history(fleet.directory, work=work) as history:
            found = {one.instance: one for one in overview(history)}
            order = [one.instance for one in overview(history)]
        assert found.keys() == fleet.known.keys()
        newest = max(max(one.sampled) for one in fleet.known.values()) // HOUR * HOUR
        for name, recorded in fleet.known.items():
            last, load, used, changes = recorded.expected()
            at, *others = shown(found[name])
            if START + timedelta(seconds=newest - DAY) > last:  # then the right hour is enough
                at, last = (one.replace(minute=0, second=0) for one in (at, last))
            assert at == last
            assert others == [
                pytest.approx(load), pytest.approx(used, rel=1e-6), changes
            ]  # fmt: skip
        used = {name: max(found[name].used.values(), default=0) for name in order}
        assert order == sorted(order, key=lambda name: (-used[name], name))


@pytest.mark.parametrize("seal", ["never", "by hours", "everything"])
def test_it_shows_what_came_since_and_what_was_moved(
    tmp_path: Path, work: Workspace, seal: str
) -> None:
    fleet = Fleet(tmp_path)

    def moved(until: int) -> None:
        if seal != "never":
            fleet.sealed(until, hourly=True, everything=seal == "everything")
        check(fleet, work)

    with closing(fleet.writer):
        fleet.sampled("a", 9 * HOUR, 2, clients=20)
        fleet.setting("a", 9 * HOUR, 4, change=False)
        check(fleet, work)
        fleet.sampled("a", 9 * HOUR + 10, 4)
        fleet.sampled("b", 9 * HOUR + 10, 0, clients=90)
        check(fleet, work)
        fleet.setting("a", 9 * HOUR + 20, 8)
        fleet.aged("a", 9 * HOUR + 20, 0.5)
        check(fleet, work)
        moved(9 * HOUR + 30)
        fleet.sampled("a", 9 * HOUR + 40, 9)
        fleet.event("b", 9 * HOUR + 40)
        check(fleet, work)
        # The next hour: sessions of the hour before no longer count, the ages still do.
        fleet.sampled("a", 10 * HOUR + 1, 1, clients=30)
        check(fleet, work)
        moved(10 * HOUR + 2)
        fleet.aged("a", 10 * HOUR + 3, 0.25)
        fleet.sampled("a", 9 * HOUR + 50, 5)  # late
        fleet.sampled("a", 10 * HOUR + 5, 2)
        check(fleet, work)
        # A day later, only b is recorded.
        fleet.sampled("b", DAY + 11 * HOUR, 3, clients=10)
        check(fleet, work)
        moved(DAY + 12 * HOUR)
        fleet.sampled("b", DAY + 12 * HOUR + 5, 7)
        fleet.setting("a", 10 * HOUR + 6, 16)
        check(fleet, work)
        moved(4 * DAY)
        fleet.sampled("c", 4 * DAY, 1, clients=1)
        check(fleet, work)


def test_it_copies_neither_sessions_nor_samples(tmp_path: Path, work: Workspace) -> None:
    """For hundreds of instances, these are millions of rows an hour, so SQLite counts them."""
    fleet = Fleet(tmp_path)
    with closing(fleet.writer):
        fleet.sampled("a", 9 * HOUR, 2, clients=20)
        check(fleet, work)
    copied = {
        name for (name,) in work.con.execute("SELECT table_name FROM duckdb_tables()").fetchall()
    }
    assert "copy_all_connections" in copied
    assert copied.isdisjoint({"copy_all_sessions", "copy_all_samples"})
