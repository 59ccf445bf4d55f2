"""Patroni as the trigger: a real cluster of two, switched over while it is probed."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from click.testing import Result
from conftest import PASSWORD
from failover_patroni import PatroniCluster

from command_line import run
from machine import needs
from mrtuner.errors import MrTunerError, Refused
from mrtuner.failover.rehearse.patroni import Patroni

pytest.importorskip("patroni")
pytest.importorskip("pysyncobj")
pytestmark = [
    pytest.mark.timed,
    needs("setpriv"),  # PostgreSQL refuses root
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[PatroniCluster]:
    with PatroniCluster() as made:
        yield made


def rehearse(cluster: PatroniCluster, trigger: str) -> Result:
    quickly = ("--steady", "1s", "--connections", "5", "--yes", "--json")
    return run("failover", "rehearse", cluster.dsn(), "--trigger", trigger, *quickly)


def test_a_switchover_moves_to_the_other_member_and_its_history_is_on_the_line(
    cluster: PatroniCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    before = {one["name"]: one["role"] for one in cluster.members()}
    done = rehearse(cluster, "patroni:" + cluster.url.replace("//", "//me:s3cret@"))
    assert done.exit_code == 0, done.output
    assert "s3cret" not in done.output
    assert PASSWORD not in done.output
    after = {one["name"]: one["role"] for one in cluster.members()}
    assert before["one"] != after["one"]
    (way,) = json.loads(done.stdout)["ways"]
    assert way["outcome"] == "moved"
    assert way["observation"]["ledger"]["lost"] == []
    assert way["stale"]["writes"] == 0
    said = [mark["text"] for mark in way["marks"] if mark["origin"] == "patroni"]
    leader = next(name for name, role in after.items() if role == "leader")
    assert f"{leader} is leader running" in said
    assert any(f"timeline 1 ended: no recovery target specified, {leader} leads" in line
               for line in said)  # fmt: skip
    addresses = [one["own"] for one in way["observation"]["servers"]]
    assert len(set(addresses)) == 2


def test_who_may_not_ask_patroni_is_told_so_and_nothing_moves(cluster: PatroniCluster) -> None:
    trigger = Patroni(cluster.url)
    trigger.check()
    with pytest.raises(MrTunerError, match="Patroni rejected /switchover: 401"):
        trigger.fire()


def test_a_cluster_tagged_production_is_refused(cluster: PatroniCluster) -> None:
    with (
        cluster.tagged(environment="production"),
        pytest.raises(Refused, match="tagged environment=production"),
    ):
        Patroni(cluster.url).check()
