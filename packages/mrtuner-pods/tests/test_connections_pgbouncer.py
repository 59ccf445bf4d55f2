"""PgBouncer by its configuration alone; test_connections_real runs the real program."""

from __future__ import annotations

import pytest

from mrtuner_pods.connections import (
    Check,
    Given,
    Manifest,
    PgBouncer,
    RolloutStage,
    check,
    numbers,
)
from sizing_manifests import deployment, plain

WEB = deployment("web", 2, env={"DATABASE_URL": "postgres://shop@pooler/shop"})
STOCK = deployment("stock", 2, env={"DATABASE_URL": "postgres://stock@pooler/stock"})
REPORTS = deployment("reports", 1, env={"DATABASE_URL": "postgres://reports@pooler/shop"})


def through(text: str, *manifests: str, **more: object) -> Check:
    read = [Manifest("".join(manifests or (WEB,)), "app.yaml")]
    return check(plain(500), read, pgbouncer=PgBouncer(text=text), stage=RolloutStage.REST, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        # Every pool by the defaults: 20 for each of three logins.
        ("[databases]\n* = host=db\n[pgbouncer]\n", 60),
        # At most 30 for shop, and at most 30 for stock: 30 + 20.
        ("[databases]\n* = host=db\n[pgbouncer]\nmax_db_connections = 30\n", 50),
        # Two entries lead to one database: each has its pools, and its limit.
        ("[databases]\nshop = host=db\nro = host=db dbname=shop\n[pgbouncer]\n", 60),
        # A user in the entry is the only one; a pool's own size and reserve win.
        ("[databases]\nshop = host=db user=app pool_size=7 reserve_pool=2\n[pgbouncer]\n", 9),
        # auth_user asks for passwords over a pool of its own.
        ("[databases]\nstock = host=db\n[pgbouncer]\nauth_user = asker\n", 40),
        # No pool is larger than the number of clients.
        ("[databases]\n* = host=db\n[pgbouncer]\nmax_client_conn = 12\n", 36),
        # Leading blanks and comments mean nothing.
        ("; c\n[databases]\n  * = host=db\n# c\n[pgbouncer]\n  default_pool_size=5\n", 15),
        # A user's own pool size, since 1.24, and a user's limit.
        ("[databases]\n* = host=db\n[pgbouncer]\n[users]\nshop = pool_size=3\n", 43),
        ("[databases]\n* = host=db\n[pgbouncer]\n[users]\nshop=max_user_connections=4\n", 44),
        # A user's own size comes before its database's: 200 and 20 of shop.
        (
            "[databases]\nshop = host=db pool_size=20\n[pgbouncer]\nmax_client_conn = 500\n"
            "[users]\nshop = pool_size=200\n",
            220,
        ),
    ],
)
def test_server_connections_by_hand(text: str, servers: int) -> None:
    """Three logins: shop@shop, reports@shop, stock@stock; no known workload uses ro."""
    assert through(text, WEB, REPORTS, STOCK).reachable() == servers


def test_a_role_that_the_pooler_imposes_is_the_one_that_is_limited() -> None:
    """Every client is app at the server: 20 connections, of 15 that app may have."""
    text = "[databases]\nshop = host=db user=app\n[pgbouncer]\npool_mode = transaction\n"
    database = numbers(500, reserved=0, role_limits={"app": 15, "shop": 1})
    done = check(database, [Manifest(WEB)], pgbouncer=PgBouncer(text=text), stage=RolloutStage.REST)
    assert [(one.name, one.fits(RolloutStage.REST)) for one in done.limits] == [
        ("max_connections", True),
        ("limit of role app", False),
        ("max_client_conn of PgBouncer", True),
    ]


def test_who_uses_a_database_is_assumed_only_where_nobody_says() -> None:
    text = "[databases]\nshop = host=db\n[pgbouncer]\n"
    assert not any("one is assumed" in note for note in through(text).notes)
    hidden = deployment("web", 2, env={"DB_HOST": "pooler"})
    assert any("one is assumed" in note for note in through(text, hidden).notes)
    said = through(text, hidden, given=Given(role="shop", dbname="shop"))
    assert not any("one is assumed" in note for note in said.notes)


def test_a_config_map_beside_the_pooler_is_its_configuration() -> None:
    """Three poolers and one of surge, of 8 connections each."""
    pooler = deployment("pooler", 3, env={}, command="[pgbouncer]", container="image: a/pgbouncer")
    configuration = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: pooler}
data:
  pgbouncer.ini: |
    [databases]
    shop = host=db
    [pgbouncer]
    default_pool_size = 8
---
"""
    done = check(plain(100), [Manifest(configuration + pooler + WEB, "app.yaml")])
    assert [done.reachable(stage) for stage in RolloutStage] == [24, 32, 32, 32]
    assert done.terms[0].where == "app.yaml:2 ConfigMap pooler"
    assert not done.warnings


def test_a_pooler_of_cloudnativepg_is_read() -> None:
    """Two instances and one of surge, of 12 connections each."""
    pooler = """\
