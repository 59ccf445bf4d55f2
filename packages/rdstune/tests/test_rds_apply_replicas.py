"""Replicas: raise them first, lower the primary first. Clusters: the cluster's group."""

from __future__ import annotations

from typing import Any

import pytest

from mrtuner.aws import rds
from mrtuner.aws.rows import Scope
from mrtuner.aws.session import Account
from mrtuner.catalog.classes import instance_class
from mrtuner.change.journal import Journal
from mrtuner.errors import Refused
from rds_flows import PACE, new_group, new_instance, values, wanted
from rdstune.group.advice import advise, refuse_mistakes
from rdstune.lab import Lab
from rdstune.live.apply import RdsOutcome, Reboot, apply, make
from rdstune.live.incompatible_parameters import of_target, why_down
from rdstune.live.target import overruling, read_target
from rdstune.live.undo import undo


@pytest.fixture
def pair(lab: Lab, client: Any) -> None:
    """A primary with 100 connections and its replica with as many, each with its own group."""
    _primary_and_replica(lab, client, max_connections="100")


def _primary_and_replica(lab: Lab, client: Any, **parameters: str) -> None:
    new_group(client, "first", **parameters)
    new_group(client, "second", **parameters)
    new_instance(client, lab, "primary", group="first")
    client.create_db_instance_read_replica(
        DBInstanceIdentifier="replica",
        SourceDBInstanceIdentifier="primary",
        DBParameterGroupName="second",
    )
    lab.settle()


def put(
    client: Any,
    journal: Journal,
    identifier: str,
    connections: str,
    reboot: Reboot = "never",
) -> RdsOutcome:
    plan = make(client, read_target(client, identifier), wanted(max_connections=connections))
    return apply(client, plan, journal, reboot=reboot, shared=True, pace=PACE)


def test_raising_a_primary_above_its_replica_is_refused(
    pair: None, client: Any, journal: Journal
) -> None:
    with pytest.raises(Refused) as error:
        put(client, journal, "primary", "200")
    assert error.value.message == (
        "replica replica would be below its primary: max_connections 100 instead of 200"
    )
    assert error.value.hint == "Raise it there first: rdstune apply replica."
    assert values(client, "first") == {"max_connections": "100"}


def test_a_group_that_exists_raises_a_primary_above_its_replica_by_being_attached(
    pair: None, client: Any, journal: Journal
) -> None:
    """What it sets itself, and what a step lowers to that still is more than before."""
    new_group(client, "larger", max_connections="1000")
    for more, connections in (({"work_mem": "8192"}, "1000"), ({"max_connections": "500"}, "500")):
        plan = make(client, read_target(client, "primary"), wanted(**more), "larger")
        with pytest.raises(Refused) as error:
            apply(client, plan, journal, reboot="never", pace=PACE)
        assert error.value.message == (
            "replica replica would be below its primary: max_connections 100 instead of "
            f"{connections}"
        )
    plan = make(client, read_target(client, "primary"), wanted(max_connections="100"), "larger")
    assert apply(client, plan, journal, reboot="never", pace=PACE).result == "applied"


def test_the_replica_first_and_then_the_primary_goes_through(
    pair: None, client: Any, journal: Journal
) -> None:
    assert put(client, journal, "replica", "200", "now").result == "applied"
    assert put(client, journal, "primary", "200", "now").result == "applied"


def test_lowering_a_replica_below_its_primary_is_refused(
    pair: None, client: Any, journal: Journal
) -> None:
    with pytest.raises(Refused) as error:
        put(client, journal, "replica", "50")
    assert error.value.message == (
        "replica replica would be below its primary: max_connections 50 instead of 100"
    )
    assert error.value.hint == "Lower it on the primary first: rdstune apply primary."


def test_the_primary_first_and_then_the_replica_is_lowered(
    pair: None, client: Any, journal: Journal
) -> None:
    assert put(client, journal, "primary", "50", "now").result == "applied"
    assert put(client, journal, "replica", "50", "now").result == "applied"


def test_with_one_group_for_both_the_replica_is_rebooted_first(
    lab: Lab, client: Any, journal: Journal
) -> None:
    new_group(client, "both", max_connections="100")
    new_instance(client, lab, "primary", group="both")
    client.create_db_instance_read_replica(
        DBInstanceIdentifier="replica", SourceDBInstanceIdentifier="primary"
    )
    lab.settle()
    with pytest.raises(Refused, match="replica replica must be rebooted first") as error:
        put(client, journal, "primary", "200", "now")
    assert (error.value.hint or "").startswith("Apply with --reboot never, run rdstune apply repli")
    assert put(client, journal, "primary", "200").result == "applied"
    with pytest.raises(Refused, match="replica replica must be rebooted first"):
        put(client, journal, "primary", "200", "now")
    assert put(client, journal, "replica", "200", "now").result == "rebooted"
    assert put(client, journal, "primary", "200", "now").result == "rebooted"
    assert lab.instance("primary").running["max_connections"] == "200"


