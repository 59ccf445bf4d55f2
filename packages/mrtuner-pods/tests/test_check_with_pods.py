"""`mrtuner check --with pods:MANIFEST`: a finding where the pods' connections do not fit."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import NewCluster

from command_line import run
from mrtuner.answers import check
from mrtuner.checks.report import CheckReport
from mrtuner.errors import UsageError
from mrtuner.postgres.cluster import Cluster
from servers import sql
from sizing_manifests import deployment

POOL = {"DATABASE_URL": "postgres://app:secret@db/shop?pool=10"}


def manifest(place: Path, replicas: int, **more: str) -> str:
    file = place / "web.yaml"
    file.write_text(deployment(replicas=replicas, env=POOL, **more))
    return f"pods:{file}"


def checked(cluster: Cluster, given: str) -> CheckReport:
    return check(cluster.dsn(), including=[given], skip=["free-space"], memory="8GB")


def test_pods_that_fit_pass_and_those_that_do_not_are_told(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    """Puma has five threads, so a pod opens five of its pool's ten... (see the assertion)."""
    cluster = new_cluster(settings={"max_connections": 50, "superuser_reserved_connections": 3})
    assert "pods-exceed-limit" in checked(cluster, manifest(tmp_path, 1)).passed
    report = checked(cluster, manifest(tmp_path, 4))
    (found,) = [one for one in report.findings if one.id == "pods-exceed-limit"]
    assert found.severity == "to do"
    assert found.text == "pods can open 80 connections, and max_connections admits 47"
    assert found.evidence[0].startswith("web (Deployment): 80, ")
    assert "secret" not in str(report)
    sql(cluster.dsn(), "CREATE ROLE app LOGIN CONNECTION LIMIT 15")
    (role,) = [
        one for one in checked(cluster, manifest(tmp_path, 1)).findings
        if one.id == "pods-exceed-limit"
    ]  # fmt: skip
    assert role.text == "pods can open 20 connections, and limit of role app admits 15"


def test_pods_of_two_servers_are_not_judged_by_the_limits_of_one(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    cluster = new_cluster(settings={"max_connections": 50})
    file = tmp_path / "both.yaml"
    both = {name: {"DATABASE_URL": f"postgres://app@{name}/shop?pool=10"} for name in ("da", "db")}
    file.write_text("".join(deployment(name, 8, env=env) for name, env in both.items()))
    report = checked(cluster, f"pods:{file}")
    assert "pods-exceed-limit" not in [one.id for one in report.findings]
    (lack,) = [one for one in report.unjudged if one.name == "pods-exceed-limit"]
    assert lack.why == "the pods name several servers: da and db"


def test_what_cannot_be_counted_is_not_judged(embedded: Cluster, tmp_path: Path) -> None:
    given = manifest(tmp_path, 2, command='["/opt/vendor/agent"]')
    report = checked(embedded, given)
    (lack,) = [one for one in report.unjudged if one.name == "pods-exceed-limit"]
    assert "web" in lack.why


def test_the_command_takes_a_manifest_and_refuses_what_is_none(
    embedded: Cluster, tmp_path: Path
) -> None:
    with pytest.raises(UsageError):
        checked(embedded, f"pods:{tmp_path / 'none.yaml'}")
    done = run("check", embedded.dsn(), "--memory", "8GB", "--with", manifest(tmp_path, 100))
    assert done.exit_code == 3, done.output
    assert "connections, and max_connections admits" in done.stdout
    without = check(embedded.dsn(), skip=["free-space"], memory="8GB")
    assert "pods-exceed-limit" in without.skipped
