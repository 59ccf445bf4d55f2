"""Plans before settings, on real servers: what changes, why, and what could not be explained.

The test itself gets the expected costs from the server, with SET and EXPLAIN.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import psycopg
import pytest
from conftest import NewCluster

from mrtuner.errors import MissingPart, Refused
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from mrtuner.postgres.explain import CannotExplain, explaining, top_statements
from mrtuner.postgres.server_user import scratch_directory
from mrtuner.tuning import query_plans
from mrtuner.tuning.query_plans import ChangedPlan, Plans, PlanVerdict
from servers import GRID, binaries, sql

pytestmark = pytest.mark.timed

compare = partial(query_plans.compare, trusted=True)  # the role is a superuser

LOADED = {"shared_preload_libraries": "pg_stat_statements", "fsync": "off", "autovacuum": "off"}
#: 200,000 rows of 100 bytes; each `k` has 1,000 rows, scattered over all pages.
MADE = (
    "CREATE EXTENSION pg_stat_statements",
    "CREATE TABLE sale (id int PRIMARY KEY, k int, text text)",
    "INSERT INTO sale SELECT g, g % 200, repeat('x', 70) FROM generate_series(1, 200000) AS g",
    "CREATE INDEX sale_k ON sale (k)",
    "VACUUM ANALYZE sale",
)
BY_K = "SELECT count(text) FROM sale WHERE k = 7"
SORTED = "SELECT id FROM sale ORDER BY text, id"


@pytest.fixture(scope="module", params=GRID)
def shop(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    cluster = Cluster.create(binaries(request.param), scratch_directory(), LOADED)
    try:
        with cluster:
            sql(cluster.dsn(), *MADE)
            yield cluster
    finally:
        cluster.remove()


@pytest.fixture
def server(shop: Cluster) -> Cluster:
    """The shop, with no statement counted yet."""
    sql(shop.dsn(), "SELECT pg_stat_statements_reset()")
    return shop


def seen(cluster: Cluster, *statements: str) -> None:
    """Run statements as an application would, so that they are counted."""
    sql(cluster.dsn(), *statements)


def changed(plans: Plans, part: str) -> ChangedPlan:
    [one] = [one for one in plans.changed if part in one.statement.text]
    return one


def cost(cluster: Cluster, statement: str, **settings: Any) -> float:
    """The cost that EXPLAIN gives the generic statement under these settings."""
    with psycopg.connect(cluster.dsn(), autocommit=True) as conn:
        for name, value in settings.items():
            conn.execute(f"SET {name} = '{value}'".encode())
        conn.execute("SET plan_cache_mode = force_generic_plan")
        conn.execute(f"PREPARE one AS {statement}".encode())
        row = conn.execute("EXPLAIN (FORMAT JSON) EXECUTE one(NULL)").fetchone()
        assert row is not None
        return float(row[0][0]["Plan"]["Total Cost"])


def test_a_changed_plan_is_shown_with_its_costs_and_the_setting_that_changed_it(
    server: Cluster,
) -> None:
    seen(server, BY_K)
    advised = {"random_page_cost": "40", "seq_page_cost": "1", "shared_buffers": "1GB"}
    plans = compare(server.dsn(), 20, advised)
    assert plans.settings == (("random_page_cost", "4", "40"), ("seq_page_cost", "1", "1"))
    assert plans.left_out == ("shared_buffers",)
    one = changed(plans, "WHERE k =")
    generic = "SELECT count(text) FROM sale WHERE k = $1"
    assert (one.before.cost, one.after.cost) == (
        cost(server, generic), cost(server, generic, random_page_cost=40),
    )  # fmt: skip
    assert any("using sale_k" in line or "on sale" in line for line in one.before.plan)
    assert one.before.plan[0].startswith("Aggregate")
    assert one.before.plan != one.after.plan
    assert one.by == ("random_page_cost",)
    assert one.also == ()


def test_costs_are_compared_only_under_the_same_cost_settings(server: Cluster) -> None:
    """The new plan costs more by the settings in force, and less by the advised ones.

    The expected costs come from the server with the other plan's scan switched off.
    """
    seen(server, BY_K)
    one = changed(compare(server.dsn(), 20, {"random_page_cost": "40"}), "WHERE k =")
    generic = "SELECT count(text) FROM sale WHERE k = $1"
    assert any("Bitmap Heap Scan" in line for line in one.before.plan)
    assert any("Seq Scan" in line for line in one.after.plan)
    new_now = cost(server, generic, enable_bitmapscan="off", enable_indexscan="off")
    assert one.believed_now == pytest.approx(new_now / one.before.cost)
    assert one.believed_now is not None
    assert one.believed_now > 1
    old_then = cost(server, generic, random_page_cost=40, enable_seqscan="off")
    assert one.believed_then == pytest.approx(one.after.cost / old_then)
    assert one.believed_then is not None
    assert one.believed_then < 1
    assert one.verdict is (PlanVerdict.DOUBTFUL if one.believed_now >= 1.5 else PlanVerdict.OTHER)


def test_a_plan_that_gets_worse_by_a_lowered_limit_is_a_warning(server: Cluster) -> None:
    sql(server.dsn(), "ALTER ROLE postgres SET work_mem = '256MB'")
    try:
        seen(server, SORTED)
        one = changed(compare(server.dsn(), 20, {"work_mem": "1MB"}), "ORDER BY text")
    finally:
        sql(server.dsn(), "ALTER ROLE postgres RESET work_mem")
    assert one.verdict is PlanVerdict.WORSE
    assert one.limits == pytest.approx(one.after.cost / one.before.cost)
    assert one.warning == (
        f"with equal cost settings, its plan costs {one.limits:.2f} times as much"
    )


def test_a_plan_that_gets_better_by_a_raised_limit_is_no_warning(server: Cluster) -> None:
    seen(server, SORTED)
    plans = compare(server.dsn(), 20, {"work_mem": "256MB", "random_page_cost": "1.1"})
    one = changed(plans, "ORDER BY text")
    assert one.verdict is PlanVerdict.BETTER
    assert one.limits < 0.95
    assert one.warning is None


def test_nothing_is_executed_and_nothing_remains(server: Cluster) -> None:
    seen(server, "INSERT INTO sale VALUES (-1, 0, 'one')", "DELETE FROM sale WHERE id = -1", BY_K)
    query = (
        "SELECT calls FROM pg_stat_statements WHERE query ~ '^(INSERT|DELETE|SELECT count.text)'"
    )
    before = sql(server.dsn(), query)
    plans = compare(server.dsn(), 20, {"random_page_cost": "40"})
    assert plans.explained >= 3
    assert plans.not_explained == ()
    assert sql(server.dsn(), "SELECT count(*) FROM sale") == [(200000,)]
    after = sql(server.dsn(), query)
    assert after == before
    assert sql(server.dsn(), "SELECT count(*) FROM pg_locks WHERE relation = 'sale'::regclass") == [
        (0,)
    ]


def test_utility_statements_which_may_hold_secrets_are_left_out(server: Cluster) -> None:
    seen(
        server,
        "CREATE ROLE clerk PASSWORD 'hunter2'",
        "ALTER ROLE clerk PASSWORD 'hunter3'",
        "/* select */ DROP ROLE clerk",
        "-- first\n/* ** then */ (SELECT 1)",
    )
    with connect(server.dsn()) as conn:
        found = top_statements(conn, 100)
    assert not [one.text for one in found if "clerk" in one.text]
    assert [one.text for one in found if "SELECT $1" in one.text]  # before 18 with its comments


def test_what_could_not_be_explained_is_told_with_the_servers_reason(server: Cluster) -> None:
    """A typed constant becomes `interval $1`, which is not valid SQL; a table may be gone."""
    seen(
        server,
        "CREATE TABLE gone (id int)",
        "SELECT count(*) FROM gone",
        "DROP TABLE gone",
        "SELECT interval '1 day'",
        BY_K,
    )
    plans = compare(server.dsn(), 20, {"random_page_cost": "1.1"})
    why = {one.statement.text: one.why for one in plans.not_explained}
    assert why["SELECT count(*) FROM gone"] == 'relation "gone" does not exist'
    assert "syntax error" in why["SELECT interval $1"]
    assert plans.explained >= 1


def test_a_lock_is_not_waited_for(server: Cluster) -> None:
    seen(server, BY_K)
    with connect(server.dsn()) as holder, holder.transaction():
        holder.execute("LOCK TABLE public.sale")
        plans = compare(server.dsn(), 20, {"random_page_cost": "1.1"})
    [one] = [one for one in plans.not_explained if "FROM sale" in one.statement.text]
    assert "lock timeout" in one.why


def test_a_text_that_could_be_several_statements_is_not_run(server: Cluster) -> None:
    """pg_stat_statements keeps one statement in each entry, including its comments."""
    seen(server, "SELECT count(*) FROM sale /* ; DROP TABLE sale */")
    plans = compare(server.dsn(), 20, {"random_page_cost": "1.1"})
    [one] = [one for one in plans.not_explained if "DROP" in one.statement.text]
    assert one.why == "its text contains a semicolon, so it could be several statements"


def test_pg_stat_statements_is_found_in_a_schema_of_any_name(server: Cluster) -> None:
    """A % in a query with parameters is no placeholder."""
    sql(server.dsn(), 'CREATE SCHEMA "Ext%s"',
        'ALTER EXTENSION pg_stat_statements SET SCHEMA "Ext%s"')  # fmt: skip
    try:
        sql(server.dsn(), BY_K)
        with connect(server.dsn()) as conn:
            assert any("FROM sale" in one.text for one in top_statements(conn, 20))
    finally:
        sql(server.dsn(), "ALTER EXTENSION pg_stat_statements SET SCHEMA public",
            'DROP SCHEMA "Ext%s"')  # fmt: skip


def test_without_pg_stat_statements_the_hint_says_how_to_get_it(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    with pytest.raises(MissingPart, match="not installed in the database postgres") as missing:
        compare(cluster.dsn(), 20, {})
    assert "shared_preload_libraries" in str(missing.value.hint)
    sql(cluster.dsn(), "CREATE EXTENSION pg_stat_statements")
    with pytest.raises(MissingPart, match="installed but not loaded"):
        compare(cluster.dsn(), 20, {})


def test_planning_lends_no_power_to_the_functions_of_others(
    each_major: int, new_cluster: NewCluster
) -> None:
    """What a superuser's plan would run on the host, although its transaction is read only."""
    cluster = new_cluster(each_major)
    made = cluster.data / "made"
    sql(cluster.dsn(), "CREATE ROLE app LOGIN", "CREATE SCHEMA app AUTHORIZATION app",
        "CREATE ROLE watcher LOGIN IN ROLE pg_monitor, app")  # fmt: skip
    sql(
        cluster.dsn(user="app"),
        # A function that is not volatile may run no COPY itself, but call one that may.
        "CREATE FUNCTION app.g() RETURNS void VOLATILE LANGUAGE plpgsql AS $$ BEGIN "
        f"EXECUTE $x$COPY (SELECT 1) TO PROGRAM 'cat > {made}'$x$; END $$",
        "CREATE FUNCTION app.f() RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN "
        "PERFORM app.g(); RETURN 1; END $$",
        "CREATE TABLE app.t (id int)",
    )
    statement = "SELECT id FROM app.t WHERE id = app.f()"

    with (
        connect(cluster.dsn()) as conn,
        pytest.raises(Refused, match="the role postgres could run programs"),
        explaining(conn) as explainer,
    ):
        explainer.text(statement)
    assert not made.exists()

    with (
        connect(cluster.dsn(user="watcher")) as conn,
        explaining(conn) as explainer,
        pytest.raises(CannotExplain, match=r"permission denied|must be superuser"),
    ):
        explainer.text(statement)
    assert not made.exists()

    with connect(cluster.dsn()) as conn, explaining(conn, trusted=True) as explainer:
        explainer.text(statement)
    assert made.exists()  # so the refusal is needed


@pytest.mark.parametrize("power", ["pg_execute_server_program", "pg_write_server_files", "boss"])
def test_a_role_that_can_become_powerful_is_refused(power: str, embedded: Cluster) -> None:
    sql(embedded.dsn(), "CREATE ROLE boss SUPERUSER", "CREATE ROLE halfway NOINHERIT",
        f"GRANT {power} TO halfway",
        "CREATE ROLE watcher LOGIN NOINHERIT IN ROLE halfway")  # fmt: skip
    try:
        with (
            connect(embedded.dsn(user="watcher")) as conn,
            pytest.raises(Refused, match="the role watcher"),
            explaining(conn),
        ):
            pass
    finally:
        sql(embedded.dsn(), "DROP ROLE watcher, halfway, boss")
