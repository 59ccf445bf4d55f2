"""How many pods there are, and what each opens: expected values are worked out by hand."""

from __future__ import annotations

import json
import subprocess

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from machine import needs
from mrtuner.catalog.timers import EVIDENCE
from mrtuner.facts import Fact
from mrtuner_pods.connections import Fleet, Given, RolloutStage, check
from mrtuner_pods.connections.model import Rollout
from mrtuner_pods.connections.schedule import least_gap
from mrtuner_pods.frameworks import app_servers, framework, frameworks
from node_packages import node_packages
from sizing_manifests import URL, autoscaler, checked, cron_job, deployment, plain


def stages(*texts: str, pool: int = 1) -> list[int | None]:
    given = Given(pool={"": pool})
    done = checked(*texts, given=given)
    return [done.reachable(stage) for stage in RolloutStage]


# Pods.


def test_a_rollout_rounds_as_kubernetes_does() -> None:
    """25 % of 4: 1 of surge, 1 unavailable. Of 1: 1 and 0. 30 % of 5: 2 and 1."""
    assert stages(deployment(replicas=4)) == [4, 5, 6, 8]
    assert stages(deployment(replicas=1)) == [1, 2, 2, 2]
    thirty = "strategy: {rollingUpdate: {maxSurge: 30%, maxUnavailable: 30%}}"
    assert stages(deployment(replicas=5, spec=thirty)) == [5, 7, 8, 10]


def test_a_surge_never_makes_more_than_twice_the_pods() -> None:
    """There are at most as many new pods as are wanted, and as many old ones."""
    much = "strategy: {rollingUpdate: {maxSurge: 300%, maxUnavailable: 0}}"
    assert stages(deployment(replicas=3, spec=much)) == [3, 6, 6, 6]


def test_no_surge_still_overlaps_with_what_is_terminating() -> None:
    """maxSurge 0 and maxUnavailable 1: a new pod starts in the grace period of the old one."""
    none = "strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}"
    assert stages(deployment(replicas=3, spec=none)) == [3, 3, 4, 6]
    at_once = deployment(replicas=3, spec=none, pod="terminationGracePeriodSeconds: 0")
    assert stages(at_once) == [3, 3, 3, 3]


@pytest.mark.parametrize(
    "text",
    [
        deployment(replicas=3, spec="strategy: {type: Recreate}"),
        deployment(replicas=3, kind="StatefulSet"),
        deployment(replicas=3, kind="ReplicaSet"),
    ],
)
def test_some_replace_a_pod_only_when_it_is_gone(text: str) -> None:
    assert stages(text) == [3, 3, 3, 3]


@drawn(
    st.integers(1, 500),
    st.integers(0, 100),
    st.integers(0, 100),
    st.sampled_from(list(RolloutStage)),
)
def test_later_stages_have_no_fewer_pods_and_never_more_than_two_generations(
    wanted: int, surge: int, unavailable: int, stage: RolloutStage
) -> None:
    one = Rollout(
        desired=Fact(wanted, ""), surge=Fact(surge, ""), unavailable=Fact(unavailable, "")
    )
    pods = [one.pods(each) or 0 for each in RolloutStage]
    assert pods == sorted(pods)
    assert wanted <= (one.pods(stage) or 0) <= 2 * wanted


def test_an_autoscaler_wins_over_replicas_and_its_kind_counts() -> None:
    assert stages(deployment(replicas=4), autoscaler(10))[0] == 10
    assert stages(deployment(replicas=4), autoscaler(10, kind="StatefulSet"))[0] == 4


def test_keda_has_a_hundred_pods_by_default_and_a_connection_for_each_trigger() -> None:
    """100 pods, 200 in a rollout; two triggers query PostgreSQL, the third does not."""
    scaled = """\
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: web}
spec:
  scaleTargetRef: {name: web}
  triggers: [{type: postgresql}, {type: cpu}, {type: postgresql}]
---
"""
    assert stages(deployment(), scaled) == [102, 127, 152, 202]


