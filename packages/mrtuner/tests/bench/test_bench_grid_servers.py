"""Servers that a command of the plan starts."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import pytest

from mrtuner.bench.plan.model import Variant
from mrtuner.bench.server.variant import Commanded
from mrtuner.errors import ConnectError
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.server_user import scratch_directory, server_user
from servers import binaries, sql


@pytest.fixture
def stopped() -> Iterator[Cluster]:
    cluster = Cluster.create(binaries(18), scratch_directory())
    yield cluster
    cluster.remove()


def as_server_user(*words: object) -> str:
    user = server_user()
    if user is None:
        return shlex.join(map(str, words))
    ids = (f"--reuid={user.uid}", f"--regid={user.gid}", "--clear-groups")
    return shlex.join(["setpriv", *ids, *map(str, words)])


def test_a_command_that_stays_is_started_reached_and_interrupted(stopped: Cluster) -> None:
    start = as_server_user(stopped.binaries.program("postgres"), "-D", stopped.data)
    server = Commanded(Variant(name="ours", start=start, dsn=stopped.dsn()))
    for _ in range(2):
        server.start()
        assert sql(server.dsn, "SELECT 1") == [(1,)]
        server.stop()
        assert not stopped.running()
    server.stop()  # stopping a stopped server does nothing


def test_a_command_that_ends_without_a_server_says_what_it_said(stopped: Cluster) -> None:
    start = "sh -c 'echo no such luck; exit 3'"
    server = Commanded(Variant(name="ours", start=start, dsn=stopped.dsn()))
    with pytest.raises(ConnectError, match="variant ours did not start a server: no such luck"):
        server.start()
