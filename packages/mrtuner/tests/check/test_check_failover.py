"""What a server tells of the hour when it, its standby or a client goes away."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import psycopg
import pytest
from conftest import NewCluster
from standby_pair import standby_of

from mrtuner.answers import check
from mrtuner.check.read import read
from mrtuner.check.report import CheckReport, judged
from mrtuner.check.state import Session
from mrtuner.findings import Finding
from mrtuner.postgres.cluster import Cluster
from mrtuner.tuning import gather
from mrtuner.units import Bytes
from servers import sql
from waiting import until

pytestmark = pytest.mark.timed


def checked(cluster: Cluster) -> CheckReport:
    return check(cluster.dsn(), skip=["free-space"], memory="8GB", cpus=4, storage="ssd")


def found(cluster: Cluster, name: str) -> list[Finding]:
    return [one for one in checked(cluster).findings if one.id == name]


def configured(cluster: Cluster, name: str, value: str) -> None:
    sql(cluster.dsn(), "SET synchronous_commit = local", f"ALTER SYSTEM SET {name} = '{value}'",
        "SELECT pg_reload_conf()")  # fmt: skip
    until(lambda: sql(cluster.dsn(), f"SHOW {name}") == [(value,)])


def test_commits_that_wait_for_more_standbys_than_there_are(new_cluster: NewCluster) -> None:
    """One standby, `a`: it is enough for one, not for two, and nobody waits without a list."""
    with standby_of(new_cluster(), "a") as (primary, _):
        configured(primary, "synchronous_standby_names", "FIRST 1 (a, b)")
        until(lambda: sql(primary.dsn(), "SELECT sync_state FROM pg_stat_replication")
              == [("sync",)])  # fmt: skip
        (single,) = found(primary, "synchronous-standby-single")
        assert single.severity == "to know"
        assert single.text == "each commit waits for 1 standby, and no more are attached: a"
        assert found(primary, "synchronous-standby-missing") == []
        for names in ("FIRST 2 (a, b)", "2 (a, b)", "ANY 2 (a, b)"):
            configured(primary, "synchronous_standby_names", names)
            (missing,) = found(primary, "synchronous-standby-missing")
            assert missing.severity == "danger"
            assert missing.text == (
                "only 1 of 2 synchronous standbys is attached, but synchronous_standby_names is "
                f"{names!r}"
            )
            assert found(primary, "synchronous-standby-single") == []
        configured(primary, "synchronous_standby_names", "b, a")
        assert [one.id for one in checked(primary).findings] == ["synchronous-standby-single"]


def test_a_logical_slot_that_no_standby_keeps_is_lost_in_a_failover(
    new_cluster: NewCluster,
) -> None:
    with standby_of(new_cluster(settings={"wal_level": "logical"})) as (primary, standby):
        slot = "SELECT pg_create_logical_replication_slot('{}', 'pgoutput', false, false, {})"
        sql(primary.dsn(), slot.format("news", "false"), slot.format("kept", "true"))
        (lost,) = found(primary, "slot-not-synchronized")
        assert lost.severity == "to do"
        assert lost.text == "1 logical slot would be lost in a failover: news"
        assert "SET (failover = true)" in lost.remedy[1]
        assert found(standby, "slot-not-synchronized") == []
        sql(primary.dsn(), "SELECT pg_drop_replication_slot('news')")
        assert found(primary, "slot-not-synchronized") == []


def test_before_17_and_without_a_standby_a_logical_slot_is_nothing_to_do(
    new_cluster: NewCluster,
) -> None:
    for major in (16, 18):
        cluster = new_cluster(major, {"wal_level": "logical"})
        sql(cluster.dsn(), "SELECT pg_create_logical_replication_slot('news', 'pgoutput')")
        assert "slot-not-synchronized" in checked(cluster).passed


def test_replication_that_waits_for_ever_is_told_on_the_side_that_waits(
    new_cluster: NewCluster,
) -> None:
    with standby_of(new_cluster(), wal_receiver_timeout="0") as (primary, standby):
        assert found(primary, "replication-timeout-off") == []
        (told,) = found(standby, "replication-timeout-off")
        assert told.text == "wal_receiver_timeout is 0, so the primary that vanishes is not noticed"
        configured(primary, "wal_sender_timeout", "0")
        (told,) = found(primary, "replication-timeout-off")
        assert told.text == "wal_sender_timeout is 0, so a standby that vanishes is not noticed"
        command = told.remedy[0].partition("  --")[0]
        for each in filter(None, map(str.strip, command.split(";"))):
            with psycopg.connect(primary.dsn(), autocommit=True) as conn:
                conn.execute(each.encode())
        until(lambda: found(primary, "replication-timeout-off") == [])


def test_a_primary_whose_standby_is_away_has_nothing_to_fail_over_to(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster()
    sql(cluster.dsn(), "SELECT pg_create_physical_replication_slot('never_used')")
    assert "standby-gone" in checked(cluster).passed  # nobody has ever followed
    sql(cluster.dsn(), "SELECT pg_create_physical_replication_slot('berlin', true)")
    (gone,) = found(cluster, "standby-gone")
    assert gone.severity == "to do"
    assert gone.text == "no standby is attached, although there is a slot for one: berlin"
    sql(cluster.dsn(), gone.remedy[1].rstrip(";"))
    assert found(cluster, "standby-gone") == []


@pytest.mark.parametrize("major", [16, 18])
def test_a_slot_whose_consumer_is_gone_is_told_with_the_time_where_it_is_known(
    major: int, new_cluster: NewCluster
) -> None:
    cluster = new_cluster(major, {"wal_level": "logical"})
    sql(cluster.dsn(), "SELECT pg_create_logical_replication_slot('news', 'pgoutput')")
    state = read(cluster.dsn(), gather.flags(memory="8GB"))
    (slot,) = state.server.slots

    def told(**given: Any) -> list[tuple[str, str]]:
        server = replace(state.server, slots=(replace(slot, **given),))
        report = judged("here", replace(state, server=server))
        return [(one.severity, one.text) for one in report.findings if one.id == "consumer-gone"]

    if major == 16:
        assert told() == [("to know", "logical slot news has no consumer")]
        return
    assert told() == []
    assert told(idle=299.0) == []
    assert told(idle=300.0) == [("to do", "logical slot news has no consumer for 5 min")]
    assert told(idle=300.0, active=True) == []


def test_a_slot_is_told_once(new_cluster: NewCluster) -> None:
    cluster = new_cluster(18, {"wal_level": "logical"})
    sql(
        cluster.dsn(),
        "SELECT pg_create_physical_replication_slot('berlin', true)",
        "SELECT pg_create_logical_replication_slot('news', 'pgoutput')",
    )
    state = read(cluster.dsn(), gather.flags(memory="8GB"))
    slots = tuple(replace(one, retained=Bytes(64 << 30), idle=300.0) for one in state.server.slots)
    server = replace(state.server, slots=slots)
    found = judged("here", replace(state, server=server)).findings
    about = {one.text: (one.id, one.consequence) for one in found if "slot" in one.text}
    grows = "it grows until the disk is full"
    assert about == {
        "replication slot berlin is not in use and keeps 64 GB of WAL": (
            "slot-keeps-wal", f"{grows}; if this server goes away, nothing can take over",
        ),
        "replication slot news is not in use and keeps 64 GB of WAL": ("slot-keeps-wal", grows),
    }  # fmt: skip


def test_a_client_that_may_be_gone_is_told_with_the_time_until_the_server_notices(
    embedded: Cluster,
) -> None:
    """Linux asks after 7,200 s, nine times, every 75 s: 7,875 s. Ours: 60 + 6 * 10 = 120 s."""
    state = read(embedded.dsn(), gather.flags(memory="8GB"))
    away = Session(
        pid=77, role="app", database="shop", application="web", client="10.0.0.1",
        state="idle in transaction", backend_type="client backend", waits_for=None, blocked_by=(),
        state_seconds=300, statement="SELECT ?",
    )  # fmt: skip

    def told(*sessions: Session, **keepalive: str) -> list[str]:
        settings = {
            **state.server.settings,
            **{
                f"tcp_keepalives_{part}": replace(
                    state.server.settings[f"tcp_keepalives_{part}"], reset_val=value
                )
                for part, value in keepalive.items()
            },
        }
        server = replace(state.server, settings=MappingProxyType(settings))
        report = judged("here", replace(state, server=server, sessions=sessions))
        return [one.text for one in report.findings if one.id == "dead-clients-stay"]

    assert told(away) == [
        "if web (process 77) from 10.0.0.1 is gone, the server notices only after 2.19 h"
    ]
    assert told(away, idle="60", interval="10", count="6") == []
    assert told(away, idle="60") == [
        "if web (process 77) from 10.0.0.1 is gone, the server notices only after 12.2 min"
    ]  # 60 + 9 * 75 = 735 s
    assert told(replace(away, client=None)) == []
    assert told(replace(away, client="127.0.0.1")) == []
    assert told(replace(away, state_seconds=299)) == []
