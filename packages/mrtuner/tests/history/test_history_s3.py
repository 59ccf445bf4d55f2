"""Several recorders share a lake on S3 without a lock: against a stand-in for AWS."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from history_data import MIDNIGHT, SECOND, batch, queue, row, sample
from moto import mock_aws

from command_line import run
from mrtuner.errors import BadValue, MrTunerError, Refused, UsageError
from mrtuner.history.reading import open_history
from mrtuner.history.store import compaction, layout, s3
from mrtuner.history.store.writer import Writer
from mrtuner.postgres.cluster import Cluster

SOURCE = queue()
DAY = 86_400
URL = "s3://company-history/postgres"
PLACE = s3.place_of(URL)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name, value in (("AWS_REGION", "eu-central-1"), ("AWS_ACCESS_KEY_ID", "x"),
                        ("AWS_SECRET_ACCESS_KEY", "x")):  # fmt: skip
        monkeypatch.setenv(name, value)
    with mock_aws():
        found = boto3.client("s3", "eu-central-1")
        found.create_bucket(
            Bucket="company-history",
            CreateBucketConfiguration={"LocationConstraint": "eu-central-1"},
        )
        yield found


def recorded(directory: Path, instance: str, days: range) -> Path:
    """A store with a sample on each of these days, all in files, and one statement's text."""
    with Writer(directory, [SOURCE]) as writer:
        for day in days:
            one = sample(SOURCE, day * DAY, row("mail", day, 0.0, day))
            writer.commit([batch(one, instance=instance, texts={len(instance): instance})])
        compaction.move_to_parquet(writer, MIDNIGHT + days.stop * DAY * SECOND)
    return directory


def rows(directory: Path) -> list[tuple[Any, ...]]:
    with open_history(directory) as history:
        return history.table("SELECT instance, waiting FROM queue ORDER BY 1, 2")[1]


def keys(client: Any) -> list[str]:
    return [one["Key"] for one in client.list_objects_v2(Bucket="company-history")["Contents"]]


def test_two_recorders_share_a_lake_and_one_reads_both(client: Any, tmp_path: Path) -> None:
    for name in ("a", "bb"):
        s3.publish(recorded(tmp_path / name, name, range(3)), PLACE, client)
    found = s3.fetch(PLACE, tmp_path / "copy", client)
    assert found.writers == 2
    assert rows(tmp_path / "copy") == [
        ("a", 0),
        ("a", 1),
        ("a", 2),
        ("bb", 0),
        ("bb", 1),
        ("bb", 2),
    ]
    with open_history(tmp_path / "copy") as history:
        texts = history.table("SELECT text FROM statement_texts ORDER BY 1")[1]
    assert texts == [("a",), ("bb",)]


def test_only_what_is_new_goes_up_and_comes_down(client: Any, tmp_path: Path) -> None:
    store = recorded(tmp_path / "a", "a", range(2))
    first = s3.publish(store, PLACE, client)
    assert first > 0
    assert s3.publish(store, PLACE, client) == 0
    came = s3.fetch(PLACE, tmp_path / "copy", client).files
    recorded(store, "a", range(2, 3))
    more = s3.publish(store, PLACE, client)
    assert 0 < more <= first
    assert s3.fetch(PLACE, tmp_path / "copy", client).files == more
    assert came == first
    assert rows(tmp_path / "copy") == [("a", 0), ("a", 1), ("a", 2)]


@contextmanager
def unreadable_texts(store: Path) -> Iterator[None]:
    """Make the texts of a store undecodable until the block ends."""
    with closing(sqlite3.connect(store / layout.DATABASE, isolation_level=None)) as db:
        texts = db.execute("SELECT text, query_id FROM statement_text").fetchall()
        db.execute("UPDATE statement_text SET text = CAST(x'ff' AS TEXT)")
        yield
        db.executemany("UPDATE statement_text SET text = ? WHERE query_id = ?", texts)


