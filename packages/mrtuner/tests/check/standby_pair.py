"""A primary and a standby that streams from it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.server_user import scratch_directory
from servers import sql
from waiting import until


@contextmanager
def standby_of(
    primary: Cluster, name: str = "walreceiver", **settings: str
) -> Iterator[tuple[Cluster, Cluster]]:
    """The primary, and a running standby of this application_name with these settings."""
    standby = Cluster(primary.binaries, scratch_directory(), primary.port, primary.user)
    done = primary.run("pg_basebackup", "-D", standby.data, "-R", "-c", "fast", "-d", primary.dsn())
    assert done.returncode == 0, done.stderr
    own = {"unix_socket_directories": str(standby.directory), "cluster_name": name}
    standby.configure(own | settings)
    try:
        standby.start()
        until(lambda: sql(primary.dsn(), "SELECT count(*) FROM pg_stat_replication") == [(1,)])
        yield primary, standby
    finally:
        standby.remove()
