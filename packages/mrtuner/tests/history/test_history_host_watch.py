"""The machine is sampled while its server hangs or is down; a server that starts is tried soon."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from conftest import NewCluster
from history_recorder import WAIT, rows, samples

from machine import needs
from mrtuner.history.recording.recorder import Instance, record
from mrtuner.history.recording.source import built_in
from mrtuner.history.store.writer import Writer
from mrtuner.postgres.cluster import Cluster
from servers import sql
from waiting import until


@contextmanager
def recording(directory: Path, cluster: Cluster, *more: str) -> Iterator[None]:
    """Record in a thread; the host, and other sources, every half a second."""
    sources = [
        built_in()["sessions"],
        *(replace(built_in()[name], interval=0.5) for name in ("host", *more)),
    ]
    stop = threading.Event()

    def run() -> None:
        with Writer(directory, sources) as writer:
            record(writer, [Instance(name="db", dsn=cluster.dsn())], stop)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        until(lambda: samples(directory, "host") > 1)
        yield
    finally:
        stop.set()
        thread.join(WAIT)


@needs("/proc")
def test_the_host_is_sampled_while_the_server_is_down_and_after_it_without_a_gap(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    cluster = new_cluster()
    with recording(tmp_path, cluster):
        cluster.stop("immediate")
        until(lambda: rows(tmp_path, "SELECT 1 FROM events WHERE kind = 'lost'"))
        down = samples(tmp_path, "host")
        until(lambda: samples(tmp_path, "host") > down + 3)
        cluster.start()
        until(lambda: rows(tmp_path, "SELECT 1 FROM events WHERE kind = 'crash'"))
        up = samples(tmp_path, "host")
        until(lambda: samples(tmp_path, "host") > up + 3)
    unknown = rows(tmp_path, """
        SELECT count(*) FROM host WHERE cpu_idle IS NULL OR seconds IS NULL""")  # fmt: skip
    assert unknown == [(1,)]  # the first sample has nothing to compare with
    ((longest,),) = rows(tmp_path, "SELECT max(seconds) FROM host")
    assert longest < 5.0


@needs("/proc")
def test_what_the_log_tells_of_the_time_before_a_crash_is_counted(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    """The postmaster goes on after a crash of a session, so its log is read on."""
    cluster = new_cluster(18, {"logging_collector": "on", "log_destination": "csvlog"})
    with recording(tmp_path, cluster, "log_errors", "databases"):
        until(lambda: samples(tmp_path, "log_errors") > 1)
        with psycopg.connect(cluster.dsn(), autocommit=True) as conn:
            with pytest.raises(psycopg.errors.DivisionByZero):
                conn.execute("SELECT 1/0")
            os.kill(conn.info.backend_pid, signal.SIGKILL)
        until(lambda: rows(tmp_path, "SELECT 1 FROM events WHERE kind = 'crash'"))
        up = samples(tmp_path, "log_errors"), samples(tmp_path, "databases")
        until(lambda: samples(tmp_path, "log_errors") > up[0] + 1)
        until(lambda: samples(tmp_path, "databases") > up[1] + 1)
    counted = "SELECT sum(errors), count(*) FILTER (WHERE errors IS NULL) FROM log_errors"
    assert rows(tmp_path, counted) == [(1, 1)]  # the first sample has nothing to compare with
    # The databases' counters were reset: unknown once more.
    unknown = """SELECT count(*) FROM samples WHERE source = 'databases' AND seconds IS NULL"""
    assert rows(tmp_path, unknown) == [(2,)]


@needs("/proc")
def test_no_error_is_lost_when_the_server_starts_again(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    """One just before it stops, one while nobody records it yet, and one after that."""
    cluster = new_cluster()

    def fail() -> None:
        with pytest.raises(psycopg.errors.DivisionByZero):
            sql(cluster.dsn(), "SELECT 1/0")

    errors = "SELECT sum(errors), count(*) FILTER (WHERE errors IS NULL) FROM log_errors"
    with recording(tmp_path, cluster, "log_errors"):
        until(lambda: samples(tmp_path, "log_errors") > 1)
        fail()
        cluster.stop("fast")
        until(lambda: rows(tmp_path, "SELECT 1 FROM events WHERE kind = 'lost'"))
        until(lambda: rows(tmp_path, errors) == [(1, 1)])  # the first sample has none before it
        cluster.start()
        fail()
        until(lambda: rows(tmp_path, "SELECT 1 FROM events WHERE kind = 'restart'"))
        fail()
        until(lambda: rows(tmp_path, errors) == [(3, 1)])


@needs("/proc")
def test_the_host_is_sampled_while_the_server_hangs(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    """The session of the recorder is stopped, so its thread waits for an answer."""
    cluster = new_cluster()
    query = """SELECT pid FROM pg_stat_activity WHERE application_name = 'mrtuner record'"""
    with recording(tmp_path, cluster):
        ((pid,),) = sql(cluster.dsn(), query)
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(1.0)  # what was on its way arrives
            hung, before = samples(tmp_path, "sessions"), samples(tmp_path, "host")
            until(lambda: samples(tmp_path, "host") > before + 4)
            assert samples(tmp_path, "sessions") == hung
        finally:
            os.kill(pid, signal.SIGCONT)


#: FATAL 57P03, as a server sends it that replays its WAL. Source: protocol, ErrorResponse.
STARTING = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0"


def test_a_server_that_starts_is_tried_every_second(tmp_path: Path) -> None:
    """Doubled each time, the waits of eight seconds would leave room for four attempts."""
    attempts: list[float] = []
    stop = threading.Event()

    def refuse(listener: socket.socket) -> None:
        while not stop.is_set():
            with suppress(OSError):  # the client is gone, or at the end the listener
                connection, _ = listener.accept()
                with connection:
                    connection.recv(4096)
                    attempts.append(time.monotonic())
                    length = (len(STARTING) + 4).to_bytes(4, "big")
                    connection.sendall(b"E" + length + STARTING)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=refuse, args=(listener,), daemon=True)
        thread.start()
        port = listener.getsockname()[1]
        dsn = f"host=127.0.0.1 port={port} user=u sslmode=disable gssencmode=disable"
        with Writer(tmp_path, [built_in()["sessions"]]) as writer:
            threading.Timer(8.0, stop.set).start()
            record(writer, [Instance(name="db", dsn=dsn)], stop)
    assert len(attempts) >= 6
