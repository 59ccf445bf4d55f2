"""Forty applications that everybody knows, in the shapes in which they publish how to run them.

The inputs are written for these tests, each after the shape that is named beside it; the right
answers are worked out by hand from the application's own documentation or source, for no rollout.
Where manifests do not say how many sessions there can be, the only right answer is that.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mrtuner_pods.connections import Check, Manifest, RolloutStage, check, numbers
from test_connections_shapes import deployment

HERE = Path(__file__).parent / "applications"

#: The file, its shape, what a pod of each workload opens, and all of them together.
COUNTED = [
    # 2 Puma workers of 5 threads on 2 pods, 25 threads with DB_POOL=25, streaming's own 10.
    ("mastodon", "mastodon/chart", [10, 25, 10], 55),
    # RAILS_MAX_THREADS and SIDEKIQ_CONCURRENCY: 5 and 10 (config/database.yml).
    ("chatwoot", "chatwoot: docker-compose.production.yaml", [5, 10], 15),
    ("keycloakx", "codecentric's chart keycloakx", [30], 60),
    ("gitea", "Gitea's chart", [40], 40),
    # .env.dist: ?pool=50 for the server, the scheduler and the websocket; nginx has none.
    ("zammad", "zammad-docker-compose", [50, 50, 50], 150),
    # main, 2 workers, webhook: 5 each.
    ("n8n", "n8n-hosting: withPostgresAndWorker", [5, 5, 5], 20),
    ("metabase", "Metabase's page on Docker", [15], 30),
    # 4 workers, 1 for cron, 1 for longpolling: 6 x 16.
    ("odoo", "docker library: odoo", [96], 96),
    # The web server and the compute engine: 2 x 60.
    ("sonarqube", "SonarQube's chart", [120], 120),
    ("hasura", "hasura: install-manifests/kubernetes", [20], 40),
    ("directus", "Directus: self-hosting quickstart", [8], 24),
    ("strapi", "Strapi: a generated project on Kubernetes", [7], 14),
    # WEB_CONCURRENCY 2 x 5 (server/storage/database.ts).
    ("outline", "outline: docker-compose and app.json", [10], 20),
    # Ecto's 10 and Oban's notifier.
    ("plausible", "plausible/community-edition: compose.yml", [11], 11),
    ("prefect", "prefect-helm: prefect-server", [15], 30),
    ("langfuse", "langfuse-k8s", [8, 8], 24),
    ("vaultwarden", "Vaultwarden's wiki", [10], 10),
    ("mattermost", "Mattermost's chart", [60], 120),
    ("miniflux", "Miniflux: docker-compose", [20], 20),
    ("ory-hydra", "Ory's chart of Hydra", [20], 40),
    # 3 poolers x 10.
    ("cloudnativepg-pooler", "CloudNativePG: connection pooling", [15], 30),
    # 80 for all poolers: 40 each, of a pool of 30 and that of the pooler's own role.
    ("zalando-pooler", "Zalando: complete-postgres-manifest", [15], 80),
    # 2 poolers x 15.
    ("crunchy-pgbouncer", "Crunchy: tutorial, connection pooling", [15], 30),
]

#: The file, its shape, what can be counted of it, and why that is not all.
NOT_COUNTED = [
    ("gitlab", "GitLab's chart: webservice", 0, "its pools follow its threads"),
    ("discourse", "discourse: config/unicorn.conf.rb", 0, "starts Sidekiq"),
    ("sentry", "getsentry/self-hosted", 0, "it is Sentry"),
    # The web server's 4 workers have 15 each.
    ("airflow", "Airflow's chart", 60, "processes of their own"),
    # 4 workers of 2 threads; Celery has as many processes as CPUs.
    ("superset", "Superset's chart", 8, "as many workers as CPUs"),
    ("keycloak-operator", "Keycloak's operator", 0, "what its operator starts is not known"),
    ("temporal", "temporalio/docker-compose", 0, "each of its services has a pool"),
    ("nextcloud", "docker library: nextcloud", 0, "each process of PHP"),
    ("odoo-by-file", "docker library: odoo, with odoo.conf", 0, "its workers may be in odoo.conf"),
    ("harbor", "Harbor's chart", 900, "it takes its pool from the core"),
    ("dagster", "Dagster's chart", 0, "without a pool"),
    ("immich", "immich: docker-compose", 0, "several processes"),
    ("authentik", "authentik's chart", 0, "several kinds of processes"),
    ("posthog", "PostHog: docker-compose.hobby", 0, "scripts of its image"),
    # Prisma 6 takes the node's CPUs, Prisma 7 takes 10.
    ("calcom", "cal.com: docker-compose", 20, "depends on its version"),
    ("liquibase-job", "a Java program that is not Spring's", 10, "only its runtime suggests"),
]  # fmt: skip


def answered(name: str) -> Check:
    file = HERE / f"{name}.yaml"
    text = file.read_text(encoding="utf-8")
    return check(numbers(1000, reserved=0), [Manifest(text, file.name)], stage=RolloutStage.REST)


def test_every_input_has_an_answer() -> None:
    told = {*(one[0] for one in COUNTED), *(one[0] for one in NOT_COUNTED), "grafana"}
    assert {one.stem for one in HERE.glob("*.yaml")} == told


@pytest.mark.parametrize(
    ("name", "each", "together"), [(one[0], one[2], one[3]) for one in COUNTED]
)
def test_what_a_known_application_opens(name: str, each: list[int], together: int) -> None:
    done = answered(name)
    assert done.unjudged == ()
    assert [one.per_pod for one in done.workloads] == each
    assert (done.reachable(), done.fits) == (together, True)


@pytest.mark.parametrize(
    ("name", "counted", "why"), [(one[0], one[2], one[3]) for one in NOT_COUNTED]
)
def test_what_a_known_application_does_not_say(name: str, counted: int, why: str) -> None:
    done = answered(name)
    assert (done.fits, done.exceeds, done.reachable()) == (False, False, counted)
    assert any(why in one.why for one in done.unjudged)


def test_an_application_without_a_limit_does_not_fit() -> None:
    """Grafana: [database] max_open_conn is 0, unlimited, unless somebody sets it."""
    done = answered("grafana")
    assert (done.reachable(), done.exceeds) == (None, True)


def test_of_pooler_settings_that_the_operator_decides_the_default_is_not_all() -> None:
    """Zalando: 60 by default, for all pods of the pooler."""
    text = (
        "apiVersion: acid.zalan.do/v1\nkind: postgresql\nmetadata: {name: shop}\n"
        "spec: {enableConnectionPooler: true}\n"
    )
    done = check(numbers(1000), [Manifest(text)], stage=RolloutStage.REST)
    assert (done.reachable(), done.fits) == (60, False)


def test_a_second_pooler_is_not_counted() -> None:
    pooler = (
        "apiVersion: postgresql.cnpg.io/v1\nkind: Pooler\nmetadata: {name: NAME}\n"
        "spec: {cluster: {name: shop}, pgbouncer: {poolMode: transaction}}\n"
    )
    text = "---\n".join(pooler.replace("NAME", name) for name in ("rw", "ro"))
    done = check(numbers(1000), [Manifest(text)], stage=RolloutStage.REST)
    assert [one.name for one in done.unjudged] == ["pooler ro"]
    assert not done.fits


OURS = deployment('["puma"]', "DATABASE_URL=postgres://app@db/shop", name="ours")
MOUNTED = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: other}
spec:
  template:
    spec:
      volumes: [{name: settings, configMap: {name: settings}}]
      containers:
        - name: app
          image: example/other:1
          volumeMounts: [{name: settings, mountPath: /etc/other}]
"""
SETTINGS = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {other.yaml: "DATABASE"}
"""
COMPOSE = """\
services:
  main: {image: "postgres:18"}
  other:
    image: example/other:1
    DEPENDS