apiVersion: postgresql.cnpg.io/v1
kind: Pooler
metadata: {name: pooler}
spec:
  cluster: {name: shop}
  instances: 2
  pgbouncer:
    poolMode: transaction
    parameters: {default_pool_size: "12", max_client_conn: "300"}
---
"""
    done = check(plain(100), [Manifest(pooler + WEB, "app.yaml")])
    assert [done.reachable(stage) for stage in RolloutStage] == [24, 36, 36, 36]
    assert done.limits[-1].capacity == 600
    assert done.pooler is not None
    assert {one.mode for one in done.pooler.pools} == {"transaction"}


def test_a_late_pgbouncer_keeps_its_connections_while_it_terminates() -> None:
    """3 and 1 of surge; from 1.23 on 3 new ones beside 3 that wait for their clients."""

    def stages(tag: str) -> list[int | None]:
        pooler = deployment("pooler", 3, env={}, command="[pgbouncer]",
                            container=f"image: edoburu/pgbouncer:{tag}")  # fmt: skip
        ini = PgBouncer(text="[databases]\nshop = host=db\n[pgbouncer]\n")
        done = check(plain(500), [Manifest(pooler + WEB)], pgbouncer=ini)
        return [done.reachable(stage) for stage in RolloutStage]

    assert stages("v1.22.1") == stages("latest") == [60, 80, 80, 80]
    assert stages("v1.23.1-p2") == [60, 80, 80, 120]
    assert stages(f"v1.23.1-p2@sha256:{'a' * 64}") == [60, 80, 80, 120]


@pytest.mark.parametrize(
    ("entry", "mode", "users", "first"),
    [
        ("", "session", "", (5, 10)),
        ("pool_mode=session", "transaction", "", (5, 10)),
        ("pool_mode=session", "session", "[users]\nshop = pool_mode=transaction\n", (100, 10)),
        ("pool_mode=transaction", "session", "", (100, 10)),
    ],
)
def test_a_mode_is_the_users_then_the_databases_then_everybodys(
    entry: str, mode: str, users: str, first: tuple[int, int]
) -> None:
    """2 pods of 5 compete for 5 sessions in session mode; else max_client_conn, 100, is nearest."""
    settings = f"pool_mode = {mode}\ndefault_pool_size = 5\n"
    done = through(f"[databases]\nshop = host=db {entry}\n[pgbouncer]\n{settings}{users}")
    assert (done.first.capacity, done.first.demand[RolloutStage.REST]) == first
    assert done.fits is (first[0] >= 10)


@pytest.mark.parametrize("more", ["reports = host=db\n[pgbouncer]\n",
                                  "[pgbouncer]\nauth_user = asker\n"])  # fmt: skip
def test_sessions_of_other_pools_are_not_there_for_those_that_wait(more: str) -> None:
    """35 clients of shop for its 20 sessions, whatever other databases and users have."""
    web = deployment("web", 1, env={"DATABASE_URL": "postgres://shop@pooler/shop"})
    done = through(f"[databases]\nshop = host=db\n{more}", web, given=Given(pool={"web": 35}))
    assert done.first.kind == "session pooling"
    assert (done.first.capacity, done.first.demand[RolloutStage.REST]) == (20, 35)


def test_pools_that_share_a_limit_in_session_mode_are_compared_with_it_too() -> None:
    """10 and 5 clients, for whom shop has 12 sessions together."""
    text = "[databases]\nshop = host=db\n[pgbouncer]\nmax_db_connections = 12\n"
    done = through(text, WEB, REPORTS)
    found = {one.capacity: one.demand[RolloutStage.REST] for one in done.limits[2:]}
    assert found == {12: 15}
    assert not done.fits


def test_a_database_that_a_running_pooler_does_not_list_is_not_judged() -> None:
    """PgBouncer shows no entry *, and what it serves only while somebody uses it."""
    queue = deployment("jobs", 1, env={"DATABASE_URL": "postgres://queue@pooler/queue"})
    text = "[databases]\nshop = host=db\n[pgbouncer]\npool_mode = transaction\n"
    running = PgBouncer(text=text, now=())
    done = check(plain(500), [Manifest(WEB + queue)], pgbouncer=running)
    assert (done.fits, done.exceeds) == (False, False)
    assert [one.name for one in done.unjudged] == ["queue of pgbouncer.ini"]
    assert check(plain(500), [Manifest(WEB)], pgbouncer=running).fits


def test_options_may_name_a_container() -> None:
    """5 of app, and 2 of the other one."""
    second = """\
        - name: agent
          env: [{name: DATABASE_URL, value: "postgres://shop@pooler/shop"}]
"""
    text = WEB.replace("      containers:\n", "      containers:\n" + second)
    given = Given(pool={"web/agent": 2})
    done = check(plain(100), [Manifest(text)], given=given, stage=RolloutStage.REST)
    assert done.workloads[0].per_pod == 7
