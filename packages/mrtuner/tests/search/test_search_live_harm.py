"""What a search on a server in use must not do to it, nor to what others do there meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from conftest import NewCluster

from mrtuner.errors import MissingPart
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from mrtuner.postgres.server_user import scratch_directory
from mrtuner.search.live import behind
from servers import binaries, sql
from waiting import until

pytestmark = pytest.mark.timed


@contextmanager
def standby_of(primary: Cluster) -> Iterator[Cluster]:
    made = Cluster(primary.binaries, scratch_directory(), primary.port, primary.user)
    primary.run("pg_basebackup", "-D", made.data, "-R", "-c", "fast", "-d", primary.dsn())
    made.configure({"unix_socket_directories": str(made.directory)})
    try:
        made.start()
        yield made
    finally:
        made.remove()


@pytest.mark.parametrize("major", [15, 18])
def test_a_role_that_may_not_see_replay_is_told_so(major: int, new_cluster: NewCluster) -> None:
    binaries(major)
    primary = new_cluster(major)
    for line in (
        "CREATE ROLE blind LOGIN", "GRANT pg_read_all_settings TO blind",
        "CREATE ROLE seeing LOGIN", "GRANT pg_read_all_stats TO seeing",
    ):  # fmt: skip
        sql(primary.dsn(), line)
    blind, seeing = (f"{primary.dsn()} user={name}" for name in ("blind", "seeing"))
    with connect(blind) as session:
        assert behind(session) is None, "without a standby, there is nothing to hide"
    with standby_of(primary) as standby:
        until(lambda: sql(primary.dsn(), "SELECT 1 FROM pg_stat_replication") != [])
        with connect(blind) as session, pytest.raises(MissingPart, match="hidden"):
            behind(session)
        sql(standby.dsn(), "SELECT pg_wal_replay_pause()")
        paused = "SELECT pg_get_wal_replay_pause_state()"
        until(lambda: sql(standby.dsn(), paused) == [("paused",)])
        sql(primary.dsn(), "CREATE TABLE filler AS SELECT generate_series(1, 50000)")
        with connect(seeing) as session:
            assert (behind(session) or 0) > 1_000_000, "50,000 rows of 24 bytes and more"
