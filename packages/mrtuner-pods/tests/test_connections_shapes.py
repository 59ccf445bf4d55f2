"""Manifests of public shapes: how containers, poolers and databases are really described.

The right answers are worked out by hand, for no rollout; they are beside each case.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mrtuner_pods.connections import (
    Check,
    Fleet,
    Given,
    Manifest,
    PgBouncer,
    RolloutStage,
    check,
    numbers,
    text,
)
from mrtuner_pods.connections.document import pods_check_document

HERE = Path(__file__).parent / "manifests"


def answered(name: str, connections: int = 1000) -> Check:
    text = (HERE / name).read_text(encoding="utf-8")
    return check(numbers(connections), [Manifest(text, name)], stage=RolloutStage.REST)


@pytest.mark.parametrize(
    ("name", "each", "together"),
    [
        ("02-shell-sidekiq.yaml", 15, 30),  # -c 15 of sidekiq, not of sh
        ("03-sqlalchemy-asyncpg.yaml", 30, 90),  # 2 processes x (5 + 10)
        ("04-quarkus.yaml", 20, 80),
        ("06-mysql-beside.yaml", 10, 20),  # MySQL's 5 x 50 are not ours
        ("08-npgsql.yaml", 50, 150),
        ("09-go-convention.yaml", 25, 100),
        ("10-celery.yaml", 8, 16),
        ("11-url-pool.yaml", 10, 30),  # 2 x 5 threads; the pool would allow 75
    ],
)
def test_what_a_pod_opens(name: str, each: int, together: int) -> None:
    done = answered(name)
    (one,) = done.workloads
    assert (one.per_pod, done.reachable(), done.fits) == (each, together, True)


@pytest.mark.parametrize(
    ("name", "counted", "missing"),
    [
        ("01-secret-envfrom.yaml", 15, "Secret shop-env"),
        ("05-prisma-pgbouncer.yaml", 30, "whose pools are not known"),
    ],
)
def test_what_is_elsewhere_is_not_judged(name: str, counted: int, missing: str) -> None:
    done = answered(name)
    assert (done.fits, done.exceeds, done.reachable()) == (False, False, counted)
    assert any(missing in one.why for one in done.unjudged)


def test_the_database_of_another_kind_is_named() -> None:
    assert any(
        "container old is not counted" in note for note in answered("06-mysql-beside.yaml").notes
    )


def test_a_pool_that_is_known_by_its_name_alone_says_so() -> None:
    (pool,) = answered("09-go-convention.yaml").workloads[0].pools
    assert pool.size.source.endswith("env DB_MAX_OPEN_CONNS, by its name")


def test_threads_and_pool_are_both_said_where_the_threads_bind() -> None:
    (pool,) = answered("11-url-pool.yaml").workloads[0].pools
    assert "RAILS_MAX_THREADS" in pool.size.source
    assert "the pool allows 75" in pool.size.source


def test_of_celery_it_is_said_what_is_assumed_of_the_parent() -> None:
    assert any("parent" in note for note in answered("10-celery.yaml").notes)


def test_two_servers_are_judged_one_by_one() -> None:
    """40 each: 60 admit both, although 80 connect in all; 35 admit neither."""
    done = answered("07-two-hosts.yaml", 60)
    assert done.servers == ("db-a.example.internal", "db-b.example.internal")
    assert [done.reachable(server=one) for one in done.servers] == [40, 40]
    assert (done.fits, done.reachable()) == (True, 40)
    tight = answered("07-two-hosts.yaml", 35)
    assert [one.name for one in tight.limits if not one.fits(RolloutStage.REST)] == [
        "max_connections of db-a.example.internal", "max_connections of db-b.example.internal",
    ]  # fmt: skip
    assert [one.workload for one in tight.remedies().fewer] == ["a", "b"]


def test_one_server_has_one_name() -> None:
    """With a port, with its namespace, in capitals: 10 and 100 connections to one server."""
    web = deployment('["run"]', "SPRING_DATASOURCE_URL=jdbc:postgresql://db.prod.svc:5432/s")
    login = deployment('["start"]', "KC_DB=postgres", "KC_DB_URL_HOST=DB:5432", name="login")
    done = check(numbers(1000), [Manifest(f"{web}---\n{login}")], stage=RolloutStage.REST)
    assert (done.servers, done.reachable()) == ((), 220)


def test_clients_of_a_pooler_in_session_mode_keep_their_sessions() -> None:
    """4 x 30 clients compete for 20 sessions: 100 wait, whatever max_connections is."""
    done = answered("12-pgbouncer-image.yaml", 5000)
    assert (done.fits, done.first.capacity, done.first.demand[RolloutStage.REST]) == (
        False,
        20,
        120,
    )
    assert "session mode" in done.first.name


def test_a_pooler_has_a_pool_for_each_database_that_its_star_stands_for() -> None:
    text = (HERE / "pgbouncer-any.ini").read_text(encoding="utf-8")
    fleet = Fleet(pods=4, pool=10, databases=3)
    done = check(numbers(1000), fleet=fleet, pgbouncer=PgBouncer(text=text), given=Given())
    assert done.reachable() == 60


def deployment(command: str, *variables: str, image: str = "shop", name: str = "web") -> str:
    given = "".join(
        f"        - {{name: {one.partition('=')[0]}, value: '{one.partition('=')[2]}'}}\n"
        for one in variables
    )
    return (
        f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\n"
        "spec:\n  replicas: 2\n  template:\n    spec:\n      containers:\n"
        f"      - name: app\n        image: {image}\n        command: {command}\n"
        f"        env:\n{given}"
    )


URL = "DATABASE_URL=postgres://app@db/shop"


@pytest.mark.parametrize(
    ("command", "variables", "each"),
    [
        # Assignments before a command are its own; what is done first has ended.
        ('["sh", "-c", "rake db:migrate && WEB_CONCURRENCY=3 exec puma -t 1:4"]', [URL], 12),
        # Two at once: 5 of the jobs, 2 x 5 of the web server.
        ('["bash", "-lc", "bundle exec sidekiq & bundle exec puma -w 2 -t 5:5"]', [URL], 15),
        ('["tini", "--", "sh", "-ec", "exec gunicorn -w 2 --threads 3 a.wsgi"]',
         [URL, "DJANGO_SETTINGS_MODULE=a"], 6),
        # One line, as compose and ECS write it.
        ('["bundle exec puma -w 2 -t 3:3"]', [URL], 6),
        ('["sh", "-c", "exec puma -w ${WORKERS:-4}"]', [URL], 20),
        # Celery: threads of one process, one after the other, at most ten of autoscale.
        ('["celery", "-A", "a", "worker", "-P", "threads", "-c", "6"]',
         [URL, "DJANGO_SETTINGS_MODULE=a"], 6),
        ('["celery", "-A", "a", "worker", "--pool=solo"]', [URL, "DJANGO_SETTINGS_MODULE=a"], 1),
        ('["celery", "-A", "a", "worker", "--autoscale=10,2"]',
         [URL, "DJANGO_SETTINGS_MODULE=a"], 10),
        ('["celery", "-A", "a", "beat"]', [URL, "DJANGO_SETTINGS_MODULE=a"], 1),
        ('["start"]', ["KC_DB=postgres", "KC_DB_URL=jdbc:postgresql://db/kc"], 100),
        ('["run"]', ["SPRING_DATASOURCE_URL=jdbc:postgresql://db/s"], 10),
        ('["worker"]', ["DB_TYPE=postgresdb", "DB_POSTGRESDB_HOST=db"], 2),
        ('["run"]', ["Quarkus_Datasource_Users_Jdbc_Max_Size=7",
                     "QUARKUS_DATASOURCE_USERS_JDBC_URL=jdbc:postgresql://db/s"], 7),
    ],
)  # fmt: skip
def test_how_commands_are_read(command: str, variables: list[str], each: int) -> None:
    done = check(
        numbers(1000), [Manifest(deployment(command, *variables))], stage=RolloutStage.REST
    )
    assert done.unjudged == ()
    assert sum(one.per_pod or 0 for one in done.workloads) == each


@pytest.mark.parametrize(
    "variables",
    [
        ["SPRING_DATASOURCE_URL=jdbc:oracle:thin:@//o/shop", "SPRING_DATASOURCE_USERNAME=app"],
        ["SPRING_DATASOURCE_URL=jdbc:h2:mem:shop", "SPRING_DATASOURCE_USERNAME=sa"],
        ["QUARKUS_DATASOURCE_DB_KIND=mariadb", "QUARKUS_DATASOURCE_USERNAME=app"],
        ["KC_DB=mysql", "KC_DB_URL_HOST=m"],
        ["GF_DATABASE_TYPE=mysql", "GF_DATABASE_HOST=m:3306"],
        ["DB_CONNECTION=mysql", "DB_HOST=m"],
        ["ConnectionStrings__Default=Server=s;Database=a;User Id=a;TrustServerCertificate=true"],
    ],
)
def test_other_databases_are_not_counted(variables: list[str]) -> None:
    postgres = deployment('["run"]', "SPRING_DATASOURCE_URL=jdbc:postgresql://db/s", name="ours")
    other = deployment('["run"]', *variables)
    done = check(numbers(1000), [Manifest(f"{postgres}---\n{other}")], stage=RolloutStage.REST)
    assert ([one.name for one in done.workloads], done.unjudged) == (["ours"], ())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (deployment('["foreman", "start"]', URL), "foreman starts several processes"),
        (deployment('["celery", "-A", "a", "worker"]', URL, "DJANGO_SETTINGS_MODULE=a"),
         "as many workers as CPUs"),
        (deployment('["uwsgi", "--ini", "a.ini"]', URL, "DJANGO_SETTINGS_MODULE=a"), "in a.ini"),
        (deployment('["run"]', "SPRING_DATASOURCE_URL=jdbc:postgresql://shop-pooler/s"),
         "whose pools are not known"),
        (deployment('["run"]', "SPRING_DATASOURCE_URL=jdbc:postgresql://db:6432/s"),
         "whose pools are not known"),
        ("apiVersion: acid.zalan.do/v1\nkind: postgresql\nmetadata: {name: shop}\n"
         "spec: {enableConnectionPooler: true}\n", "the operator puts a pooler before it"),
    ],
)  # fmt: skip
def test_what_cannot_be_counted_is_named_and_never_fits(text: str, why: str) -> None:
    done = check(numbers(1000), [Manifest(text)], stage=RolloutStage.REST)
    assert not done.fits
    assert not done.exceeds
    assert any(why in one.why for one in done.unjudged)


def test_what_cannot_be_counted_is_listed_for_all_containers_at_once() -> None:
    first = deployment('["celery", "-A", "a", "worker"]', URL, "DJANGO_SETTINGS_MODULE=a")
    second = deployment('["/app"]', URL, name="api")
    third = deployment('["puma"]', URL, name="shop")
    done = check(
        numbers(1000), [Manifest("---\n".join([first, second, third]))], stage=RolloutStage.REST
    )
    assert [one.name for one in done.unjudged] == ["web, container app", "api, container app"]
    assert done.reachable() == 10


def test_a_service_leads_to_the_pooler() -> None:
    """The clients name the service; the pooler takes its variables from Bitnami's image."""
    pooler = deployment(
        '["/run"]', "POSTGRESQL_HOST=db", "PGBOUNCER_POOL_MODE=transaction",
        "PGBOUNCER_DEFAULT_POOL_SIZE=9", image="bitnami/pgbouncer", name="bouncer",
    )  # fmt: skip
    pod = "    spec:\n      containers"
    pooler = pooler.replace(pod, f"    metadata: {{labels: {{app: b}}}}\n{pod}")
    service = "apiVersion: v1\nkind: Service\nmetadata: {name: pg}\nspec: {selector: {app: b}}\n"
    web = deployment('["puma"]', "DATABASE_URL=postgres://app@pg/shop")
    jobs = deployment('["sidekiq"]', URL, name="jobs")
    text = "---\n".join([pooler, service, web, jobs])
    done = check(numbers(1000), [Manifest(text)], stage=RolloutStage.REST)
    assert done.pooled == {"web"}
    assert [(one.name, one.reachable[RolloutStage.REST]) for one in done.terms] == [
        ("PgBouncer", 18), ("jobs", 10),
    ]  # fmt: skip


