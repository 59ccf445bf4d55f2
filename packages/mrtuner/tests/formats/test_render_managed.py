"""What managed servers are given: base units, nothing that they refuse, and scripts that run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import hcl2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrtuner.catalog.families import FamilyParameter
from mrtuner.catalog.platforms import newest, platform
from mrtuner.errors import BadValue
from mrtuner.formats import Line, parse, render
from mrtuner.tuning.verdict import RULES

PLATFORMS = {
    "cloudsql": "cloudsql", "cloudsql-terraform": "cloudsql",
    "azure": "azure", "azure-terraform": "azure",
}  # fmt: skip

#: Values as we show them, and in PostgreSQL's base units: converted by hand from pg_settings.unit.
BASE_UNITS = [
    ("shared_buffers", "4GB", "524288"),  # pages of 8 kB
    ("wal_buffers", "16MB", "2048"),  # pages of 8 kB
    ("work_mem", "19MB", "19456"),  # kB
    ("maintenance_work_mem", "1GB", "1048576"),  # kB
    ("autovacuum_work_mem", "-1", "-1"),
    ("max_wal_size", "16GB", "16384"),  # MB
    ("checkpoint_timeout", "15min", "900"),  # s
    ("autovacuum_naptime", "1min", "60"),  # s
    ("autovacuum_vacuum_cost_delay", "2ms", "2"),  # ms
    ("idle_in_transaction_session_timeout", "10min", "600000"),  # ms
    ("checkpoint_completion_target", "0.9", "0.9"),
    ("random_page_cost", "1.1", "1.1"),
    ("max_connections", "200", "200"),
    ("track_io_timing", "on", "on"),
    ("huge_pages", "try", "try"),
]


def line(name: str, value: str, *, restart: bool = False) -> Line:
    return Line(name=name, value=value, quoted=False, comment="it's why", restart=restart)


LINES = [line(name, value) for name, value, _ in BASE_UNITS]


def flags_of_terraform(text: str) -> dict[str, str]:
    options = hcl2.SerializationOptions(strip_string_quotes=True)
    found = hcl2.loads(text, serialization_options=options)["resource"]
    pairs: dict[str, str] = {}
    for resource in found:
        [[body]] = [list(of.values()) for of in resource.values()]
        for settings_block in body.get("settings", ()):
            pairs |= {flag["name"]: flag["value"] for flag in settings_block["database_flags"]}
        if "value" in body:
            pairs[body["name"]] = body["value"]
    return pairs


def unwrapped(text: str) -> str:
    """The text with its comments on one row."""
    return " ".join(text.split("\n# "))


def run(script: str, directory: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script with stand-ins for gcloud and az that print one argument a row."""
    for name in ("gcloud", "az"):
        program = directory / name
        program.write_text('#!/bin/sh\nprintf "%s\\n" "$@" END\n', encoding="utf-8")
        program.chmod(0o755)
    environment = {"PATH": f"{directory}:{os.environ['PATH']}", **variables}
    return subprocess.run(
        ["sh"], input=script, env=environment, capture_output=True, text=True, check=False
    )


def test_numbers_are_in_base_units_as_terraform_reads_them() -> None:
    expected = {name: base for name, _, base in BASE_UNITS}
    assert flags_of_terraform(render("cloudsql-terraform", LINES)) == expected
    assert flags_of_terraform(render("azure-terraform", LINES)) == expected


def test_the_shell_gives_gcloud_every_flag_in_one_argument(tmp_path: Path) -> None:
    done = run(render("cloudsql", LINES), tmp_path, INSTANCE="my db", KEEP="")
    assert done.stderr == ""
    *words, flags, end = done.stdout.split("\n")[:-1]
    assert words == ["sql", "instances", "patch", "my db"]
    assert flags == "--database-flags=" + ",".join(f"{name}={base}" for name, _, base in BASE_UNITS)
    assert end == "END"


def test_flags_that_stay_are_asked_for_since_gcloud_resets_the_others(tmp_path: Path) -> None:
    script = render("cloudsql", [line("work_mem", "64MB")])
    kept = run(script, tmp_path, INSTANCE="i", KEEP="cloudsql.iam_authentication=on")
    assert "--database-flags=cloudsql.iam_authentication=on,work_mem=65536\n" in kept.stdout
    nothing = run(script, tmp_path, INSTANCE="i")
    assert nothing.returncode != 0
    assert nothing.stdout == ""
    assert "KEEP" in nothing.stderr


