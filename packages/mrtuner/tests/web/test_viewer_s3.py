"""The viewer of a history on S3: the same answers as from its directory, and clear errors."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ResponseStreamingError
from botocore.response import StreamingBody
from history_data import MIDNIGHT, SECOND, batch, queue, row, sample
from hypothesis import given, settings
from hypothesis import strategies as st
from lake import BUCKET, CREDENTIALS, PLACE, REGION, URL, StandIn, publish, stand_in
from moto import mock_aws
from moto.core import set_initial_no_auth_action_count
from served import HOUR, Viewer, serving

from command_line import run
from machine import PAGE, require
from mrtuner.aws.errors import AwsError
from mrtuner.aws.iam_policy import Scope, called, policy
from mrtuner.aws.session import client
from mrtuner.errors import UsageError
from mrtuner.history.reading import open_history
from mrtuner.history.remote import Blocks, RemoteLake, RemoteStore
from mrtuner.history.store import compaction, parquet, s3
from mrtuner.history.store.parquet import File
from mrtuner.history.store.writer import Writer
from mrtuner.web.screens import SCREENS


@pytest.fixture
def bucket(sealed: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    with stand_in(sealed) as found:
        for name, value in found.environment.items():
            monkeypatch.setenv(name, value)
        yield found


@pytest.fixture
def on_s3(bucket: StandIn) -> Iterator[Viewer]:
    require(PAGE)
    with serving(URL) as viewer:
        yield viewer


def test_every_screen_is_the_one_of_the_directory(on_s3: Viewer, sealed: Path) -> None:
    with serving(sealed) as local:
        for name in SCREENS:
            assert on_s3.screen(name) == local.screen(name)
    fleet = json.loads(on_s3.get("api/fleet")[2])
    assert fleet["directory"] == URL
    assert [one["instance"] for one in fleet["instances"]] == ["db:5432"]


def test_a_bucket_that_goes_away_is_an_error_of_the_api(on_s3: Viewer, bucket: StandIn) -> None:
    """What was not read before can no longer be read."""
    bucket.empty()
    status, message, hint = on_s3.refused(f"api/screens/wal?{HOUR}")
    assert (status, message) == (502, "there is no such bucket")
    assert hint == "Check the bucket's name, and the account."


def test_where_nothing_answers_the_api_says_so(sealed: Path, tmp_path: Path) -> None:
    require(PAGE)
    with pytest.MonkeyPatch.context() as patch:
        with stand_in(sealed) as bucket:
            for name, value in bucket.environment.items():
                patch.setenv(name, value)
            running = serving(URL)
            viewer = running.__enter__()
        try:
            status, message, _ = viewer.refused(f"api/screens/wal?{HOUR}")
        finally:
            running.__exit__(None, None, None)
    assert status == 502
    assert message.startswith("cannot reach AWS in eu-central-1 at http://127.0.0.1:")


def test_a_file_that_is_gone_or_another_is_left_out_and_named(
    bucket: StandIn, on_s3: Viewer
) -> None:
    whole = on_s3.screen("moment")  # reads neither of the files that are changed below
    assert whole["damaged"] == []
    gone, other = (bucket.keys(f"{view}/")[0] for view in ("wal", "checkpoints"))
    bucket.client.delete_object(Bucket=BUCKET, Key=gone)
    bucket.client.put_object(Bucket=BUCKET, Key=other, Body=b"PAR1 something else PAR1")
    found = on_s3.screen("wal")["damaged"]
    names = [key.removeprefix("postgres/") for key in (gone, other)]
    assert f"{names[0]} is not in {URL}" in found
    assert any(one.startswith(f"{names[1]} has ") for one in found), found


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://no-such-bucket-here/postgres", "there is no such bucket"),
        (f"s3://{BUCKET}/elsewhere", f"there is no history at s3://{BUCKET}/elsewhere"),
        ("s3://X", "'s3://X' is not an S3 address"),
    ],
)
def test_a_lake_that_is_not_there_is_refused_at_the_start(
    url: str, said: str, bucket: StandIn
) -> None:
    for option in ("--dir", "--store"):  # the same under another name
        done = run("serve", option, url, "--port", "0")
        assert done.exit_code != 0
        assert said in done.stderr
        assert "HINT:" in done.stderr


# The tests below need no server: they run in this process.


@pytest.fixture
def aws(sealed: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with mock_aws():
        found = boto3.client("s3", REGION)
        publish(sealed, found)
        yield found


def counts(store: RemoteStore) -> Any:
    with store.opened() as history:
        return history.row("SELECT count(*) AS n FROM samples")["n"]


def test_nothing_is_read_twice_and_what_is_published_meanwhile_is_seen(
    aws: Any, tmp_path: Path
) -> None:
    store = RemoteStore(PLACE, aws)
    asked: list[str] = []
    aws.meta.events.register(
        "before-call.s3.GetObject", lambda params, **_: asked.append(params["url_path"])
    )
    before = counts(store)
    assert asked
    asked.clear()
    assert counts(store) == before
    assert asked == []
    with Writer(tmp_path / "other", [queue()]) as writer:
        writer.commit([batch(sample(queue(), 3600, row("mail", 1, 0.0, 2)), instance="other:5432")])
        compaction.move_to_parquet(writer, MIDNIGHT + 86_400 * SECOND)
    s3.publish(tmp_path / "other", PLACE, aws)
    assert counts(store) == before + 1
    store.close()


def test_of_a_large_file_only_what_a_query_needs_is_read(aws: Any, tmp_path: Path) -> None:
    """Two columns of noise, of which one is queried; blocks are smaller than a column."""
    path = "noise/date=2026-11-23/1-x.parquet"
    with parquet.engine() as con:
        noise = (
            "SELECT make_timestamp(i) AS time, hash(i) AS a, hash(-i) AS b FROM range(40000) t(i)"
        )
        parquet.write(con, noise, tmp_path, path, order=["time"], names=["a"])
        file = parquet.described(con, tmp_path, path, number=1, view="noise")
        expected = con.execute("SELECT bit_xor(hash(i)) FROM range(40000) t(i)").fetchall()
    aws.put_object(Bucket=BUCKET, Key=f"postgres/{path}", Body=(tmp_path / path).read_bytes())
    came: list[int] = []
    aws.meta.events.register(
        "after-call.s3.GetObject", lambda parsed, **_: came.append(parsed["ContentLength"])
    )
    lake = RemoteLake(Blocks(PLACE, aws, block_size=4096))
    with parquet.engine() as con:
        lake.enter(con)
        assert lake.flaw(file) is None
        assert lake.flaws([file]) == {}
        found = con.execute(f"SELECT bit_xor(a) FROM ({parquet.union(lake.root, [file])})")
        assert found.fetchall() == expected
    assert file.bytes > 600_000
    assert 0 < sum(came) < 0.6 * file.bytes


@pytest.fixture(scope="module")
def anywhere() -> Any:
    """A client of S3 without a server: `one_object` answers its requests."""
    return boto3.client("s3", REGION, aws_access_key_id="x", aws_secret_access_key="x")


@contextmanager
def one_object(client: Any, content: bytes) -> Iterator[None]:
    """Answer every GetObject with the requested range, without a network."""

    def answer(request: Any, **_: Any) -> AWSResponse:
        begin, end = map(int, request.headers["Range"].decode()[len("bytes=") :].split("-"))
        assert 0 <= begin <= end < len(content)
        part = content[begin : end + 1]
        headers = {
            "Content-Length": str(len(part)),
            "Content-Range": f"bytes {begin}-{end}/{len(content)}",
        }
        return AWSResponse(request.url, 206, headers, io.BytesIO(part))

    client.meta.events.register("before-send.s3.GetObject", answer)
    try:
        yield
    finally:
        client.meta.events.unregister("before-send.s3.GetObject", answer)


@given(st.integers(0, 5000), st.data())
@settings(max_examples=200, deadline=None)
def test_any_part_of_a_file_is_what_is_there(anywhere: Any, size: int, data: st.DataObject) -> None:
    """Read in any order, from S3 or from the blocks kept."""
    content = random.Random(size).randbytes(size)
    file = File(number=1, view="v", path="p", first=0, last=0, rows=0, bytes=size, sha256="")
    blocks = Blocks(PLACE, anywhere, block_size=256, most=1024)
    with one_object(anywhere, content):
        for _ in range(5):
            begin = data.draw(st.integers(0, size))
            end = data.draw(st.integers(begin, size))
            assert blocks.read(file, begin, end) == content[begin:end]


def test_the_least_recently_used_parts_are_forgotten(aws: Any, tmp_path: Path) -> None:
    s3.read_lists(PLACE, tmp_path, aws)
    blocks = Blocks(PLACE, aws, block_size=512, most=2000)

    def count() -> Any:
        with open_history(tmp_path, RemoteLake(blocks), name=URL) as history:
            return history.row("SELECT count(*) AS n FROM samples")["n"]

    first = count()
    assert 0 < blocks.size <= 2000
    assert blocks.size == sum(map(len, blocks.kept.values()))
    assert count() == first


def test_a_lake_that_is_emptied_is_none_any_more(aws: Any) -> None:
    store = RemoteStore(PLACE, aws)
    counts(store)
    for one in aws.list_objects_v2(Bucket=BUCKET)["Contents"]:
        aws.delete_object(Bucket=BUCKET, Key=one["Key"])
    with pytest.raises(UsageError, match="there is no history at"):
        counts(store)
    store.close()


def test_an_answer_that_breaks_off_is_an_error_of_aws(
    aws: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It breaks off after the headers; the lists were read before."""
    store = RemoteStore(PLACE, aws)

    def broken(*_: Any) -> bytes:
        raise ResponseStreamingError(error="the connection broke")

    with store.opened() as history:
        monkeypatch.setattr(StreamingBody, "read", broken)
        with pytest.raises(AwsError, match="connection to AWS in eu-central-1 broke during s3:Get"):
            history.rows("SELECT * FROM wal")
    store.close()


