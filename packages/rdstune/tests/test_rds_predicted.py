"""Values predicted from a parameter group against what a real server of that class runs."""

from __future__ import annotations

import boto3
import psycopg
import pytest

from formula_oracle import worth
from mrtuner.catalog import parameters
from rdstune.group.derive import Design, design
from rdstune.lab import Lab

GIB = 1024**3
#: Classes of 2, 8 and 32 GiB and their vCPUs, with the memory that the lab is to give them, near
#: the middle of what we estimate; different workloads and numbers of connections.
CASES = [
    ("db.t4g.small", 2, 1_730_000_000, "web", 40),
    ("db.m7g.large", 2, 7_930_000_001, "oltp", 200),
    ("db.r6g.xlarge", 4, 32_700_000_003, "olap", None),
]


@pytest.mark.parametrize(("class_name", "vcpus", "memory", "workload", "connections"), CASES)
def test_every_parameter_runs_as_a_second_evaluator_of_formulas_says(
    server_lab: Lab,
    class_name: str,
    vcpus: int,
    memory: int,
    workload: str,
    connections: int | None,
) -> None:
    """The lab evaluates with the product's code; the tests' own evaluator checks what it runs."""
    server_lab.set_memory(class_name, memory)
    made = design(
        family_name="postgres18",
        class_name=class_name,
        workload=workload,
        connections=connections,
    )
    _create(class_name, made.values)
    server_lab.settle()
    predicted = _predicted(made, memory, vcpus)
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


def _predicted(made: Design, memory: int, vcpus: int) -> dict[str, str]:
    """The group's values and the family's defaults, by the tests' own evaluator."""
    machine = {
        "DBInstanceClassMemory": memory,
        "DBInstanceVCPU": vcpus,
        "AllocatedStorage": 100 * GIB,
        "EndPointPort": 5432,
    }
    listed = made.family.parameters
    defaults = {name: each.default for name, each in listed.items() if each.default is not None}
    known = parameters(18)
    texts = {name: text for name, text in (defaults | made.values).items() if name in known}
    return {name: _as_shown(name, text, machine) for name, text in texts.items()}


def _as_shown(name: str, text: str, machine: dict[str, int]) -> str:
    """The value as pg_settings shows it: formulas evaluated, Booleans as words."""
    value = str(worth(text, machine)) if "{" in text else text
    if parameters(18)[name].vartype == "bool":
        return "on" if value in {"1", "on"} else "off"
    return value


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
