"""A frozen server: its kernel still acknowledges, so nothing shows that no answer will come."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from conftest import NewCluster
from history_recorder import WAIT, rows, samples

from mrtuner.errors import ConnectError
from mrtuner.history.recording.recorder import Instance, RecordingLimits, record
from mrtuner.history.recording.sampler import Sampler
from mrtuner.history.recording.silence import SilentSessions
from mrtuner.history.recording.source import built_in
from mrtuner.history.store.writer import Writer
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from servers import counted, sql
from waiting import until

INSERT = "INSERT INTO t SELECT n FROM generate_series(1, 100) AS n"


@pytest.fixture
def cluster(new_cluster: NewCluster) -> Cluster:
    cluster = new_cluster()
    sql(cluster.dsn(), "CREATE TABLE t (id int)")
    return cluster


@contextmanager
def frozen(cluster: Cluster) -> Iterator[None]:
    """Suspend the postmaster and the server processes of all sessions until the block ends."""
    backends = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'"
    pids = [row[0] for row in sql(cluster.dsn(), backends)]
    assert cluster.pid is not None
    processes = [cluster.pid, *pids]
    for pid in processes:
        _signal(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in processes:
            _signal(pid, signal.SIGCONT)


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # the session that asked for them has ended
        os.kill(pid, number)


class Recording:
    """A recorder in a thread of this process."""

    def __init__(self, store: Path, cluster: Cluster, silence: float) -> None:
        self.store, self.dsn, self.limits = store, cluster.dsn(), RecordingLimits(silence=silence)
        self.stop, self.told = threading.Event(), list[str]()
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        with Writer(self.store, [built_in()["sessions"], built_in()["tables"]]) as writer:
            instance = Instance(name="db", dsn=self.dsn)
            record(writer, [instance], self.stop, limits=self.limits, tell=self.told.append)

    def sampled(self, source: str) -> bool:
        return samples(self.store, source) > 0

    def __enter__(self) -> Recording:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join(WAIT)
        assert not self.thread.is_alive()

    def heard(self, words: str) -> bool:
        return any(words in sentence for sentence in self.told)


def inserted(store: Path) -> list[tuple[int | None]]:
    return rows(store, "SELECT sum(inserted) FROM tables WHERE name = 't'")


def test_a_server_that_is_frozen_is_given_up_and_found_again_and_nothing_is_lost(
    cluster: Cluster, tmp_path: Path
) -> None:
    """100 rows before the first sample, 200 before the second, and a frozen server between them."""
    counted(cluster.dsn(), INSERT)
    with Recording(tmp_path, cluster, 0.5) as recording:
        until(lambda: recording.sampled("tables"))
        counted(cluster.dsn(), INSERT, INSERT)
        with frozen(cluster):
            until(lambda: recording.heard("the server does not respond; trying again"))
        until(lambda: recording.heard("connected again"))
        until(lambda: inserted(tmp_path) == [(200,)])
    assert rows(tmp_path, "SELECT detail FROM events WHERE kind = 'lost'") == [
        ("the server does not respond",)
    ]
    assert rows(tmp_path, "SELECT count(*) FROM events WHERE kind = 'restart'") == [(0,)]


def test_a_recording_ends_though_its_server_is_frozen(cluster: Cluster, tmp_path: Path) -> None:
    with Recording(tmp_path, cluster, silence=10_000.0) as recording:
        until(lambda: recording.sampled("sessions"))
        with frozen(cluster):
            recording.stop.set()
            recording.thread.join(WAIT)
            assert not recording.thread.is_alive()
    assert recording.told == []


def test_a_fault_of_ours_is_told_and_does_not_end_the_recording_of_a_server(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """psycopg raises an unexpected error, in the first session only."""
    fetchall, faults = psycopg.Cursor.fetchall, iter([ValueError("not foreseen")])

    def fetched(cursor: psycopg.Cursor[Any]) -> list[Any]:
        for fault in faults:
            raise fault
        return fetchall(cursor)

    monkeypatch.setattr(psycopg.Cursor, "fetchall", fetched)
    with Recording(tmp_path, cluster, silence=WAIT) as recording:
        until(lambda: recording.sampled("sessions"))
    assert recording.told == [
        "db: ValueError: not foreseen; trying again", "db: connected again",
    ]  # fmt: skip


def test_a_session_that_answers_late_but_in_time_goes_on(cluster: Cluster) -> None:
    """An answer within the silence allowed is accepted, and the same session samples again."""
    with SilentSessions(WAIT) as silent, connect(cluster.dsn()) as conn:
        sampler = Sampler(conn, silent)
        sampler.prepare()
        with silent.answer(conn, within=0.0):
            conn.execute("SELECT pg_sleep(0.2)")
        assert sampler.sample(built_in()["sessions"]) is not None


def test_who_waits_when_recording_ends_is_told_so(cluster: Cluster) -> None:
    silent = SilentSessions(WAIT)
    begun, why = threading.Event(), list[str]()

    def wait() -> None:
        try:
            with connect(cluster.dsn()) as conn, silent.answer(conn, within=WAIT):
                begun.set()
                conn.execute("SELECT pg_sleep(3600)")
        except ConnectError as error:
            why.append(error.message)

    waiting = threading.Thread(target=wait)
    with silent:
        waiting.start()
        assert begun.wait(WAIT)
    waiting.join(WAIT)
    assert why == ["the server does not respond"]
    with (
        connect(cluster.dsn()) as conn, pytest.raises(ConnectError, match="recording ends"),
        silent.answer(conn, within=1.0),
    ):  # fmt: skip
        conn.execute("SELECT 1")
