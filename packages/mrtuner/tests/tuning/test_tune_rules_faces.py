"""Every interface gives the same result: the mapping, the texts, the JSON, the command."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

import mrtuner
from command_line import run
from mrtuner.formats import NAMES, parse

if TYPE_CHECKING:
    from mrtuner.tuning import Tuning

MACHINES: list[dict[str, Any]] = [
    {"memory": "16GB", "cpus": 4, "storage": "ssd", "workload": "oltp", "postgres": 17},
    {"memory": "512MB", "cpus": 1, "storage": "hdd", "connections": 10, "postgres": 13},
    {"memory": "256GB", "cpus": 64, "storage": "nvme", "workload": "olap", "postgres": 19},
    {"cpus": 8, "postgres": 18},  # memory unknown
]


@pytest.fixture(params=MACHINES, ids=str)
def tuning(request: pytest.FixtureRequest) -> Tuning:
    return mrtuner.tune(**request.param)


def test_a_tuning_is_a_mapping_by_parameter(tuning: Tuning) -> None:
    assert isinstance(tuning, Mapping)
    assert len(tuning) == len(list(tuning)) == len(tuning.items())
    assert all(tuning[name].name == name for name in tuning)
    assert "shared_buffers" in tuning
    assert tuning.get("no_such_parameter") is None
    with pytest.raises(KeyError):
        tuning["no_such_parameter"]


@pytest.mark.parametrize("form", NAMES)
def test_every_form_reads_back_as_the_changes(tuning: Tuning, form: str) -> None:
    changes = {item.name: item.value for item in tuning.values() if item.written}
    assert changes
    read = parse(form, tuning.as_(form))
    assert read == {name: value for name, value in changes.items() if name in read}
    if form in {"conf", "sql", "markdown", "docker"}:
        assert set(read) == set(changes)
    else:  # an operator's own parameters are left out, and named
        assert all(name in tuning.as_(form) for name in set(changes) - set(read))


def test_the_short_names_are_those_forms(tuning: Tuning) -> None:
    assert tuning.as_conf() == tuning.as_("conf")
    assert tuning.as_sql() == tuning.as_("sql")


def test_json_is_the_same_data(tuning: Tuning) -> None:
    data = tuning.to_dict()
    assert json.loads(tuning.as_("json")) == json.loads(json.dumps(data)) == data
    written = {item["name"]: item["value"] for item in data["advice"] if item["written"]}
    assert written == parse("conf", tuning.as_conf())
    if data["budget"] is not None:
        assert sum(part["bytes"] for part in data["budget"]["parts"]) == data["budget"]["total"]
        assert data["budget"]["total"] <= data["budget"]["ceiling"]


def test_the_command_and_the_function_give_one_document() -> None:
    flags = ["--memory", "16GB", "--cpus", "4", "--storage", "ssd", "--pg", "17"]
    done = run("tune", *flags, "--json")
    assert done.exit_code == 0
    said = mrtuner.tune(memory="16GB", cpus=4, storage="ssd", postgres=17)
    assert json.loads(done.stdout) == said.to_dict()


def test_the_first_example_of_the_package_holds() -> None:
    advice = mrtuner.tune(
        memory="16GB", cpus=4, storage="ssd", workload="oltp", connections=200, postgres=17
    )
    assert advice["shared_buffers"].value == "4GB"
    assert "shared_buffers = 4GB" in advice.as_conf()


@pytest.mark.parametrize(
    "first",
    [
        "import mrtuner",
        "import mrtuner.tuning",
        "import mrtuner.tuning.engine",
        "from mrtuner.tuning import tune_server",
        "import mrtuner.formats, mrtuner.tuning.gather",
        "import mrtuner; mrtuner.tune; import mrtuner.tuning.feasibility",
    ],
)
def test_the_function_is_there_whatever_was_imported_first(first: str) -> None:
    program = f"{first}\nimport mrtuner\nprint(mrtuner.tune(memory='1GB')['shared_buffers'].value)"
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("256MB\n", "")
