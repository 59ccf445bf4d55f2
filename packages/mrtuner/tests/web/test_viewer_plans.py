"""The plan of a recorded statement, by a real server, for somebody who asks."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from conftest import NewCluster
from history_story import CHEAP, DEAR, INSTANCE, story
from served import DESK, HOUR, PATIENCE, in_a_browser, opened, serving_here

from mrtuner.postgres.cluster import Cluster
from servers import sql

pytestmark = pytest.mark.timed

ASKED = f"api/plan?instance={INSTANCE}&{HOUR}&statement="
TWO = int(datetime(2026, 11, 23, 2, tzinfo=UTC).timestamp())
HERE = {"Sec-Fetch-Site": "same-origin"}


def with_tables(cluster: Cluster) -> Cluster:
    """The tables of the story's statements; the one of DEAR has a name that looks like HTML."""
    sql(cluster.dsn(), "CREATE DATABASE app")
    sql(
        cluster.dsn("app"),
        "CREATE TABLE account (id int PRIMARY KEY, who text)",
        "CREATE TABLE parts (a int)",
        'CREATE INDEX "<img src=x onerror=alert(1)>" ON parts (a)',
        "CREATE VIEW orders AS SELECT a FROM parts WHERE a = 1",
        "SET enable_seqscan = off",
        "ALTER DATABASE app SET enable_seqscan = off",
        "CREATE ROLE watcher LOGIN IN ROLE pg_monitor",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO watcher",
    )
    return cluster


@pytest.mark.parametrize("major", [13, 16, 18])
def test_the_server_plans_a_recorded_statement_in_its_database(
    major: int, new_cluster: NewCluster, tmp_path: Path
) -> None:
    story(tmp_path)
    cluster = with_tables(new_cluster(major))
    with serving_here(tmp_path, servers={INSTANCE: cluster.dsn(user="watcher")}) as viewer:
        status, _, body = viewer.get(f"{ASKED}{CHEAP}", **HERE)
        told = json.loads(body)
        assert status == 200, told
        assert told["database"] == "app"
        assert told["lines"][0].startswith("Index Scan using account_pkey on account")
        assert told["lines"][1].strip() == "Index Cond: (id = $1)"
        (member,) = json.loads(viewer.get("api/fleet")[2])["instances"]
        assert member["plans"] is True
        calls = sql(cluster.dsn("app"), "SELECT count(*) FROM account")
        assert calls == [(0,)]
    with serving_here(tmp_path, servers={INSTANCE: cluster.dsn()}) as viewer:
        _, message, hint = viewer.refused(f"{ASKED}{CHEAP}")
        assert message.startswith("the role postgres could run programs on the server's host")
        assert "GRANT pg_monitor" in (hint or "")


def test_what_cannot_be_planned_is_refused_with_the_reason(
    embedded: Cluster, tmp_path: Path
) -> None:
    story(tmp_path)
    with serving_here(tmp_path, servers={INSTANCE: embedded.dsn()}) as viewer:
        assert viewer.refused(f"{ASKED}77")[1] == (
            "the text of statement 77 was not recorded in this period"
        )
        status, message, hint = viewer.refused(f"{ASKED}{CHEAP}")
        assert (status, hint is not None) == (400, True)  # there is no database app
        other = viewer.get(f"{ASKED}{CHEAP}", **{"Sec-Fetch-Site": "cross-site"})
        assert other[0] == 403
    with serving_here(tmp_path) as viewer:
        status, message, hint = viewer.refused(f"{ASKED}{CHEAP}")
        assert (status, message) == (404, f"no connection string of {INSTANCE} is known")
        assert "--config" in (hint or "")
        (member,) = json.loads(viewer.get("api/fleet")[2])["instances"]
        assert member["plans"] is False


def test_a_server_that_does_not_answer_keeps_no_screen_waiting(tmp_path: Path) -> None:
    """Two plans are waited for: as many as there are requests that read the store at a time."""
    story(tmp_path)
    with (
        ThreadPoolExecutor(2) as threads,
        socket.create_server(("127.0.0.1", 0)) as silent,
        ExitStack() as connected,
    ):
        silent.settimeout(PATIENCE / 1000)
        dsn = f"host=127.0.0.1 port={silent.getsockname()[1]} sslmode=disable"
        with serving_here(tmp_path, servers={INSTANCE: dsn}) as viewer:
            plans = [threads.submit(viewer.get, f"{ASKED}{CHEAP}", **HERE) for _ in range(2)]
            for _ in plans:
                connected.enter_context(silent.accept()[0])
            assert viewer.screen("wal")["charts"]
            assert not any(one.done() for one in plans)
            connected.close()
            silent.close()
            assert [one.result()[0] for one in plans] == [400, 400]


@in_a_browser
def test_the_page_asks_only_when_told_to_and_shows_names_as_text(
    browser: Any, new_cluster: NewCluster, tmp_path: Path
) -> None:
    story(tmp_path)
    cluster = with_tables(new_cluster(18))
    where = f"screen=statements&instance={INSTANCE}&from={TWO}&to={TWO + 3600}&statement={DEAR}"
    with (
        serving_here(tmp_path, servers={INSTANCE: cluster.dsn(user="watcher")}) as viewer,
        opened(browser, viewer.address, DESK) as tab,
    ):
        page = tab.open(where)
        assert not any("api/plan" in one for one in tab.requests)
        page.get_by_role("button", name="Explain it now").click()
        text = page.locator("section.plan pre").inner_text()
        assert "<img src=x onerror=alert(1)>" in text
        assert page.locator("img[src=x]").count() == 0
        assert len([one for one in tab.requests if "api/plan" in one]) == 1