def test_of_a_daemon_set_on_unknown_nodes_there_is_one_pod_at_least() -> None:
    text = deployment("agent", replicas=None, kind="DaemonSet")
    unknown = checked(text, given=Given(pool={"": 2}))
    assert (unknown.reachable(), unknown.fits, unknown.exceeds) == (2, False, False)
    (missing,) = unknown.unjudged
    assert (missing.name, missing.option) == ("agent", "--nodes N")
    assert checked(text, given=Given(nodes=12, pool={"": 2})).reachable() == 24
    assert checked(text, given=Given(replicas={"agent": 7}, pool={"": 2})).reachable() == 14


def test_a_daemon_set_with_a_surge_has_more_pods_in_a_rollout() -> None:
    """12 nodes, 30 % of them at once: 3.6, so 4 more; in the end each has two."""
    surge = "updateStrategy: {rollingUpdate: {maxSurge: 30%, maxUnavailable: 0}}"
    text = deployment(replicas=None, kind="DaemonSet", spec=surge)
    done = checked(text, given=Given(nodes=12, pool={"": 1}))
    assert [done.reachable(stage) for stage in RolloutStage] == [12, 16, 16, 24]


SCALED_JOB = """\
apiVersion: keda.sh/v1alpha1
kind: ScaledJob
metadata: {name: mails}
spec:
  MORE
  jobTargetRef:
    parallelism: 2
    template:
      spec:
        containers:
          - name: mail
            command: ["rake", "mail"]
            env: [{name: DB_POOL, value: "1"}, {name: DB_HOST, value: db}]
  triggers: [{type: postgresql}]
---
"""


@pytest.mark.parametrize(
    ("more", "pods"),
    [
        # 30 jobs of 2 pods; a changed ScaledJob deletes its jobs, which end while new ones start.
        ("maxReplicaCount: 30", [61, 61, 61, 121]),
        ("maxReplicaCount: 30\n  rollout: {strategy: gradual}", [61, 61, 61, 61]),
        ("pollingInterval: 5", [201, 201, 201, 401]),  # 100 jobs by default
    ],
)
def test_jobs_of_keda_are_as_many_as_it_may_start(more: str, pods: list[int]) -> None:
    """One more connection is that of KEDA's trigger."""
    assert stages(SCALED_JOB.replace("MORE", more)) == pods


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        # Of 7: 30 % are 2.1, so 3; half of them are 3.5, so 4 stay; 2 of them by number.
        ("maxUnavailable: 30%", "3 evicted (app.yaml:25 spec.maxUnavailable, 30%), so a drain can "
         "lead to 10 pods at once"),
        ("minAvailable: 50%", "3 evicted (app.yaml:25 spec.minAvailable, 50%), so a drain can lead "
         "to 10 pods at once"),
        ("maxUnavailable: 2", "2 evicted (app.yaml:25 spec.maxUnavailable), so a drain can lead to "
         "9 pods at once"),
        ("minAvailable: 9", "0 evicted (app.yaml:25 spec.minAvailable), so a drain can lead to 7 "
         "pods at once"),
    ],
)  # fmt: skip
def test_a_disruption_budget_limits_drains_and_no_rollout(spec: str, said: str) -> None:
    budget = (
        "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web}\nspec:\n"
        f"  {spec}\n  selector: {{matchLabels: {{app: web}}}}\n"
    )
    labels = "  template:\n    metadata: {labels: {app: web, tier: a}}\n"
    text = deployment(replicas=7).replace("  template:\n", labels)
    while text.count("\n") < 20:
        text += "---\n"
    done = checked(text, budget, given=Given(pool={"": 1}))
    # 25 % of 7: 2 more, 1 away; 14 while all are replaced.
    assert [done.reachable(stage) for stage in RolloutStage] == [7, 9, 10, 14]
    (note,) = [one for one in done.notes if "PodDisruptionBudget" in one]
    assert note.endswith(said)