"""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        # What is mounted mentions PostgreSQL, or is not here.
        (f"{MOUNTED}---\n{SETTINGS}".replace("DATABASE", "url: jdbc:postgresql://db/other"),
         "ConfigMap settings mentions PostgreSQL"),
        (MOUNTED, "ConfigMap settings may hold its connections"),
        # A service of Compose that depends on PostgreSQL uses it.
        (COMPOSE.replace("DEPENDS", "depends_on: [main]"), "it depends on main"),
        (COMPOSE.replace("DEPENDS", "links: ['main:db']"), "it depends on main"),
        (COMPOSE.replace("DEPENDS", "depends_on: {main: {condition: service_healthy}}"),
         "it depends on main"),
        # A connection string on the command line.
        (deployment('["/serve", "--dsn=postgres://app@db/other"]', "A=b"),
         "shows neither its framework nor its pool"),
        # A server's own file, which is not here, says how many there are.
        (deployment('["puma", "-C", "config/puma.rb"]', "DATABASE_URL=postgres://app@db/shop"),
         "are in config/puma.rb"),
        (deployment('["gunicorn", "-c", "g.py", "-w", "3", "a.wsgi"]', "PGHOST=db",
                    "DJANGO_SETTINGS_MODULE=a"), "the threads of container app are in g.py"),
        # A language is no pool, and JDBC is none either.
        (deployment('["node", "server.js"]', "DATABASE_URL=postgres://app@db/shop"),
         "only its runtime suggests node-postgres"),
        (deployment('["/start"]', "APP_JDBC_URL=jdbc:postgresql://db/app"),
         "shows neither its framework nor its pool"),
        # The parent of unicorn's workers starts Sidekiq as well; an own image does not show it.
        (deployment('["unicorn"]', "UNICORN_WORKERS=4", "DISCOURSE_DB_HOST=db"), "it is Discourse"),
        # Outline without WEB_CONCURRENCY: as many processes as CPUs.
        (deployment('["yarn", "start"]', "PGHOST=db", image="outlinewiki/outline"),
         "as many workers as CPUs"),
        # Names of variables without a line between: Paperless; of Elastic Beanstalk; of Ory.
        *((deployment('["/start"]', one), "shows neither its framework nor its pool")
          for one in ("PAPERLESS_DBHOST=db", "RDS_HOSTNAME=db", "DSN=postgres://db/app")),
        # Phoenix has this variable as well as Rails.
        (deployment('["/app/bin/server"]', "SECRET_KEY_BASE=a", "DATABASE_URL=postgres://db/a"),
         "shows neither its framework nor its pool"),
    ],
)  # fmt: skip
def test_what_uses_postgresql_without_saying_how_is_named(text: str, why: str) -> None:
    for manifest in ([text], [text, OURS]):
        given = [Manifest(one, f"{number}.yaml") for number, one in enumerate(manifest)]
        done = check(numbers(1000), given, stage=RolloutStage.REST)
        assert not done.fits
        assert any(why in one.why for one in done.unjudged)


def test_an_application_whose_own_configuration_has_workers() -> None:
    """Mastodon's config/puma.rb: two workers of five threads, where no variable says more."""
    for command in ('["puma", "-C", "config/puma.rb"]', '["bundle", "exec", "puma"]'):
        text = deployment(command, "DB_HOST=db", image="ghcr.io/mastodon/mastodon:v4.3")
        done = check(numbers(1000), [Manifest(text)], stage=RolloutStage.REST)
        assert (done.workloads[0].per_pod, done.unjudged) == (10, ())


