"""Lint of what only Terraform has: variables, modules, and values that it plans forever."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from mrtuner.units import Bytes, GiB
from rdstune.cli import rdstune
from rdstune.group.derive import design
from rdstune.group.read import read, read_text
from rdstune.group.sizes import on_class
from rdstune.lint.check import Finding, Severity, lint

PARAMETERS = '[{ name = "max_connections", value = "200", apply_method = "immediate" }]'
DYNAMIC = """\
resource "aws_db_parameter_group" "g" {{
  family = {0}.family
  dynamic "parameter" {{
    for_each = {0}.ps
    content {{
      name         = parameter.value.name
      value        = parameter.value.value
      apply_method = parameter.value.apply_method
    }}
  }}
}}
"""
DEFAULTS = (
    f'variable "family" {{ default = "postgres16" }}\nvariable "ps" {{ default = {PARAMETERS} }}\n'
)
LOCALS = f'locals {{\n  family = "postgres16"\n  ps = {PARAMETERS} }}\n'
VARIABLES = 'variable "family" {}\nvariable "ps" {}\nlocals { family = var.family }\n'


def one(family: str, name: str, value: str, method: str = "", kind: str = "db") -> str:
    applied = f'\n    apply_method = "{method}"' if method else ""
    return (
        f'resource "aws_{kind}_parameter_group" "g" {{\n  family = "{family}"\n  parameter {{\n'
        f'    name = "{name}"\n    value = "{value}"{applied}\n  }}\n}}\n'
    )


def findings(text: str) -> list[Finding]:
    groups = read_text(text, suffix=".tf", source="main.tf")
    return [each for group in groups for each in lint(group)]


def checks(text: str) -> set[str]:
    return {each.check for each in findings(text)}


def test_defaults_of_variables_are_checked_as_locals_are() -> None:
    expected = ("static-immediate", "max_connections", Severity.ERROR)
    for text in (DEFAULTS + DYNAMIC.format("var"), LOCALS + DYNAMIC.format("local")):
        assert expected in {(each.check, each.parameter, each.severity) for each in findings(text)}


def test_a_static_parameter_at_once_is_an_error_in_a_family_before_13() -> None:
    """The provider's default method is immediate; PostgreSQL 11 reads it at a start only."""
    found = findings(one("postgres11", "shared_buffers", "{DBInstanceClassMemory/30000}"))
    assert {each.severity for each in found if each.check == "static-immediate"} == {Severity.ERROR}
    assert any(not each.judged for each in found)  # 11 is not known


@pytest.mark.parametrize("argument", ["family", "engine_family"])
def test_a_local_module_is_checked_with_the_values_of_each_call(
    tmp_path: Path, argument: str
) -> None:
    inner = (VARIABLES + DYNAMIC.format("var")).replace("var.family", f"var.{argument}")
    (tmp_path / "modules").mkdir()
    module = tmp_path / "modules" / "main.tf"
    module.write_text(inner.replace('"family"', f'"{argument}"'))
    caller = tmp_path / "main.tf"
    calls = [
        f'module "{name}" {{\n  source = "./modules"\n  {argument} = "postgres16"\n'
        f"  ps = {PARAMETERS.replace('immediate', method)}\n}}\n"
        for name, method in (("good", "pending-reboot"), ("bad", "immediate"))
    ]
    caller.write_text("".join(calls))
    good, bad = read(caller)
    assert (good.family, bad.family) == ("postgres16", "postgres16")
    assert not any(each.to_be_mended for each in lint(good))
    [found] = [each for each in lint(bad) if each.to_be_mended]
    assert (found.check, found.location) == ("static-immediate", f"{caller}:9")


def test_a_file_of_a_module_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "main.tf").write_text("resource {{{")
    caller = tmp_path / "main.tf"
    caller.write_text('module "shop" {\n  source = "./db"\n}\n')
    (group,) = read(caller)
    (what,) = group.unread
    assert what.endswith("main.tf, which cannot be read, of module.shop")
    done = CliRunner().invoke(rdstune, ["lint", "--check", str(caller)])
    assert done.exit_code == 3, done.output


