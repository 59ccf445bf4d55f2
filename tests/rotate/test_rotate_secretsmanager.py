"""AWS Secrets Manager as a store, and as the one who rotates."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import boto3
import pytest
from moto import mock_aws
from rotating import ADMIN, may_login, running

from mrtuner.postgres.cluster import Cluster
from mrtuner.rotate.lambda_handler import handler
from mrtuner.rotate.model import Credential
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


def test_the_four_steps_rotate_and_each_may_be_called_twice(server: Cluster, service: Any) -> None:
    sql(server.dsn(), "CREATE ROLE aws LOGIN PASSWORD 'old'")
    place = {"host": "127.0.0.1", "port": server.port, "dbname": "postgres"}
    admin = {"username": "postgres", "password": ADMIN}
    master = service.create_secret(Name="m", SecretString=json.dumps(place | admin))["ARN"]
    first = place | {"username": "aws", "password": "old", "masterarn": master}
    arn = service.create_secret(Name="s", SecretString=json.dumps(first))["ARN"]
    for user in ("aws_blue", "aws_green", "aws_blue"):
        token = str(uuid4())
        for step in STEPS:
            event = {"SecretId": arn, "ClientRequestToken": token, "Step": step}
            handler(event, None)
            handler(event, None)
            sql(login(stored(service, arn)), "SELECT 1")
        assert sql(login(stored(service, arn)), "SELECT session_user, current_user") == [
            (user, "aws")
        ]
    assert may_login(server, "aws") == {"aws", "aws_blue", "aws_green"}