@pytest.mark.parametrize("how", ["--dir", "the environment"])
def test_other_commands_say_that_they_read_no_history_on_s3(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how != "--dir":
        monkeypatch.setenv("MRTUNER_HISTORY_DIR", URL)
    options = ["--dir", URL] if how == "--dir" else []
    done = run("history", "show", *options)
    assert done.exit_code == 2
    assert done.stderr.splitlines() == [
        "error: only mrtuner serve reads a history on S3",
        "HINT: Fetch a copy of it with mrtuner history fetch.",
    ]


# The policy allows in AWS what the viewer does, and no more.

SCOPE = Scope(bucket=BUCKET, prefix=PLACE.prefix)


def everything(store: RemoteStore) -> None:
    from mrtuner.web.answers import fleet_answer, screen_answer

    given = dict(one.split("=") for one in HOUR.split("&"))
    with store.opened() as history:
        fleet_answer(history)
        for name in SCREENS:
            screen_answer(history, name, given)


def test_the_policy_names_the_calls_that_are_made(aws: Any) -> None:
    """For ListObjectsV2, the action in a policy is s3:ListBucket."""
    made: set[str] = set()
    aws.meta.events.register("before-call.s3.*", lambda model, **_: made.add(model.name))
    store = RemoteStore(PLACE, aws)
    everything(store)
    store.close()
    assert made == {"ListObjectsV2", "GetObject"}
    assert called("serve") == {"s3:ListBucket", "s3:GetObject"}


def user(name: str, document: Any) -> dict[str, str]:
    """The credentials of a user with this policy alone."""
    iam = boto3.client("iam", REGION)
    iam.create_user(UserName=name)
    iam.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=json.dumps(document))
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return {
        "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
    }


