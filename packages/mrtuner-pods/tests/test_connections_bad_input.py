"""Input that cannot be used, or means something other than it seems to: an error or a warning."""

from __future__ import annotations

from typing import Any

import pytest

from mrtuner.errors import BadValue, UsageError
from mrtuner_pods.connections import (
    Fleet,
    Given,
    Manifest,
    PgBouncer,
    RolloutStage,
    check,
    numbers,
)
from sizing_manifests import URL, autoscaler, checked, cron_job, deployment, plain

INI = "[databases]\n* = host=db\n[pgbouncer]\n"


def refused(*texts: str, given: Given | None = None) -> BadValue:
    with pytest.raises(BadValue) as raised:
        checked(*texts, given=given)
    assert raised.value.hint
    return raised.value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("replicas: {{ .Values.replicas }}\n", "app.yaml is a Helm template that was not rendered"),
        ('{{- include "app.labels" . }}\n', "app.yaml is a Helm template that was not rendered"),
        ("a: [1\nb: 2\n", "app.yaml:2: not YAML"),
        ("", "app.yaml is empty"),
        ("---\n---\n", "app.yaml is empty"),
        ("replicaCount: 3\n", "app.yaml is not a manifest: an object has no kind"),
        ("- 1\n- 2\n", "app.yaml is not a manifest"),
        ("!!python/object/apply:os.system ['true']\n", "app.yaml:1: not YAML"),
    ],
)
def test_what_is_no_manifest_says_what_it_is(text: str, said: str) -> None:
    assert refused(text).message.startswith(said)


@pytest.mark.parametrize("replicas", ["1e3", "'3'", "2.5", "${REPLICAS}", "true", "-1"])
def test_replicas_are_digits(replicas: str) -> None:
    """YAML reads 1e3 as text, and other readers as a thousand."""
    assert refused(deployment(replicas=replicas)).message.startswith("app.yaml:5 spec.replicas")


def test_a_surge_of_0_and_none_unavailable_is_refused_as_kubernetes_does() -> None:
    both = "strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 0%}}"
    assert "are both 0" in refused(deployment(spec=both)).message
    odd = "strategy: {rollingUpdate: {maxSurge: a quarter}}"
    assert "neither a number of pods nor a percentage" in refused(deployment(spec=odd)).message
    assert "is not a strategy" in refused(deployment(spec="strategy: {type: Blue}")).message


def test_an_autoscaler_without_a_maximum_or_below_its_minimum_is_refused() -> None:
    assert "no maxReplicas" in refused(deployment(), autoscaler("null")).message
    low = autoscaler(2).replace("  maxReplicas", "  minReplicas: 5\n  maxReplicas")
    assert "2 is less than minReplicas, 5" in refused(deployment(), low).message


def test_two_autoscalers_of_one_workload_are_told_and_the_larger_counts() -> None:
    second = autoscaler(12).replace("metadata: {name: web}", "metadata: {name: other}")
    done = checked(deployment(), autoscaler(8), second, stage=RolloutStage.REST)
    assert done.workloads[0].rollout.desired.value == 12
    assert "has 2 autoscalers, which work against each other" in done.warnings[0]


def test_more_replicas_than_the_autoscaler_allows_count_and_are_told() -> None:
    done = checked(deployment(replicas=20), autoscaler(10), stage=RolloutStage.REST)
    assert done.workloads[0].rollout.desired.value == 20
    assert "20 is more than its autoscaler's 10" in done.warnings[0]


def test_an_object_that_is_there_twice_is_refused() -> None:
    assert refused(deployment(), deployment()).message == (
        "Deployment web is defined twice: app.yaml:2 and app.yaml:15"
    )


def test_a_schedule_and_a_policy_that_are_none() -> None:
    late = "activeDeadlineSeconds: 60"
    wrong = cron_job(job=late).replace("*/10 * * * *", "every day")
    assert "is not a cron schedule" in refused(wrong).message
    assert "is not a policy" in refused(cron_job("concurrencyPolicy: Never")).message


@pytest.mark.parametrize(
    ("env", "said"),
    [
        (
            {"DATABASE_URL": f"{URL}?pool=five"},
            "app.yaml:12 env DATABASE_URL: pool: 'five' is not a",
        ),
        ({"DATABASE_URL": URL, "RAILS_MAX_THREADS": "1e3"}, "'1e3' is not a whole number"),
        ({"DATABASE_URL": URL, "WEB_CONCURRENCY": "-2"}, "-2 is less than 0"),
        ({"DATABASE_URL": f"{URL}?pool=0"}, "env DATABASE_URL: pool: a pool of 0"),
    ],
)
def test_a_number_that_is_none_is_named_by_its_variable(env: dict[str, str], said: str) -> None:
    error = refused(deployment(env=env))
    assert said in error.message
    assert "secret" not in f"{error.message} {error.hint}"