def test_the_shell_gives_az_one_call_for_each_parameter(tmp_path: Path) -> None:
    done = run(render("azure", LINES), tmp_path, RESOURCE_GROUP="my group", SERVER="db")
    assert done.stderr == ""
    calls = [call.split("\n") for call in done.stdout.split("\nEND\n") if call]
    server = ["--resource-group", "my group", "--server-name", "db"]
    assert calls == [
        ["postgres", "flexible-server", "parameter", "set", *server,
         "--name", name, "--value", base]
        for name, _, base in BASE_UNITS
    ]  # fmt: skip
    assert run(render("azure", LINES), tmp_path, SERVER="db").stdout == ""


def test_what_azure_fixes_is_left_out_and_said() -> None:
    """Read-only in Microsoft's tables of PostgreSQL 18."""
    text = render("azure", [line("maintenance_io_concurrency", "128"), line("fsync", "on")])
    assert parse("azure", text) == {}
    assert (
        "# Left out, Azure Database for PostgreSQL flexible server sets them itself:\n"
        "# maintenance_io_concurrency = 128, fsync = on\n"
    ) in text


@pytest.mark.parametrize("format", ["azure", "azure-terraform"])
def test_what_is_outside_azures_bounds_is_left_out_with_the_bounds(format: str) -> None:
    """4 MB is the least work_mem and 64 GB the most max_wal_size that Azure takes."""
    given = [line("work_mem", "2MB"), line("max_wal_size", "128GB"), line("jit", "off")]
    text = render(format, given)
    assert parse(format, text) == {"jit": "off"}
    assert "work_mem = 2048 (it takes 4096-2097151)" in unwrapped(text)
    assert "max_wal_size = 131072 (it takes 32-65536)" in unwrapped(text)


@pytest.mark.parametrize("format", ["cloudsql", "cloudsql-terraform"])
def test_what_is_no_flag_of_cloud_sql_is_left_out_with_its_value(format: str) -> None:
    given = [line("shared_preload_libraries", "pg_cron"), line("jit", "off"), line("x.y", "1")]
    text = unwrapped(render(format, given))
    assert parse(format, render(format, given)) == {}
    assert "jit = off, x.y = 1" in text
    assert "shared_preload_libraries = pg_cron (flags such as cloudsql.enable_pgaudit" in text
    assert "gcloud sql flags list" in text


def test_a_bound_that_depends_on_the_instance_is_not_guessed() -> None:
    """12 GB are 75 % of 16 GB, and then Cloud SQL would refuse the whole patch."""
    text = render("cloudsql", [line("effective_cache_size", "12GB")])
    assert parse("cloudsql", text) == {}
    said = "effective_cache_size = 1572864 (10 to 70 % of the instance's memory)"
    assert said in unwrapped(text)


@pytest.mark.parametrize("format", PLATFORMS)
def test_parameters_that_need_a_restart_are_named(format: str) -> None:
    given = [line("shared_buffers", "4GB", restart=True), line("work_mem", "64MB")]
    notes = unwrapped(render(format, given))
    assert re.search(r"restart[^:]*: shared_buffers\b", notes)
    assert not re.search(r"restart[^:]*: [a-z_, ]*work_mem", notes)


def values(known: FamilyParameter) -> st.SearchStrategy[str]:
    """Values that the platform takes and PostgreSQL too, in base units."""
    if known.data_type == "list":
        words = (known.allowed or "a").split(",")
        return st.lists(st.sampled_from(words), min_size=1, unique=True).map(",".join)
    if known.data_type == "string":
        return st.sampled_from((known.allowed or "on,off").split(","))
    ours = newest(known.name)
    assert ours is not None
    low, high = known.bounds or (ours.min or 0, ours.max or 0)
    low, high = max(low, ours.min or 0, -(2**31)), min(high, ours.max or 0, 2**31 - 1)
    if known.data_type == "integer":
        return st.integers(int(low), int(high)).map(str)
    return st.floats(low, high, allow_subnormal=False).map(lambda x: repr(x).removesuffix(".0"))


def possible(name: str, text: str) -> bool:
    ours = newest(name)
    assert ours is not None
    try:
        ours.parse(text)
    except BadValue:
        return False
    return True


