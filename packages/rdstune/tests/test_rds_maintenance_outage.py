"""What outage to expect: AWS's figures where there are some, and none where there are not."""

from __future__ import annotations

import pytest

from mrtuner.aws.rows import Instance
from mrtuner.rehearsal.production import production_tag
from rdstune.fleet.outage import (
    Deployment,
    Evidence,
    OutageKind,
    deployment,
    of_action,
    of_change,
    of_failover,
)


def instance(
    engine: str = "postgres", *, multi_az: bool = False, cluster: str | None = None
) -> Instance:
    return Instance(
        identifier="orders", arn="arn:aws:rds:eu-west-1:1:db:orders", resource_id="db-1",
        class_name="db.r6g.large", engine=engine, engine_version="17.2", status="available",
        groups=(), multi_az=multi_az, cluster=cluster,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("row", "members", "expected"),
    [
        (instance(), 0, Deployment.SINGLE),
        (instance(multi_az=True), 0, Deployment.MULTI_AZ),
        (instance(cluster="c"), 3, Deployment.CLUSTER),
        (instance("aurora-postgresql", cluster="c"), 2, Deployment.AURORA),
        (instance("aurora-postgresql", cluster="c"), 1, Deployment.AURORA_ALONE),
    ],
)
def test_how_an_instance_is_kept_available(
    row: Instance, members: int, expected: Deployment
) -> None:
    assert deployment(row, members) is expected


@pytest.mark.parametrize(
    ("where", "figure"),
    [
        (Deployment.MULTI_AZ, "60 to 120 s"),
        (Deployment.CLUSTER, "under 35 s"),
        (Deployment.AURORA, "under 60 s"),
    ],
)
def test_a_failover_has_the_figure_that_aws_documents(where: Deployment, figure: str) -> None:
    found = of_failover(where)
    assert (found.kind, found.figure, found.evidence) == (
        OutageKind.FAILOVER, figure, Evidence.DOCUMENTED,
    )  # fmt: skip
    assert "User Guide" in found.source


@pytest.mark.parametrize("where", [Deployment.SINGLE, Deployment.AURORA_ALONE])
def test_a_reboot_has_no_figure_and_says_so(where: Deployment) -> None:
    found = of_failover(where)
    assert (found.kind, found.figure) == (OutageKind.RESTART, None)
    assert "AWS gives no figure" in found.words


#: Kinds that keep connections.
HARMLESS = (OutageKind.NONE, OutageKind.SLOW)


def test_a_patch_is_one_failover_on_multi_az_and_minutes_on_one_zone() -> None:
    assert of_action("system-update", Deployment.MULTI_AZ).figure == "60 to 120 s"
    alone = of_action("system-update", Deployment.SINGLE)
    assert (alone.kind, alone.figure, alone.evidence) == (
        OutageKind.RESTART,
        None,
        Evidence.EXPERIENCE,
    )
    assert "10 to 15 minutes" in alone.words


def test_multi_az_does_not_shorten_an_engine_upgrade() -> None:
    found = of_action("db-upgrade", Deployment.MULTI_AZ)
    assert found.kind is OutageKind.THROUGHOUT
    assert "both copies" in found.words


def test_a_multi_az_cluster_is_upgraded_reader_by_reader() -> None:
    found = of_action("db-upgrade", Deployment.CLUSTER)
    assert (found.kind, found.figure) == (OutageKind.FAILOVER, "under 35 s")
    assert "a major version: down throughout" in found.words


def test_what_aws_does_not_promise_is_marked_as_inferred() -> None:
    found = of_action("hardware-maintenance", Deployment.CLUSTER)
    assert (found.kind, found.evidence) == (OutageKind.FAILOVER, Evidence.INFERRED)


def test_an_action_we_do_not_know_is_not_called_harmless() -> None:
    found = of_action("quantum-alignment", Deployment.MULTI_AZ)
    assert found.kind is OutageKind.UNKNOWN


@pytest.mark.parametrize("field", ["MultiAZ", "MasterUserPassword", "Iops"])
def test_changes_that_aws_says_cause_no_outage(field: str) -> None:
    assert of_change(field, Deployment.SINGLE).kind in HARMLESS


@pytest.mark.parametrize("field", ["DBInstanceClass", "EngineVersion", "Port", "Nonsense"])
def test_changes_that_may_cut_connections(field: str) -> None:
    assert of_change(field, Deployment.SINGLE).kind not in HARMLESS


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ({"environment": "production"}, "environment=production"),
        ({"Env": "PROD"}, "Env=PROD"),
        ({"Name": "orders", "STAGE": " Live "}, "STAGE= Live "),
        ({"environment": "staging"}, None),
        ({"owner": "production"}, None),
        ({}, None),
    ],
)
def test_production_is_what_its_tags_say(tags: dict[str, str], found: str | None) -> None:
    assert production_tag(tags) == found
