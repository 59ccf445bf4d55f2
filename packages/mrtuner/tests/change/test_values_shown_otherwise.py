"""Values that a server shows otherwise than they are written: they are in force all the same."""

from __future__ import annotations

import pytest
from conftest import NewCluster

from mrtuner.change.journal import Journal
from mrtuner.change.settings.apply import Wanted, apply, plan, undo
from mrtuner.postgres.connect import connect
from mrtuner.postgres.read_server import read
from servers import sql

pytestmark = pytest.mark.timed

#: What is written, and what SHOW prints; from the servers themselves.
WRITTEN = {
    "TimeZone": "utc", "log_timezone": "utc", "DateStyle": "iso, dmy", "wal_compression": "on",
}  # fmt: skip
SINCE_19 = {
    "timing_clock_source": "auto", "log_min_messages": "walwriter:debug1,warning,autovacuum:debug1",
}  # fmt: skip
SHOWN = {
    "TimeZone": "UTC", "log_timezone": "UTC", "DateStyle": "ISO, DMY",
    "timing_clock_source": "auto (",
    "log_min_messages": "warning, autovacuum:debug1, walwriter:debug1",
}  # fmt: skip


def test_a_value_that_the_server_shows_otherwise_is_in_force_and_undone(
    each_major: int, new_cluster: NewCluster, journal: Journal
) -> None:
    cluster = new_cluster(
        each_major,
        {"TimeZone": "Europe/Berlin", "log_timezone": "Europe/Berlin", "wal_compression": "off"},
    )
    wanted = WRITTEN | (SINCE_19 if each_major >= 19 else {})
    if each_major >= 19:
        sql(cluster.dsn(), "ALTER SYSTEM SET timing_clock_source = 'system'")
        sql(cluster.dsn(), "SELECT pg_reload_conf()", "SELECT pg_sleep(0.2)")
    with connect(cluster.dsn()) as conn:
        server = read(conn)
    made = plan(server, [Wanted(name=name, value=value) for name, value in wanted.items()])
    assert apply(cluster.dsn(), made, journal).result == "applied"
    for name, shown in SHOWN.items():
        if name in wanted:
            assert sql(cluster.dsn(), f"SHOW {name}")[0][0].startswith(shown)
    assert undo(cluster.dsn(), journal).result == "undone"
    assert sql(cluster.dsn(), "SHOW TimeZone") == [("Europe/Berlin",)]
