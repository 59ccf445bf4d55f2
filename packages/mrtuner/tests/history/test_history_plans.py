"""Plans of auto_explain on real servers: shapes, a plan that changes, and what is never kept."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest
from conftest import NewCluster
from history_story import BEGIN, of_source, sample
from test_history_what_went_wrong import clock, load, recorded

from mrtuner.errors import MissingPart
from mrtuner.history.analysis.period import period
from mrtuner.history.analysis.plans import logged_plans
from mrtuner.history.analysis.series import grid
from mrtuner.history.reading import open_history
from mrtuner.history.recording.log.plans import PLANS
from mrtuner.history.recording.program import Place, Rows
from mrtuner.postgres.cluster import Cluster
from mrtuner.web.screens.screen import View
from mrtuner.web.screens.statements import SCREEN
from servers import sql
from waiting import until

pytestmark = pytest.mark.timed

EXPLAINED = {
    "shared_preload_libraries": "auto_explain", "compute_query_id": "on",
    "auto_explain.log_min_duration": "0", "auto_explain.log_format": "json",
    "logging_collector": "on", "log_destination": "jsonlog", "enable_bitmapscan": "off",
    "max_parallel_workers_per_gather": "0", "autovacuum": "off",
}  # fmt: skip
INDEX, SEQ = (
    "Aggregate\n  Index Scan using by_customer on orders",
    "Aggregate\n  Seq Scan on orders",
)
QUERY = "SELECT count(secret) FROM orders WHERE customer = 4242 AND secret <> 'hunter2'"


def opened(cluster: Cluster) -> Rows | None:
    return PLANS.open(Place(postmaster=cluster.pid, data_directory=str(cluster.data)))


def with_orders(cluster: Cluster) -> None:
    sql(
        cluster.dsn(), "CREATE TABLE orders (customer int, secret text)",
        "INSERT INTO orders SELECT i, 'x' FROM generate_series(1, 20000) AS i",
        "CREATE INDEX by_customer ON orders (customer)", "ANALYZE orders",
    )  # fmt: skip


def run(cluster: Cluster, statement: str, times: int = 1) -> None:
    with psycopg.connect(cluster.dsn(), autocommit=True) as conn:
        for _ in range(times):
            conn.execute(statement.encode())


def of_orders(rows: Rows) -> dict[str, Mapping[str, Any]]:
    """The rows about the statement, by shape: others are the tests' own."""
    return {one["shape"]: one for one in rows() if "orders" in one["shape"]}


@pytest.mark.parametrize("form", ["jsonlog", "csvlog"])
def test_a_dropped_index_gives_a_statement_another_plan_and_no_literal_is_kept(
    form: str, new_cluster: NewCluster
) -> None:
    cluster = new_cluster(18, EXPLAINED | {"log_destination": form})
    with_orders(cluster)
    run(cluster, QUERY)
    until(lambda: "Index Scan" in (cluster.data / logfile(cluster, form)).read_text())
    rows = opened(cluster)
    assert rows is not None
    assert of_orders(rows) == {}  # what was written before the recorder came
    run(cluster, QUERY, 3)
    until(lambda: of_orders(rows).get(INDEX, {}).get("executions") == 3)
    run(cluster, "DROP INDEX by_customer")
    run(cluster, QUERY, 2)
    until(lambda: of_orders(rows).get(SEQ, {}).get("executions") == 2)
    found = of_orders(rows)
    assert {shape: one["executions"] for shape, one in found.items()} == {INDEX: 3, SEQ: 2}
    ((query_id, database),) = {(one["query_id"], one["database"]) for one in found.values()}
    assert query_id
    assert database == "postgres"
    assert found[INDEX]["plan"] != found[SEQ]["plan"]
    assert found[SEQ]["ms"] > 0
    kept = json.dumps(list(rows()))
    assert "hunter2" not in kept
    assert "4242" not in kept


def logfile(cluster: Cluster, form: str) -> str:
    ((name,),) = sql(cluster.dsn(), f"SELECT pg_current_logfile('{form}')")
    return str(name)


def test_the_number_of_partitions_that_are_read_is_no_other_plan(new_cluster: NewCluster) -> None:
    cluster = new_cluster(18, EXPLAINED)
    sql(
        cluster.dsn(), "CREATE TABLE orders (day int) PARTITION BY LIST (day)",
        *(f"CREATE TABLE orders_{day} PARTITION OF orders FOR VALUES IN ({day})"
          for day in range(5)),
    )  # fmt: skip
    rows = opened(cluster)
    assert rows is not None
    run(cluster, "SELECT * FROM orders WHERE day IN (1, 2)")
    run(cluster, "SELECT * FROM orders WHERE day IN (1, 2, 3)")
    until(lambda: sum(one["executions"] for one in rows() if "Append" in one["shape"]) == 2)
    assert {one["shape"] for one in rows()} == {"Append\n  Seq Scan"}
    assert len({one["plan"] for one in rows()}) == 1


def refusal(rows: Rows) -> MissingPart | None:
    try:
        list(rows())
    except MissingPart as error:
        return error
    return None