@pytest.mark.parametrize(
    ("deploy", "pods"),
    [
        ("{replicas: 6}", [6, 6, 6, 6]),
        ("{replicas: 6, update_config: {order: stop-first, parallelism: 2}}", [6, 6, 6, 6]),
        ("{replicas: 6, update_config: {order: start-first, parallelism: 2}}", [6, 8, 8, 12]),
        ("{replicas: 6, update_config: {order: start-first}}", [6, 7, 7, 12]),
        ("{replicas: 6, update_config: {order: start-first, parallelism: 0}}", [6, 12, 12, 12]),
    ],
)
def test_a_service_that_starts_new_containers_first_has_more(deploy: str, pods: list[int]) -> None:
    text = (
        "services:\n  web:\n    image: shop\n    command: puma\n"
        f"    environment: {{DATABASE_URL: 'postgres://app@db/shop'}}\n    deploy: {deploy}\n"
    )
    assert stages(text) == pods


def test_a_service_on_every_node_has_as_many_as_there_are_nodes() -> None:
    text = (
        "services:\n  web:\n    image: shop\n    command: puma\n"
        "    environment: {DB_POOL: '3', DB_HOST: db}\n    deploy: {mode: global}\n"
    )
    assert [one.name for one in checked(text).unjudged] == ["web"]
    assert checked(text, given=Given(nodes=4)).reachable() == 12


def test_jobs_run_as_parallel_as_they_say_and_cron_jobs_as_their_policy_allows() -> None:
    job = deployment("load", None, kind="Job", spec="parallelism: 6\ncompletions: 4")
    assert stages(job) == [4, 4, 4, 4]
    assert stages(cron_job("concurrencyPolicy: Forbid", "parallelism: 3"))[0] == 3
    assert stages(cron_job("concurrencyPolicy: Replace"))[0] == 2
    assert stages(cron_job("suspend: true"))[0] == 0


def test_runs_of_a_cron_job_pile_up_unless_something_ends_them() -> None:
    """Every 10 minutes: 30 minutes and 30 s of grace make four at the same time."""
    endless = checked(cron_job(), given=Given(pool={"": 1}))
    assert endless.reachable() is None
    assert not endless.fits
    assert stages(cron_job(job="activeDeadlineSeconds: 1800"))[0] == 4
    assert stages(cron_job(job="activeDeadlineSeconds: 500"))[0] == 1
    said = checked(cron_job(), given=Given(pool={"": 1}, runs={"nightly": 2}))
    assert said.reachable() == 2


@pytest.mark.parametrize(
    ("schedule", "seconds"),
    [
        ("* * * * *", 60), ("*/7 * * * *", 240), ("0 3 * * 1", 86400), ("15,45 * * * *", 1800),
        ("0 8-10 * * *", 3600), ("50 23,0 * * *", 3600), ("@hourly", 3600), ("5/20 * * * *", 1200),
    ],
)  # fmt: skip
def test_the_shortest_time_between_two_runs(schedule: str, seconds: int) -> None:
    """*/7 ends at minute 56: four minutes to the next hour."""
    assert least_gap(schedule) == seconds


# What a pod opens.


def test_init_containers_are_gone_before_the_others_start_and_sidecars_stay() -> None:
    """max(init 9, 5 + sidecar 2), then max(init 3, 5 + 2)."""

    def pod(first: int) -> int | None:
        containers = f"""\
      initContainers:
        - {{name: migrate, env: [{{name: DB_POOL, value: "{first}"}}]}}
        - {{name: agent, restartPolicy: Always, env: [{{name: DB_POOL, value: "2"}}]}}
"""
        text = deployment(replicas=1, env={"DB_POOL": "5"}).replace(
            "      containers:", containers + "      containers:"
        )
        return checked(text).workloads[0].per_pod

    assert (pod(9), pod(3)) == (9, 7)


