"""A search under the statements of a database, on a copy of it."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner
from conftest import NewCluster

from mrtuner.answers.settings_search.own_server import SearchWish
from mrtuner.answers.settings_search.statements import read_statements
from mrtuner.bench.server.copying import copy_database
from mrtuner.cli import main
from mrtuner.errors import MrTunerError
from mrtuner.postgres.cluster import Cluster
from mrtuner.search.record import FILE, load
from servers import sql

pytestmark = pytest.mark.timed
TABLES = """
CREATE EXTENSION pg_stat_statements;
CREATE EXTENSION dblink;
CREATE EXTENSION postgres_fdw;
CREATE TABLE shop (id int PRIMARY KEY, owner text, price int NOT NULL);
INSERT INTO shop SELECT n, 'hunter' || n, n % 100 FROM generate_series(1, 20000) n;
CREATE TABLE sold (shop int REFERENCES shop, at timestamptz DEFAULT now());
INSERT INTO sold SELECT n FROM generate_series(1, 500) n;
CREATE SERVER elsewhere FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host 'production');
CREATE USER MAPPING FOR CURRENT_USER SERVER elsewhere OPTIONS (password 'hunter2');
CREATE FOREIGN TABLE remote (id int) SERVER elsewhere;
"""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What earlier searches found must not reach a test."""
    monkeypatch.setenv("MRTUNER_STATE_DIR", str(tmp_path / "state"))


@pytest.fixture
def shop(new_cluster: NewCluster) -> Cluster:
    """A server whose statements took their time."""
    cluster = new_cluster(settings={"shared_preload_libraries": "pg_stat_statements"})
    with psycopg.connect(cluster.dsn(), autocommit=True) as session:
        session.execute(TABLES)
        session.execute("SELECT pg_stat_statements_reset()")
        for key in range(30):
            session.execute(f"SELECT owner FROM shop WHERE id = {key}")
            session.execute(f"UPDATE shop SET price = price + {key} WHERE owner = 'hunter{key}'")
        session.execute("INSERT INTO sold (shop) VALUES (7)")
        session.execute("SELECT count(*) FROM shop WHERE price BETWEEN 3 AND 7")
    return cluster


def test_a_copy_has_the_data_and_reaches_no_other_server(
    shop: Cluster, new_cluster: NewCluster
) -> None:
    copy = new_cluster()
    copy_database(shop.dsn(), copy.dsn(), copy.binaries)
    assert sql(copy.dsn(), "SELECT count(*), min(owner) FROM shop") == [(20000, "hunter1")]
    assert sql(copy.dsn(), "SELECT count(*) FROM pg_foreign_server") == [(0,)]
    assert sql(copy.dsn(), "SELECT to_regclass('remote'), to_regproc('dblink_connect')") == [
        (None, None)
    ]
    with pytest.raises(MrTunerError, match=r"cannot be copied: pg_restore: error: .*shop"):
        copy_database(shop.dsn(), copy.dsn(), copy.binaries)


def test_a_copy_comes_from_every_server_that_is_no_newer(
    each_major: int, new_cluster: NewCluster
) -> None:
    source, copy = new_cluster(each_major), new_cluster(18)
    sql(source.dsn(), "CREATE TABLE kept AS SELECT n AS id FROM generate_series(1, 7) n")
    if each_major > 18:
        with pytest.raises(MrTunerError, match="server version mismatch") as failed:
            copy_database(source.dsn(), copy.dsn(), copy.binaries)
        assert "--server-bin" in (failed.value.hint or "")
        return
    copy_database(source.dsn(), copy.dsn(), copy.binaries)
    assert sql(copy.dsn(), "SELECT sum(id) FROM kept") == [(28,)]


def test_statements_are_read_without_comments_and_literals(shop: Cluster) -> None:
    with psycopg.connect(shop.dsn(), autocommit=True) as session:
        session.execute("SELECT pg_stat_statements_reset()")
        session.execute("SELECT /* user=hunter2 */ owner FROM shop ORDER BY 1 LIMIT 2")
        session.execute("SELECT count(*) FROM shop WHERE id IN (1, 2, 3)")
    known = read_statements(SearchWish(copied=shop.dsn(), statements=True))
    assert "SELECT count(*) FROM shop WHERE id IN ($1 /*, ... */)" in [one.text for one in known]
    [found] = [one for one in known if "owner" in one.text]
    assert found.text == "SELECT owner FROM shop ORDER BY 1 LIMIT $1"
    assert (found.calls, found.rows) == (1, 2)