def test_plans_in_another_form_are_an_error_with_a_hint_and_a_log_without_them_is_empty(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(18, EXPLAINED | {"auto_explain.log_format": "text"})
    rows = opened(cluster)
    assert rows is not None
    run(cluster, "SELECT 1")
    error = until(lambda: refusal(rows))
    assert "plans as text" in error.message
    assert "auto_explain.log_format = 'json'" in (error.hint or "")
    as_text = new_cluster(18, EXPLAINED | {"log_destination": "stderr"})
    with pytest.raises(MissingPart, match="log of text"):
        opened(as_text)
    without = new_cluster(18)
    none_yet = opened(without)
    assert none_yet is not None
    assert list(none_yet()) == []
    sql(without.dsn(), "LOAD 'auto_explain'", "SET auto_explain.log_min_duration = 0", "SELECT 1")
    assert "log of text" in until(lambda: refusal(none_yet)).message


def plans(
    minutes: Iterable[int], plan: Mapping[str, Any], each: float = 10.0, slow: float = 45.0
) -> Iterator[tuple[int, dict[str, Any]]]:
    """A row a minute, before each of which the plan was executed 600 times: for `each` ms, and from
    the 21st to the 30th minute for `slow` ms.
    """
    ms = 0.0
    for number, minute in enumerate(minutes, 1):
        ms += 600 * (slow if 21 <= minute <= 30 else each)
        yield minute, dict(plan) | {"executions": 600 * number, "ms": ms, "query_id": 9}


def told(place: Path, *series: Iterable[tuple[int, dict[str, Any]]]) -> str:
    """What is told of a statement that is slower from the 21st to the 30th minute."""
    seen: dict[str, dict[str, Any]] = {}
    samples = []
    changes = [each for one in series for each in one]
    for minute in range(40):
        seen |= {row["plan"]: row for at, row in changes if at == minute}
        rows = (of_source("plans", **{k: v for k, v in row.items() if k != "scope"})
                for row in seen.values())  # fmt: skip
        samples.append(sample("plans", BEGIN + 60 * minute, *rows))
    (found,) = recorded(place, *load(range(21, 31), 45.0), *samples)
    return found


SLOWER = (
    f"{clock(BEGIN + 20 * 60)} {clock(BEGIN + 30 * 60)} SELECT * FROM orders took 45 ms per call "
    "instead of 10 ms"
)


def test_the_story_says_whether_a_slower_statement_had_another_plan(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    cluster = new_cluster(18, EXPLAINED)
    with_orders(cluster)
    rows = opened(cluster)
    assert rows is not None
    run(cluster, QUERY)
    run(cluster, "DROP INDEX by_customer")
    run(cluster, QUERY)
    until(lambda: len(of_orders(rows)) == 2)
    fast, slow = ({**of_orders(rows)[shape], "database": "app"} for shape in (INDEX, SEQ))
    flip = told(tmp_path / "flip", plans(range(21), fast), plans(range(21, 31), slow))
    assert flip == (
        f"{SLOWER}, with another plan than before: Seq Scan on orders instead of Index Scan using "
        "by_customer on orders"
    )
    same = told(tmp_path / "same", plans(range(40), fast))
    assert same == f"{SLOWER}, with the same plan as before"
    first = told(tmp_path / "first", plans(range(21, 31), slow))
    assert first == (
        f"{SLOWER}, its plan was in the log for the first time that day: Seq Scan on orders and "
        "Aggregate"
    )
    outlier = told(tmp_path / "outlier", plans((5, *range(21, 31)), slow, each=45.0))
    assert outlier == (
        f"{SLOWER}, with a plan that was as slow before: Seq Scan on orders and Aggregate"
    )
    assert told(tmp_path / "none") == SLOWER


def test_of_many_nodes_the_scan_is_told_first(tmp_path: Path) -> None:
    """Three of a plan's nodes are told: how the table is read is the last of its four."""
    shape = "Aggregate (Finalize)\n  Gather\n    Aggregate (Partial)\n      Seq Scan on orders"
    plan = {"query_id": 9, "database": "app", "plan": "a", "shape": shape}
    assert told(tmp_path, plans(range(21, 31), plan)) == (
        f"{SLOWER}, its plan was in the log for the first time that day: Seq Scan on orders, "
        "Aggregate (Finalize), Gather and more"
    )


def test_the_page_of_a_statement_lists_its_plans_with_first_and_last(tmp_path: Path) -> None:
    """600 executions in 6 s in each of the minutes 1 to 20, which makes 12,000."""
    row = {"plan": "a", "shape": "Seq Scan on orders", "database": "app"}
    told(tmp_path, plans(range(21), row))
    with open_history(tmp_path) as history:
        about = period(history, None, since=3600)
        (plan,) = logged_plans(history, about, 9)
        view = View(history=history, grid=grid(history, about, ["statements"]), statement=9)
        tables = {one.name: one for one in SCREEN.build(view)[1]}
    assert (plan.executions, plan.ms) == (12_000, 120_000.0)
    assert f"{plan.first:%H:%M:%S} {plan.last:%H:%M:%S}" == (
        f"{clock(BEGIN + 60)} {clock(BEGIN + 20 * 60)}"
    )
    (shown,) = tables["plans"].rows
    assert shown["shape"] == "Seq Scan on orders"
    assert shown["mean"] == pytest.approx(0.01)
