"""What was counted beside the sessions that a real server has, and beside a recorded history.

Every pod has Rails' pool of 5: two pods are 10 at rest, and 20 while they are replaced.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from conftest import NewCluster

from command_line import run
from json_schemas import assert_valid
from mrtuner.postgres.cluster import Cluster
from mrtuner_pods.connections import Check, Manifest, check, numbers
from mrtuner_pods.observed import activity
from mrtuner_pods.observed.model import OpenSessions, SessionsSeen
from servers import sql
from sizing_manifests import deployment
from test_connections_real import await_alone

ROLES = ("web_user", "jobs_user", "shared", "looker")


@pytest.fixture
def shop(new_cluster: NewCluster) -> Cluster:
    cluster = new_cluster(18)
    sql(cluster.dsn(), "CREATE DATABASE shop", *(f"CREATE ROLE {one} LOGIN" for one in ROLES))
    await_alone(cluster.dsn())
    return cluster


def of(name: str, role: str, *, more: str = "") -> str:
    url = {"DATABASE_URL": f"postgres://{role}@db/shop{more}"}
    return deployment(name, 2, env=url)


def opened(stack: ExitStack, cluster: Cluster, role: str, number: int, name: str = "") -> None:
    for _ in range(number):
        dsn = cluster.dsn("shop", user=role)
        stack.enter_context(psycopg.connect(dsn, application_name=name, autocommit=True))


def compared(cluster: Cluster, *manifests: str, user: str | None = None) -> Check:
    dsn = cluster.dsn("shop", user=user) if user else cluster.dsn()
    seen = activity.seen(dsn, seconds=0.1)
    return check(numbers(100), [Manifest("".join(manifests))], observed=[seen])


def test_every_workload_is_compared_with_its_own_sessions(shop: Cluster) -> None:
    """22 of web are more than the 20 counted; of jobs 4 were seen, and 10 counted."""
    with ExitStack() as stack:
        opened(stack, shop, "web_user", 22)
        opened(stack, shop, "jobs_user", 4, "sidekiq")
        done = compared(shop, of("web", "web_user"), of("jobs", "jobs_user"))
    rows = [(one.name, one.rest, one.reachable, one.seen, one.verdict) for one in done.compared]
    assert rows == [("web", 10, 20, 22, "too low"), ("jobs", 10, 20, 4, "too high")]
    (why,) = done.unjudged
    assert why.name == "web"
    assert "22 sessions at once were seen" in why.why
    assert not done.fits


def test_between_rest_and_rollout_the_count_is_right(shop: Cluster) -> None:
    with ExitStack() as stack:
        opened(stack, shop, "web_user", 12)
        done = compared(shop, of("web", "web_user"))
    assert [one.verdict for one in done.compared] == ["as counted"]
    assert done.fits


def test_one_role_of_two_workloads_is_told_apart_by_name_only(shop: Cluster) -> None:
    """Unnamed ones may be either's; named ones are those of a pod, or of a connection string."""
    named = (of("web", "shared"), of("jobs", "shared", more="?application_name=worker"))
    with ExitStack() as stack:
        opened(stack, shop, "shared", 3, "web-7d9f4c-x2x1z")
        opened(stack, shop, "shared", 2, "worker")
        apart = compared(shop, *named)
        opened(stack, shop, "shared", 1)
        together = compared(shop, *named)
    assert [(one.name, one.seen) for one in apart.compared] == [("jobs", 2), ("web", 3)]
    (row,) = together.compared
    assert (row.workloads, row.rest, row.seen) == (("web", "jobs"), 20, 6)


def test_sessions_that_nobody_counted_are_named_by_application_and_role(shop: Cluster) -> None:
    manifests = of("web", "web_user")
    with ExitStack() as stack:
        opened(stack, shop, "web_user", 10)
        opened(stack, shop, "looker", 3, "report")
        done = compared(shop, manifests)
        seen = activity.seen(shop.dsn(), seconds=0.1)
        also = check(numbers(100), [Manifest(manifests)], others={"report": 3}, observed=[seen])
    rows = {one.name: (one.workloads, one.seen, one.verdict) for one in done.compared}
    assert rows["report as looker"] == ((), 3, "too low")
    assert rows["web"] == (("web",), 10, "as counted")
    assert {one.name: one.verdict for one in also.compared}["report"] == "as counted"
    assert (done.fits, also.fits) == (False, True)


