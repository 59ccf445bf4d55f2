"""Six cases that people reported in public, with the figures that they gave."""

from __future__ import annotations

from mrtuner_pods.connections import (
    Fleet,
    Given,
    Manifest,
    PgBouncer,
    RolloutStage,
    check,
    numbers,
)
from sizing_manifests import autoscaler, checked, deployment, plain


def test_a_rollout_of_15_pods_has_22_at_first() -> None:
    """kubernetes#95498: 3 are terminating, 7 new ones start beside the 12 that are left.

    25 % of 15 is 3.75: 4 pods of surge, 3 unavailable; 15 + 4 + 3. All of them: 30.
    """
    done = checked(deployment(replicas=None), autoscaler(15), given=Given(pool={"web": 1}))
    assert [done.reachable(stage) for stage in RolloutStage] == [15, 19, 22, 30]


def test_26_pods_need_338_connections() -> None:
    """archestra#7929: each backend has 1 query connection, 10 for caches and 2 listeners.

    Its chart counts the pods, 26 at the peak; the budget of 200 is too small, 338 is the least.
    """
    pods = Fleet(pods=26, pool=1, overflow=12)
    assert check(plain(338), fleet=pods, stage=RolloutStage.REST).fits
    assert not check(plain(337), fleet=pods, stage=RolloutStage.REST).fits
    done = check(plain(200), fleet=pods, stage=RolloutStage.REST)
    assert (done.reachable(), done.fits) == (338, False)


_SAP = """\
[databases]
* = host=postgres
[pgbouncer]
default_pool_size = 50
reserve_pool_size = {reserve}
max_client_conn = 1000
"""


def test_seven_poolers_of_75_exceed_500_and_of_70_do_not() -> None:
    """sapcc/helm-charts#746: six poolers and one of surge; 7 x (50 + 25) = 525, 7 x 70 = 490."""

    def poolers(reserve: int) -> tuple[int | None, bool]:
        text = _SAP.format(reserve=reserve)
        done = check(
            plain(500), fleet=Fleet(pods=10, pool=5),
            pgbouncer=PgBouncer(text=text, pods=6, surge=1),
        )  # fmt: skip
        return done.reachable(), done.fits

    assert poolers(25) == (525, False)
    assert poolers(20) == (490, True)


def test_two_pools_in_an_instance_make_17_connections_of_it() -> None:
    """guardian/typerighter#480: a pool of 7, and HikariCP's 10 for evolutions of the schema.

    A deployment doubles three instances to six: 6 x 17 = 102; a db.t4g.micro has 81, of which at
    least five are not for applications.
    """
    manifest = deployment("app", 3, env={"DB_POOL_SIZE": "7"}, command='["java", "-jar", "a.jar"]')
    second = """\
        - name: evolutions
          command: ["java", "-jar", "app.jar"]
          env: [{name: SPRING_DATASOURCE_URL, value: "jdbc:postgresql://db/typerighter"}]
"""
    text = manifest.replace("      containers:\n", "      containers:\n" + second)
    done = check(numbers(81, reserved=5), [Manifest(text, "app.yaml")])
    assert done.workloads[0].per_pod == 17
    assert (done.reachable(), done.limits[0].capacity, done.fits) == (102, 76, False)


def test_pools_are_of_a_worker_not_of_a_pod() -> None:
    """IBM/mcp-context-forge#4645: 45 expected, 4 x (15 + 30) = 180 and 16 x 45 = 720 found."""

    def gateway(workers: int) -> int | None:
        done = checked(
            deployment(
                "gateway", 1, command=f'["gunicorn", "-w", "{workers}", "main:app"]',
                env={
                    "DATABASE_URL": "postgresql+psycopg://gateway@db/mcp",
                    "DB_POOL_SIZE": "15", "DB_MAX_OVERFLOW": "30",
                },
            ),
            stage=RolloutStage.REST,
        )  # fmt: skip
        return done.reachable()

    assert gateway(4) == 180
    assert gateway(16) == 720


def test_the_pooler_itself_refuses_clients() -> None:
    """n8n-io/terraform-aws-n8n#106: 460 pods x 20 = 9,200 clients; 2 x 3,000 are admitted."""
    text = (
        "[databases]\n* = host=aurora\n"
        "[pgbouncer]\npool_mode = transaction\nmax_client_conn = 3000\n"
    )
    done = check(
        plain(5000), fleet=Fleet(pods=460, pool=20), stage=RolloutStage.REST,
        pgbouncer=PgBouncer(text=text, pods=2),
    )  # fmt: skip
    limit = done.first
    assert limit.name == "max_client_conn of PgBouncer"
    assert (limit.demand[RolloutStage.REST], limit.capacity) == (9_200, 6_000)
    assert not done.fits