def test_a_module_that_only_passes_on_variables_is_not_checked_and_says_where_to_check() -> None:
    [found] = findings('variable "family" {}\nvariable "ps" {}\n' + DYNAMIC.format("var"))
    assert not found.judged
    assert found.what.startswith("only passes on family = var.family on line 4")
    assert "files that call this module" in found.remedy


@pytest.mark.parametrize("method", ["immediate", "pending-reboot"])
def test_a_value_that_is_the_default_is_planned_forever(method: str) -> None:
    """A copy of default.postgres14 has 10000 (families.json: copy postgres14)."""
    text = one("postgres14", "log_autovacuum_min_duration", "10000", method)
    assert "default-value" in checks(text)
    assert "default-value" not in checks(text.replace("10000", "10001"))


def test_a_default_outside_terraform_is_nobodys_diff() -> None:
    text = (
        "Resources:\n  G:\n    Type: AWS::RDS::DBParameterGroup\n    Properties:\n"
        "      Family: postgres14\n      Parameters:\n        log_autovacuum_min_duration: 10000\n"
    )
    [group] = read_text(text, suffix=".yaml", source="t.yaml")
    assert "default-value" not in {each.check for each in lint(group)}


@pytest.mark.parametrize(
    ("family", "kind", "value", "told"),
    [
        ("aurora-postgresql15", "rds_cluster", "{DBInstanceClassMemory/32768}", True),  # 25 %
        ("aurora-postgresql15", "rds_cluster", "{DBInstanceClassMemory/12000}", False),  # 68 %
        ("postgres15", "db", "{DBInstanceClassMemory/30000}", False),  # not Aurora
    ],
)
def test_a_quarter_for_buffers_is_the_rule_of_rds_and_not_of_aurora(
    family: str, kind: str, value: str, *, told: bool
) -> None:
    text = one(family, "shared_buffers", value, "pending-reboot", kind)
    assert ("aurora-buffers" in checks(text)) is told


def test_what_18_can_reload_is_static_only_as_far_as_is_known() -> None:
    """From 18 autovacuum_max_workers is reloaded; max_connections still needs a restart."""
    [sure] = [
        each for each in findings(one("postgres17", "autovacuum_max_workers", "5"))
        if each.check == "static-immediate"
    ]  # fmt: skip
    [unsure] = [
        each for each in findings(one("postgres18", "autovacuum_max_workers", "5"))
        if each.check == "static-immediate"
    ]  # fmt: skip
    assert (sure.severity, unsure.severity) == (Severity.ERROR, Severity.WARNING)
    assert "inferred from postgres14" in unsure.why
    assert "static-immediate" in checks(one("postgres18", "max_connections", "200"))


def test_a_number_that_gains_nothing_is_not_advertised_as_a_gain() -> None:
    """All counted sessions sort already: with as many connections the worst case is the same."""
    made = design(family_name="aurora-postgresql16", class_name="db.r6g.large", workload="oltp")
    assert made.sessions is not None
    assert "instead of" not in made.sessions.buys
    here = on_class(made.values, made.request, made.instance_class)
    assert here.reckoned is not None
    assert f"to {here.reckoned.open} of them" in made.sessions.promise  # one count, not two


def test_the_option_that_gains_something_is_added_to_what_was_given() -> None:
    made = design(
        family_name="postgres17", class_name="db.r6g.xlarge", storage=Bytes(500 * GiB),
        smallest="db.r6g.large",
    )  # fmt: skip
    assert made.sessions is not None
    option = f"--connections {made.sessions.reckoned.active}"
    assert made.sessions.buys.endswith(f"add {option}.")
    assert made.command_with_connections == (
        "rdstune show --class db.r6g.xlarge --family postgres17 --workload mixed --disk 500GB "
        f"--smallest db.r6g.large {option}"
    )


