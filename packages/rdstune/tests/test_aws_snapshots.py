"""The request that asks for a snapshot's copy, as it goes over the wire."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

import pytest

from mrtuner.aws.errors import AwsError
from mrtuner.aws.session import Account, client
from rdstune.fleet.aws_snapshots import ALREADY_EXISTS, Snapshot, copy_snapshot

ANSWER = b"""<ErrorResponse xmlns="http://rds.amazonaws.com/doc/2014-10-31/"><Error>
<Type>Sender</Type><Code>DBSnapshotAlreadyExists</Code><Message>in words of tomorrow</Message>
</Error></ErrorResponse>"""


def asked(source: str, destination: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The parameters of the request, which is intercepted and answered with a refusal."""
    from botocore.awsrequest import AWSResponse

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not a secret")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    sent: list[Any] = []

    class Raw:
        def stream(self, **_: Any) -> Any:
            yield ANSWER

    def answer(request: Any, **_: Any) -> Any:
        sent.append(request)
        return AWSResponse(request.url, 400, {}, Raw())

    there = client("rds", Account(destination))
    there.meta.events.register("before-send.rds.CopyDBSnapshot", answer)
    snapshot = Snapshot(
        identifier="rds:shop-1",
        arn=f"arn:aws:rds:{source}:123456789012:snapshot:rds:shop-1",
        instance="shop",
        resource_id="db-SHOP",
        kind="automated",
        status="available",
        taken=None,
    )
    with pytest.raises(AwsError) as refused:
        copy_snapshot(there, snapshot, "copy-1", source_region=source, tags={"a": "b"})
    assert refused.value.code == ALREADY_EXISTS
    return {name: values[0] for name, values in parse_qs(sent[0].body).items()}


def test_a_copy_is_asked_of_the_destination_with_the_sources_arn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parameters = asked("eu-west-1", "eu-central-1", monkeypatch)
    assert parameters == {
        "Action": "CopyDBSnapshot",
        "Version": "2014-10-31",
        "SourceDBSnapshotIdentifier": "arn:aws:rds:eu-west-1:123456789012:snapshot:rds:shop-1",
        "TargetDBSnapshotIdentifier": "copy-1",
        "Tags.Tag.1.Key": "a",
        "Tags.Tag.1.Value": "b",
    }


def test_only_govcloud_gets_a_signed_address_of_the_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parameters = asked("us-gov-west-1", "us-gov-east-1", monkeypatch)
    address = parameters["PreSignedUrl"]
    assert address.startswith("https://rds.us-gov-west-1.amazonaws.com/")
    assert "DestinationRegion=us-gov-east-1" in address
