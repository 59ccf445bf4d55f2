"""A group's values, evaluated, against what a server runs: by hand, and on a real server."""

from __future__ import annotations

from typing import Any

import pytest

from mrtuner.aws.rows import GroupParameter
from mrtuner.aws.session import client as aws_client
from mrtuner.catalog.classes import instance_class
from mrtuner.change.journal import Journal
from mrtuner.change.settings.live import InForce
from mrtuner.formula.class_memory import Estimate
from mrtuner.units import Bytes, GiB
from rds_flows import FEW, PACE, new_group, new_instance
from rdstune.lab import Lab
from rdstune.live.apply import apply, make
from rdstune.live.compare import (
    Expected,
    InstanceMachine,
    ParameterVerdict,
    compare,
    differences,
    expected,
    measured,
)
from rdstune.live.diff import diff
from rdstune.live.target import read_target

#: Between 8 and 9 GiB.
ROUGH = Estimate(
    value=Bytes(8 * GiB + GiB // 2),
    low=Bytes(8 * GiB),
    high=Bytes(9 * GiB),
    source="a test",
    measured=False,
)
HERE = InstanceMachine(memory=ROUGH, vcpus=2, storage=100 * GiB, port=5432)


def parameter(name: str, value: str | None, **more: Any) -> GroupParameter:
    return GroupParameter(**{"name": name, "value": value, "source": "user", **more})


def running(name: str, setting: str, unit: str | None = None, vartype: str = "integer") -> InForce:
    return InForce(
        name=name, setting=setting, unit=unit, vartype=vartype, context="user", boot_val=None,
        source="configuration file", sourcefile=None, pending_restart=False,
    )  # fmt: skip


def test_a_formula_over_memory_gives_a_range_where_the_memory_is_an_estimate() -> None:
    """By hand: 8 GiB / 32768 = 262144 and 9 GiB / 32768 = 294912 pages."""
    found = expected("{DBInstanceClassMemory/32768}", HERE)
    assert found == Expected(low="262144", high="294912")
    assert str(found) == "262144 to 294912"


def test_other_formulas_and_literals_give_one_value() -> None:
    """100 GiB / 10 MiB = 10240."""
    assert str(expected("{DBInstanceVCPU*2}", HERE)) == "4"
    assert str(expected("{AllocatedStorage/10485760}", HERE)) == "10240"
    assert str(expected("LEAST({DBInstanceClassMemory/9531392},500)", HERE)) == "500"
    assert str(expected("on", HERE)) == "on"
    assert expected(None, HERE) is None
    assert expected("{max_connections*2}", HERE) is None


@pytest.mark.parametrize(
    ("value", "setting", "verdict"),
    [
        ("{DBInstanceClassMemory/32768}", "262144", ParameterVerdict.AGREES),
        ("{DBInstanceClassMemory/32768}", "294912", ParameterVerdict.AGREES),
        ("{DBInstanceClassMemory/32768}", "294913", ParameterVerdict.DIFFERS),
        ("300000", "300000", ParameterVerdict.AGREES),
        ("300000", "300001", ParameterVerdict.DIFFERS),
    ],
)
def test_a_server_agrees_within_what_is_known_of_its_memory(
    value: str, setting: str, verdict: ParameterVerdict
) -> None:
    rows = {"shared_buffers": running("shared_buffers", setting, "8kB")}
    (line,) = compare([parameter("shared_buffers", value)], HERE, rows)
    assert line.verdict is verdict


@pytest.mark.parametrize(
    ("value", "setting", "vartype"),
    [("1", "on", "bool"), ("0", "off", "bool"), ("0.10", "0.1", "real"), ("LZ4", "lz4", "enum")],
)
def test_the_spellings_of_rds_and_of_postgresql_mean_the_same(
    value: str, setting: str, vartype: str
) -> None:
    rows = {"p": running("p", setting, vartype=vartype)}
    (line,) = compare([parameter("p", value)], HERE, rows)
    assert line.verdict is ParameterVerdict.AGREES


def test_what_waits_for_a_reboot_does_not_differ() -> None:
    static = parameter("max_connections", "200", apply_type="static")
    dynamic = parameter("work_mem", "8192")
    rows = {
        "max_connections": running("max_connections", "100"),
        "work_mem": running("work_mem", "4096", "kB"),
    }
    lines = compare([static, dynamic], HERE, rows, waiting=True)
    assert [line.verdict for line in lines] == [ParameterVerdict.WAITS, ParameterVerdict.DIFFERS]
    newly = compare([static, dynamic], HERE, rows, waiting=True, newly=True)
    assert [line.verdict for line in newly] == [ParameterVerdict.WAITS, ParameterVerdict.WAITS]
    assert [line.name for line in differences(lines)] == ["work_mem"]


def test_what_rds_alone_sets_may_run_otherwise_and_is_nothing_to_mend() -> None:
    rows = {
        "data_directory": running("data_directory", "/pgdata", vartype="string"),
        "fsync": running("fsync", "on", vartype="bool"),
    }
    fixed = [
        parameter("data_directory", "/rdsdbdata/db", source="system", modifiable=False),
        parameter("fsync", "1", source="system", modifiable=False),
    ]
    lines = compare(fixed, HERE, rows, waiting=True, newly=True)
    assert [line.verdict for line in lines] == [ParameterVerdict.FIXED, ParameterVerdict.AGREES]
    assert differences(lines) == ()


def test_what_nobody_can_see_is_unknown_and_not_fine() -> None:
    rows = {"work_mem": running("work_mem", "4096", "kB")}
    lines = compare([parameter("rds.force_ssl", "1"), parameter("work_mem", None)], HERE, rows)
    assert [(line.name, line.verdict) for line in lines] == [
        ("rds.force_ssl", ParameterVerdict.UNKNOWN)
    ]


def test_a_server_on_its_defaults_shows_its_memory_to_the_page() -> None:
    """effective_cache_size by {M/16384}: 540000 means 540000 * 16 KiB plus 0 to 16383 bytes."""
    group = [parameter("effective_cache_size", "{DBInstanceClassMemory/16384}", source="system")]
    rows = {"effective_cache_size": running("effective_cache_size", "540000", "8kB")}
    found = measured(group, rows, HERE)
    assert (found.low, found.high) == (540000 * 16384, 540000 * 16384 + 16383)
    assert found.measured


def test_a_server_that_tells_nothing_leaves_the_estimate() -> None:
    rows = {"effective_cache_size": running("effective_cache_size", "540000", "8kB")}
    group = [parameter("effective_cache_size", "540000")]
    assert measured(group, rows, HERE) is ROUGH


def test_the_advice_stands_beside_the_group_only_where_it_differs(lab: Lab) -> None:
    client = aws_client("rds")
    new_group(client, work_mem="8192", jit="0")
    new_instance(client, lab, group="shop")
    found = diff(
        client,
        read_target(client, "db1"),
        instance_class("db.r6g.xlarge"),
        advised={"work_mem": "16384", "jit": "off"},
    )
    assert [(line.name, line.value, line.advised) for line in found.advised] == [
        ("work_mem", "8192", "16384")
    ]


def test_another_group_is_compared_when_it_is_named(lab: Lab) -> None:
    client = aws_client("rds")
    new_group(client, "other", work_mem="65536")
    new_instance(client, lab)
    found = diff(
        client, read_target(client, "db1"), instance_class("db.r6g.xlarge"), against="other"
    )
    lines = {line.name: line.value for line in found.lines}
    assert (found.group, lines["work_mem"]) == ("other", "65536")


def test_a_real_server_runs_what_was_predicted_for_every_parameter(
    server_lab: Lab, tmp_path: Any
) -> None:
    """A small class, because the server with its shared_buffers must start on this machine."""
    client = aws_client("rds")
    new_instance(client, server_lab, DBInstanceClass="db.t4g.small", EngineVersion="18")
    with Journal(tmp_path) as journal:
        plan = make(client, read_target(client, "db1"), FEW)
        apply(client, plan, journal, reboot="now", pace=PACE)
    target = read_target(client, "db1")
    found = diff(client, target, instance_class("db.t4g.small"), dsn=server_lab.dsn("db1"))
    assert found.machine.memory.measured
    assert found.waiting == ()
    aside = server_lab.aside("db1")
    assert [line.name for line in found.differing if line.name not in aside] == []
    checked = {line.name: line.verdict for line in found.lines}
    assert {checked[one.name] for one in FEW} == {ParameterVerdict.AGREES}
    assert sum(verdict is ParameterVerdict.AGREES for verdict in checked.values()) > 40
