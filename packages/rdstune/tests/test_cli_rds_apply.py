"""rdstune apply, undo and diff as commands, in the lab."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from labs import lead_to
from mrtuner.aws import rds
from mrtuner.aws.session import client as aws_client
from rds_flows import new_group
from rdstune.cli import rdstune
from rdstune.cli.change import attached_lately
from rdstune.formats import GroupLine, render_group
from rdstune.lab import Lab
from rdstune.live.target import read_target

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def _lab() -> Iterator[Lab]:
    with Lab(speed=600) as lab:
        yield lab


@pytest.fixture
def client(lab: Lab) -> Any:
    client = aws_client("rds")
    client.create_db_instance(
        DBInstanceIdentifier="db1",
        DBInstanceClass="db.r6g.xlarge",
        Engine="postgres",
        EngineVersion="17",
        AllocatedStorage=100,
        MasterUsername="master",
        MasterUserPassword="not a secret at all",
    )
    lab.settle()
    return client


@pytest.fixture
def run(lab: Lab, tmp_path: Path) -> Run:
    """Run a command with a journal of its own."""

    def invoke(command: str, *arguments: str) -> Result:
        more = [] if command == "diff" else ["--journal", str(tmp_path), "--poll", "0.02"]
        return CliRunner().invoke(rdstune, [command, *arguments, *more], prog_name="rdstune")

    return invoke


def group_file(tmp_path: Path, **values: str) -> str:
    """A group as aws rds describe-db-parameters prints it."""
    rows = [
        {"ParameterName": name, "ParameterValue": value, "Source": "user"}
        for name, value in values.items()
    ]
    file = tmp_path / "group.json"
    file.write_text(json.dumps({"Parameters": rows}))
    return str(file)


def test_the_plan_is_shown_and_without_a_terminal_nothing_is_done(client: Any, run: Run) -> None:
    result = run("apply", "db1")
    assert result.exit_code == 4
    assert "a new group mrtuner-db1 of family postgres17" in result.stderr
    assert "then use --yes" in result.stderr
    assert result.stdout == ""
    assert [one.name for one in rds.groups(client) if not one.default] == []


def test_our_advice_is_applied_shown_by_diff_and_undone(client: Any, run: Run) -> None:
    applied = run("apply", "db1", "--workload", "oltp", "--connections", "800", "--yes")
    assert applied.exit_code == 0, applied.stderr
    assert "applied and verified in group mrtuner-db1" in applied.stdout
    assert "waiting for a reboot: db1" in applied.stderr
    assert "to undo: rdstune undo db1" in applied.stderr
    same = run("diff", "db1", "--workload", "oltp", "--connections", "800", "--json")
    assert [one for one in json.loads(same.stdout)["parameters"] if one["advised"]] == []
    undone = run("undo", "db1", "--yes")
    assert undone.exit_code == 0, undone.stderr
    assert "undone and verified" in undone.stdout
    assert [one.name for one in rds.groups(client) if not one.default] == []


def test_with_a_dsn_every_advised_value_is_found_in_force_on_a_real_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with Lab(servers=True, speed=600) as lab:
        lead_to(lab, monkeypatch)
        client = aws_client("rds")
        client.create_db_instance(
            DBInstanceIdentifier="db1", DBInstanceClass="db.t4g.small", Engine="postgres",
            EngineVersion="18", AllocatedStorage=100, MasterUsername="master",
            MasterUserPassword="not a secret at all",
        )  # fmt: skip
        lab.settle()
        client.get_waiter("db_instance_available").wait(
            DBInstanceIdentifier="db1", WaiterConfig={"Delay": 1}
        )
        words = ["apply", "db1", "--connections", "30", "--reboot", "now", "--yes", "--json"]
        words += ["--connect", lab.dsn("db1"), "--journal", str(tmp_path), "--poll", "0.05"]
        result = CliRunner().invoke(rdstune, words, prog_name="rdstune")
        assert result.exit_code == 0, result.stderr
        document = json.loads(result.stdout)
        assert len(document["server"]) == len(document["plan"]["steps"]) > 10
        aside = lab.aside("db1")
        words = ["diff", "db1", "--connections", "30", "--json", "--connect", lab.dsn("db1")]
        after = json.loads(CliRunner().invoke(rdstune, words, prog_name="rdstune").stdout)
    steps = {step["name"]: step for step in document["plan"]["steps"]}
    low, _, high = steps["effective_cache_size"]["gives"].partition(" to ")
    # shared_buffers gives the memory to within 32 KiB, or 4 pages; an estimate spans thousands
    assert int(high or low) - int(low) <= 4, "the memory was measured before the plan was shown"
    assert [one for one in after["parameters"] if one["advised"]] == [], "not even what it lacks"
    differs = {one["name"] for one in after["parameters"] if one["verdict"] == "differs"}
    assert differs <= set(aside)
    found = {line["name"]: line["verdict"] for line in document["server"]}
    assert {name for name, verdict in found.items() if verdict != "agrees"} <= set(aside)


def test_json_is_one_document_with_plan_outcome_and_the_way_back(
    client: Any, run: Run, tmp_path: Path
) -> None:
    file = group_file(tmp_path, work_mem="{DBInstanceClassMemory/1048576}", jit="0")
    result = run("apply", "db1", "--from", file, "--yes", "--json", "--reboot", "now")
    document = json.loads(result.stdout)
    assert document["schema"] == "mrtuner.rds.apply/1"
    assert [(one["name"], one["method"]) for one in document["plan"]["steps"]] == [
        ("work_mem", "immediate"),
        ("jit", "immediate"),
    ]
    assert document["outcome"]["waiting"] == []
    assert document["undo"].startswith("rdstune undo db1 --reboot now")
    again = json.loads(run("apply", "db1", "--from", file, "--yes", "--json").stdout)
    assert (again["outcome"]["result"], again["undo"]) == ("nothing", None)


def test_what_waits_is_told_that_aws_reboots_nothing_for_it(client: Any, run: Run) -> None:
    result = run("apply", "db1", "--reboot", "never", "--yes")
    assert result.exit_code == 0
    assert "AWS does not reboot for parameters in its maintenance window" in result.stderr


def share_group(client: Any, lab: Lab, class_name: str) -> None:
    """Attach a group to db1 and to db2, which is of this class."""
    rds.create_group(client, "shop", "postgres17", "by somebody")
    rds.attach_group(client, "db1", "shop")
    client.create_db_instance(
        DBInstanceIdentifier="db2", DBInstanceClass=class_name, Engine="postgres",
        EngineVersion="17", AllocatedStorage=100, MasterUsername="master",
        MasterUserPassword="not a secret at all", DBParameterGroupName="shop",
    )  # fmt: skip
    lab.settle()


def test_a_shared_group_needs_more_than_yes(
    client: Any, lab: Lab, run: Run, tmp_path: Path
) -> None:
    share_group(client, lab, "db.r6g.xlarge")
    file = group_file(tmp_path, work_mem="8192")
    refused = run("apply", "db1", "--from", file, "--yes")
    assert refused.exit_code == 4
    assert "group shop is also used by db2" in refused.stderr
    assert run("apply", "db1", "--from", file, "--yes", "--shared").exit_code == 0


def test_a_boolean_in_words_is_applied_and_undone(
    client: Any, lab: Lab, run: Run, tmp_path: Path
) -> None:
    """RDS keeps off as 0: what was read back looked like somebody else's value."""
    new_group(client, "shop")
    rds.attach_group(client, "db1", "shop")
    lab.settle()
    file = group_file(tmp_path, jit="off", work_mem="8192")
    assert run("apply", "db1", "--from", file, "--yes").exit_code == 0
    assert {one.name: one.value for one in rds.parameters(client, "shop", source="user")} == {
        "jit": "0", "work_mem": "8192",
    }  # fmt: skip
    assert "nothing" in run("apply", "db1", "--from", file, "--yes").output
    assert run("undo", "db1", "--yes").exit_code == 0
    assert list(rds.parameters(client, "shop", source="user")) == []


