"""What a plan cannot know, what depends on chance, and pods that the kernel kills."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from json_schemas import assert_valid
from mrtuner.cli import main
from mrtuner.errors import Refused
from mrtuner_pods.planning import plan
from mrtuner_pods.planning.document import plan_document
from mrtuner_pods.planning.model import Plan
from mrtuner_pods.planning.text import lines

pytestmark = pytest.mark.usefixtures("short_simulations")
#: Two pods of 160 workers, each with a memory limit of 8 GiB.
PODS = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  template:
    spec:
      containers:
        - name: web
          command: ["gunicorn", "-w", "160", "a.wsgi"]
          resources: {limits: {memory: 8Gi}}
          env: [{name: DJANGO_SETTINGS_MODULE, value: a}]
"""


def made(**given: Any) -> Plan:
    return plan(rate="50/s", service_time="100ms", **given)


def run(*arguments: str | Path) -> Result:
    given = ("--rate", "50/s", "--service-time", "100ms")
    return CliRunner().invoke(main, ["pods", "plan", *map(str, arguments), *given])


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    file = tmp_path / "web.yaml"
    file.write_text(PODS, encoding="utf-8")
    return file


# Memory.


@pytest.mark.parametrize("master", [(), ("--master-memory", "50MB")])
def test_pods_with_too_little_memory_are_killed_whatever_they_wait(
    manifest: Path, tmp_path: Path, master: tuple[str, ...]
) -> None:
    """160 x 100 MB are 16,000 MB, and the pod has 8,192: its master does not matter."""
    page = tmp_path / "plan.html"
    given = (str(manifest), "--worker-memory", "100MB", "--cpu-time", "20ms", *master)
    done = run(*given, "--html", page)
    assert done.exit_code == 0, done.stderr
    rows = [row.split() for row in done.stdout.splitlines()]
    assert ["p95", "wait", "killed", "(OOM)"] in [row[:4] for row in rows]
    assert "2 pods with 160 workers: killed (OOM): 160 workers of 100 MB" in done.stdout
    assert "killed (OOM)" in page.read_text(encoding="utf-8")
    told = json.loads(run(*given, "--json").stdout)
    assert_valid(told, "mrtuner.pods.plan/1")
    assert told["now"]["p95"] is None
    assert told["now"]["killed"].endswith(", and a pod has 8 GB")
    assert any("kills the current pods" in one for one in told["warnings"])


def test_pods_with_enough_memory_are_not_killed() -> None:
    """50 + 4 x 100 = 450 MB: a pod of 450 MB has it, one of 449 MB has not."""
    memory = {"worker_memory": "100MB", "master_memory": "50MB", "now": "4x4"}
    enough, short = (
        made(**memory, cpu_time="20ms", pod_memory=size).now for size in ("450MB", "449MB")
    )
    assert enough is not None
    assert short is not None
    assert (enough.killed, short.p95) == (None, None)
    assert enough.p95 is not None
    assert short.killed is not None


def test_no_pod_is_planned_that_would_be_killed() -> None:
    """(500 - 50) / 100 MB: four workers at most, of the eight that are usual."""
    memory = {"worker_memory": "100MB", "master_memory": "50MB"}
    free, small = (made(**memory, pod_memory=size) for size in (None, "500MB"))
    assert [one.layout.workers for one in free.alternatives] == [1, 2, 4, 8]
    assert [one.layout.workers for one in small.alternatives] == [1, 2, 4]
    with pytest.raises(Refused, match="160 workers of 100 MB and a master of 50 MB") as refused:
        made(**memory, pod_memory="8GB", workers=160)
    assert refused.value.hint is not None
    assert "enough for 81 workers" in refused.value.hint  # (8192 - 50) / 100
    with pytest.raises(Refused, match="1 worker of 100 MB"):
        made(**memory, pod_memory="120MB")


# What was not given.


def test_what_was_not_given_is_unknown(manifest: Path) -> None:
    """No "now 0 ms" without the CPU time, nor a CPU limit that rests on a guess."""
    done = run(manifest)
    said = {line[:17].strip(): line[17:] for line in done.stdout.split("\n\n")[1].splitlines()}
    assert said["CPU request"].startswith("unknown: give --cpu-time")
    assert said["CPU limit"] == "unknown: give --cpu-time"
    assert said["memory"] == "unknown: give --master-memory and --worker-memory"
    assert said["with a pooler"] == "unknown: give --database-time"
    assert said["after a failover"] == "unknown: give --logins"
    assert said["now"].startswith("2 pods with 160 workers: p95 wait unknown; ")
    told = json.loads(run(manifest, "--json").stdout)
    assert_valid(told, "mrtuner.pods.plan/1")
    assert [one["name"] for one in told["unknown"]] == ["CPU", "memory", "pooler", "failover"]
    assert "--cpu-time" in told["now"]["unknown"]


def test_what_was_given_is_known(manifest: Path) -> None:
    told = json.loads(
        run(manifest, "--cpu-time", "20ms", "--database-time", "30ms", "--logins", "50/s",
            "--worker-memory", "10MB", "--master-memory", "50MB", "--json").stdout
    )  # fmt: skip
    assert (told["unknown"], told["now"]["unknown"], told["now"]["killed"]) == ([], None, None)


# Chance.


def test_an_interval_is_that_of_plans_with_other_seeds() -> None:
    """The same pods, planned with each of the six seeds."""
    size = {"pods": 3, "workers": 4}
    one = made(**size)
    others = [made(**size, seed=seed).waiting for seed in range(1, 7)]
    known = {each.figure: each for each in one.intervals}
    for name in ("mean", "p50", "p95", "p99"):
        values = [getattr(each, name) for each in others]
        found = known[f"waiting.{name}"]
        assert (found.low, found.high, found.simulations) == (min(values), max(values), 6)
    assert known["waiting.p95"].low < (known["waiting.p95"].high or 0)
    assert {"cpu.request", "one_less.p95", "alternatives.0.p95"} <= known.keys()


def test_a_target_that_chance_decides_is_said() -> None:
    size = {"pods": 3, "workers": 4}
    wait = next(one for one in made(**size).intervals if one.figure == "waiting.p95")
    assert wait.high is not None
    shown = made(**size).waiting.p95
    between = made(**size, wait_p95=(shown + wait.high) / 2)
    assert between.met
    assert any("not all of 6 simulations keep the target" in one for one in between.warnings)
    above = made(**size, wait_p95=wait.high * 1.1)
    assert not any("simulations" in one for one in above.warnings)


def test_the_intervals_are_in_the_text() -> None:
    told = plan_document(made(pods=3, workers=4))
    text = " ".join(" ".join(lines(told)).split())
    wait = next(one for one in told.intervals if one.figure == "waiting.p95")
    assert wait.high is not None
    assert f"by chance p95 wait {wait.low * 1000:.3g} ms to {wait.high * 1000:.3g} ms;" in text
    assert "of 6 simulations with other seeds" in text