@pytest.mark.parametrize(
    "script",
    ["until nc -z db 5432; do sleep 2; done", "dockerize -wait tcp://db:5432",
     "while ! pg_isready -h $DB_HOST; do sleep 1; done"],
)  # fmt: skip
def test_an_init_container_that_only_waits_for_the_server_is_no_client(script: str) -> None:
    """As charts of Superset, Keycloak and others have it; puma has 5 on each of two pods."""
    first = (
        "      initContainers:\n      - name: wait\n        image: busybox\n"
        f"        command: [sh, -c, '{script}']\n"
        "        env: [{name: DB_HOST, value: db}]\n      containers:\n"
    )
    text = OURS.replace("      containers:\n", first)
    done = check(numbers(1000), [Manifest(text)], stage=RolloutStage.REST)
    assert (done.unjudged, done.reachable(), done.fits) == ((), 10, True)


def test_signs_of_an_application_win_over_its_servers_usual_framework() -> None:
    text = deployment('["puma", "-w", "2"]', "GF_DATABASE_HOST=db", "GF_DATABASE_MAX_OPEN_CONN=3")
    (one,) = check(numbers(1000), [Manifest(text)], stage=RolloutStage.REST).workloads
    assert (one.per_pod, one.pools[0].framework) == (6, "Grafana")


@pytest.mark.parametrize(
    "text",
    [
        f"{MOUNTED}---\n{SETTINGS}",  # its settings are here, and mention no PostgreSQL
        MOUNTED.replace("example/other:1", "nginx:1.27"),
        MOUNTED.replace("name: settings}}]", "name: shop-tls}}]"),
        COMPOSE.replace("DEPENDS", "depends_on: [cache]"),
        # Vaultwarden has a file, unless it is told of PostgreSQL; a worker of Prefect has an API.
        COMPOSE.replace("    DEPENDS\n", "").replace("example/other", "vaultwarden/server"),
        deployment('["prefect", "worker", "start"]', "PREFECT_API_URL=http://api"),
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"
        "metadata: {name: a.b}\nspec: {description: for postgres}\n",
        "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata: {name: pg}\n"
        "spec: {expr: postgres_up}\n",
    ],
)
def test_what_does_not_use_it_is_no_reason_for_doubt(text: str) -> None:
    done = check(
        numbers(1000),
        [Manifest(text, "other.yaml"), Manifest(OURS, "ours.yaml")],
        stage=RolloutStage.REST,
    )
    assert (done.unjudged, done.reachable(), done.fits) == ((), 10, True)
