"""AWS Secrets Manager as a store, and as the caller of rotations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import psycopg
import pytest
from moto import mock_aws
from rotating import ADMIN, IMPATIENT, admin, may_login, running

from mrtuner.errors import BadValue, Refused
from mrtuner.postgres.cluster import Cluster
from mrtuner.rotate import Credential, RotationStep, rotate
from mrtuner.rotate.answer import opened
from mrtuner.rotate.lambda_handler import handler
from mrtuner.rotate.secretsmanager import Secret
from servers import sql

STEPS = ("createSecret", "setSecret", "testSecret", "finishSecret")


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with running({"fsync": "off"}) as cluster:
        yield cluster


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    with mock_aws():
        yield boto3.client("secretsmanager", region_name="eu-central-1")


def credential(user: str, password: str) -> Credential:
    return Credential(username=user, password=password, host="db", port=5432, dbname="shop")


def stored(service: Any, arn: str, stage: str = "AWSCURRENT") -> dict[str, Any]:
    text = service.get_secret_value(SecretId=arn, VersionStage=stage)["SecretString"]
    found: dict[str, Any] = json.loads(text)
    return found


def login(found: dict[str, Any]) -> str:
    shown = " ".join(f"{name}='{found[name]}'" for name in ("host", "port", "dbname", "password"))
    return f"{shown} user='{found['username']}'"


def test_a_new_version_is_current_at_once_and_other_keys_stay(service: Any) -> None:
    arn = service.create_secret(Name="s", SecretString='{"proxy": "p1", "password": "x"}')["ARN"]
    Secret(arn).write(credential("app_blue", "one"))
    assert stored(service, arn) == {
        "proxy": "p1", "engine": "postgres", "host": "db", "port": 5432, "dbname": "shop",
        "username": "app_blue", "password": "one",
    }  # fmt: skip


def test_the_version_before_comes_back_only_if_it_is_of_the_role_asked_for(service: Any) -> None:
    arn = service.create_secret(Name="s")["ARN"]
    secret = Secret(arn)
    assert secret.read() is None
    secret.write(credential("app_blue", "one"))
    secret.write(credential("app_green", "two"))
    assert not secret.restore("app")
    assert stored(service, arn)["password"] == "two"
    assert secret.restore("app_blue")
    assert stored(service, arn)["password"] == "one"


def taken_over(server: Cluster, service: Any, role: str) -> str:
    """Make a login role, its secret and its administrator's; return the ARN of the first secret."""
    sql(server.dsn(), f"CREATE ROLE {role} LOGIN PASSWORD 'old'")
    place = {"host": "127.0.0.1", "port": server.port, "dbname": "postgres"}
    boss = {"username": "postgres", "password": ADMIN}
    master = service.create_secret(Name="m", SecretString=json.dumps(place | boss))["ARN"]
    first = place | {"username": role, "password": "old", "masterarn": master}
    return str(service.create_secret(Name="s", SecretString=json.dumps(first))["ARN"])


def rotated(arn: str, token: str) -> None:
    for step in STEPS:
        handler({"SecretId": arn, "ClientRequestToken": token, "Step": step}, None)


def test_a_role_that_is_still_used_waits_for_the_next_attempt(
    server: Cluster, service: Any
) -> None:
    arn, tries = taken_over(server, service, "held"), str(uuid4())
    rotated(arn, str(uuid4()))
    with psycopg.connect(login(stored(service, arn)) + " application_name=nightly"):
        rotated(arn, str(uuid4()))
        with pytest.raises(Refused, match="is in use: nightly from 127"):
            rotated(arn, tries)
        assert sql(login(stored(service, arn)), "SELECT session_user") == [("held_green",)]
    rotated(arn, tries)
    assert sql(login(stored(service, arn)), "SELECT session_user") == [("held_blue",)]


def test_a_secret_of_a_role_outside_the_group_is_refused(
    server: Cluster, service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROUP", "another")
    with pytest.raises(BadValue, match="the secret is for outside, which is not a role of another"):
        rotated(taken_over(server, service, "outside"), str(uuid4()))


def test_the_command_stores_in_secrets_manager_and_takes_back(
    server: Cluster, service: Any, tmp_path: Path
) -> None:
    arn = taken_over(server, service, "twofold")
    to, state = f"secretsmanager:{arn}", tmp_path / "state"
    done = rotate(admin(server), "twofold", to=to, patience=IMPATIENT, journal=state)
    assert done.rotation.step is RotationStep.DONE
    assert stored(service, arn)["masterarn"]
    old = login(stored(service, arn))
    with psycopg.connect(old):
        waiting = rotate(admin(server), "twofold", patience=IMPATIENT, journal=state)
        assert (waiting.rotation.step, waiting.rotation.to) == (RotationStep.WAITING, to)
        assert sql(login(stored(service, arn)), "SELECT session_user") == [("twofold_green",)]
        with opened(admin(server), "twofold", IMPATIENT, journal=state) as rotator:
            outcome = rotator.abort(waiting.rotation, Secret(arn))
    assert outcome.rotation.step is RotationStep.ABORTED
    assert login(stored(service, arn)) == old
    assert sql(old, "SELECT session_user, current_user") == [("twofold_blue", "twofold")]


def test_the_four_steps_rotate_and_each_may_be_called_twice(server: Cluster, service: Any) -> None:
    arn = taken_over(server, service, "aws")
    tokens = [str(uuid4()) for _ in range(3)]
    for user, token in zip(("aws_blue", "aws_green", "aws_blue"), tokens, strict=True):
        for step in STEPS:
            event = {"SecretId": arn, "ClientRequestToken": token, "Step": step}
            handler(event, None)
            handler(event, None)
            sql(login(stored(service, arn)), "SELECT 1")
        assert sql(login(stored(service, arn)), "SELECT session_user, current_user") == [
            (user, "aws")
        ]
        # The role of the first secret is disabled at the second turn: it has none of its own.
        first = {"aws"} if token == tokens[0] else set()
        assert may_login(server, "aws") - {"aws_green"} == first | {"aws_blue"}
    assert may_login(server, "aws") == {"aws_blue", "aws_green"}


@pytest.mark.parametrize("text", [None, "password=hidden"])
def test_a_secret_that_cannot_take_it_is_found_before_roles_are_made(
    server: Cluster, service: Any, tmp_path: Path, text: str | None
) -> None:
    """One that does not exist, and one that holds something else."""
    if text is not None:
        service.create_secret(Name="unfit", SecretString=text)
    with pytest.raises(BadValue) as refused:
        rotate(admin(server), "unfit", to="secretsmanager:unfit", journal=tmp_path / "state")
    found = "secret unfit does not exist" if text is None else "the secret is not a JSON object"
    assert refused.value.message.startswith(found)
    assert "hidden" not in refused.value.message
    there = "SELECT rolname FROM pg_roles WHERE rolname ^@ 'unfit'"
    assert sql(server.dsn(), there) == []