def not_counted(*manifests: str, **more: Any) -> str:
    """Why the one container of these manifests is not counted; then it never fits."""
    done = checked(*manifests, **more)
    assert (done.fits, done.reachable()) == (False, 0)
    (missing,) = done.unjudged
    return missing.why


def test_a_pool_that_cannot_be_known_is_asked_for() -> None:
    unknown = deployment(command='["/app"]')
    (missing,) = checked(unknown).unjudged
    assert missing.why == (
        "app.yaml:9: container app has DATABASE_URL, but shows neither its framework nor its pool"
    )
    assert "rails, django, " in str(missing.hint)
    pgx = Given(framework={"": "pgx"})
    assert "depends on the CPUs of the node" in not_counted(unknown, given=pgx)
    django = deployment(command='["/app"]', env={"DJANGO_SETTINGS_MODULE": "s"})
    assert "the threads of container app are not known" in not_counted(django)
    auto = deployment(env={"DATABASE_URL": URL, "WEB_CONCURRENCY": "auto"})
    assert "as many workers as CPUs" in not_counted(auto)
    elsewhere = deployment(env={"DATABASE_URL": URL, "WEB_CONCURRENCY": "$WORKERS"})
    assert "is filled in elsewhere" in not_counted(elsewhere)
    no_pool = deployment(env={"DATABASE_URL": "postgresql+psycopg://s@db/s", "DB_POOL_SIZE": "-3"})
    assert "is less than -1" in refused(no_pool).message


def test_names_versions_and_workloads_that_do_not_exist() -> None:
    assert (
        "unknown framework 'rail'"
        in refused(deployment(), given=Given(framework={"web": "rail"})).message
    )
    assert (
        "Rails (Active Record) 3.2 is not known"
        in refused(deployment(), given=Given(framework={"web": "rails:3.2"})).message
    )
    error = refused(deployment(), given=Given(pool={"wep": 5}))
    assert (error.message, error.hint) == ("there is no workload wep", "There are: web.")
    with pytest.raises(BadValue, match="there is no workload wep"):
        check(plain(10), [Manifest(deployment())], direct=["wep"])


@pytest.mark.parametrize(
    ("memory", "said"),
    [
        ("100m", "100m is thousandths of a byte, not 100Mi"),
        ("1e3", "1e3 is a number of bytes, too few for any process"),
        ("512", "512 is a number of bytes, too few for any process"),
    ],
)
def test_memory_that_nobody_means_is_a_warning(memory: str, said: str) -> None:
    limits = f"resources: {{limits: {{memory: {memory}}}}}"
    (warning,) = checked(deployment(container=limits)).warnings
    assert warning.endswith(said)
    assert not checked(deployment(container="resources: {limits: {memory: 512Mi}}")).warnings


def test_a_kind_that_is_not_known_is_a_warning_and_not_silence() -> None:
    done = checked(deployment("other", kind="Rollout"), deployment())
    assert done.warnings == ("app.yaml:2: Rollout other is not counted: its kind is not known",)


def test_a_list_is_its_items() -> None:
    items = deployment().replace("---\n", "")
    text = "kind: List\nitems:\n  - " + items.rstrip().replace("\n", "\n    ") + "\n"
    assert checked(text, stage=RolloutStage.REST).reachable() == 20


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("default_pool_size = 20\n", "is not a pgbouncer.ini"),
        ("[server]\nport = 1\n", "neither [databases] nor [pgbouncer]"),
        ("[databases]\n[pgbouncer]\n", "has no [databases]"),
        (f"{INI}default_pool_size = many\n", "'many' is not a whole number"),
        (f"{INI}max_client_conn = 0\n", "0 is less than 1"),
        ("[databases]\n%include other.ini\n", "its databases are in another file"),
    ],
)
def test_what_is_no_configuration_of_pgbouncer(text: str, said: str) -> None:
    with pytest.raises(BadValue) as raised:
        check(plain(100), fleet=Fleet(pods=1, pool=1), pgbouncer=PgBouncer(text=text))
    assert said in raised.value.message


@pytest.mark.parametrize("section", ["", "[users]\n"])
def test_settings_in_a_file_that_was_not_read_are_not_judged(section: str) -> None:
    text = f"{INI}{section}%include more.ini\n"
    done = check(plain(100), fleet=Fleet(pods=1, pool=1), pgbouncer=PgBouncer(text=text))
    assert [one.name for one in done.unjudged] == ["pgbouncer.ini: %include more.ini"]
    assert (done.fits, done.exceeds) == (False, False)


