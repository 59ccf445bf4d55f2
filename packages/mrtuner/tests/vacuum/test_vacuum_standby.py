"""A standby that reports its horizon, with and without a slot; VACUUM on its primary proves it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from conftest import NewCluster
from vacuum_sessions import DEAD, die, kept, reading

from mrtuner.postgres.cluster import Cluster
from mrtuner.vacuum import Thresholds, vacuum
from servers import sql, standby_of
from waiting import until

pytestmark = pytest.mark.timed

FEEDBACK = {"hot_standby_feedback": "on", "wal_receiver_status_interval": "1s"}
HEARD = (
    "SELECT FROM pg_stat_replication LEFT JOIN pg_replication_slots ON active_pid = pid "
    "WHERE coalesce(backend_xmin, xmin) IS NOT NULL"
)


@pytest.fixture(params=["", "follower"], ids=["without a slot", "with one"])
def pair(request: pytest.FixtureRequest, new_cluster: NewCluster) -> Iterator[tuple[Cluster, ...]]:
    """A primary with a second database, and a standby that follows it."""
    primary = new_cluster(settings={"autovacuum": "off"})
    sql(primary.dsn(), "CREATE DATABASE elsewhere")
    if request.param:
        sql(primary.dsn(), f"SELECT pg_create_physical_replication_slot('{request.param}')")
    with standby_of(primary, primary_slot_name=request.param, **FEEDBACK) as standby:
        yield primary, standby


def asked(cluster: Cluster, question: str) -> Any:
    return sql(cluster.dsn(), f"SELECT {question}")[0][0]


def await_horizon(primary: Cluster, standby: Cluster) -> None:
    """Wait until the standby has reported a horizon newer than all of the primary's work so far.

    It reports one a second, so a reply sent two seconds after the replay follows such a report.
    """
    written = asked(primary, "pg_current_wal_lsn()")
    until(lambda: asked(standby, f"pg_last_wal_replay_lsn() >= '{written}'"), "the replay")
    replayed = asked(standby, "clock_timestamp()")
    answer = f"SELECT FROM pg_stat_replication WHERE reply_time > '{replayed}'::timestamptz + '2s'"
    until(lambda: asked(primary, f"EXISTS ({answer})"), "the answer")


def test_a_reader_on_a_standby_keeps_rows_of_every_database_of_the_primary(
    pair: tuple[Cluster, ...], request: pytest.FixtureRequest
) -> None:
    """Even a reader of another database: the standby reports one horizon for all."""
    primary, standby = pair
    until(lambda: asked(primary, f"EXISTS ({HEARD})"), "a first horizon")
    with reading(standby, "elsewhere"):
        die(primary)
        await_horizon(primary, standby)
        assert kept(primary) == DEAD
        (one,) = vacuum(primary.dsn(), thresholds=Thresholds(far=1)).picture.blockers
        slot = "with one" in request.node.name
        what = "physical replication slot" if slot else "standby feedback"
        assert (one.what, one.serious, one.sql) == (what, True, None)
        assert "Find the long query on the standby" in one.remedy
        assert "consumer" not in one.remedy
    until(lambda: kept(primary) == 0, "the standby's next horizon")