def test_a_value_with_which_another_instance_of_the_group_would_not_start_is_refused(
    client: Any, lab: Lab, run: Run, tmp_path: Path
) -> None:
    """16 GiB fit db1, of 32 GiB, and not db2, of 4 GiB."""
    share_group(client, lab, "db.t4g.medium")
    file = group_file(tmp_path, shared_buffers="2097152")
    refused = run("apply", "db1", "--from", file, "--yes", "--shared")
    assert refused.exit_code == 4
    assert "db2 (db.t4g.medium) has this group too" in refused.stderr
    assert list(rds.parameters(client, "shop", source="user")) == []


def test_what_a_new_group_says_waits_for_the_reboot(
    client: Any, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MRTUNER_STATE_DIR", str(tmp_path))
    target = read_target(client, "db1")
    assert not attached_lately(target)
    assert run("apply", "db1", "--yes").exit_code == 0
    assert attached_lately(read_target(client, "db1"))
    assert run("undo", "db1", "--yes").exit_code == 0
    file = group_file(tmp_path, work_mem="8192")
    new_group(client, "shop")
    rds.attach_group(client, "db1", "shop")
    assert run("apply", "db1", "--from", file, "--yes").exit_code == 0
    assert not attached_lately(read_target(client, "db1"))


def attach_large_buffers(client: Any, lab: Lab) -> None:
    """Attach a group with seven tenths of memory as shared_buffers, which fits 20 connections."""
    buffers = "{DBInstanceClassMemory*7/81920}"
    new_group(client, shared_buffers=buffers, max_connections="20")
    rds.attach_group(client, "db1", "shop")
    lab.settle()


def test_what_somebody_set_must_fit_beside_our_advice(client: Any, lab: Lab, run: Run) -> None:
    """Seven tenths of memory as shared_buffers fit with 20 connections, but not with 800."""
    attach_large_buffers(client, lab)
    result = run("apply", "db1", "--workload", "oltp", "--connections", "800", "--yes")
    assert result.exit_code == 4
    assert "with all values of the group, the worst case takes" in result.stderr
    assert "HINT: Change the group's other values: shared_buffers." in result.stderr


def test_a_group_that_the_server_would_not_start_with_is_not_attached(
    client: Any, lab: Lab, run: Run
) -> None:
    """The named group overflows already; it would replace an attached group that fits."""
    rds.create_group(client, "too-much", "postgres17", "bytes where pages are meant")
    rds.modify_group(
        client, "too-much", [("shared_buffers", "{DBInstanceClassMemory/4}", "pending-reboot")]
    )
    result = run("apply", "db1", "--group", "too-much", "--yes")
    assert result.exit_code == 4
    assert "HINT: Change the group's other values: shared_buffers." in result.stderr
    assert rds.instance(client, "db1").groups[0].name == "default.postgres17"


def test_a_group_made_from_one_that_does_not_fit_is_refused_by_what_was_carried_over(
    client: Any, lab: Lab, run: Run
) -> None:
    """As above: {M*7/81920} fits with 20 connections only."""
    attach_large_buffers(client, lab)
    words = ("--workload", "oltp", "--connections", "800", "--group", "fresh", "--yes")
    result = run("apply", "db1", *words)
    assert result.exit_code == 4
    assert "HINT: Change the group's other values: shared_buffers." in result.stderr


def test_a_file_for_another_major_is_refused_before_anything_is_done(
    client: Any, lab: Lab, run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "group.tf"
    text = render_group(
        "terraform",
        [GroupLine(name="work_mem", value="8192", method="immediate", comment="")],
        name="shop-16",
        family="postgres16",
    )
    file.write_text(text)
    lab.forget_calls()
    result = run("apply", "db1", "--from", str(file), "--yes")
    assert result.exit_code == 4
    assert "is of family postgres16, but the instance needs postgres17" in result.stderr
    assert {action for _, action in lab.calls} <= {"DescribeDBInstances", "DescribeDBParameters"}
    file.write_text(text.replace("postgres16", "postgres17"))
    assert run("apply", "db1", "--from", str(file), "--yes").exit_code == 0


def test_the_plan_says_before_and_after_and_not_now_and_then(client: Any, run: Run) -> None:
    shown = run("apply", "db1").stderr
    assert "before -> after" in shown
    assert "now and then" not in shown


@pytest.mark.parametrize("command", ["apply", "diff"])
@pytest.mark.parametrize("wrong", [("--workload", "x"), ("--connections", "0")])
def test_a_word_or_a_number_that_means_nothing_is_a_mistake_of_usage(
    lab: Lab, run: Run, command: str, wrong: tuple[str, str]
) -> None:
    result = run(command, "db1", *wrong)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {wrong[0]} ")


def test_bytes_where_pages_are_meant_are_refused_before_anything_is_done(
    client: Any, run: Run, tmp_path: Path
) -> None:
    """{M/4} is a quarter in bytes; as 8 kB pages it is 2,048 times the memory."""
    file = group_file(tmp_path, shared_buffers="{DBInstanceClassMemory/4}")
    result = run("apply", "db1", "--from", file, "--yes")
    assert result.exit_code == 4
    assert "shared_buffers" in result.stderr
    assert "{DBInstanceClassMemory/32768}" in result.stderr
    assert [one.name for one in rds.groups(client) if not one.default] == []


def test_a_formula_with_spaces_is_refused_by_name(client: Any, run: Run, tmp_path: Path) -> None:
    file = group_file(tmp_path, work_mem="{DBInstanceClassMemory / 204800}")
    result = run("apply", "db1", "--from", file, "--yes")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: work_mem: ")


def test_a_class_unknown_to_us_is_advised_by_its_memory_and_vcpus(
    client: Any, lab: Lab, run: Run
) -> None:
    """EC2 has i4i.xlarge with 32 GiB and 4 vCPUs; RDS has no such class, so our table has none."""
    lab.instance("db1").class_name = "db.i4i.xlarge"
    result = run("diff", "db1", "--json")
    assert result.exit_code == 0, result.stderr
    assert "class db.i4i.xlarge is not in our catalog: the advice is for" in result.stdout
    assert "32 GiB and 4 vCPUs according to EC2" in result.stdout


@pytest.mark.parametrize("command", ["apply", "undo", "diff"])
def test_an_instance_that_is_nowhere_is_one_error_with_a_hint(
    lab: Lab, run: Run, command: str
) -> None:
    result = run(command, "nowhere")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[0] == "error: DBInstance nowhere not found in us-east-1"
    assert result.stderr.splitlines()[1].startswith("HINT: Check the name and the region")


@pytest.mark.parametrize("command", ["apply", "undo", "diff"])
def test_without_credentials_one_error_says_where_they_come_from(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, run: Run, command: str
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    result = run(command, "db1")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[0] == "error: no AWS credentials found"


def test_a_missing_permission_is_named(client: Any, lab: Lab, run: Run) -> None:
    lab.deny("rds:DescribeDBParameters")
    result = run("diff", "db1")
    assert result.exit_code == 1
    assert "AWS denies rds:DescribeDBParameters in us-east-1" in result.stderr


def test_an_instance_that_is_stopped_is_refused(client: Any, lab: Lab, run: Run) -> None:
    client.stop_db_instance(DBInstanceIdentifier="db1")
    lab.settle()
    result = run("apply", "db1", "--yes")
    assert result.exit_code == 4
    assert "db1 is stopped, not available" in result.stderr


def test_a_check_ends_with_three_when_there_is_something_to_do(client: Any, run: Run) -> None:
    assert run("diff", "db1", "--workload", "oltp", "--check").exit_code == 3


def test_the_password_of_a_dsn_is_never_repeated(client: Any, run: Run) -> None:
    result = run("diff", "db1", "--connect", "postgresql://me:sesame@127.0.0.1:1/app")
    assert result.exit_code == 1
    assert "sesame" not in result.output
