"""Parameter groups of the lab, judged by what AWS documents and what public reports show."""

from __future__ import annotations

import pytest

from lab_calls import (
    IMMEDIATE,
    REBOOT,
    change,
    client,
    new_group,
    new_instance,
    one,
    refusal,
    shown,
    status,
)
from rdstune.lab import Lab

#: 25 dynamic integers of PostgreSQL 17 and a value that each of them takes.
MANY = [
    "work_mem", "temp_buffers", "hash_mem_multiplier", "maintenance_work_mem", "statement_timeout",
    "commit_delay", "deadlock_timeout", "checkpoint_timeout", "checkpoint_warning",
    "bgwriter_delay",
    "bgwriter_lru_maxpages", "commit_siblings", "from_collapse_limit", "join_collapse_limit",
    "geqo_threshold", "geqo_effort", "default_statistics_target", "log_autovacuum_min_duration",
    "log_temp_files", "vacuum_cost_limit", "vacuum_cost_page_hit", "vacuum_cost_page_dirty",
    "autovacuum_naptime", "autovacuum_vacuum_threshold", "autovacuum_analyze_threshold",
]  # fmt: skip


def value_for(name: str) -> str:
    return {"geqo_effort": "5", "hash_mem_multiplier": "2", "maintenance_work_mem": "1024"}.get(
        name, "100"
    )


def test_a_fresh_group_lists_its_family_with_sources_and_types(lab: Lab) -> None:
    rds = client()
    new_group(rds)
    rows = shown(rds)
    assert len(rows) > 300
    buffers, work_mem = rows["shared_buffers"], rows["work_mem"]
    assert buffers["ParameterValue"] == "{DBInstanceClassMemory/32768}"
    assert (buffers["Source"], buffers["ApplyType"]) == ("system", "static")
    assert (work_mem["Source"], work_mem["ApplyType"]) == ("engine-default", "dynamic")
    assert "ParameterValue" not in work_mem
    assert work_mem["AllowedValues"] == "64-2147483647"
    assert not rows["port"]["IsModifiable"]


def test_a_static_parameter_set_immediately_rejects_the_whole_batch_unnamed(lab: Lab) -> None:
    rds = client()
    new_group(rds)
    code, message, http = refusal(
        rds.modify_db_parameter_group,
        DBParameterGroupName="pg",
        Parameters=[one("work_mem", "8192"), one("max_connections", "200")],
    )
    assert (code, http) == ("InvalidParameterCombination", 400)
    assert message == "cannot use immediate apply method for static parameter"
    assert shown(rds, Source="user") == {}


def test_an_unchanged_static_value_rejects_the_batch_too(lab: Lab) -> None:
    rds = client()
    new_group(rds)
    change(rds, one("max_connections", "200", REBOOT))
    code, _, _ = refusal(
        rds.modify_db_parameter_group,
        DBParameterGroupName="pg",
        Parameters=[one("max_connections", "200")],
    )
    assert code == "InvalidParameterCombination"


def test_the_same_batch_with_a_method_for_each_is_taken(lab: Lab) -> None:
    rds = client()
    new_group(rds)
    change(rds, one("work_mem", "8192"), one("max_connections", "200", REBOOT))
    rows = shown(rds, Source="user")
    assert {name: row["ParameterValue"] for name, row in rows.items()} == {
        "work_mem": "8192",
        "max_connections": "200",
    }
    assert rows["work_mem"]["ApplyMethod"] == IMMEDIATE
    assert rows["max_connections"]["Source"] == "user"


def test_twenty_parameters_are_taken_and_twenty_one_are_not(lab: Lab) -> None:
    rds = client()
    new_group(rds)
    change(rds, *(one(name, value_for(name)) for name in MANY[:20]))
    code, _, _ = refusal(
        rds.modify_db_parameter_group,
        DBParameterGroupName="pg",
        Parameters=[one(name, value_for(name)) for name in MANY[:21]],
    )
    assert code == "InvalidParameterValue"
    assert len(shown(rds, Source="user")) == 20


