"""No check passes over what was not judged, in any command."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from mrtuner.cli import main
from mrtuner.cli.common import exit_codes
from rdstune.cli import rdstune

COMMANDS = Path(inspect.getfile(exit_codes)).parents[1]


def run(*arguments: str | Path, program: click.Command = rdstune) -> Result:
    return CliRunner().invoke(program, [str(one) for one in arguments])


def commands(of: click.Command, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command below a group, verbs included."""
    yield name, of
    if isinstance(of, click.Group):
        ctx = click.Context(of)
        for each in of.list_commands(ctx):
            found = of.get_command(ctx, each)
            assert found is not None
            yield from commands(found, f"{name} {each}".strip())


@pytest.mark.parametrize("program", [main, rdstune])
def test_every_check_can_be_allowed_to_pass_over_what_is_unknown(program: click.Command) -> None:
    checked = set()
    for name, one in commands(program):
        options = {option for each in one.params for option in each.opts}
        if "--check" in options or name.endswith("pods check"):
            assert "--allow-unknown" in options, name
            checked.add(name)
    assert checked >= ({"lint", "show", "diff", "audit"} if program is rdstune else {
        "tune", "vacuum", "limits", "history status", "failover audit", "failover rehearse",
        "pods check", "rds lint",
    })  # fmt: skip


def test_only_one_place_decides_that_a_check_found_something() -> None:
    deciding = [path.name for path in COMMANDS.rglob("*.py") if "codes.FOUND" in path.read_text()]
    assert deciding == ["check_option.py"]


# Parameter groups.

GROUP = """\
resource "aws_db_parameter_group" "g" {
  family = %s
  parameter {
    name         = "work_mem"
    value        = %s
    apply_method = "immediate"
  }
}
"""


def group(directory: Path, family: str = '"postgres16"', value: str = '"8192"') -> Path:
    file = directory / "main.tf"
    file.write_text(GROUP % (family, value))
    return file


def test_a_group_that_was_checked_completely_passes(tmp_path: Path) -> None:
    done = run("lint", "--check", group(tmp_path))
    assert (done.exit_code, done.stderr) == (0, "nothing to fix in 1 parameter\n")


@pytest.mark.parametrize(("family", "close"), [
    ("postgres16.3", "postgres16"), ("postgre17", "postgres17"),
    ("aurora-postgres15", "aurora-postgresql15"),
])  # fmt: skip
def test_a_family_that_does_not_exist_is_an_error(tmp_path: Path, family: str, close: str) -> None:
    file = group(tmp_path, f'"{family}"')
    done = run("lint", "--check", "--allow-unknown", file)
    assert done.exit_code == 3
    assert f"error: there is no family {family}" in done.stdout
    assert f"remedy: Write {close}." in done.stdout
    assert "nothing to fix" not in done.output


@pytest.mark.parametrize(("family", "value", "said"), [
    ('"postgres12"', '"8192"', "unknown parameter group family 'postgres12'"),
    ('"mysql8.0"', '"8192"', "mysql8.0 is not a PostgreSQL family: not checked"),
    ('"postgres16"', "var.size", "the value is known only at deployment: var.size"),
    ("var.family", '"8192"', "known only at deployment: family = var.family on line 2"),
])  # fmt: skip
def test_what_was_not_checked_is_named_first_and_does_not_pass(
    tmp_path: Path, family: str, value: str, said: str
) -> None:
    file = group(tmp_path, family, value)
    done = run("lint", "--check", file)
    assert done.exit_code == 3
    assert "not checked: " in done.stdout.splitlines()[0]
    assert said in done.stdout
    assert "nothing to fix" not in done.output
    assert "--allow-unknown accepts that" in done.stderr
    assert run("lint", "--check", "--allow-unknown", file).exit_code == 0
    assert run("lint", file).exit_code == 0
    told = json.loads(run("lint", "--json", file).stdout)
    assert not all(one["judged"] for one in told["groups"][0]["findings"])


def test_a_mistake_is_listed_after_what_was_not_checked(tmp_path: Path) -> None:
    file = group(tmp_path)
    file.write_text(file.read_text() + GROUP.replace('"g"', '"h"') % ("var.family", '"8MB"'))
    first, *rest = run("lint", file).stdout.splitlines()
    assert "not checked" in first
    assert any("'8MB' is not a plain number" in line for line in rest)


def test_a_static_parameter_is_known_in_families_that_are_not(tmp_path: Path) -> None:
    """Before 13, too, shared_buffers is static, and `immediate` is the provider's default."""
    file = tmp_path / "main.tf"
    file.write_text(
        'resource "aws_db_parameter_group" "g" {\n  family = "postgres11"\n  parameter {\n'
        '    name  = "shared_buffers"\n    value = "{DBInstanceClassMemory/32768}"\n  }\n}\n'
    )
    done = run("lint", "--check", "--allow-unknown", file)
    assert done.exit_code == 3
    assert "error: shared_buffers: static, but to be applied immediately" in done.stdout


# Variables of Terraform.

DYNAMIC = """\
resource "aws_db_parameter_group" "g" {
  family = FAMILY
  dynamic "parameter" {
    for_each = LIST
    content {
      name         = parameter.value.name
      value        = parameter.value.value
      apply_method = parameter.value.apply_method
    }
  }
}
"""
LIST = (
    '[{ name = "max_connections", value = "LEAST({DBInstanceClassMemory/953139},9000)", '
    'apply_method = "immediate" }]'
)


def findings(file: Path) -> list[tuple[str, str | None]]:
    told = json.loads(run("lint", "--json", file).stdout)
    return [(one["check"], one["parameter"]) for one in told["groups"][0]["findings"]]


