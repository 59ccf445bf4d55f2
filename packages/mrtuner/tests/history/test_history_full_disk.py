"""A disk that is really full: a file system of a few megabytes, filled to its last byte."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from conftest import NewCluster
from history_data import SECOND, batch, queue, row
from history_recorder import WAIT, recorder, rows, samples

from machine import require
from mrtuner.history.recording.recorder import record
from mrtuner.history.recording.sampler import SourceSample
from mrtuner.history.store.status import verify
from mrtuner.history.store.writer import Writer
from servers import counted, sql
from waiting import until

DAY = 86_400 * SECOND
INSERT = "INSERT INTO t SELECT n FROM generate_series(1, 100) AS n"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Eight megabytes in memory."""
    place = tmp_path / "disk"
    place.mkdir()
    require("root")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", place],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if mounted.returncode != 0:
        pytest.skip(f"no small file system here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", place], check=True)


def fill(disk: Path) -> Path:
    """Leave no byte free; return the file that takes them."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (65_536, 4096, 1):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue
    assert os.statvfs(disk).f_bavail == 0
    return filler


def told(process: subprocess.Popen[str], sentence: str) -> None:
    """Read a recorder's messages until one contains this sentence."""
    assert process.stderr is not None
    for line in process.stderr:
        if sentence in line:
            return
    raise AssertionError(f"it ended without telling {sentence!r}")


def test_recording_pauses_with_an_alarm_and_goes_on_and_loses_nothing(
    new_cluster: NewCluster, disk: Path
) -> None:
    """600 rows: 100 before the disk is full, 200 meanwhile, 300 after."""
    cluster = new_cluster()
    sql(cluster.dsn(), "CREATE TABLE t (id int)")
    store = disk / "store"
    acknowledged = "SELECT time, source FROM samples ORDER BY 1, 2"
    with recorder(store, cluster.dsn()) as process:
        until(lambda: samples(store, "tables"))
        counted(cluster.dsn(), INSERT)
        filler = fill(disk)
        told(process, "nothing can be stored: database or disk is full")
        before = rows(store, acknowledged)
        assert before
        assert verify(store).problems == []
        counted(cluster.dsn(), INSERT, INSERT)
        assert rows(store, acknowledged) == before
        filler.unlink()
        told(process, "samples are stored again")
        until(lambda: len(rows(store, acknowledged)) > len(before))
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT) == 0
    counted(cluster.dsn(), *[INSERT] * 3)
    with recorder(store, cluster.dsn()) as process:
        until(lambda: samples(store, "tables") > 1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT) == 0
    after = rows(store, acknowledged)
    assert set(before) <= set(after)
    assert len(after) == len(set(after))
    assert rows(store, "SELECT sum(inserted) FROM tables WHERE name = 't'") == [(600,)]
    assert verify(store).problems == []


def test_a_recorder_that_is_ended_while_the_disk_is_full_says_so(
    new_cluster: NewCluster, disk: Path
) -> None:
    cluster = new_cluster()
    store = disk / "store"
    with recorder(store, cluster.dsn()) as process:
        until(lambda: samples(store, "sessions"))
        fill(disk)
        told(process, "nothing can be stored")
        before = samples(store, "sessions")
        process.send_signal(signal.SIGTERM)
        told(process, "could not be stored: database or disk is full")
        assert process.wait(WAIT) == 1
    assert samples(store, "sessions") >= before


def test_files_that_nobody_reads_any_more_make_room(new_cluster: NewCluster, disk: Path) -> None:
    """Two megabytes that were taken off the list a day ago, after the upkeep of this hour."""
    cluster = new_cluster()
    store = disk / "store"
    with recorder(store, cluster.dsn()) as process:
        until(lambda: samples(store, "sessions"))
        old = store / "lake" / "wal" / "date=2026-01-01" / "00000001-0.parquet"
        old.parent.mkdir(parents=True)
        old.write_bytes(b"\0" * 2_000_000)
        with closing(sqlite3.connect(store / "recent.sqlite", timeout=WAIT)) as db, db:
            db.execute(
                "INSERT INTO file (view, path, first, last, rows, bytes, sha256, retired) "
                "VALUES ('wal', ?, 0, 0, 1, 2000000, '', ?)",
                (str(old.relative_to(store / "lake")), time.time_ns() // 1000 - DAY),
            )
        fill(disk)
        told(process, "nothing can be stored: database or disk is full")
        told(process, "samples are stored again")
        assert not old.exists()
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT) == 0


def test_past_hours_stay_in_sqlite_until_there_is_space(disk: Path) -> None:
    """Rows that compress so badly that their file does not fit."""
    source = queue()
    names = [os.urandom(200).hex() for _ in range(1000)]
    before = time.time_ns() // 1000 - 2 * DAY
    stop = threading.Event()
    stop.set()  # recording ends at once, but looks after the files first
    sentences: list[str] = []
    with Writer(disk / "store", [source]) as writer:
        for n in range(2):
            one = SourceSample(source=source, at=before + n * SECOND, monotonic=float(n), cost=0.0,
                         rows=tuple(row(name, n, 0.0, n) for name in names))  # fmt: skip
            writer.commit([batch(one)])
        writer.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        asked = "SELECT queue, waiting FROM queue ORDER BY 1, 2"
        whole = rows(writer.directory, asked)
        assert len(whole) == 2000
        filler = fill(disk)
        record(writer, [], stop, tell=sentences.append)
        assert [one for one in sentences if "rows of past hours stay in SQLite" in one]
        assert rows(writer.directory, asked) == whole
        assert list(disk.rglob("*.parquet*")) == []
        filler.unlink()
        record(writer, [], stop, tell=sentences.append)
        assert len(sentences) == 1
        assert "queue" in {file.view for file in writer.files()}
        assert rows(writer.directory, asked) == whole
