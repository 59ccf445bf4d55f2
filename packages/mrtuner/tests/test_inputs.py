"""Every input is declared once, and its schema accepts what the check accepts."""

from __future__ import annotations

import json

import jsonschema  # type: ignore[import-untyped]
import pytest

from mrtuner.errors import BadValue
from mrtuner.inputs import MACHINE, checked
from mrtuner.units import GiB

DOCUMENTED = "docs/reference/schemas/inputs.json"
GOOD = {
    "workload": ["oltp"],
    "memory": ["16GB", 16 * GiB],
    "cpus": [1, 4096],
    "storage": ["nvme"],
    "disk": ["1TB"],
    "wal_disk": ["50 GB"],
    "iops": [3000],
    "throughput": ["125MB/s", "125MB"],
    "data": ["3GB"],
    "connections": [260_000],
    "active": [7],
    "huge_pages": [True, False],
    "rto": ["60s", 60, 0.5],
    "postgres": [13, 19],
    "ceiling": [0.1, 1],
    "lower": ["work_mem", ["work_mem", "jit"]],
}
BAD = {
    "workload": ["oltpp", 3],
    "memory": [16, 2**60],
    "cpus": [0, 4097, 2.5],
    "storage": ["floppy"],
    "connections": [260_001],
    "huge_pages": ["yes"],
    "postgres": [12, 20],
    "ceiling": [0.09, 1.01],
    "lower": [3, [4]],
}


def schema_of(name: str, pytestconfig: pytest.Config) -> object:
    text = (pytestconfig.rootpath / DOCUMENTED).read_text(encoding="utf-8")
    return json.loads(text)["properties"][name]


def test_every_input_has_an_example_here() -> None:
    assert set(GOOD) == set(MACHINE)


@pytest.mark.parametrize(("name", "values"), GOOD.items())
def test_what_is_accepted_satisfies_the_schema(
    name: str, values: list[object], pytestconfig: pytest.Config
) -> None:
    for value in values:
        assert checked({name: value})[name] is not None
        jsonschema.validate(value, schema_of(name, pytestconfig))


@pytest.mark.parametrize(("name", "values"), BAD.items())
def test_what_is_refused_breaks_the_schema(
    name: str, values: list[object], pytestconfig: pytest.Config
) -> None:
    for value in values:
        with pytest.raises(BadValue):
            checked({name: value})
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(value, schema_of(name, pytestconfig))


def test_none_is_not_given() -> None:
    assert checked(dict.fromkeys(MACHINE)) == {}


def test_an_unknown_argument_is_named() -> None:
    with pytest.raises(TypeError, match="memroy"):
        checked({"memroy": "16GB"})