def test_a_role_that_does_not_see_others_sessions_says_so(shop: Cluster) -> None:
    with ExitStack() as stack:
        opened(stack, shop, "web_user", 10)
        done = compared(shop, of("web", "web_user"), user="looker")
    (missing,) = done.unjudged
    assert missing.why.startswith("looker does not see what 10 sessions of other roles are")
    assert missing.hint == "GRANT pg_monitor TO looker"
    assert not done.fits


def test_the_command_compares_as_a_user_runs_it(shop: Cluster, tmp_path: Path) -> None:
    """Six sessions of looker have no workload; web has 10 of 10."""
    file = tmp_path / "app.yaml"
    file.write_text(of("web", "web_user"), encoding="utf-8")
    given = ["pods", "check", str(file), "--max-connections", "100", "--observe", shop.dsn()]
    with ExitStack() as stack:
        opened(stack, shop, "web_user", 10)
        opened(stack, shop, "looker", 6, "\x1b[31mred")
        stack.enter_context(pytest.MonkeyPatch.context()).setattr(activity, "WATCHED", 0.1)
        screen = run(*given)
        told = run(*given, "--json")
    assert (screen.exit_code, told.exit_code) == (3, 3)
    document = json.loads(told.stdout)
    assert_valid(document, "mrtuner.pods.check/1")
    assert [one["seen"] for one in document["compared"]] == [6, 10]
    assert document["fits"] is False
    assert "\x1b[31m" not in screen.stdout
    lines = [" ".join(one.split()) for one in screen.stdout.splitlines()]
    assert lines[0].startswith("not judged: ")
    assert "6 sessions at once were seen" in lines[0]
    assert "web 10 20 10 – as counted" in lines


# What is worked out without a server.


def row(application: str, role: str, most: int) -> OpenSessions:
    return OpenSessions(
        application=application, role=role, database="shop", sessions=most, active=0,
        in_transaction=0, clients=None, most=most,
    )  # fmt: skip


def test_sessions_of_different_moments_are_not_added() -> None:
    """12 of one name, then 12 of another: never more than 12, of 20."""
    a, b = ("a", "app", "shop"), ("b", "app", "shop")
    rows = (row("a", "app", 12), row("b", "app", 12))
    one_by_one = SessionsSeen(source="s", sessions=rows, samples=({a: 12}, {b: 12}))
    at_once = SessionsSeen(source="s", sessions=rows, samples=({a: 12, b: 12},))
    manifest = [Manifest(of("web", "app"))]
    assert [
        check(numbers(100), manifest, observed=[seen]).compared[0].seen
        for seen in (one_by_one, at_once)
    ] == [12, 24]


def test_a_history_has_no_idle_sessions_so_it_only_shows_a_count_that_is_too_low() -> None:
    manifest = [Manifest(of("web", "app"))]
    few, many = (
        SessionsSeen(source="s", sessions=(row("", "app", most),), idle=False) for most in (3, 21)
    )
    low = check(numbers(100), manifest, observed=[few])
    assert (low.compared[0].verdict, low.fits) == ("not known", True)
    assert check(numbers(100), manifest, observed=[many]).compared[0].verdict == "too low"


def test_clients_of_a_pooler_are_seen_as_the_pooler() -> None:
    """2 x 10 server connections; the clients' role is the pool's user."""
    pooler = (
        "apiVersion: postgresql.cnpg.io/v1\nkind: Pooler\nmetadata: {name: pool-rw}\n"
        "spec:\n  cluster: {name: shop}\n  instances: 2\n"
        "  pgbouncer: {poolMode: transaction, parameters: {default_pool_size: '10'}}\n---\n"
    )
    web = deployment("web", 2, env={"DATABASE_URL": "postgres://app@pool-rw/shop"})
    seen = SessionsSeen(source="s", sessions=(row("web", "app", 20),))
    (one,) = check(numbers(100), [Manifest(pooler + web)], observed=[seen]).compared
    assert (one.name, one.rest, one.seen, one.verdict) == ("PgBouncer", 20, 20, "as counted")
