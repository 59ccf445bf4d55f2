"""A role that may not read everything: what is missing is named, and the rest is recorded."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from conftest import NewCluster
from history_recorder import PROGRAM, WAIT, recorder, rows, samples

from servers import sql
from waiting import until


def missing(place: Path) -> dict[str, tuple[str, str | None]]:
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM, "history", "status", "--json", "--dir", place],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return {
        one["source"]: (one["why"], one["hint"])
        for one in json.loads(told.stdout)["sources"] if one["why"]
    }  # fmt: skip


def test_what_a_role_may_not_read_is_named_with_the_grant(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    cluster = new_cluster(18, {"shared_preload_libraries": "pg_stat_statements"})
    sql(cluster.dsn(), "CREATE ROLE plain LOGIN", "CREATE ROLE monitor LOGIN IN ROLE pg_monitor",
        "CREATE EXTENSION pg_stat_statements",
        "REVOKE ALL ON FUNCTION pg_stat_statements(bool) FROM PUBLIC",
        "GRANT EXECUTE ON FUNCTION pg_stat_statements(bool) TO pg_read_all_stats")  # fmt: skip

    with recorder(tmp_path, cluster.dsn(user="plain")) as process:
        until(lambda: samples(tmp_path, "settings") and samples(tmp_path, "connections"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT) == 0
    lacks = missing(tmp_path)
    assert set(lacks) == {"sessions", "sessions_by_role", "statements", "wal_directory"}
    for name in ("sessions", "sessions_by_role", "statements"):
        assert "hides what other roles do" in lacks[name][0]
        assert lacks[name][1] == "GRANT pg_read_all_stats TO the role."
    assert lacks["wal_directory"][1] == "GRANT pg_monitor TO the role."
    recorded = {row[0] for row in rows(tmp_path, "SELECT DISTINCT source FROM samples")}
    assert recorded >= {"connections", "wal", "checkpoints", "databases", "tables", "settings"}
    # How many there are is seen, what they do is not: that is missing, not none.
    seen = rows(tmp_path, "SELECT clients, active, idle, oldest_transaction FROM connections")
    assert {row[1:] for row in seen} == {(None, None, None)}
    assert all(row[0] is not None for row in seen)
    with recorder(tmp_path, cluster.dsn(user="monitor")) as process:
        until(lambda: samples(tmp_path, "statements") and samples(tmp_path, "wal_directory"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT) == 0
    assert missing(tmp_path) == {}


def test_an_extension_that_is_not_loaded_and_a_short_timeout_cost_their_sources_alone(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    """A restored dump has the extension; the role's own timeouts would end the session."""
    cluster = new_cluster(18)
    sql(cluster.dsn(), "CREATE EXTENSION pg_stat_statements",
        "CREATE ROLE brief SUPERUSER LOGIN", "ALTER ROLE brief SET idle_session_timeout = '200ms'",
        "ALTER ROLE brief SET transaction_timeout = '500ms'")  # fmt: skip
    with recorder(tmp_path, cluster.dsn(user="brief")) as process:
        until(lambda: samples(tmp_path, "settings") and samples(tmp_path, "sessions") > 3)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT) == 0
    assert rows(tmp_path, "SELECT kind FROM events WHERE kind <> 'pace'") == [("connected",)]
    assert "must be loaded via" in missing(tmp_path)["statements"][0]