@pytest.mark.parametrize(
    "values", ['{"n":"100000","tag":', "[]", "n ="], ids=["no JSON", "no object", "no HCL"]
)
def test_defaults_do_not_stand_for_values_that_cannot_be_read(values: str, tmp_path: Path) -> None:
    """What the file sets would win over the default, and may be anything."""
    main = tmp_path / "main.tf"
    used = one("postgres17", "max_connections", "x", "pending-reboot").replace('"x"', "var.n")
    main.write_text(f'variable "n" {{ default = "100" }}\n{used}')
    assert [each.value for each in read(main)[0].entries] == ["100"]
    suffix = ".tfvars" if values == "n =" else ".tfvars.json"
    (tmp_path / f"terraform{suffix}").write_text(values)
    [group] = read(main)
    assert [each.value for each in group.entries] == [None]
    assert {each.check for each in lint(group)} == {"not-known"}


def test_texts_of_values_in_json_are_no_templates(tmp_path: Path) -> None:
    main = tmp_path / "main.tf"
    main.write_text(one("postgres17", "max_connections", "x").replace('"x"', "var.n"))
    (tmp_path / "terraform.tfvars.json").write_text('{"n": "200", "tag": "${n}", "o": "%{n}"}')
    assert [each.value for each in read(main)[0].entries] == ["200"]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ('lookup(parameter.value, "apply_method", null)', "static-immediate"),
        ("null", "static-immediate"),
        ("var.how", "not-known"),
    ],
)
def test_a_method_that_is_null_is_the_providers_and_an_unknown_one_is_told(
    method: str, expected: str
) -> None:
    """max_connections is static, and the provider's default is immediate."""
    dynamic = DYNAMIC.format("local").replace("parameter.value.apply_method", method)
    listed = PARAMETERS.replace(', apply_method = "immediate"', "")
    found = checks(LOCALS.replace(PARAMETERS, listed) + dynamic)
    assert found & {"static-immediate", "not-known"} == {expected}
    static = one("postgres16", "max_connections", "200", "x").replace('"x"', method)
    if "lookup" not in method:
        assert checks(static) & {"static-immediate", "not-known"} == {expected}


def test_of_a_modules_list_an_unknown_method_is_told_and_none_is_the_providers() -> None:
    module = 'module "db" {{\n family = "postgres17"\n parameters = [{{ {0} }}]\n}}\n'
    given = 'name = "max_connections", value = "200"'
    assert checks(module.format(f"{given}, apply_method = var.how")) == {"not-known"}
    assert "static-immediate" in checks(module.format(given))
    assert checks(module.format('name = var.extra, value = "1"')) == {"not-known"}


def test_a_name_that_is_not_known_is_told_and_is_no_wrong_name() -> None:
    parameter = '  parameter {\n    name = var.extra\n    value = "1"\n  }\n'
    text = f'resource "aws_db_parameter_group" "g" {{\n  family = "postgres17"\n{parameter * 2}}}\n'
    assert [each.check for each in findings(text)] == ["not-known", "not-known"]


@pytest.mark.parametrize("number", ["var.n", '"20"'])
def test_memory_is_not_judged_by_what_unknown_values_are_not(number: str, tmp_path: Path) -> None:
    """By hand, on db.r6g.large of 16 GiB: 28 sessions of 128 MB fit, 108 do not.

    Twenty connections are a known number too if only their method is wrong.
    """
    main = tmp_path / "main.tf"
    user = 'resource "aws_db_instance" "i" {\n  instance_class = "db.r6g.large"\n'
    user += "  parameter_group_name = aws_db_parameter_group.g.name\n}\n"
    extra = f'  parameter {{\n    name = "max_connections"\n    value = {number}\n  }}\n}}\n'
    text = one("postgres17", "work_mem", "65536").removesuffix("}\n")
    main.write_text(text + "}\n" + user)
    [group] = read(main)
    assert "memory-budget" in {each.check for each in lint(group)}
    main.write_text(text + extra + user)
    [group] = read(main)
    assert "memory-budget" not in {each.check for each in lint(group)}
