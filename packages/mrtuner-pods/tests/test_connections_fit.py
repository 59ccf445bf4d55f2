"""The sum, the limits, the first exceeded, and three ways to make it fit; worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mrtuner.tuning import tune
from mrtuner.units import MiB, parse_bytes
from mrtuner_pods.connections import (
    Fleet,
    Given,
    Manifest,
    PgBouncer,
    RolloutStage,
    check,
    numbers,
)
from sizing_manifests import checked, deployment, plain

ELEVEN = Fleet(pods=11, pool=10)


def test_the_answer_names_the_stage_at_which_it_gives() -> None:
    """11 x 10 at rest, 14 x 10 with surge, 16 x 10 at the first step, 22 x 10 in all."""
    gives = [
        check(plain(most), fleet=ELEVEN).gives_at for most in (109, 110, 139, 140, 160, 219, 220)
    ]
    assert gives == [
        RolloutStage.REST, RolloutStage.SURGE, RolloutStage.SURGE, RolloutStage.FIRST_STEP,
        RolloutStage.OVERLAP, RolloutStage.OVERLAP, None,
    ]  # fmt: skip


def test_the_limit_with_the_most_strain_gives_first() -> None:
    """22 x 10 = 220, against 300 in all, 200 for the role, 100 for the database."""
    database = numbers(
        300, reserved=0, role_limits={"app": 200, "other": 1}, database_limits={"shop": 100}
    )
    done = check(database, fleet=ELEVEN, given=Given(role="app", dbname="shop"))
    assert [(one.name, one.capacity, one.fits(done.stage)) for one in done.limits] == [
        ("max_connections", 300, True),
        ("limit of role app", 200, False),
        ("limit of database shop", 100, False),
    ]
    assert done.first.name == "limit of database shop"


def test_limits_of_roles_that_nobody_is_known_to_be_are_a_note() -> None:
    database = numbers(300, reserved=0, role_limits={"app": 200})
    done = check(database, fleet=ELEVEN)
    assert done.fits
    assert done.notes[0].startswith("roles with limits: app 200; --role names the one")


def test_a_limit_without_a_name_is_the_applications() -> None:
    done = check(numbers(300, reserved=0, role_limits={"": 200}), fleet=ELEVEN)
    assert (done.fits, done.first.name) == (False, "limit of the role")


def test_reserved_connections_depend_on_the_version() -> None:
    """3 for superusers in all; reserved_connections is 0 by default."""
    for major in (13, 16, 18):
        done = check(
            numbers(100, postgres=major), fleet=Fleet(pods=1, pool=97), stage=RolloutStage.REST
        )
        assert done.fits
        assert done.limits[0].capacity == 97
    assert set(numbers(100, postgres=15).reserved) == {"superuser_reserved_connections"}
    assert "reserved_connections" in numbers(100, postgres=16).reserved


def test_what_is_expected_stands_beside_what_can_be_reached() -> None:
    """400 a second x 12 ms: 4.8 connections in use."""
    done = check(plain(220), fleet=ELEVEN, rate=400, hold=0.012)
    assert done.expected is not None
    assert done.expected.value == pytest.approx(4.8)
    assert done.reachable() == 220


def test_connections_from_elsewhere_count_at_every_stage() -> None:
    done = check(plain(300), fleet=ELEVEN, others={"monitoring": 3, "migrations": 2})
    assert [done.reachable(stage) for stage in RolloutStage] == [115, 145, 165, 225]


# Fewer.


def test_fewer_is_what_one_workload_alone_must_come_down_to() -> None:
    """Of 197, 189 are left: 8 in each of 22 pods. With pools of 10: 9 pods, 18 in a rollout."""
    done = check(numbers(200), fleet=ELEVEN, others={"monitoring": 8})
    (way,) = done.remedies().fewer
    assert (way.connections, way.at_most) == (10, 8)
    assert (way.pods, way.pods_at_most) == (11, 9)
    for fleet in (Fleet(pods=11, pool=8), Fleet(pods=9, pool=10)):
        assert check(numbers(200), fleet=fleet, others={"monitoring": 8}).fits
    for fleet in (Fleet(pods=11, pool=9), Fleet(pods=10, pool=10)):
        assert not check(numbers(200), fleet=fleet, others={"monitoring": 8}).fits


def test_a_workload_that_cannot_come_down_far_enough_has_no_number() -> None:
    """web's 2 x 40 and jobs' 2 x 10 = 100 pods, one each, against 90."""
    web, jobs = deployment("web", 40), deployment("jobs", 10)
    done = checked(web, jobs, most=90, given=Given(pool={"": 1}))
    ways = {way.workload: way for way in done.remedies().fewer}
    assert ways["web"].at_most is None
    assert ways["web"].pods_at_most == 35  # 70 + 20
    assert ways["jobs"].pods_at_most == 5  # 80 + 10


# A pooler.


def test_a_pooler_gets_what_is_left_or_what_is_expected() -> None:
    """197 - 8 = 189 for two processes: 94 each. 4.8 expected: 6, three each."""
    done = check(numbers(200), fleet=ELEVEN, others={"monitoring": 8})
    way = done.remedies().pooler
    assert way is not None
    assert (way.servers, way.each, way.processes, way.clients) == (188, 94, 2, 220)
    two = check(
        numbers(200), fleet=replace(ELEVEN, databases=2), others={"monitoring": 8}
    ).remedies().pooler  # fmt: skip
    assert two is not None
    assert (two.servers, two.each, two.databases) == (188, 47, 2)  # 189 // (2 x 2) = 47
    loaded = check(plain(200), fleet=ELEVEN, rate=400, hold=0.012).remedies().pooler
    assert loaded is not None
    assert (loaded.servers, loaded.each) == (6, 3)


def test_clients_go_through_the_pooler_unless_they_name_the_server_itself() -> None:
    """web through the pooler, jobs straight to db: 2 pools of 20 for shop, and 2 x 1 x 5."""
    web = deployment("web", 8, env={"DATABASE_URL": "postgres://shop@pooler:6432/shop"})
    jobs = deployment("jobs", 1)
    ini = PgBouncer(
        text="[databases]\nshop = host=db\n"
        "[pgbouncer]\npool_mode = transaction\nmax_client_conn = 79\n",
        pods=2,
    )
    done = check(plain(100), [Manifest(web + jobs)], pgbouncer=ini)
    assert done.pooled == {"web"}
    assert [(one.name, one.reachable[RolloutStage.OVERLAP]) for one in done.terms] == [
        ("PgBouncer", 40), ("jobs", 10),
    ]  # fmt: skip
    clients = done.limits[-1]
    assert (clients.capacity, clients.demand[RolloutStage.OVERLAP]) == (158, 80)  # 2 x 79; 16 x 5
    assert check(plain(100), [Manifest(web + jobs)], pgbouncer=ini, direct=["web"]).pooled == set()


def test_a_pooler_in_a_manifest_has_its_pods_and_its_surge() -> None:
    """3 replicas and 25 % of surge, 1: four processes of 20."""
    pooler = deployment("pooler", 3, env={}, command="[pgbouncer]", container="image: a/pgbouncer")
    web = deployment("web", 2, env={"DATABASE_URL": "postgres://shop@pooler/shop"})
    ini = PgBouncer(text="[databases]\nshop = host=db\n[pgbouncer]\n")
    done = check(plain(100), [Manifest(pooler + web)], pgbouncer=ini)
    assert [done.reachable(stage) for stage in RolloutStage] == [60, 80, 80, 80]


def test_databases_of_another_server_are_not_counted() -> None:
    text = "[databases]\na = host=db\nb = host=db\nc = host=replica\n[pgbouncer]\n"
    done = check(plain(100), fleet=Fleet(pods=1, pool=1), pgbouncer=PgBouncer(text=text))
    assert done.reachable() == 40
    assert [(one.name, one.why) for one in done.unjudged] == [
        ("c of pgbouncer.ini", "it is on replica, whose limits were not read")
    ]


def test_the_pools_that_lead_to_the_server_that_was_read_are_compared_with_its_limits() -> None:
    """150 of shop, of 100 that the primary admits; reports, on the replica, has no clients here."""
    ini = PgBouncer(
        text="[databases]\nreports = host=replica\nshop = host=primary pool_size=150\n"
        "[pgbouncer]\npool_mode = transaction\nmax_client_conn = 500\n"
    )
    web = [Manifest(deployment("web", 2, env={"DATABASE_URL": "postgres://shop@pooler/shop"}))]
    primary = replace(plain(100), host="primary")
    done = check(primary, web, pgbouncer=ini, stage=RolloutStage.REST)
    assert (done.reachable(), done.exceeds, done.unjudged) == (150, True, ())
    unknown = check(plain(100), web, pgbouncer=ini, stage=RolloutStage.REST)
    assert [one.name for one in unknown.unjudged] == ["shop of pgbouncer.ini"]


def test_who_names_the_server_in_another_form_bypasses_the_pooler_as_well() -> None:
    """20 of the pooler, and 2 pods of 5."""
    ini = PgBouncer(text="[databases]\nshop = host=db.prod.svc.cluster.local\n"
                    "[pgbouncer]\npool_mode = transaction\n")  # fmt: skip
    web = deployment("web", 2, env={"DATABASE_URL": "postgres://shop@pooler/shop"})
    read = [Manifest(web + deployment("jobs", 2))]
    done = check(plain(100), read, pgbouncer=ini, stage=RolloutStage.REST)
    assert done.pooled == {"web"}
    assert done.reachable() == 30


# Larger, and memory.


def test_larger_needs_what_tune_says_of_so_many_sessions() -> None:
    """tune accepts this much memory, and refuses one step of 64 MB less."""
    done = check(numbers(100, memory="1GB", cpus=2), fleet=Fleet(pods=50, pool=10))
    needs = done.remedies().larger
    assert needs is not None
    assert (needs.sessions, needs.max_connections, needs.fits) == (1000, 1003, False)
    assert needs.memory is not None
    enough = tune(memory=needs.memory, cpus=2, connections=1000)
    assert enough["max_connections"].value == "1003"
    from mrtuner.errors import DoesNotFit

    with pytest.raises(DoesNotFit):
        tune(memory=needs.memory - 64 * MiB, cpus=2, connections=1000)


def test_work_mem_is_what_tune_leaves_for_so_many_sessions() -> None:
    done = check(numbers(100, memory="16GB", cpus=4), fleet=Fleet(pods=20, pool=10))
    needs = done.remedies().larger
    assert needs is not None
    advised = tune(memory="16GB", cpus=4, connections=400)["work_mem"].value
    assert needs.work_mem == parse_bytes(advised)


def test_one_more_connection_costs_its_process_its_sorts_and_its_share_of_page_tables() -> None:
    """By hand: 2560 kB of a process, 112 kB of shared memory, work_mem x hash_mem_multiplier, and
    for page tables 1/512 of shared memory, and of the 112 kB for every process.
    """
    done = check(numbers(100, memory="16GB", cpus=4), fleet=Fleet(pods=20, pool=10))
    needs = done.remedies().larger
    assert needs is not None
    advice = tune(memory="16GB", cpus=4, connections=400)
    assert advice.budget is not None
    work_mem = parse_bytes(advice["work_mem"].value)
    least = (2560 + 112) * 1024 + work_mem * float(advice["hash_mem_multiplier"].value)
    assert needs.price is not None
    page_tables = needs.price - least
    one_process = advice.budget.shared / 512
    assert one_process <= page_tables <= one_process * 1.05


def test_only_who_is_concerned_has_to_come_down() -> None:
    """reports reaches 2 x 5 = 10, its role has 5: 2 in each pool; one pod still reaches 2 x 5."""
    web = deployment("web", 4)
    reports = deployment("reports", 1, env={"DATABASE_URL": "postgres://reports@db/shop"})
    database = numbers(100, reserved=0, role_limits={"reports": 5, "shop": 90})
    done = check(database, [Manifest(web + reports)])
    assert [(one.name, one.fits(done.stage)) for one in done.limits] == [
        ("max_connections", True), ("limit of role reports", False), ("limit of role shop", True),
    ]  # fmt: skip
    (way,) = done.remedies().fewer
    assert (way.workload, way.at_most, way.pods_at_most) == ("reports", 2, None)
    assert done.remedies().larger is None


def test_clients_of_a_pooler_come_down_by_its_limit() -> None:
    """16 pods x 5 = 80 clients, of 2 x 30: 3 in each pool, or 6 pods, 12 in a rollout."""
    web = deployment("web", 8, env={"DATABASE_URL": "postgres://shop@pooler/shop"})
    ini = PgBouncer(
        text="[databases]\nshop = host=db\n"
        "[pgbouncer]\npool_mode = transaction\nmax_client_conn = 30\n",
        pods=2,
    )
    done = check(plain(100), [Manifest(web)], pgbouncer=ini)
    (way,) = done.remedies().fewer
    assert (way.workload, way.at_most, way.pods_at_most) == ("web", 3, 6)
    assert done.remedies().larger is None
