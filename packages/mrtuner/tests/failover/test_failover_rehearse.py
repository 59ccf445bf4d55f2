"""Failovers rehearsed between a real primary and its standby, by the command itself."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result
from conftest import PASSWORD, NewCluster
from failover_pair import Pair, PgBouncer, streaming_pair

from machine import needs
from mrtuner import answers
from mrtuner.cli import main
from mrtuner.failover.rehearse.paths import look
from mrtuner.postgres.cluster import Cluster
from mrtuner.rehearsal.ledger import SCHEMA_PREFIX
from servers import sql
from waiting import until

pytestmark = pytest.mark.timed

QUICKLY = ("--every", "0.2s", "--steady", "1s", "--connections", "5", "--yes")


@pytest.fixture
def pair(new_cluster: NewCluster) -> Iterator[Pair]:
    with streaming_pair(new_cluster) as made:
        yield made


def rehearse(dsn: str, *more: str) -> Result:
    return CliRunner().invoke(main, ["failover", "rehearse", dsn, *more], prog_name="mrtuner")


def told(dsn: str, *more: str, code: int) -> dict[str, Any]:
    done = rehearse(dsn, *QUICKLY, "--json", *more)
    assert done.exit_code == code, done.output
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def meanwhile(work: Callable[[], None]) -> None:
    threading.Thread(target=work, daemon=True).start()


def schemas(dsn: str) -> list[str]:
    query = f"SELECT nspname::text FROM pg_namespace WHERE nspname LIKE '{SCHEMA_PREFIX}%'"
    return [row[0] for row in sql(dsn, query)]


def written(dsn: str) -> int:
    """The rows that rehearsals have written so far."""
    counts = [f"SELECT count(*) FROM {schema}.ledger" for schema in schemas(dsn)]
    return sum(sql(dsn, count)[0][0] for count in counts)


def test_a_clean_failover_loses_nothing_and_says_who_took_over(pair: Pair, tmp_path: Path) -> None:
    """The primary stops in order, the standby is promoted, then the address moves."""
    meanwhile(pair.move_when_promoted)
    page = tmp_path / "rehearsal.html"
    trigger = f'sh -c "kill -INT {pair.primary.pid}; sleep 0.5; {pair.promote()}"'
    dsn = pair.address.dsn("connect_timeout=3")
    found = told(dsn, "--trigger", trigger, "--within", "10s", "--html", str(page), code=0)
    (way,) = found["ways"]
    assert (way["way"], way["outcome"], way["between"]) == ("direct", "moved", None)
    assert found["failed_over"]
    assert found["kept"]
    ledger = way["observation"]["ledger"]
    assert ledger["acknowledged"] > 10
    assert ledger["lost"] == ledger["duplicated"] == []
    assert way["stale"] == {"reads": 0, "writes": 0, "refused": way["stale"]["refused"],
                            "until": way["stale"]["until"]}  # fmt: skip
    timelines = [one["timeline"] for one in way["observation"]["servers"]]
    assert (timelines[0], timelines[-1]) == (1, 2)
    assert len({one["system"] for one in way["observation"]["servers"]}) == 1
    moments = way["moments"]
    assert 0 < moments["first_failure"] < moments["first_write"]
    assert moments["reconnect"] > 0
    hangs = {one["case"]: one for one in way["hangs"]}
    assert set(hangs) == {"connect", "idle", "flight"}
    assert hangs["connect"]["predicted"]["span"] == {"low": 3.0, "mid": 3.0, "high": 3.0}
    assert hangs["flight"]["longest"] < 5
    assert schemas(pair.standby.dsn()) == []
    html = page.read_text(encoding="utf-8")
    assert "Another server took over." in html
    assert "<svg" in html
    assert "The longest wait of a client" in html


def test_two_primaries_at_once_are_seen_and_lost_writes_are_counted(pair: Pair) -> None:
    """The address moves while the old primary keeps serving the clients connected to it."""

    def split() -> None:
        pair.move_when_promoted()
        before = written(pair.primary.dsn())
        until(lambda: written(pair.primary.dsn()) > before + 10)
        pair.primary.stop("immediate")

    meanwhile(split)
    found = told(pair.address.dsn(), "--trigger", pair.promote(), "--check", code=3)
    (way,) = found["ways"]
    assert way["outcome"] == "moved"
    assert not found["kept"]
    assert way["stale"]["writes"] > 0
    assert way["stale"]["reads"] > 0
    assert len(way["observation"]["ledger"]["lost"]) >= way["stale"]["writes"]
    assert "LOST" in way["verdict"]
    assert any("OLD primary" in line for line in way["findings"])


def test_two_primaries_that_stay_are_no_end_and_it_stops_by_itself(pair: Pair) -> None:
    meanwhile(pair.move_when_promoted)
    found = told(pair.address.dsn(), "--trigger", pair.promote(), "--timeout", "4s", code=1)
    assert not found["ways"][0]["settled"]
    assert "had not recovered" in found["ways"][0]["verdict"]


def test_a_string_of_two_hosts_finds_the_new_primary(pair: Pair) -> None:
    """Both are given by their Unix sockets, for which there is no prediction."""
    dsn = (
        f"host={pair.primary.directory},{pair.standby.directory} port={pair.primary.port} "
        "user=postgres dbname=postgres target_session_attrs=read-write"
    )
    trigger = f'sh -c "kill -INT {pair.primary.pid}; sleep 0.5; {pair.promote()}"'
    found = told(dsn, "--trigger", trigger, code=0)
    (way,) = found["ways"]
    assert way["outcome"] == "moved"
    assert way["observation"]["ledger"]["lost"] == []
    assert "Unix socket" in way["unpredicted"]
    assert [one["predicted"] for one in way["hangs"]] == [None] * 3


def test_a_rehearsal_in_which_nothing_happens_says_so_and_gives_no_seconds(
    embedded: Cluster,
) -> None:
    done = rehearse(embedded.dsn(), *QUICKLY, "--trigger", "true", "--start-timeout", "1s")
    assert done.exit_code == 1
    assert "Nothing failed over" in done.stdout
    assert "by the same server as before" in " ".join(done.stdout.split())
    assert "0.0 s" not in done.stdout.replace("+0.0 s", "")
    assert schemas(embedded.dsn()) == []


def test_an_interruption_during_the_outage_tells_which_schema_stays(
    new_cluster: NewCluster,
) -> None:
    cluster, told = new_cluster(), list[str]()

    def tell(text: str) -> None:
        told.append(text)
        if text.startswith("triggered"):
            cluster.stop("immediate")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        answers.rehearse(cluster.dsn(), "true", steady=1.0, connections=3, tell=tell)
    cluster.start()
    (left,) = schemas(cluster.dsn())
    assert told[-1] == f"schema {left} could not be dropped; drop it yourself"


def test_one_primary_by_two_addresses_does_not_keep_a_rehearsal_from_ending(
    new_cluster: NewCluster,
) -> None:
    """Its clients find it by its Unix socket and over TCP, at random."""
    cluster = new_cluster(listen=True)
    dsn = (
        f"host={cluster.directory},127.0.0.1 port={cluster.port} user=postgres dbname=postgres "
        f"password='{PASSWORD}' load_balance_hosts=random"
    )
    done = rehearse(dsn, *QUICKLY, "--trigger", "true", "--start-timeout", "2s",
                    "--timeout", "30s", "--json")  # fmt: skip
    assert done.exit_code == 1, done.output
    (way,) = json.loads(done.stdout)["ways"]
    assert len(way["observation"]["servers"]) == 2
    assert (way["settled"], way["outcome"]) == (True, "nothing")


def test_a_plain_role_counts_the_sessions_of_others(new_cluster: NewCluster) -> None:
    """By hand: 20 less 3 and, since 16, 2 that are reserved, 4 of others and our own."""
    for major, free in ((13, 20 - 3 - 4 - 1), (18, 20 - 3 - 2 - 4 - 1)):
        settings = {"max_connections": 20, **({"reserved_connections": 2} if major > 15 else {})}
        cluster = new_cluster(major, settings)
        sql(cluster.dsn(), "CREATE ROLE plain LOGIN")
        with ExitStack() as stack:
            for _ in range(4):
                stack.enter_context(psycopg.connect(cluster.dsn()))
            assert look(cluster.dsn(user="plain")).free == free


@needs("pgbouncer")
def test_by_hand_and_through_a_pooler_that_is_recognised(new_cluster: NewCluster) -> None:
    cluster = new_cluster()

    def restart() -> None:
        until(lambda: written(cluster.dsn()) > 2 * 12)  # both ways have been steady for a second
        cluster.restart()

    with PgBouncer(cluster) as pooler:
        meanwhile(restart)
        found = told(cluster.dsn(), "--trigger", "manual", "--through", pooler.dsn(), code=0)
    direct, pool = found["ways"]
    assert (direct["way"], direct["between"]) == ("direct", None)
    assert (pool["way"], pool["between"]) == ("pool", "a pooler")
    assert direct["outcome"] == pool["outcome"] == "restarted"
    assert any("Pool: a pooler stands in between" in line for line in found["limits"])
    assert pool["observation"]["ledger"]["lost"] == []
    assert schemas(cluster.dsn()) == []


@needs("ps")
def test_clients_of_a_frozen_primary_wait_until_we_give_up_on_them(pair: Pair) -> None:
    """New clients find the new primary; connected clients get no more answers."""
    meanwhile(pair.move_when_promoted)
    freeze = f"kill -STOP $(ps -o pid= --ppid {pair.primary.pid}) {pair.primary.pid}"
    trigger = f'sh -c "{freeze}; sleep 0.5; {pair.promote()}"'
    try:
        given = ("--within", "2s", "--give-up", "3s", "--trigger", trigger)
        found = told(pair.address.dsn(), *given, "--check", code=3)
    finally:
        pair.thaw()
    (way,) = found["ways"]
    assert way["outcome"] == "moved"
    idle = next(one for one in way["hangs"] if one["case"] == "idle")
    assert idle["at_least"]
    assert idle["longest"] >= 2.9
    assert any("NOT within 2 s: a client waited more than" in line for line in way["findings"])
