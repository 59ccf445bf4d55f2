"""A store as recorders publish it, on a stand-in for S3."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from moto.server import ThreadedMotoServer

from mrtuner.history.store import s3

REGION, BUCKET = "eu-central-1", "company-history"
URL = f"s3://{BUCKET}/postgres"
PLACE = s3.place_of(URL)
#: Settings of AWS clients for the stand-in, which read no other configuration.
CREDENTIALS = {
    "AWS_REGION": REGION, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x",
    "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    "AWS_MAX_ATTEMPTS": "1",
}  # fmt: skip


def publish(directory: Path, client: Any) -> None:
    """Make the bucket, and publish a store to it."""
    client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.publish(directory, PLACE, client)


@dataclass(frozen=True, slots=True)
class StandIn:
    """S3 on loopback, with a history in it."""

    client: Any
    environment: dict[str, str]

    def keys(self, of: str = "") -> list[str]:
        """The objects below a prefix of the lake."""
        found = self.client.list_objects_v2(Bucket=BUCKET, Prefix=f"postgres/{of}")
        return [one["Key"] for one in found.get("Contents", ())]

    def empty(self) -> None:
        """Delete the bucket and what is in it."""
        for key in self.keys():
            self.client.delete_object(Bucket=BUCKET, Key=key)
        self.client.delete_bucket(Bucket=BUCKET)


@contextmanager
def stand_in(directory: Path) -> Iterator[StandIn]:
    """A server of S3's API with a store published to it, until the block ends."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        address = f"http://{host}:{port}"
        # Remove everything that moto holds in this process, even other tests' buckets.
        urllib.request.urlopen(
            urllib.request.Request(f"{address}/moto-api/reset", method="POST"), timeout=60
        ).close()
        client = boto3.client(
            "s3", REGION, endpoint_url=address, aws_access_key_id="x", aws_secret_access_key="x"
        )
        publish(directory, client)
        yield StandIn(client, CREDENTIALS | {"AWS_ENDPOINT_URL": address})
        client.close()
    finally:
        server.stop()