COMPOSE = """\
x-env: &env
  DATABASE_URL: postgres://app@db/shop
services:
  db:
    image: postgres:18
    environment: {POSTGRES_USER: app}
  web:
    image: shop
    command: bundle exec puma -w ${WEB_CONCURRENCY:-2} -t 4:4
    environment:
      <<: *env
      RAILS_ENV: production
    deploy: {replicas: 3}
  jobs:
    image: shop
    entrypoint: ["bundle", "exec"]
    command: ["sidekiq", "-c", "7"]
    environment: [DATABASE_URL=postgres://app@db/shop, RAILS_ENV=production]
"""


def test_a_compose_file() -> None:
    """3 x 2 x 4 of web; jobs have 7 threads and Rails' pool of 5. db is the server."""
    done = check(numbers(1000), [Manifest(COMPOSE, "compose.yaml")], stage=RolloutStage.REST)
    assert [(one.name, one.kind, one.reachable[RolloutStage.REST]) for one in done.terms] == [
        ("web", "Compose service", 24), ("jobs", "Compose service", 5),
    ]  # fmt: skip
    assert (done.fits, done.reachable(RolloutStage.OVERLAP)) == (True, 29)


@pytest.mark.parametrize(
    "more",
    ["    env_file: .env\n    command: puma\n",
     "    environment: [DATABASE_URL]\n    command: puma\n",
     "    environment: {DATABASE_URL: '${DATABASE_URL}'}\n    command: puma\n"],
)  # fmt: skip
def test_what_compose_takes_from_elsewhere_is_not_judged(more: str) -> None:
    text = f"services:\n  web:\n    image: shop\n{more}"
    done = check(numbers(1000), [Manifest(text)], stage=RolloutStage.REST)
    assert (done.fits, done.exceeds, len(done.unjudged)) == (False, False, 1)


