"""A plan beside the running workload: what its manifest sets, and a patch under its name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from json_schemas import assert_valid
from mrtuner.cli import main
from mrtuner.errors import BadValue, UsageError
from mrtuner.facts import Fact
from mrtuner_pods.connections.formats import resources
from mrtuner_pods.connections.manifest import Place
from mrtuner_pods.planning.running_now import Present, present, quantity
from mrtuner_pods.planning.servers import Server
from sizing_manifests import autoscaler, deployment

RESOURCES = "resources: {requests: {cpu: 500m, memory: 512Mi}, limits: {cpu: 2, memory: 1Gi}}"
ENV = {"DATABASE_URL": "postgres://shop@db/shop?pool=5", "WEB_CONCURRENCY": "2"}
LIMITED = (
    "apiVersion: v1\nkind: LimitRange\nmetadata: {name: usual}\n"
    "spec: {limits: [{type: Container, default: {cpu: 500m}}]}\n---\n"
)


def read(*texts: str, name: str | None = None, server: Server | None = None) -> Present:
    found = resources("".join(texts), "app.yaml")
    return present(found, name, server)


def test_a_manifest_is_what_runs_now() -> None:
    found = read(deployment(env=ENV, container=RESOURCES))
    assert (found.name, found.container, found.server) == ("web", "app", Server.PUMA)
    numbers = (found.pods, found.workers, found.threads, found.pool)
    assert [one.value if one else None for one in numbers] == [4, 2, 5, 5]
    sizes = (found.cpu_request, found.cpu_limit, found.memory_request, found.memory_limit)
    assert [one.value if one else None for one in sizes] == [0.5, 2.0, 512 * 2**20, 2**30]
    assert found.inputs == {"server": "puma", "now": "4x2x5"}
    assert found.pods.source == "app.yaml:5 spec.replicas"


def test_an_autoscaler_decides_the_pods() -> None:
    found = read(deployment(), autoscaler(9))
    assert found.pods.value == 9
    assert found.autoscaler is not None


@pytest.mark.parametrize(
    ("command", "server"),
    [
        ('["gunicorn", "-w", "3", "shop.wsgi"]', Server.GUNICORN),
        ('["gunicorn", "--threads", "4", "shop.wsgi"]', Server.GTHREAD),
        ('["gunicorn", "-k", "gthread", "shop.wsgi"]', Server.GTHREAD),  # with one thread
        ('["gunicorn", "-k", "sync", "shop.wsgi"]', Server.GUNICORN),
        ('["unicorn"]', Server.UNICORN),
    ],
)
def test_the_application_server_is_that_of_the_command(command: str, server: Server) -> None:
    assert read(deployment(command=command, env={})).server is server


def test_a_server_that_is_not_known_has_to_be_given() -> None:
    with pytest.raises(
        BadValue, match="no application server is visible in container app"
    ) as refused:
        read(deployment(command='["./web"]'))
    assert "--server" in (refused.value.hint or "")
    assert read(deployment(command='["./web"]'), server=Server.JVM).server is Server.JVM


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ('["uvicorn", "app:app"]', "uvicorn"),
        ('["gunicorn", "-k", "uvicorn_worker.UvicornWorker", "a:b"]', "uvicorn_worker"),
        ('["gunicorn", "--worker-class=gevent", "a:b"]', "gevent"),
    ],
)
def test_an_event_loop_is_refused_with_the_reason(command: str, name: str) -> None:
    with pytest.raises(BadValue, match=f"{name}.* takes any number of requests at once") as refused:
        read(deployment(command=command))
    assert "mrtuner pods check" in (refused.value.hint or "")


def test_of_several_that_serve_one_has_to_be_named() -> None:
    both = (deployment("web"), deployment("api"))
    with pytest.raises(UsageError, match="2 workloads could be planned"):
        read(*both)
    assert read(*both, name="api").name == "api"
    with pytest.raises(UsageError, match="there is no Deployment shop"):
        read(*both, name="shop")
    assert read(deployment("web"), deployment("jobs", command='["sidekiq"]')).name == "web"


@pytest.mark.parametrize(
    ("text", "number"),
    [("500m", 0.5), (2, 2), ("0.5", 0.5), ("1e3", 1000), ("512Mi", 2**29), ("1.5G", 1.5e9)],
)
def test_quantities_of_kubernetes(text: object, number: float) -> None:
    assert quantity(Place("app.yaml", "cpu", text)) == number


@pytest.mark.parametrize("text", ["2 cores", "1 Gi", "-1", "", True, "1e", "2GB"])
def test_what_is_no_quantity_is_refused(text: object) -> None:
    with pytest.raises(BadValue, match="is not a quantity"):
        quantity(Place("app.yaml", "cpu", text))


# The command.

pytestmark = pytest.mark.usefixtures("short_simulations")
LOAD = ("--rate", "100/s", "--service-time", "27ms", "--cpu-time", "9ms", "--wait-p95", "20ms")


def run(tmp_path: Path, text: str, *arguments: str) -> Result:
    (tmp_path / "app.yaml").write_text(text)
    file = str(tmp_path / "app.yaml")
    return CliRunner().invoke(main, ["pods", "plan", file, *LOAD, *arguments])


def patch(done: Result) -> dict[str, Any]:
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = yaml.safe_load(done.stdout)
    return found


def test_before_and_after_stand_beside_each_other(tmp_path: Path) -> None:
    text = deployment(env=ENV, container=RESOURCES)
    done = run(tmp_path, text)
    assert done.exit_code == 0, done.output
    rows = [row.split() for row in done.stdout.splitlines()]
    assert ["Deployment", "web", "now", "planned"] in rows
    assert any(row[:2] == ["pods", "4"] for row in rows)
    assert any(row[:3] == ["CPU", "request", "500m"] for row in rows)
    told = json.loads(run(tmp_path, text, "--json").stdout)
    assert_valid(told, "mrtuner.pods.plan/1")
    assert told["now"]["layout"] == {"pods": 4, "workers": 2, "threads": 5, "slots": 40}
    assert told["load"]["server"] == "puma"


def test_the_patch_is_for_the_workload_by_its_own_name(tmp_path: Path) -> None:
    found = patch(run(tmp_path, deployment(env=ENV, container=RESOURCES), "--format", "kubernetes"))
    assert (found["apiVersion"], found["kind"]) == ("apps/v1", "Deployment")
    assert found["metadata"] == {"name": "web"}
    assert found["spec"]["replicas"] >= 2
    (container,) = found["spec"]["template"]["spec"]["containers"]
    assert container["name"] == "app"
    assert {one["name"] for one in container["env"]} == {"WEB_CONCURRENCY", "RAILS_MAX_THREADS"}


def test_with_an_autoscaler_the_patch_leaves_the_replicas_alone(tmp_path: Path) -> None:
    text = deployment(env=ENV) + autoscaler(9)
    found = patch(run(tmp_path, text, "--format", "kubernetes"))
    assert "replicas" not in found["spec"]


def test_what_an_autoscaler_could_run_is_no_measure_of_what_waited(tmp_path: Path) -> None:
    """500 ms, measured with some of at most twenty pods, contradict nothing; with three they do."""
    text = deployment(env=ENV) + autoscaler(20)
    log = tmp_path / "waited"
    log.write_text("t=1795478400.100 1795478400.600\n" * 300)
    found = ("--request-start", str(log), "--json")
    most = json.loads(run(tmp_path, text, *found).stdout)
    assert most["now"]["layout"]["pods"] == 20
    assert any("the most pods that its autoscaler allows, 20." in note for note in most["notes"])
    assert not any("before you trust this plan" in one for one in most["warnings"])
    known = json.loads(run(tmp_path, text, *found, "--now", "3x2x5").stdout)
    assert not any("autoscaler allows" in note for note in known["notes"])
    assert any("before you trust this plan" in one for one in known["warnings"])


def test_a_variable_from_a_config_map_is_replaced_with_its_origin(tmp_path: Path) -> None:
    """Kubernetes refuses a variable with both a value and an origin."""
    env = "env: [{name: MAX_THREADS, valueFrom: {configMapKeyRef: {name: c, key: t}}}]"
    config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {t: '3'}\n---\n"
    text = config + deployment(env={}, container=env)
    found = patch(run(tmp_path, text, "--format", "kubernetes"))
    (container,) = found["spec"]["template"]["spec"]["containers"]
    (threads,) = (one for one in container["env"] if one["name"] == "MAX_THREADS")
    assert threads["valueFrom"] is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            deployment(command='["gunicorn", "-w", "4", "app"]'),
            "the command sets the number of workers",
        ),
        (deployment(container="resources: {limits: {memory: 100m}}"), "thousandths of a byte"),
        (
            deployment(env=ENV | {"RAILS_MAX_THREADS": "12"}),
            "web: a pool of 5 for 12 threads: up to 7 of them wait for a connection",
        ),
    ],
)
def test_what_may_not_be_meant_is_warned_of(tmp_path: Path, text: str, said: str) -> None:
    done = run(tmp_path, text)
    assert done.exit_code == 0, done.output
    assert said in " ".join(done.stdout.split())


def now_and_advice(tmp_path: Path, text: str, *arguments: str) -> tuple[dict[str, Any], str]:
    done = run(tmp_path, text, "--json", *arguments)
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert_valid(told, "mrtuner.pods.plan/1")
    return told["now"], " ".join(told["advice"])


def test_what_runs_now_is_simulated_under_its_cpu_limit(tmp_path: Path) -> None:
    """100/s of 9 ms keep 0.9 CPUs busy: four pods of 250m have 1 at most."""
    text = deployment(env=ENV, container="resources: {limits: {cpu: 250m}}")
    now, advice = now_and_advice(tmp_path, text)
    assert now["p95"] > 10 * now["without_limits"] + 0.05
    assert (
        "The current deployment is slowed down by its CPU limit of 250m: the p95 wait is" in advice
    )
    plenty, advice = now_and_advice(tmp_path, deployment(env=ENV, container=RESOURCES))
    assert plenty["without_limits"] is None  # two workers use two CPUs at most
    assert "slowed down" not in advice


def test_a_cpu_limit_that_cannot_carry_the_load_is_told(tmp_path: Path) -> None:
    """Four pods of 200m have 0.8 of the 0.9 CPUs."""
    text = deployment(env=ENV, container="resources: {limits: {cpu: 200m}}")
    now, advice = now_and_advice(tmp_path, text)
    assert (now["p95"], now["needs"], now["part"]) == (None, 1, "CPUs")
    assert "CPU limit of 200m: it cannot carry the load with it, and" in advice
    assert "unstable, needs 1 CPU at least" in " ".join(run(tmp_path, text).stdout.split())


def test_a_cpu_limit_says_nothing_where_the_cpu_time_is_a_guess(tmp_path: Path) -> None:
    (tmp_path / "app.yaml").write_text(
        deployment(env=ENV, container="resources: {limits: {cpu: 250m}}")
    )
    load = ("--rate", "100/s", "--service-time", "27ms")
    arguments = ["pods", "plan", str(tmp_path / "app.yaml"), *load, "--json"]
    told = json.loads(CliRunner().invoke(main, arguments).stdout)
    assert told["now"]["without_limits"] is None
    assert any("The current CPU limit, 250m, is not simulated" in n for n in told["notes"])


def test_what_runs_now_is_simulated_with_its_pool(tmp_path: Path) -> None:
    """A connection for five threads, each of which needs it for 22.5 of 27 ms."""
    url = ENV["DATABASE_URL"].replace("pool=5", "pool=1")
    text = deployment(env=ENV | {"DATABASE_URL": url})
    now, advice = now_and_advice(tmp_path, text, "--database-time", "12ms")
    assert now["p95"] > now["without_limits"] + 0.002
    assert "slowed down by its pool of 1 for 5 threads: the p95 wait is" in advice


def test_a_limit_that_a_limit_range_adds_is_that_of_containers_without_one() -> None:
    found = read(LIMITED, deployment(env=ENV))
    where = "app.yaml:4 spec.limits[0].default.cpu of LimitRange usual"
    assert found.cpu_limit == found.added_limit == Fact(0.5, where)
    own = read(LIMITED, deployment(env=ENV, container=RESOURCES)).cpu_limit
    assert own is not None
    assert own.value == 2.0


def test_a_limit_of_0_limits_nothing() -> None:
    """Kubernetes: a quota of 0 is none, nor does a LimitRange add one beside it."""
    none = 'resources: {limits: {cpu: "0", memory: 0}}'
    found = read(LIMITED, deployment(env=ENV, container=none))
    assert (found.cpu_limit, found.memory_limit) == (None, None)
    assert found.limits == {"now_limit": None, "now_pool": 5, "now_memory": None}
    of_range = read(LIMITED.replace("500m", "0"), deployment(env=ENV))
    assert (of_range.cpu_limit, of_range.added_limit) == (None, None)


def test_a_plan_without_a_limit_is_warned_of_the_limit_range(tmp_path: Path) -> None:
    """Three pods of one worker that the load keeps 90 % busy: with 750m they could not carry it."""
    text = LIMITED + deployment(env=ENV, command='["unicorn"]')
    (tmp_path / "app.yaml").write_text(text)
    load = ("--rate", "100/s", "--service-time", "27ms", "--wait-p95", "2s")
    sizes = ("--pods", "3", "--workers", "1")
    done = CliRunner().invoke(
        main, ["pods", "plan", str(tmp_path / "app.yaml"), *load, *sizes, "--json"]
    )
    told = json.loads(done.stdout)
    assert told["cpu"]["limit"] is None
    (warning,) = (one for one in told["warnings"] if "LimitRange" in one)
    assert warning.startswith("a container without a CPU limit gets one of 500m (")
    assert "app.yaml:4 spec.limits[0].default.cpu of LimitRange usual)" in warning


def test_a_name_without_a_manifest_is_refused() -> None:
    done = CliRunner().invoke(main, ["pods", "plan", *LOAD, "--deployment", "web"])
    assert done.exit_code == 2
    assert "--deployment is for a manifest" in done.stderr