def test_a_connection_string_wins_over_variables_and_both_over_the_default() -> None:
    """samvera/hyku#3219: RAILS_MAX_THREADS=12, but pool=5 in the connection string."""
    with_both = checked(
        deployment(env={"DATABASE_URL": f"{URL}?pool=5", "RAILS_MAX_THREADS": "12"})
    )
    pool = with_both.workloads[0].pools[0]
    assert pool.size == Fact(5, "app.yaml:12 env DATABASE_URL: pool")
    assert pool.threads == Fact(12, "app.yaml:13 env RAILS_MAX_THREADS")
    assert "pool=5 takes precedence over 12" in with_both.warnings[0]
    assert "a pool of 5 for 12 threads: up to 7 of them wait" in with_both.warnings[1]
    alone = checked(deployment(env={"DATABASE_URL": URL, "RAILS_MAX_THREADS": "12"}))
    assert alone.workloads[0].pools[0].size.value == 12
    assert not alone.warnings
    silent = checked(deployment()).workloads[0].pools[0]
    assert silent.size.value == 5
    assert "default of Rails" in silent.size.source


@pytest.mark.parametrize(
    ("command", "env", "connections"),
    [
        # Rails: 5, or what a variable or the connection string says.
        ('["bundle", "exec", "puma", "-w", "3"]', {"DATABASE_URL": URL}, 15),
        ('["bin/rails", "server"]', {"DATABASE_URL": URL, "WEB_CONCURRENCY": "2"}, 10),
        ('["unicorn", "-c", "u.rb"]', {"DATABASE_URL": URL, "WEB_CONCURRENCY": "4"}, 20),
        ('["bundle", "exec", "sidekiq", "-c", "20"]', {"DATABASE_URL": f"{URL}?pool=22"}, 20),
        # Django: one for each thread; four workers of two.
        ('["gunicorn", "--workers=4", "--threads", "2", "shop.wsgi"]',
         {"DJANGO_SETTINGS_MODULE": "shop.settings"}, 8),
        ('["sh", "-c", "exec gunicorn -w ${WORKERS:-3} shop.wsgi"]',
         {"DJANGO_SETTINGS_MODULE": "shop.settings"}, 3),
        ('["gunicorn", "shop.wsgi"]',
         {"DJANGO_SETTINGS_MODULE": "s", "GUNICORN_CMD_ARGS": "-w 6 --threads 4"}, 24),
        # SQLAlchemy: 5 + 10 in each process.
        ('["uvicorn", "main:app", "--workers", "2"]',
         {"DATABASE_URL": "postgresql+psycopg://shop@db/shop"}, 30),
        # asyncpg's own pool, HikariCP, node-postgres, Prisma 6 on 8 CPUs, pgx on 8, Npgsql.
        ('["python", "main.py"]', {"DATABASE_URL": "postgresql+asyncpg://shop@db/shop"}, 15),
        ('["java", "-jar", "app.jar"]',
         {"SPRING_DATASOURCE_URL": "jdbc:postgresql://db/shop"}, 10),
        ('["java"]', {"SPRING_DATASOURCE_URL": "jdbc:postgresql://db/shop",
                      "SPRING_DATASOURCE_HIKARI_MAXIMUM_POOL_SIZE": "30"}, 30),
        ('["node", "server.js"]', {"DATABASE_URL": URL}, 10),
        ('["node", "server.js"]', {"DATABASE_URL": f"{URL}?connection_limit=3"}, 3),
        ('["/app"]', {"DATABASE_URL": f"{URL}?pool_max_conns=16"}, 16),
        ('["dotnet", "app.dll"]', {"ConnectionStrings__Main": "Host=db;Database=shop"}, 100),
        ('["dotnet", "app.dll"]',
         {"ConnectionStrings__Main": "Host=db;Database=shop;Maximum Pool Size=20"}, 20),
        # Options of a JVM come before variables, those of the program before its own.
        ('["java", "-Dspring.datasource.hikari.maximum-pool-size=50", "-jar", "a.jar"]',
         {"SPRING_DATASOURCE_URL": "jdbc:postgresql://db/shop",
          "SPRING_DATASOURCE_HIKARI_MAXIMUMPOOLSIZE": "30"}, 50),
        ('["java", "-Dspring.datasource.hikari.maximumPoolSize=50", "-jar", "a.jar", '
         '"--spring.datasource.hikari.maximum-pool-size=40"]',
         {"SPRING_DATASOURCE_URL": "jdbc:postgresql://db/shop"}, 40),
        ('["java", "-jar", "a.jar"]',
         {"SPRING_DATASOURCE_URL": "jdbc:postgresql://db/shop",
          "JAVA_TOOL_OPTIONS": "-Xmx1g -Dspring.datasource.hikari.maximum-pool-size=60"}, 60),
        ('["start", "--db-pool-max-size=200"]',
         {"KC_DB": "postgres", "KC_DB_URL_HOST": "db"}, 200),
        # Drivers that wrap the driver; what Phoenix writes.
        ('["java"]', {"SPRING_DATASOURCE_URL": "jdbc:aws-wrapper:postgresql://db/shop"}, 10),
        ('["bin/shop", "start"]', {"DATABASE_URL": "ecto://app:secret@db/shop",
                                   "PHX_SERVER": "true", "POOL_SIZE": "40"}, 40),
        # A variable that is named like a pool.
        ('["/app"]', {"DB_POSTGRESDB_POOL_SIZE": "7"}, 7),
    ],
)  # fmt: skip
def test_what_one_pod_opens(command: str, env: dict[str, str], connections: int) -> None:
    """Prisma 7 is the newest known; it does not read connection_limit, and opens 10."""
    done = checked(deployment(replicas=1, command=command, env=env))
    assert done.workloads[0].per_pod == connections


