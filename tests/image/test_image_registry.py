"""The registry that counts: by hand, without a builder."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from machine import needs, require
from mrtuner.image.builder import short_directory
from mrtuner.image.registry import Received, Registry


@pytest.fixture
def registry(asks: None) -> Iterator[Registry]:
    require("docker-registry")
    with short_directory() as work, Registry(work / "r") as found:
        yield found


def upload(registry: Registry, content: bytes, *, chunked: bool) -> int:
    """Upload as the distribution specification says: begin, send, name the digest."""
    connection = HTTPConnection(registry.address, timeout=60)
    connection.request("POST", "/v2/app/blobs/uploads/")
    answer = connection.getresponse()
    answer.read()
    place = urlsplit(str(answer.headers["Location"]))
    pieces = [content[:100], content[100:]] if chunked else None
    connection.request(
        "PATCH", f"{place.path}?{place.query}", iter(pieces) if pieces else content,
        {"Content-Type": "application/octet-stream"}, encode_chunked=chunked,
    )  # fmt: skip
    answer = connection.getresponse()
    answer.read()
    place = urlsplit(str(answer.headers["Location"]))
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    connection.request("PUT", f"{place.path}?{place.query}&digest={digest}")
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


@pytest.mark.parametrize("chunked", [False, True])
def test_bytes_are_counted_as_often_as_they_come(registry: Registry, chunked: bool) -> None:
    content = os.urandom(100_000)
    for _ in range(2):
        assert upload(registry, content, chunked=chunked) == 201
    assert registry.take() == Received(blobs=200_000)
    assert registry.take() == Received()


def test_what_was_pushed_is_forgotten(registry: Registry) -> None:
    upload(registry, b"kept" * 50, chunked=False)
    kept = registry.files()
    upload(registry, b"gone" * 50, chunked=False)
    assert registry.files() > kept
    registry.forget(kept)
    assert registry.files() == kept


def test_only_this_machine_reaches_it(registry: Registry) -> None:
    assert registry.address.startswith("127.0.0.1:")


@needs("docker-registry")
def test_a_registry_that_does_not_start_says_why(tmp_path: Path) -> None:
    found = Registry(tmp_path / ("long" * 40))  # a socket's path has 107 bytes at most
    with pytest.raises(Exception, match="the registry does not start"):
        found.__enter__()