def test_statements_of_a_history_are_those_of_the_database(
    example: Path, new_cluster: NewCluster
) -> None:
    """The example's shop returns 20 rows for each list of a customer's orders."""
    cluster = new_cluster()
    sql(cluster.dsn(), "CREATE DATABASE shop")
    found = read_statements(
        SearchWish(copied=cluster.dsn("shop"), statements=True, history=example)
    )
    [orders] = [one for one in found if one.text.startswith("SELECT * FROM orders WHERE cust")]
    assert orders.text.endswith("= $1 ORDER BY created DESC LIMIT $2")
    assert (orders.rows or 0) / orders.calls == pytest.approx(20, abs=0.1)
    assert [one.seconds for one in found] == sorted((one.seconds for one in found), reverse=True)
    with pytest.raises(MrTunerError, match="no statements of that database are known"):
        read_statements(SearchWish(copied=cluster.dsn(), statements=True, history=example))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--embedded", "--load", "statements"], "needs the database whose statements they are"),
        (["DSN", "--embedded"], "--load tpcb runs on pgbench's tables"),
        (["DSN", "--embedded", "--load", "statements", "--scale", "3"], "a copy has no --scale"),
        (["--embedded", "--history", "."], "--history is for --load statements"),
        (["DSN", "--load", "statements"], "tries only what a reload changes"),
        (["DSN", "--reload-only", "--load", "statements"], "the load of a live server is its own"),
    ],
)
def test_loads_that_cannot_run_there_are_refused(arguments: list[str], said: str) -> None:
    words = ["postgresql://nowhere" if one == "DSN" else one for one in arguments]
    done = CliRunner().invoke(main, ["search", *words])
    assert done.exit_code == 2
    assert said in done.stderr


@pytest.mark.slow  # two minutes
def test_a_search_under_the_statements_of_a_database(shop: Cluster, tmp_path: Path) -> None:
    place = tmp_path / "search"
    arguments = [
        "search", shop.dsn(), "--embedded", "--load", "statements", "--clients", "2",
        "--budget", "20s", "--dir", str(place), "--server-bin", str(shop.binaries.directory),
    ]  # fmt: skip
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.stderr
    told = [line for line in done.stderr.splitlines() if "of the time" in line]
    assert re.search(r"statements for \d+% of the time are replayed", told[0])
    shown = " ".join(done.stdout.split())
    assert "how wide its ranges of shop.price are is not known" in shown
    found = load(place)
    assert found.result is not None
    assert (found.load.database, found.load.scale) == ("postgres", None)
    why = {one.text: one.left_out for one in found.load.statements}
    assert why["SELECT owner FROM shop WHERE id = $1"] is None
    assert why["UPDATE shop SET price = price + $1 WHERE owner = $2"] is None
    assert why["INSERT INTO sold (shop) VALUES ($1)"] is None
    assert why["SELECT count(*) FROM shop WHERE price BETWEEN $1 AND $2"] is not None
    kept = "".join(file.read_text() for file in place.rglob("*") if file.is_file())
    assert "hunter" not in kept
    assert sql(shop.dsn(), "SELECT count(*), sum(price) FROM sold, shop WHERE id = shop") == [
        (501, 24750 + 435 + 14)  # 500 prices, what was added to 29 of them, and the seventh again
    ], "the database itself is as it was"

    unfinished = place / FILE
    text = unfinished.read_text()
    unfinished.write_text(re.sub(r',\s*"result": \{.*', "\n}\n", text, flags=re.DOTALL))
    again = CliRunner().invoke(main, ["search", "--resume", str(place)])
    assert "the search ran on a copy of postgres" in again.stderr
    again = CliRunner().invoke(
        main,
        ["search", shop.dsn(), "--embedded", "--resume", str(place),
         "--server-bin", str(shop.binaries.directory)],
    )  # fmt: skip
    assert again.exit_code == 0, again.stderr
    assert load(place).load == found.load