def test_a_replica_that_waits_for_its_reboot_still_has_less(
    pair: None, client: Any, journal: Journal
) -> None:
    put(client, journal, "replica", "200")
    with pytest.raises(Refused) as error:
        put(client, journal, "primary", "200", "now")
    assert error.value.message == (
        "replica replica must be rebooted first: max_connections would be higher on the primary"
    )
    assert error.value.hint == "Run rdstune apply replica --reboot now, then repeat this command."
    assert values(client, "first") == {"max_connections": "100"}


def test_a_replica_is_not_rebooted_with_less_while_its_primary_waits(
    pair: None, client: Any, journal: Journal
) -> None:
    put(client, journal, "primary", "50")
    with pytest.raises(Refused, match="primary primary must be rebooted first"):
        put(client, journal, "replica", "50", "now")


def test_a_replica_of_a_replica_replays_what_the_primary_writes(
    pair: None, lab: Lab, client: Any, journal: Journal
) -> None:
    new_group(client, "third", max_connections="100")
    client.modify_db_instance(
        DBInstanceIdentifier="replica", BackupRetentionPeriod=7, ApplyImmediately=True
    )
    lab.settle()
    client.create_db_instance_read_replica(
        DBInstanceIdentifier="cascaded",
        SourceDBInstanceIdentifier="replica",
        DBParameterGroupName="third",
    )
    lab.settle()
    with pytest.raises(Refused, match="replica cascaded would be below its primary"):
        put(client, journal, "replica", "200", "now")
    with pytest.raises(Refused, match="replica replica would be below its primary"):
        put(client, journal, "primary", "200", "now")
    for name in ("cascaded", "replica", "primary"):
        assert put(client, journal, name, "200", "now").result == "applied"


def test_an_undo_keeps_the_order_as_well(pair: None, client: Any, journal: Journal) -> None:
    put(client, journal, "replica", "200", "now")
    put(client, journal, "primary", "200", "now")
    with pytest.raises(Refused, match="replica replica would be below its primary"):
        undo(client, "replica", journal, reboot="now", pace=PACE)
    assert undo(client, "primary", journal, reboot="now", pace=PACE).result == "undone"
    assert undo(client, "replica", journal, reboot="now", pace=PACE).result == "undone"
    assert values(client, "second") == {"max_connections": "100"}


def test_a_group_that_was_attached_is_not_taken_back_before_the_primary_s(
    pair: None, client: Any, journal: Journal
) -> None:
    """Nothing was written into it: all that changed is which group is attached."""
    for name in ("replica", "primary"):
        new_group(client, f"larger-{name}", max_connections="1000")
        plan = make(client, read_target(client, name), (), f"larger-{name}")
        assert apply(client, plan, journal, reboot="now", pace=PACE).result == "applied"
    with pytest.raises(Refused, match="max_connections 100 instead of 1000"):
        undo(client, "replica", journal, reboot="now", pace=PACE)
    assert undo(client, "primary", journal, reboot="now", pace=PACE).result == "undone"
    assert undo(client, "replica", journal, reboot="now", pace=PACE).result == "undone"


def test_an_undo_to_the_default_lowers_a_replica_below_its_primary(
    lab: Lab, client: Any, journal: Journal
) -> None:
    """The default of this class is above 50: so from 4000 it is a way down."""
    _primary_and_replica(lab, client)
    put(client, journal, "replica", "4000", "now")
    put(client, journal, "primary", "4000", "now")
    with pytest.raises(Refused, match="replica replica would be below its primary"):
        undo(client, "replica", journal, reboot="now", pace=PACE)


def test_a_replica_of_the_same_group_is_not_rebooted_with_less_before_its_primary(
    lab: Lab, client: Any, journal: Journal
) -> None:
    """Nothing of it stands under the replica in the journal: the primary's change counts."""
    new_group(client, "both", max_connections="100")
    new_instance(client, lab, "primary", group="both")
    client.create_db_instance_read_replica(
        DBInstanceIdentifier="replica", SourceDBInstanceIdentifier="primary"
    )
    lab.settle()
    put(client, journal, "primary", "50")
    other = make(client, read_target(client, "primary"), wanted(work_mem="8192"))
    apply(client, other, journal, shared=True, pace=PACE)
    with pytest.raises(Refused, match="primary primary must be rebooted first"):
        put(client, journal, "replica", "50", "now")
    assert put(client, journal, "primary", "50", "now").result == "rebooted"
    assert put(client, journal, "replica", "50", "now").result == "rebooted"


@pytest.fixture
def aurora(lab: Lab, client: Any) -> None:
    """An Aurora cluster with a writer and a reader."""
    client.create_db_cluster(
        DBClusterIdentifier="shop",
        Engine="aurora-postgresql",
        EngineVersion="17",
        MasterUsername="master",
        MasterUserPassword="not a secret at all",
    )
    for name in ("one", "two"):
        client.create_db_instance(
            DBInstanceIdentifier=name,
            DBInstanceClass="db.r6g.xlarge",
            Engine="aurora-postgresql",
            DBClusterIdentifier="shop",
        )
    lab.settle()


