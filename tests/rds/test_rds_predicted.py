"""What we predict of a parameter group against what a real server of that class runs."""

from __future__ import annotations

import boto3
import psycopg
import pytest

from mrtuner.catalog import parameters
from mrtuner.rds.group import Design, design
from mrtuner.rds.lab import Lab
from mrtuner.rds.question import in_force

#: Classes of 2, 8 and 32 GiB, with different workloads and numbers of connections.
CASES = [
    ("db.t4g.small", "web", 40),
    ("db.m7g.large", "oltp", 200),
    ("db.r6g.xlarge", "olap", None),
]


@pytest.mark.parametrize(("class_name", "workload", "connections"), CASES)
def test_every_parameter_runs_as_its_formula_was_evaluated(
    server_lab: Lab, class_name: str, workload: str, connections: int | None
) -> None:
    made = design(
        family_name="postgres18",
        class_name=class_name,
        workload=workload,
        connections=connections,
    )
    _create(class_name, made.values)
    server_lab.settle()
    predicted = _predicted(made)
    aside = {*server_lab.aside("one"), "port"}  # each of the lab's servers has its own
    running = _settings(server_lab.dsn("one"))
    compared = {name: value for name, value in predicted.items() if name not in aside}
    assert set(made.values) - aside <= set(compared)
    assert len(compared) >= 40
    known = parameters(18)
    for name, value in compared.items():
        number = known[name].vartype in {"integer", "real"}
        same = float(running[name]) == float(value) if number else running[name] == value
        assert same, f"{name}: predicted {value}, runs {running[name]}"


def _predicted(made: Design) -> dict[str, str]:
    """The group's values and those that the family itself gives, evaluated for the class."""
    listed = made.family.parameters
    memory = made.question.memory_of(made.instance_class).value
    machine = made.question.machine(made.instance_class, memory)
    running, _ = in_force(made.family, machine, made.values)
    given = {name for name, each in listed.items() if each.default is not None} | set(made.values)
    return {name: value for name, value in running.items() if name in given}


def _create(class_name: str, values: dict[str, str]) -> None:
    client = boto3.client("rds")
    client.create_db_parameter_group(
        DBParameterGroupName="ours", DBParameterGroupFamily="postgres18", Description="predicted"
    )
    rows = [
        {"ParameterName": name, "ParameterValue": value, "ApplyMethod": "pending-reboot"}
        for name, value in values.items()
    ]
    for start in range(0, len(rows), 20):
        client.modify_db_parameter_group(
            DBParameterGroupName="ours", Parameters=rows[start : start + 20]
        )
    client.create_db_instance(
        DBInstanceIdentifier="one",
        DBInstanceClass=class_name,
        Engine="postgres",
        EngineVersion="18",
        AllocatedStorage=100,
        MasterUsername="master",
        MasterUserPassword="not a secret at all",
        DBParameterGroupName="ours",
    )


def _settings(dsn: str) -> dict[str, str]:
    with psycopg.connect(dsn, autocommit=True, connect_timeout=5) as connection:
        return dict(connection.execute("SELECT name, setting FROM pg_settings").fetchall())