@pytest.fixture
def enforced(aws: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that opens the store as a user with a policy, which `enforce` puts into force."""

    def store(document: Any) -> RemoteStore:
        for name, value in user("viewer", document).items():
            monkeypatch.setenv(name, value)
        return RemoteStore(PLACE, client("s3"))

    return store


def enforce(action: Any) -> Any:
    """Do something while policies are enforced."""
    return set_initial_no_auth_action_count(0)(action)()


def test_with_the_policy_every_screen_is_shown(enforced: Any) -> None:
    store = enforced(policy("serve", SCOPE, ("--kms-key",)).document)
    enforce(lambda: everything(store))
    store.close()


@pytest.mark.parametrize("action", ["s3:ListBucket", "s3:GetObject"])
def test_without_any_one_of_its_actions_the_missing_one_is_named(
    action: str, enforced: Any
) -> None:
    document = policy("serve", SCOPE, ("--kms-key",)).document
    less = [one for one in document["Statement"] if action not in one["Action"]]
    assert len(less) == len(document["Statement"]) - 1
    store = enforced({**document, "Statement": less})
    with pytest.raises(AwsError, match=f"AWS denies {action}"):
        enforce(lambda: everything(store))
    store.close()


def test_the_policy_is_for_that_prefix_alone() -> None:
    document = policy("serve", SCOPE, ("--kms-key",)).document
    by_action = {one["Action"][0]: one for one in document["Statement"]}
    assert by_action["s3:GetObject"]["Resource"] == "arn:aws:s3:::company-history/postgres/*"
    assert by_action["s3:ListBucket"]["Resource"] == "arn:aws:s3:::company-history"
    assert by_action["s3:ListBucket"]["Condition"] == {
        "StringLike": {"s3:prefix": "postgres/manifests/"}
    }