def test_texts_that_are_there_are_not_read_again(client: Any, tmp_path: Path) -> None:
    """A store whose texts cannot be read can publish until it has a new text."""
    store = recorded(tmp_path / "a", "a", range(1))
    s3.publish(store, PLACE, client)
    with unreadable_texts(store):
        recorded(store, "a", range(1, 2))
        assert s3.publish(store, PLACE, client) > 0
        recorded(store, "bb", range(2, 3))
        with pytest.raises(sqlite3.OperationalError, match="decode"):
            s3.publish(store, PLACE, client)
    s3.publish(store, PLACE, client)
    s3.fetch(PLACE, tmp_path / "copy", client)
    with open_history(tmp_path / "copy") as history:
        texts = history.table("SELECT query_id, text FROM statement_texts ORDER BY 1")[1]
    assert texts == [(1, "a"), (2, "bb")]


def test_files_that_were_merged_are_replaced_in_the_copy(client: Any, tmp_path: Path) -> None:
    """Rows of one day, written in two files and then merged into one."""
    store = tmp_path / "a"
    with Writer(store, [SOURCE]) as writer:
        for number in range(2):
            one = sample(SOURCE, number * 60, row("mail", number, 0.0, number))
            writer.commit([batch(one)])
            compaction.move_to_parquet(writer, MIDNIGHT + DAY * SECOND, everything=True)
    s3.publish(store, PLACE, client)
    s3.fetch(PLACE, tmp_path / "copy", client)
    with Writer(store, [SOURCE]) as writer:
        assert compaction.compact(writer, MIDNIGHT + 2 * DAY * SECOND) > 0
    s3.publish(store, PLACE, client)
    s3.fetch(PLACE, tmp_path / "copy", client)
    assert rows(tmp_path / "copy") == [("db:5432", 0), ("db:5432", 1)]


def test_old_files_may_stay_where_they_are(client: Any, tmp_path: Path) -> None:
    s3.publish(recorded(tmp_path / "a", "a", range(3)), PLACE, client)
    s3.fetch(PLACE, tmp_path / "copy", client, since=MIDNIGHT + 2 * DAY * SECOND)
    assert rows(tmp_path / "copy") == [("a", 2)]


def test_the_same_writer_twice_is_refused_and_harms_nothing(client: Any, tmp_path: Path) -> None:
    """Another process publishes between reading the manifest and replacing it."""
    store = recorded(tmp_path / "a", "a", range(1))
    s3.publish(store, PLACE, client)
    (manifest,) = (key for key in keys(client) if "/manifests/" in key)
    other = client.get_object(Bucket="company-history", Key=manifest)["Body"].read()
    recorded(store, "a", range(1, 2))

    def meanwhile(**_: Any) -> None:
        client.meta.events.unregister("before-call.s3.PutObject", meanwhile)
        client.put_object(Bucket="company-history", Key=manifest, Body=other + b" ")

    client.meta.events.register("before-call.s3.PutObject", meanwhile)
    with pytest.raises(Refused, match="as the same writer"):
        s3.publish(store, PLACE, client)
    s3.fetch(PLACE, tmp_path / "copy", client)
    assert rows(tmp_path / "copy") == [("a", 0)]


def test_a_damaged_object_is_named_and_not_kept(client: Any, tmp_path: Path) -> None:
    s3.publish(recorded(tmp_path / "a", "a", range(1)), PLACE, client)
    victim = next(key for key in keys(client) if key.startswith("postgres/queue/"))
    client.put_object(Bucket="company-history", Key=victim, Body=b"PAR1 something else PAR1")
    with pytest.raises(MrTunerError, match="its checksum does not match"):
        s3.fetch(PLACE, tmp_path / "copy", client)
    assert not list((tmp_path / "copy" / "lake" / "queue").rglob("*.parquet"))