@pytest.mark.parametrize(("given", "kind"), [
    (f'variable "f" {{ default = "postgres16" }}\nvariable "ps" {{\n  default = {LIST}\n}}', "var"),
    (f'locals {{\n  f  = "postgres16"\n  ps = {LIST}\n}}', "local"),
])  # fmt: skip
@pytest.mark.parametrize("beside", [False, True], ids=["in the file", "in another file"])
def test_defaults_of_variables_count_like_locals(
    tmp_path: Path, given: str, kind: str, beside: bool
) -> None:
    text = DYNAMIC.replace("FAMILY", f"{kind}.f").replace("LIST", f"{kind}.ps")
    file = tmp_path / "main.tf"
    file.write_text(text if beside else f"{given}\n{text}")
    if beside:
        (tmp_path / "variables.tf").write_text(given)
    assert findings(file) == [("static-immediate", "max_connections")]
    assert run("lint", "--check", file).exit_code == 3


@pytest.mark.parametrize(("files", "right"), [
    ({}, "8192"),
    ({"terraform.tfvars": "size = 4"}, "4"),
    ({"terraform.tfvars": "size = 4", "a.auto.tfvars": "size = 5"}, "5"),
    ({"b.auto.tfvars.json": '{"size": 6}', "a.auto.tfvars": "size = 5"}, "6"),
    ({"terraform.tfvars": "size = 4", "production.tfvars": "size = 5"}, "4"),
])  # fmt: skip
def test_values_in_tfvars_take_precedence_over_defaults(
    tmp_path: Path, files: dict[str, str], right: str
) -> None:
    """Below 64 kB PostgreSQL refuses work_mem, and says which value it was given."""
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    file = group(tmp_path, value='"${var.size}"')
    file.write_text(f'variable "size" {{ default = 8192 }}\n{file.read_text()}')
    done = run("lint", "--check", file)
    assert done.exit_code == (0 if right == "8192" else 3)
    assert right == "8192" or f"work_mem = {right}kB" in done.stdout


def test_a_variable_without_a_value_or_defined_by_itself_is_not_checked(tmp_path: Path) -> None:
    file = group(tmp_path, value="local.a")
    file.write_text(f'variable "b" {{}}\nlocals {{\n  a = var.b\n}}\n{file.read_text()}')
    assert findings(file) == [("not-known", "work_mem")]
    file.write_text(file.read_text().replace("a = var.b", "a = local.a"))
    assert findings(file) == [("not-known", "work_mem")]


def test_a_method_that_is_not_known_is_not_taken_for_the_default(tmp_path: Path) -> None:
    file = group(tmp_path)
    file.write_text(file.read_text().replace('"immediate"', "var.method"))
    file.write_text(file.read_text().replace('"work_mem"', '"max_prepared_transactions"'))
    file.write_text(file.read_text().replace("8192", "20"))
    assert findings(file) == [("not-known", None)]


# Pods.

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - name: web
          image: registry.example/shop:1
"""
SECRET = """\
          command: ["bundle", "exec", "puma"]
          envFrom: [{secretRef: {name: shop-env}}]
"""
POOLED = """\
          env:
            - name: DATABASE_URL
              value: 'postgresql://app@pool.example:6432/shop?pgbouncer=true&connection_limit=5'
"""


def pods(directory: Path, container: str, *options: str) -> Result:
    file = directory / "web.yaml"
    file.write_text(DEPLOYMENT + container)
    return run(
        "pods", "check", file, "--max-connections", "200", "--rollout", "none", *options,
        program=main,
    )  # fmt: skip


def test_a_workload_that_was_not_counted_makes_it_at_least(tmp_path: Path) -> None:
    """The default of Rails is 5 of 200 - 3, but the secret may say otherwise."""
    done = pods(tmp_path, SECRET)
    assert done.exit_code == 3
    first, second = done.stdout.splitlines()[:2]
    assert first.startswith("not judged: web, container web: Secret shop-env ")
    assert second == (
        "it is not known whether it fits: at least 15 of 197 connections can be reached without a "
        "rollout"
    )
    told = json.loads(pods(tmp_path, SECRET, "--json").stdout)
    assert (told["fits"], told["reachable"], told["ways"]) == (False, 15, None)
    assert [one["name"] for one in told["unjudged"]] == ["web, container web"]
    assert pods(tmp_path, SECRET, "--allow-unknown").exit_code == 0
    assert pods(tmp_path, SECRET, "--pool", "web=5").exit_code == 0


def test_clients_of_a_pooler_that_is_not_given_are_not_sessions(tmp_path: Path) -> None:
    done = pods(tmp_path, POOLED, "--framework", "web=prisma")
    assert done.exit_code == 3
    assert done.stdout.startswith("not judged: web: it connects to a pooler")


def test_what_is_counted_may_be_too_many_already(tmp_path: Path) -> None:
    done = pods(tmp_path, SECRET, "--reserved", "190", "--allow-unknown")
    assert done.exit_code == 3
    assert "does not fit: at least 15 connections can be reached" in done.stdout


# Metrics.


def test_a_resource_without_all_its_metrics_is_not_judged(tmp_path: Path) -> None:
    times = [f"2024-05-01T{minute // 60:02}:{minute % 60:02}" for minute in range(180)]
    rows = "".join(f"{at}:00Z,{8192 * int(at[-2:])},{at[-2:]},{at[-2:]}\n" for at in times)
    file = tmp_path / "metrics.csv"
    file.write_text("timestamp,ReadThroughput,ReadIOPS,WriteIOPS\n" + rows)
    given = ("limits", file, "--class", "db.r5.2xlarge", "--check")
    done = run(*given, program=main)
    assert done.exit_code == 3
    assert done.stdout.startswith("not judged: throughput: WriteThroughput missing\n")
    assert run(*given, "--allow-unknown", program=main).exit_code == 0