def test_variables_of_a_pooler_that_are_elsewhere_are_not_judged() -> None:
    size = "{name: DEFAULT_POOL_SIZE, valueFrom: {configMapKeyRef: {name: c, key: size}}}"
    pooler = deployment(
        "pooler", 1, env={}, command="[]",
        container=f"image: edoburu/pgbouncer\nenv: [{{name: DB_HOST, value: db}}, {size}]",
    )  # fmt: skip
    web = deployment("web", 1, env={"DATABASE_URL": "postgres://shop@pooler/shop?pool=5"})
    done = checked(pooler, web, stage=RolloutStage.REST)
    assert (done.fits, done.exceeds, done.reachable()) == (False, False, 20)
    (missing,) = done.unjudged
    assert (missing.name, missing.option) == ("pooler", "--pgbouncer FILE")
    assert "DEFAULT_POOL_SIZE may hold its settings" in missing.why


@pytest.mark.parametrize(
    "data",
    ["data: {DATABASE_URL: 'ENC[AES256_GCM,data:p7e=]'}",
     "data: {DATABASE_URL: '<path:kv/data/shop#url>'}",
     "stringData: {DATABASE_URL: 'ref+vault://shop#/url'}"],
)  # fmt: skip
def test_a_value_that_another_tool_puts_in_is_not_judged(data: str) -> None:
    secret = f"apiVersion: v1\nkind: Secret\nmetadata: {{name: shop}}\n{data}\n---\n"
    web = deployment(env={}, container="envFrom: [{secretRef: {name: shop}}]")
    done = checked(secret, web, stage=RolloutStage.REST)
    assert (done.fits, done.reachable()) == (False, 20)
    assert "may hold its connections" in done.unjudged[0].why
    plainly = checked(deployment(env={"DATABASE_URL": "vault:secret/data/shop#url"}))
    assert "may hold its connections" in plainly.unjudged[0].why


def test_a_reactive_driver_is_not_said_to_have_the_pool_of_another() -> None:
    url = {"SPRING_R2DBC_URL": "r2dbc:postgresql://db/shop"}
    done = checked(deployment(command='["java"]', env=url))
    assert "only its runtime suggests" in done.unjudged[0].why
    mysql = {"SPRING_R2DBC_URL": "r2dbc:mysql://db/shop"}
    assert not checked(deployment(command='["java"]', env=mysql), deployment("other")).unjudged


def test_a_pooler_in_a_manifest_without_its_configuration_is_not_judged() -> None:
    pooler = deployment("pooler", env={}, command="[pgbouncer]", container="image: x/pgbouncer:1")
    (missing,) = checked(pooler, deployment()).unjudged
    assert (missing.name, "its configuration is missing" in missing.why) == ("pooler", True)


def test_a_server_that_would_not_start_is_refused() -> None:
    with pytest.raises(BadValue, match="max_connections 3 is not above what is reserved, 3"):
        numbers(3)
    with pytest.raises(BadValue, match="max_connections 1000000 is out of range"):
        numbers(1_000_000)


def test_nothing_to_check_is_said() -> None:
    with pytest.raises(UsageError, match="nothing there connects to a database"):
        check(plain(10), [Manifest(deployment(env={}, command="[nginx]"))])
    with pytest.raises(UsageError, match="require each other"):
        check(plain(10), fleet=Fleet(pods=1, pool=1), rate=400)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (deployment(command="5"), "command is not a list: a number"),
        (deployment(command="puma"), "command is not a list: a text"),
        ("kind: ConfigMap\nmetadata: {name: a}\ndata: [a]\n", "data is not a mapping: a list"),
        ("apiVersion: postgresql.cnpg.io/v1\nkind: Pooler\nmetadata: {name: a}\n"
         "spec: {pgbouncer: {parameters: [a]}}\n", "parameters is not a mapping: a list"),
        ("services:\n  web: {image: a, depends_on: 5}\n", "depends_on is not a list: a number"),
        ("services:\n  web: {image: a, deploy: x}\n", "deploy is not a mapping: a text"),
        ("containerDefinitions: [{name: a, command: true}]\n",
         "command is not a list: true or false"),
    ],
)  # fmt: skip
def test_what_has_another_type_is_refused_with_its_place(text: str, said: str) -> None:
    error = refused(text)
    assert said in error.message
    assert error.message.startswith("app.yaml:")