@pytest.mark.parametrize(
    ("change", "error", "why"),
    [
        ({"format": 99}, Refused, "newer MrTuner"),
        ({"files": 1}, UsageError, "damaged"),
        ({"files": [{"path": "x"}]}, UsageError, "damaged"),
    ],
)
def test_a_manifest_that_cannot_be_read_is_named(
    change: dict[str, Any], error: type[MrTunerError], why: str, client: Any, tmp_path: Path
) -> None:
    s3.publish(recorded(tmp_path / "a", "a", range(1)), PLACE, client)
    (key,) = (key for key in keys(client) if "/manifests/" in key)
    told = json.loads(client.get_object(Bucket="company-history", Key=key)["Body"].read())
    body = json.dumps(told | change).encode()
    client.put_object(Bucket="company-history", Key=key, Body=body)
    with pytest.raises(error, match=why):
        s3.fetch(PLACE, tmp_path / "copy", client)


def test_a_manifest_cannot_write_outside_the_lake(client: Any, tmp_path: Path) -> None:
    s3.publish(recorded(tmp_path / "a", "a", range(1)), PLACE, client)
    (key,) = (key for key in keys(client) if "/manifests/" in key)
    told = json.loads(client.get_object(Bucket="company-history", Key=key)["Body"].read())
    told["files"][0]["path"] = "../../outside.parquet"
    client.put_object(Bucket="company-history", Key=key, Body=json.dumps(told).encode())
    with pytest.raises(UsageError, match="outside the lake"):
        s3.fetch(PLACE, tmp_path / "deep" / "copy", client)
    assert not (tmp_path / "deep" / "outside.parquet").exists()


def test_a_copy_is_not_recorded_into_and_a_store_is_no_copy(client: Any, tmp_path: Path) -> None:
    store = recorded(tmp_path / "a", "a", range(1))
    s3.publish(store, PLACE, client)
    s3.fetch(PLACE, tmp_path / "copy", client)
    with pytest.raises(Refused, match="holds a copy of s3://company-history/postgres"):
        Writer(tmp_path / "copy", [SOURCE])
    with pytest.raises(Refused, match="holds a recording made here"):
        s3.fetch(PLACE, store, client)
    other = s3.place_of("s3://company-history/other")
    s3.publish(store, other, client)
    with pytest.raises(Refused, match="holds a copy"):
        s3.fetch(other, tmp_path / "copy", client)


def test_the_commands(client: Any, tmp_path: Path) -> None:
    s3.publish(recorded(tmp_path / "a", "a", range(1)), PLACE, client)
    done = run("history", "fetch", URL, "--dir", tmp_path / "copy")
    assert done.exit_code == 0, done.output
    assert "of 1 recorder fetched" in done.stdout
    none = ["history", "fetch", "s3://company-history/none", "--dir", str(tmp_path / "none")]
    empty = run(*none)
    assert empty.exit_code == 2
    assert "there is no history at s3://company-history/none" in empty.stderr
    assert not (tmp_path / "none").exists()


def test_a_recorder_publishes_and_goes_on_where_it_cannot(
    client: Any, embedded: Cluster, tmp_path: Path
) -> None:
    store = str(recorded(tmp_path / "a", "a", range(2)))
    record = ["record", embedded.dsn(), "--dir", store, "--for", "2s", "--publish"]
    lost = run(*record, "s3://no-such-bucket/postgres")
    assert lost.exit_code == 0, lost.output
    assert "nothing was published" in lost.stderr
    done = run(*record, URL)
    assert done.exit_code == 0, done.output
    assert "nothing was published" not in done.stderr
    s3.fetch(PLACE, tmp_path / "copy", client)
    assert rows(tmp_path / "copy") == [("a", 0), ("a", 1)]


@pytest.mark.parametrize("url", ["company-history", "http://x/y", "s3://", "s3://UPPER/x"])
def test_what_is_no_address_on_s3_is_refused(url: str) -> None:
    with pytest.raises(BadValue, match="is not an S3 address"):
        s3.place_of(url)