@pytest.mark.parametrize(
    "bad",
    [
        one("no_such_parameter", "1"),
        one("work_mem", "63"),
        one("work_mem", "64kB"),
        one("work_mem", "many"),
        one("port", "5433", REBOOT),
        one("work_mem", "{DBInstanceClassMemory / 4}"),
        one("work_mem", "{NoSuchVariable/4}"),
        one("random_page_cost", "{DBInstanceClassMemory/1000000000}"),
        one("work_mem", "8192", "whenever"),
    ],
    ids=["unknown", "range", "unit", "type", "fixed", "spaces", "variable", "float", "method"],
)
def test_one_bad_parameter_refuses_the_batch(lab: Lab, bad: dict[str, str]) -> None:
    rds = client()
    new_group(rds)
    code, _, http = refusal(
        rds.modify_db_parameter_group,
        DBParameterGroupName="pg",
        Parameters=[one("commit_delay", "10"), bad],
    )
    assert (code, http) == ("InvalidParameterValue", 400)
    assert shown(rds, Source="user") == {}


def test_default_groups_are_there_and_are_left_alone(lab: Lab) -> None:
    rds = client()
    name = "default.postgres17"
    assert shown(rds, name)["shared_buffers"]["Source"] == "system"
    parameters = [one("work_mem", "8192")]
    modified = refusal(
        rds.modify_db_parameter_group, DBParameterGroupName=name, Parameters=parameters
    )
    reset = refusal(
        rds.reset_db_parameter_group, DBParameterGroupName=name, ResetAllParameters=True
    )
    copied = refusal(
        rds.copy_db_parameter_group,
        SourceDBParameterGroupIdentifier=name,
        TargetDBParameterGroupIdentifier="mine",
        TargetDBParameterGroupDescription="a copy",
    )
    assert {modified[0], reset[0], copied[0]} == {"InvalidParameterValue"}
    deleted = refusal(rds.delete_db_parameter_group, DBParameterGroupName=name)
    assert deleted[0] == "InvalidDBParameterGroupState"


@pytest.mark.parametrize("name", ["1st", "a--b", "ends-", "dotted.name", "under_score", "a" * 256])
def test_names_that_rds_does_not_take_are_refused(lab: Lab, name: str) -> None:
    code, _, _ = refusal(
        client().create_db_parameter_group,
        DBParameterGroupName=name,
        DBParameterGroupFamily="postgres17",
        Description="x",
    )
    assert code == "InvalidParameterValue"


def test_a_name_is_stored_in_lower_case_and_once(lab: Lab) -> None:
    rds = client()
    new_group(rds, "My-Group")
    names = [
        row["DBParameterGroupName"]
        for row in rds.describe_db_parameter_groups()["DBParameterGroups"]
    ]
    assert names == ["my-group"]
    code, _, _ = refusal(
        rds.create_db_parameter_group,
        DBParameterGroupName="MY-GROUP",
        DBParameterGroupFamily="postgres17",
        Description="x",
    )
    assert code == "DBParameterGroupAlreadyExists"


def test_a_group_that_is_not_there_is_not_found(lab: Lab) -> None:
    code, _, http = refusal(client().describe_db_parameters, DBParameterGroupName="nowhere")
    assert (code, http) == ("DBParameterGroupNotFound", 404)


def test_a_group_of_another_family_cannot_be_attached(lab: Lab) -> None:
    rds = client()
    new_group(rds, "old", "postgres16")
    new_instance(lab, rds)
    code, _, _ = refusal(
        rds.modify_db_instance, DBInstanceIdentifier="one", DBParameterGroupName="old"
    )
    assert code == "InvalidParameterCombination"


def test_an_attached_group_cannot_be_deleted(lab: Lab) -> None:
    rds = client()
    new_group(rds)
    new_instance(lab, rds, DBParameterGroupName="pg")
    code, message, _ = refusal(rds.delete_db_parameter_group, DBParameterGroupName="pg")
    assert code == "InvalidDBParameterGroupState"
    assert "one" in message
    rds.delete_db_instance(DBInstanceIdentifier="one", SkipFinalSnapshot=True)
    lab.settle()
    rds.delete_db_parameter_group(DBParameterGroupName="pg")


def test_a_reset_of_one_parameter_leaves_the_others(lab: Lab) -> None:
    rds = client()
    new_group(rds)
    change(rds, one("work_mem", "8192"), one("max_connections", "200", REBOOT))
    rds.reset_db_parameter_group(
        DBParameterGroupName="pg",
        Parameters=[{"ParameterName": "work_mem", "ApplyMethod": IMMEDIATE}],
    )
    assert list(shown(rds, Source="user")) == ["max_connections"]