TASK = """\
{"family": "shop", "containerDefinitions": [
  {"name": "web", "image": "shop", "command": ["sh", "-c", "exec gunicorn -w 3 --threads 2 a.wsgi"],
   "environment": [{"name": "DJANGO_SETTINGS_MODULE", "value": "a"},
                   {"name": "DB_HOST", "value": "db"}],
   "secrets": [{"name": "DB_PASSWORD", "valueFrom": "arn"}]},
  {"name": "proxy", "image": "nginx"}]}
"""


def test_a_task_definition_of_ecs() -> None:
    """6 a task; 4 tasks at rest, and twice as many while ECS replaces them: maximumPercent 200."""
    unknown = check(numbers(1000), [Manifest(TASK)], stage=RolloutStage.REST)
    assert (unknown.reachable(), unknown.fits) == (6, False)
    assert unknown.unjudged[0].hint == "--replicas shop=N"
    given = Given(replicas={"shop": 4})
    done = check(numbers(1000), [Manifest(TASK)], given=given, stage=RolloutStage.SURGE)
    assert [done.reachable(stage) for stage in (RolloutStage.REST, RolloutStage.SURGE)] == [24, 48]


def test_a_procfile() -> None:
    """2 x 5 of web on two dynos, 5 of the worker; the app's variables are not here."""
    text = (
        "release: rake db:migrate\nweb: bundle exec puma -w 2 -t 5:5\nworker: bundle exec sidekiq\n"
    )
    given = Given(replicas={"web": 2, "worker": 1})
    done = check(numbers(1000), [Manifest(text, "Procfile")], given=given, stage=RolloutStage.REST)
    assert [(one.name, one.reachable[RolloutStage.REST]) for one in done.terms] == [
        ("web", 20), ("worker", 5),
    ]  # fmt: skip
    assert not done.fits
    assert all("config vars" in one.why for one in done.unjudged)


def test_options_in_a_variable_are_read_also_where_a_quote_is_open() -> None:
    more = 'GUNICORN_CMD_ARGS=--workers=3 --name "shop'
    text = deployment('["gunicorn", "a.wsgi"]', URL, more, "DJANGO_SETTINGS_MODULE=a")
    (one,) = check(numbers(1000), [Manifest(text)], stage=RolloutStage.REST).workloads
    assert one.per_pod == 3


def test_a_limit_says_what_sets_it_and_whose_it_is() -> None:
    """40 each, 32 of 35 are admitted; a role's limit is none of the server's."""
    told = pods_check_document(answered("07-two-hosts.yaml", 35))
    assert [(one.kind, one.server) for one in told.limits] == [
        ("max_connections", "db-a.example.internal"), ("max_connections", "db-b.example.internal"),
    ]  # fmt: skip
    assert " ".join(text.check(told)).count("max_connections = 43 instead of 35") == 1
    fleet, limited = Fleet(pods=4, pool=10), numbers(1000, role_limits={"": 7})
    (_, role) = pods_check_document(check(limited, fleet=fleet, stage=RolloutStage.REST)).limits
    assert (role.kind, role.admits, role.server) == ("role", 7, None)