def test_an_autoscaler_scales_where_only_one_of_both_names_its_namespace() -> None:
    """kubectl -n gives the other one its namespace: 10 pods of 5. One of another does not count."""
    web = deployment(replicas=None).replace("{name: web}", "{name: web, namespace: prod}", 1)
    assert checked(web, autoscaler(10), stage=RolloutStage.REST).reachable() == 50
    other = autoscaler(10).replace("{name: web}", "{name: web, namespace: test}", 1)
    assert checked(web, other, stage=RolloutStage.REST).reachable() == 5


@pytest.mark.parametrize(
    ("name", "more", "connections"),
    [
        ("prisma:6.19", {"node_cpus": 8}, 17),  # 2 x 8 + 1
        ("prisma:7.0", {}, 10),
        ("pgx", {"node_cpus": 8}, 8),
        ("pgx", {"node_cpus": 2}, 4),  # the greater of 4 and the CPUs
        ("django", {"threads": {"": 3}}, 3),
        ("rails:7.1", {}, 5),
        ("database/sql", {}, None),
    ],
)
def test_defaults_by_name_and_version(
    name: str, more: dict[str, object], connections: int | None
) -> None:
    given = Given(framework={"web": name}, **more)  # type: ignore[arg-type]
    done = checked(deployment(replicas=1, command='["/app"]'), given=given)
    assert done.workloads[0].per_pod == connections


def test_several_databases_of_one_server_have_a_pool_each() -> None:
    """Three pools on db, and one on the replica, another server that is judged by itself."""
    env = {
        "DATABASE_URL": URL, "CACHE_DATABASE_URL": "postgres://shop@db/cache",
        "QUEUE_DATABASE_URL": "postgres://shop@db/queue",
        "REPLICA_DATABASE_URL": "postgres://shop@replica/shop",
    }  # fmt: skip
    done = checked(deployment(replicas=1, env=env))
    assert [done.reachable(RolloutStage.REST, server) for server in ("db", "replica")] == [15, 5]
    assert done.reachable(RolloutStage.REST) == 15