def test_a_reset_of_a_static_parameter_is_not_immediate(lab: Lab) -> None:
    rds = client()
    new_group(rds)
    code, message, _ = refusal(
        rds.reset_db_parameter_group,
        DBParameterGroupName="pg",
        Parameters=[{"ParameterName": "max_connections", "ApplyMethod": IMMEDIATE}],
    )
    assert (code, message) == (
        "InvalidParameterCombination",
        "cannot use immediate apply method for static parameter",
    )


def test_a_full_reset_changes_dynamic_ones_at_once_and_leaves_static_ones_for_a_reboot(
    lab: Lab,
) -> None:
    rds = client()
    new_group(rds)
    change(rds, one("work_mem", "8192"), one("max_connections", "200", REBOOT))
    new_instance(lab, rds, DBParameterGroupName="pg")
    rds.reset_db_parameter_group(DBParameterGroupName="pg", ResetAllParameters=True)
    lab.settle()
    assert shown(rds, Source="user") == {}
    running = lab.instance("one").running
    assert ("work_mem" in running, running["max_connections"]) == (False, "200")
    assert status(rds) == ("available", "pending-reboot")


def test_pages_hold_between_20_and_100_rows_and_together_all(lab: Lab) -> None:
    rds = client()
    new_group(rds)
    first = rds.describe_db_parameters(DBParameterGroupName="pg")
    assert len(first["Parameters"]) == 100
    small = rds.describe_db_parameters(DBParameterGroupName="pg", MaxRecords=20)
    again = rds.describe_db_parameters(
        DBParameterGroupName="pg", MaxRecords=20, Marker=small["Marker"]
    )
    names = [row["ParameterName"] for row in small["Parameters"] + again["Parameters"]]
    assert names == [row["ParameterName"] for row in first["Parameters"][:40]]
    for size in (19, 101):
        code, _, _ = refusal(rds.describe_db_parameters, DBParameterGroupName="pg", MaxRecords=size)
        assert code == "InvalidParameterValue"


def test_parameters_can_be_filtered_by_name(lab: Lab) -> None:
    rds = client()
    new_group(rds)
    wanted = [{"Name": "parameter-name", "Values": ["work_mem", "shared_buffers"]}]
    assert set(shown(rds, Filters=wanted)) == {"work_mem", "shared_buffers"}
    code, _, _ = refusal(
        rds.describe_db_parameters, DBParameterGroupName="pg", Filters=[{"Name": "x", "Values": []}]
    )
    assert code == "InvalidParameterValue"


def test_engine_defaults_are_those_of_a_fresh_group(lab: Lab) -> None:
    rds = client()
    new_group(rds)
    pages = rds.get_paginator("describe_engine_default_parameters").paginate(
        DBParameterGroupFamily="postgres17"
    )
    rows = {
        row["ParameterName"]: row for page in pages for row in page["EngineDefaults"]["Parameters"]
    }
    assert rows == shown(rds)


def test_aurora_keeps_cluster_parameters_out_of_instance_groups(lab: Lab) -> None:
    """Aurora User Guide: autovacuum settings are cluster-level, work_mem is instance-level."""
    rds = client()
    new_group(rds, "au", "aurora-postgresql17")
    rds.create_db_cluster_parameter_group(
        DBClusterParameterGroupName="au",
        DBParameterGroupFamily="aurora-postgresql17",
        Description="x",
    )
    pages = rds.get_paginator("describe_db_cluster_parameters").paginate(
        DBClusterParameterGroupName="au"
    )
    cluster = {row["ParameterName"] for page in pages for row in page["Parameters"]}
    own = set(shown(rds, "au"))
    assert {"autovacuum_naptime", "work_mem"} <= cluster
    assert "work_mem" in own
    assert "autovacuum_naptime" not in own


def test_a_copy_holds_the_same_values_and_is_a_group_of_its_own(lab: Lab) -> None:
    rds = client()
    new_group(rds)
    change(rds, one("work_mem", "8192"))
    rds.copy_db_parameter_group(
        SourceDBParameterGroupIdentifier="pg",
        TargetDBParameterGroupIdentifier="copy",
        TargetDBParameterGroupDescription="a copy",
    )
    change(rds, one("work_mem", "16384"))
    assert shown(rds, "copy", Source="user")["work_mem"]["ParameterValue"] == "8192"
