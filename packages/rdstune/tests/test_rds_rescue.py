"""An instance in incompatible-parameters: the cause is named, and the group repaired."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mrtuner.aws import rds
from mrtuner.catalog.classes import instance_class
from mrtuner.catalog.families import family
from mrtuner.change.journal import Journal
from mrtuner.errors import ApplyError, Refused
from rds_flows import PACE, new_group, new_instance, values, wanted
from rdstune.cli import rdstune
from rdstune.lab import Lab
from rdstune.live.apply import apply, make
from rdstune.live.incompatible_parameters import culprits
from rdstune.live.target import read_target

ALL_OF_IT = "{DBInstanceClassMemory/8192}"


def broken(client: Any, lab: Lab, **more: str) -> None:
    """db1 with a group that asks for all memory, rebooted into incompatible-parameters."""
    new_group(client, "shop", **{"shared_buffers": ALL_OF_IT, "max_connections": "20", **more})
    new_instance(client, lab)
    rds.attach_group(client, "db1", "shop")
    lab.settle()
    rds.reboot(client, "db1")
    lab.settle()
    assert rds.instance(client, "db1").status == "incompatible-parameters"


def rdstune_(*arguments: str) -> Result:
    return CliRunner().invoke(rdstune, arguments)


def test_the_lab_boots_no_group_that_shares_more_than_nine_tenths(lab: Lab, client: Any) -> None:
    """100 % fails, however few the connections; a quarter starts."""
    broken(client, lab)
    rds.modify_group(
        client, "shop", [("shared_buffers", "{DBInstanceClassMemory/32768}", "pending-reboot")]
    )
    rds.reboot(client, "db1")
    lab.settle()
    assert rds.instance(client, "db1").status == "available"


def test_diff_names_what_keeps_an_instance_from_starting(lab: Lab, client: Any) -> None:
    broken(client, lab, work_mem="8192")
    shown = rdstune_("diff", "db1", "--check")
    assert shown.exit_code == 3, shown.output
    assert f"because of shared_buffers = {ALL_OF_IT}" in " ".join(shown.output.split())
    document = json.loads(rdstune_("diff", "db1", "--json").stdout)
    assert (document["down"], document["culprits"]) == (["db1"], ["shared_buffers"])


def test_apply_repairs_the_group_and_brings_the_instance_back(
    lab: Lab, client: Any, tmp_path: Path
) -> None:
    broken(client, lab, work_mem="8192")
    done = rdstune_("apply", "db1", "--yes", "--poll", "20ms", "--journal", str(tmp_path / "j"))
    assert done.exit_code == 0, done.output
    assert rds.instance(client, "db1").status == "available"
    now = values(client, "shop")
    assert now["shared_buffers"] == "{DBInstanceClassMemory/32768}"
    assert now["max_connections"] == "20"


def test_another_group_is_not_attached_to_what_is_down(
    lab: Lab, client: Any, tmp_path: Path
) -> None:
    broken(client, lab)
    done = rdstune_("apply", "db1", "--group", "other", "--yes", "--journal", str(tmp_path / "j"))
    assert done.exit_code == 4
    assert "rdstune apply db1" in done.output


def test_a_repair_that_is_not_enough_ends_and_says_so(
    lab: Lab, client: Any, tmp_path: Path
) -> None:
    """Planned without our check of memory: still 256 GB on 32 GiB."""
    broken(client, lab)
    plan = make(client, read_target(client, "db1"), wanted(shared_buffers="33554432"))
    with Journal(tmp_path / "j") as journal, pytest.raises(ApplyError, match="does not start"):
        apply(client, plan, journal, pace=PACE)
    assert values(client, "shop")["shared_buffers"] == ALL_OF_IT


def test_advice_together_with_what_is_set_must_start(lab: Lab, client: Any, tmp_path: Path) -> None:
    """Somebody set 95 % of memory, and connections are few: refused before a write."""
    new_group(client, "shop", shared_buffers="{DBInstanceClassMemory*95/819200}")
    new_instance(client, lab)
    done = rdstune_(
        "apply", "db1", "--group", "shop", "--connections", "20", "--yes",
        "--journal", str(tmp_path / "j"),
    )  # fmt: skip
    assert done.exit_code == Refused("").exit_code, done.output
    assert values(client, "shop") == {"shared_buffers": "{DBInstanceClassMemory*95/819200}"}


@pytest.mark.parametrize(
    ("group", "named"),
    [
        ({"shared_buffers": ALL_OF_IT, "work_mem": "8192"}, ("shared_buffers",)),
        # superuser_reserved_connections is 3: the server wants more than 3 + 17
        (
            {"max_connections": "20", "reserved_connections": "17"},
            ("max_connections", "reserved_connections"),
        ),
        ({"work_mem": "8192"}, ()),
    ],
)
def test_culprits_are_those_without_which_it_would_start(
    group: dict[str, str], named: tuple[str, ...]
) -> None:
    found = culprits(group, family("postgres17"), instance_class("db.r6g.xlarge"))
    assert found == named