def test_config_maps_and_secrets_are_read_where_they_are_here() -> None:
    source = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: shop}
data: {WEB_CONCURRENCY: "4"}
---
apiVersion: v1
kind: Secret
metadata: {name: shop}
data: {DATABASE_URL: cG9zdGdyZXM6Ly9zaG9wOnNlY3JldEBkYi9zaG9wP3Bvb2w9Nw==}
---
"""
    pod = "envFrom: [{configMapRef: {name: shop}}, {secretRef: {name: shop}}]"
    text = deployment(replicas=1, env={}, container=pod)
    done = checked(source, text)
    assert done.workloads[0].per_pod == 28  # 4 x 7
    assert "secret" not in repr(done.workloads)
    alone = checked(text)
    assert alone.workloads[0].per_pod == 5
    assert any("Secret shop is not available" in note for note in alone.notes)


def test_a_connection_string_may_be_put_together_from_other_variables() -> None:
    env = {
        "DB_USER": "shop", "DB_PASSWORD": "pa$word", "POOL": "9",
        "DATABASE_URL": "postgres://$(DB_USER):$(DB_PASSWORD)@db/shop?pool=$(POOL)",
    }  # fmt: skip
    pool = checked(deployment(replicas=1, env=env)).workloads[0].pools[0]
    assert (pool.size.value, pool.role, pool.database) == (9, "shop", "shop")


def test_the_role_and_the_database_may_be_in_variables_of_libpq() -> None:
    env = {"PGHOST": "db", "PGUSER": "shop", "PGDATABASE": "stock"}
    pool = checked(deployment(replicas=1, env=env)).workloads[0].pools[0]
    assert (pool.role, pool.database, pool.host) == ("shop", "stock", "db")


def test_what_has_no_database_is_named_and_not_counted() -> None:
    nginx = deployment("front", env={}, command='["nginx"]')
    done = checked(nginx, deployment(replicas=1))
    assert [one.name for one in done.workloads] == ["web"]
    assert "container app is not counted: nothing shows that it uses PostgreSQL" in done.notes[0]
    page = deployment("page", env={"NODE_ENV": "production"}, command='["node", "server.js"]')
    assert [one.name for one in checked(page, deployment()).workloads] == ["web"]
    others = (
        deployment("legacy", env={"DATABASE_URL": "mysql2://shop@my/shop", "DB_POOL": "9"}),
        deployment("cache", env={"REDIS_DB": "0"}, command='["/app"]'),
    )
    assert [one.name for one in checked(*others, deployment()).workloads] == ["web"]
    both = {"LEGACY_DATABASE_URL": "mysql2://shop@my/shop", "DB_HOST": "db"}
    assert checked(deployment("both", env=both)).workloads[0].name == "both"
    hidden = deployment("jobs", env={}, command='["run"]',
                        container="envFrom: [{secretRef: {name: jobs}}]")  # fmt: skip
    assert "Secret jobs is not available" in checked(hidden, deployment()).warnings[0]


def test_a_server_in_a_pod_is_no_client_of_itself() -> None:
    server = deployment("db", 1, kind="StatefulSet", env={"POSTGRES_PASSWORD": "x"},
                        container="image: docker.io/library/postgres:18")  # fmt: skip
    assert [one.name for one in checked(server, deployment()).workloads] == ["web"]


# Unbounded.


@pytest.mark.parametrize(
    ("command", "env"),
    [
        ('["uvicorn", "shop.asgi"]', {"DJANGO_SETTINGS_MODULE": "shop.settings"}),
        ('["gunicorn", "-k", "gevent", "shop.wsgi"]', {"DJANGO_SETTINGS_MODULE": "s"}),
        ('["uvicorn", "main:app"]',
         {"DATABASE_URL": "postgresql+psycopg://shop@db/shop", "DB_POOL_SIZE": "0"}),
        ('["uvicorn", "main:app"]',
         {"DATABASE_URL": "postgresql+psycopg://shop@db/shop", "DB_MAX_OVERFLOW": "-1"}),
        ('["dotnet", "a.dll"]', {"ConnectionStrings__A": "Host=db;Username=a;Pooling=false"}),
    ],
)  # fmt: skip
def test_a_pool_without_a_limit_is_unbounded_and_never_fits(
    command: str, env: dict[str, str]
) -> None:
    done = checked(deployment(replicas=1, command=command, env=env), most=100_000)
    assert done.reachable() is None
    assert not done.fits
    assert done.remedies().larger is None
    assert done.remedies().fewer[0].connections == 0


# Without a manifest.


def test_plain_numbers_do_without_a_manifest() -> None:
    """6 machines x 4 workers x 3 databases x (5 + 2); a rollout of all at once."""
    fleet = Fleet(pods=6, workers=4, databases=3, pool=5, overflow=2)
    done = check(plain(504), fleet=fleet, stage=RolloutStage.REST)
    assert (done.reachable(), done.fits) == (504, True)
    assert check(plain(504), fleet=fleet).reachable() == 1008


# The table of frameworks.


def test_every_default_names_its_source_and_on_what_it_rests() -> None:
    facts = [(one.name, default.source, default.evidence)
             for one in frameworks().values() for default in one.defaults]  # fmt: skip
    facts += [(one.name, one.source, one.evidence) for one in app_servers().values()]
    for name, source, evidence in facts:
        assert source, name
        assert evidence in EVIDENCE, name
    wanted = {
        "rails",
        "django",
        "sqlalchemy",
        "hikaricp",
        "node-postgres",
        "prisma",
        "pgx",
        "npgsql",
    }
    assert wanted <= set(frameworks())


def test_the_python_pools_have_these_defaults() -> None:
    """Asked of the libraries themselves."""
    from psycopg_pool import ConnectionPool
    from sqlalchemy import create_engine

    pool = create_engine("postgresql+psycopg://db/shop").pool
    known = framework("sqlalchemy").default()
    assert pool.size() == known.size == 5  # type: ignore[attr-defined]
    assert pool._max_overflow == known.overflow == 10  # type: ignore[attr-defined]
    closed = ConnectionPool("host=nowhere", open=False)
    assert closed.max_size == framework("psycopg_pool").default().size == 4


@pytest.mark.usefixtures("asks")
def test_node_postgres_has_this_default() -> None:
    """Read in its source, the package pg-pool."""
    source = (node_packages() / "pg-pool" / "index.js").read_text(encoding="utf-8")
    size = framework("node-postgres").default().size
    assert f"this.options.poolSize || {size}" in source
    assert size == 10


@needs("active_record/version")
def test_rails_has_this_default_and_a_url_wins() -> None:
    """Asked of Active Record itself."""
    given = {"plain": "postgresql://db/shop", "pool": "postgresql://db/shop?pool=7"}
    asked = (
        'require "active_record"; require "json"; ActiveRecord::Base;'
        "known = JSON.parse(ARGV[0]).transform_values { |url| { 'url' => url } };"
        "all = ActiveRecord::DatabaseConfigurations.new(known);"
        "print JSON[known.to_h { |name, _| [name, all.configs_for(env_name: name).first.pool] }]"
    )
    done = subprocess.run(
        ["ruby", "-e", asked, json.dumps(given)], capture_output=True, text=True, check=True
    )
    assert framework("rails").default().size == 5
    assert json.loads(done.stdout) == {"plain": 5, "pool": 7}
    env = {"DATABASE_URL": given["pool"], "RAILS_ENV": "production"}
    assert checked(deployment(replicas=1, env=env)).reachable(RolloutStage.REST) == 7
