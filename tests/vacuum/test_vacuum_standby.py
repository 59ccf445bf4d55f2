"""A standby that tells its horizon: with a slot and without, proved by a VACUUM on its primary."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from vacuum_sessions import DEAD, die, kept, reading

from conftest import NewCluster
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.server_user import scratch_directory
from mrtuner.vacuum import Thresholds, vacuum
from servers import sql

pytestmark = pytest.mark.timed

FEEDBACK = {"hot_standby_feedback": "on", "wal_receiver_status_interval": "1s"}
#: Longer than the primary takes to hear of it twice [s].
TOLD = 2.5


@pytest.fixture(params=["", "follower"], ids=["without a slot", "with one"])
def pair(request: pytest.FixtureRequest, new_cluster: NewCluster) -> Iterator[tuple[Cluster, ...]]:
    """A primary with a second database, and a standby that follows it."""
    primary = new_cluster(settings={"autovacuum": "off"})
    sql(primary.dsn(), "CREATE DATABASE elsewhere")
    if request.param:
        sql(primary.dsn(), f"SELECT pg_create_physical_replication_slot('{request.param}')")
    standby = Cluster(primary.binaries, scratch_directory(), primary.port, primary.user)
    try:
        done = primary.run(
            "pg_basebackup", "-D", standby.data, "-R", "-c", "fast", "-d", primary.dsn()
        )
        assert done.returncode == 0, done.stderr
        standby.configure(
            {
                **FEEDBACK,
                "unix_socket_directories": str(standby.directory),
                "primary_slot_name": request.param,
            }
        )
        standby.start()
        yield primary, standby
    finally:
        standby.remove()


def test_a_reader_on_a_standby_keeps_rows_of_every_database_of_the_primary(
    pair: tuple[Cluster, ...], request: pytest.FixtureRequest
) -> None:
    """Even one of another database: the standby tells one horizon for all."""
    primary, standby = pair
    with reading(standby, "elsewhere"):
        time.sleep(TOLD)
        die(primary)
        time.sleep(TOLD)
        assert kept(primary) == DEAD
        (one,) = vacuum(primary.dsn(), thresholds=Thresholds(far=1)).picture.blockers
        slot = "with one" in request.node.name
        what = "physical replication slot" if slot else "standby feedback"
        assert (one.what, one.serious, one.sql) == (what, True, None)
    time.sleep(TOLD)
    assert kept(primary) == 0
