"""Several recorders write one lake at the same time, without a lock, while somebody reads it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import boto3
import pytest
from history_data import MIDNIGHT, SECOND, batch, queue, row, sample
from history_recorder import PROGRAM, WAIT
from moto.server import ThreadedMotoServer

from mrtuner.errors import UsageError
from mrtuner.history.reading import open_history
from mrtuner.history.store import compaction, s3
from mrtuner.history.store.writer import Writer
from mrtuner.postgres.cluster import Cluster

SOURCE = queue()
DAY = 86_400
URL = "s3://company-history/postgres"
PLACE = s3.place_of(URL)
RECORDERS = ("paris", "lyon", "nice")
#: Each recorder records and publishes this many days, one after the other.
DAYS = 5


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """S3 behind HTTP, for threads and processes; its address."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    urlopen(Request(f"http://{host}:{port}/moto-api/reset", method="POST"), timeout=WAIT).close()
    for name, value in (
        ("AWS_ENDPOINT_URL", f"http://{host}:{port}"), ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "x"), ("AWS_SECRET_ACCESS_KEY", "x"),
    ):  # fmt: skip
        monkeypatch.setenv(name, value)
    boto3.client("s3", "us-east-1").create_bucket(Bucket="company-history")
    yield f"http://{host}:{port}"
    server.stop()


def stored(directory: Path) -> list[tuple[str, int]]:
    with open_history(directory) as history:
        return history.table("SELECT instance, waiting FROM queue ORDER BY 1, 2")[1]


def expected(days: int) -> list[tuple[str, int]]:
    return sorted((name, 2 * day + half) for name in RECORDERS for day in range(days)
                  for half in (0, 1))  # fmt: skip


def record_day(directory: Path, name: str, day: int) -> None:
    """Two samples of a day, each in a file of its own, which are then merged."""
    with Writer(directory, [SOURCE]) as writer:
        for half in (0, 1):
            one = sample(SOURCE, day * DAY + half * 600, row("mail", day, 0.0, 2 * day + half))
            writer.commit([batch(one, instance=name, texts={hash_of(name, day): name})])
            compaction.move_to_parquet(
                writer, MIDNIGHT + (day * DAY + 1200) * SECOND, everything=True
            )
            if half == 0:
                s3.publish(directory, PLACE, boto3.client("s3"))
        compaction.compact(writer, MIDNIGHT + (day + 1) * DAY * SECOND)


def hash_of(name: str, day: int) -> int:
    return RECORDERS.index(name) * 1000 + day


def test_a_reader_sees_each_row_once_while_three_recorders_publish(
    aws: str, tmp_path: Path
) -> None:
    """Each publishes ten times and merges its files in between; the reader fetches all along."""
    failed: list[BaseException] = []
    read = threading.Event()  # once, before the second day

    def work(name: str) -> None:
        try:
            for day in range(DAYS):
                record_day(tmp_path / name, name, day)
                s3.publish(tmp_path / name, PLACE, boto3.client("s3"))
                assert read.wait(2 * WAIT)
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=work, args=(name,), daemon=True) for name in RECORDERS]
    for thread in threads:
        thread.start()
    seen: list[list[tuple[str, int]]] = [[]]
    client = boto3.client("s3")
    while any(thread.is_alive() for thread in threads):
        try:
            s3.fetch(PLACE, tmp_path / "copy", client)
        except UsageError:  # nobody has published yet
            continue
        found = stored(tmp_path / "copy")
        assert len(found) == len(set(found)), "a row is there twice"
        assert set(seen[-1]) <= set(found), "a row is gone"
        seen.append(found)
        read.set()
    for thread in threads:
        thread.join()
    assert not failed
    s3.fetch(PLACE, tmp_path / "copy", client)
    assert stored(tmp_path / "copy") == expected(DAYS)
    assert any(0 < len(one) < len(expected(DAYS)) for one in seen)
    with open_history(tmp_path / "copy") as history:
        texts = history.table("SELECT query_id FROM statement_texts ORDER BY 1")[1]
    assert texts == sorted((hash_of(name, day),) for name in RECORDERS for day in range(DAYS))


def test_three_recorders_in_processes_of_their_own_share_a_lake(
    aws: str, embedded: Cluster, tmp_path: Path
) -> None:
    """What each had in files when it began is in the lake, once."""
    for name in RECORDERS:
        for day in range(2):
            record_day_without_publishing(tmp_path / name, name, day)
    with ExitStack() as stack:
        running: list[subprocess.Popen[Any]] = []
        for name in RECORDERS:
            command = ["record", embedded.dsn(), "--name", name, "--dir", str(tmp_path / name),
                       "--for", "5s", "--publish", URL]  # fmt: skip
            process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, *command], stderr=subprocess.PIPE, env=os.environ
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            running.append(process)
        for process in running:
            told = process.communicate(timeout=WAIT)[1].decode()
            assert process.returncode == 0, told
            assert "nothing was published" not in told
    found = s3.fetch(PLACE, tmp_path / "copy", boto3.client("s3"))
    assert found.writers == len(RECORDERS)
    assert stored(tmp_path / "copy") == expected(2)


def record_day_without_publishing(directory: Path, name: str, day: int) -> None:
    with Writer(directory, [SOURCE]) as writer:
        for half in (0, 1):
            one = sample(SOURCE, day * DAY + half * 600, row("mail", day, 0.0, 2 * day + half))
            writer.commit([batch(one, instance=name)])
        compaction.move_to_parquet(writer, MIDNIGHT + (day + 1) * DAY * SECOND, everything=True)