@pytest.mark.parametrize("format", PLATFORMS)
@given(data=st.data())
@settings(deadline=None, max_examples=80)
def test_every_parameter_of_a_platform_reads_back(format: str, data: st.DataObject) -> None:
    known = platform(PLATFORMS[format]).parameters
    names = st.sampled_from(sorted(name for name in known if known[name].modifiable))
    given = []
    for name in data.draw(st.lists(names, max_size=6, unique=True)):
        text = data.draw(values(known[name]))
        if possible(name, text) and name != "effective_cache_size":
            ours = newest(name)
            assert ours is not None
            shown = ours.show(ours.parse(text))
            listed = known[name].data_type == "list"
            given.append(line(name, ", ".join(text.split(",")) if listed else shown))
    expected = {each.name: each.value for each in given}
    assert parse(format, render(format, given, title="t")) == expected


def test_the_libraries_go_to_azure_without_spaces_and_come_back_as_a_list() -> None:
    given = [line("shared_preload_libraries", "pg_stat_statements, auto_explain")]
    text = render("azure-terraform", given)
    assert flags_of_terraform(text) == {
        "shared_preload_libraries": "pg_stat_statements,auto_explain"
    }
    assert parse("azure-terraform", text) == {given[0].name: given[0].value}
    odd = render("azure", [line("shared_preload_libraries", "pg_stat_statements, mine")])
    assert parse("azure", odd) == {}


def test_a_value_that_postgresql_would_refuse_is_an_error() -> None:
    with pytest.raises(BadValue, match="work_mem"):
        render("azure", [line("work_mem", "much")])


@pytest.mark.parametrize(
    ("format", "text", "message"),
    [
        ("cloudsql", "gcloud sql instances list\n", "no call with --database-flags="),
        ("cloudsql", "gcloud x --database-flags=work_mem\n", "cannot read the flag 'work_mem'"),
        ("cloudsql", "gcloud 'x\n", "cannot read this script"),
        ("cloudsql", "gcloud x --database-flags=work_mem=much\n", "invalid value for work_mem"),
        ("azure", "rm -r x\n", "cannot read the call 'rm -r x'"),
        ("azure", "az postgres flexible-server parameter set --name jit\n", "has no --value"),
        ("azure", "az 'x\n", "cannot read the row"),
        ("azure-terraform", "variable = 1\n", "no resource of Terraform"),
        (
            "azure-terraform",
            'resource "azurerm_postgresql_flexible_server_configuration" "jit" {\n'
            '  name = "jit"\n  value = var.jit\n}\n',
            "no literal value in the block",
        ),
        (
            "cloudsql-terraform",
            'resource "x" "y" {\n  database_flags {\n    value = "1"\n  }\n}\n',
            "no literal name in the block",
        ),
    ],
)
def test_what_cannot_be_read_is_named(format: str, text: str, message: str) -> None:
    with pytest.raises(BadValue) as error:
        parse(format, text)
    assert message in error.value.message
    assert error.value.hint


def test_terraform_of_other_hands_is_read_too() -> None:
    text = """
    # ours
    resource "google_sql_database_instance" "main" {
      database_version = "POSTGRES_17"
      settings {
        tier = "db-custom-4-16384"
        database_flags {
          value = "65536"
          name  = "work_mem"
        }
        // database_flags { name = "jit" value = "off" }
        database_flags {
          name  = "cloudsql.iam_authentication"
          value = "on"
        }
      }
    }
    """.replace("\n    ", "\n")
    assert parse("cloudsql-terraform", text) == {
        "work_mem": "64MB",
        "cloudsql.iam_authentication": "on",
    }


def test_azure_knows_every_parameter_that_a_rule_writes() -> None:
    """Except those of 19, which Azure does not offer yet. Rules of standbys only keep."""
    known = platform("azure").parameters
    written = {name for name, rule in RULES.items() if not rule.suggestion}
    kept = {"hot_standby_feedback", "max_standby_archive_delay", "max_standby_streaming_delay"}
    since_19 = {"autovacuum_max_parallel_workers", "io_max_workers", "io_min_workers"}
    assert written - kept - set(known) == since_19


@pytest.mark.parametrize("name", ["azure", "cloudsql"])
def test_a_script_without_anything_to_set_runs_and_calls_nothing(name: str, tmp_path: Path) -> None:
    done = run(render(name, []), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_title_cannot_break_out_of_its_comment(tmp_path: Path) -> None:
    title = "a\nrm -r x\u2028$(touch y)"
    for name in ("azure", "cloudsql"):
        script = render(name, [line("jit", "off")], title=title)
        assert all(row.startswith("#") for row in script.split("\n") if "rm -r" in row)
        assert shlex.split(script, comments=True).count("rm") == 0