def test_an_instance_of_a_cluster_stands_for_the_clusters_group(
    aurora: None, lab: Lab, client: Any, journal: Journal
) -> None:
    target = read_target(client, "two")
    assert (target.identifier, target.scope) == ("shop", Scope.CLUSTER)
    assert target.writer.identifier == "one"
    plan = make(client, target, wanted(work_mem="32768", max_connections="500"))
    outcome = apply(client, plan, journal, reboot="now", pace=PACE)
    assert (outcome.result, outcome.group, outcome.waiting) == ("applied", "mrtuner-shop", ())
    assert rds.cluster(client, "shop").group == "mrtuner-shop"
    assert values(client, "mrtuner-shop", Scope.CLUSTER) == {
        "work_mem": "32768",
        "max_connections": "500",
    }
    rebooted = [action for _, action in lab.calls if action == "RebootDBInstance"]
    assert len(rebooted) == 2


def test_a_clusters_change_is_undone_exactly(aurora: None, client: Any, journal: Journal) -> None:
    plan = make(client, read_target(client, "shop"), wanted(work_mem="32768"))
    apply(client, plan, journal, pace=PACE)
    undo(client, "one", journal, pace=PACE)
    assert rds.cluster(client, "shop").group == "default.aurora-postgresql17"
    assert [one.name for one in rds.groups(client, Scope.CLUSTER) if not one.default] == []


def own_group(client: Any, lab: Lab, name: str, value: str) -> None:
    """Give the writer of the cluster a group of its own, which wins over the cluster's."""
    client.create_db_parameter_group(
        DBParameterGroupName="own", DBParameterGroupFamily="aurora-postgresql17", Description="own"
    )
    rds.modify_group(client, "own", [(name, value, "pending-reboot")])
    rds.attach_group(client, "one", "own")
    lab.settle()
    rds.reboot(client, "one")
    lab.settle()


def test_a_value_of_an_instances_own_group_is_the_one_in_force(
    aurora: None, lab: Lab, client: Any
) -> None:
    own_group(client, lab, "max_connections", "2000")
    target = read_target(client, "shop")
    assert overruling(client, target, target.member("one")) == {"max_connections": "2000"}
    assert overruling(client, target, target.member("two")) == {}
    advised = advise(target, Account(client.meta.region_name))
    assert any("2,000" in note or "2000" in note for note in advised.notes)
    plan = make(client, target, wanted(max_connections="100"))
    assert plan.warnings == ("the instance group of one overrides max_connections",)


def test_what_keeps_an_instance_down_in_its_own_group_is_named_there(
    aurora: None, lab: Lab, client: Any
) -> None:
    own_group(client, lab, "shared_buffers", "{DBInstanceClassMemory/8192}")
    target = read_target(client, "shop")
    assert target.incompatible == ("one",)
    found = why_down(client, target, {}, instance_class("db.r6g.xlarge"))
    assert found is not None
    assert (found.instance, found.overruled, found.own_group) == ("one", ("shared_buffers",), "own")
    with pytest.raises(Refused, match="because of shared_buffers in its own group own") as error:
        of_target(client, target, (), instance_class("db.r6g.xlarge"))
    # Alone: without names, every value of the group would go.
    assert (
        "--db-parameter-group-name own --no-reset-all-parameters --parameters "
        "ParameterName=shared_buffers,ApplyMethod=pending-reboot;"
    ) in str(error.value.hint)


def test_a_clusters_parameter_is_at_home_in_its_group(aurora: None, client: Any) -> None:
    plan = make(client, read_target(client, "shop"), wanted(autovacuum_naptime="10"))
    assert refuse_mistakes(plan, instance_class("db.r6g.xlarge"), "group.tf", {}) == ()


def test_a_multi_az_cluster_is_rebooted_as_one(lab: Lab, client: Any, journal: Journal) -> None:
    client.create_db_cluster(
        DBClusterIdentifier="trio",
        Engine="postgres",
        EngineVersion="17",
        DBClusterInstanceClass="db.r6gd.xlarge",
        AllocatedStorage=100,
        StorageType="io1",
        Iops=1000,
        MasterUsername="master",
        MasterUserPassword="not a secret at all",
    )
    lab.settle()
    target = read_target(client, "trio")
    assert len(target.members) == 3
    plan = make(client, target, wanted(max_connections="500"))
    outcome = apply(client, plan, journal, reboot="now", pace=PACE)
    assert (outcome.result, outcome.waiting) == ("applied", ())
    reboots = [action for _, action in lab.calls if action.startswith("Reboot")]
    assert reboots == ["RebootDBCluster"]
