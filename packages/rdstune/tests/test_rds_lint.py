"""Lint of parameter groups: each mistake that people make is found, and only mistakes are.

Figures are worked out by hand: shared_buffers counts pages of 8192 bytes, so {M/4} of them is
8192 / 4 = 2048 times the memory.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from mrtuner.aws import rds
from mrtuner.catalog import parameters
from mrtuner.catalog.classes import instance_class, instance_classes
from mrtuner.catalog.families import families, family
from mrtuner.errors import BadValue
from rdstune.cli import rdstune
from rdstune.formats import GroupLine, render_group
from rdstune.group.derive import design
from rdstune.group.read import GroupEntry, WrittenGroup, read_live, read_text
from rdstune.lint.check import Finding, Severity, lint
from rdstune.lint.suggestions import mended

ONE = "db.r6g.xlarge"


def group(
    *entries: GroupEntry, family: str | None = "postgres17", cluster: bool = False, **values: str
) -> WrittenGroup:
    listed = [GroupEntry(name=name, value=value) for name, value in values.items()]
    return WrittenGroup(
        entries=(*entries, *listed), source="main.tf", family=family, cluster=cluster, line=1
    )


def found(written: WrittenGroup, check: str, *class_names: str) -> list[Finding]:
    classes = [instance_class(name) for name in class_names] or None
    return [finding for finding in lint(written, classes=classes) if finding.check == check]


def only(written: WrittenGroup, check: str, *class_names: str) -> Finding:
    [finding] = found(written, check, *class_names)
    return finding


def test_bytes_as_pages_ask_for_two_thousand_times_the_memory() -> None:
    finding = only(group(shared_buffers="{DBInstanceClassMemory/4}"), "wrong-unit")
    assert finding.severity is Severity.ERROR
    assert finding.what == "{DBInstanceClassMemory/4} asks for 2,048 times the memory"
    assert finding.why == "shared_buffers is measured in units of 8kB, not in bytes"
    assert finding.remedy == "Write {DBInstanceClassMemory/32768}"


@pytest.mark.parametrize(
    ("name", "value", "times", "remedy"),
    [
        # 1024 / 16
        (
            "maintenance_work_mem",
            "{DBInstanceClassMemory/16}",
            "64",
            "{DBInstanceClassMemory/16384}",
        ),
        # 8192 * 75 / 102400: 75 % in kB, where pages are counted
        (
            "effective_cache_size",
            "{DBInstanceClassMemory*75/102400}",
            "6.0",
            "{DBInstanceClassMemory*3/32768}",
        ),
        # 1024 / 200: 5.12
        ("work_mem", "{DBInstanceClassMemory/200}", "5.1", "{DBInstanceClassMemory/204800}"),
        (
            "autovacuum_work_mem",
            "GREATEST({DBInstanceClassMemory/32},65536)",
            "32",
            "GREATEST({DBInstanceClassMemory/32768},65536)",
        ),
    ],
)
def test_a_wrong_unit_is_named_with_the_formula_that_was_meant(
    name: str, value: str, times: str, remedy: str
) -> None:
    finding = only(group(GroupEntry(name=name, value=value)), "wrong-unit")
    assert finding.what == f"{value} asks for {times} times the memory"
    assert finding.remedy == f"Write {remedy}"


def test_mb_as_pages_give_hardly_any_memory() -> None:
    """A quarter in MB is M/4194304; as pages it is 8192 / 4194304, some 0.2 %."""
    finding = only(group(shared_buffers="{DBInstanceClassMemory/4194304}"), "wrong-unit")
    assert finding.severity is Severity.WARNING
    assert finding.what == "{DBInstanceClassMemory/4194304} gives only 0.2 % of the memory"
    assert finding.remedy == "Write {DBInstanceClassMemory/32768}"


def test_a_literal_in_bytes_is_more_than_any_class_has() -> None:
    """4 GiB in bytes, read as pages: 32 TiB."""
    finding = only(group(effective_cache_size="1073741824"), "wrong-unit")
    assert finding.severity is Severity.ERROR
    assert finding.what == "1073741824 is 8 TB, more than the memory of every class"
    assert finding.remedy == "For 1 GB write 131072."


def test_a_literal_beyond_small_classes_is_only_told() -> None:
    finding = only(group(shared_buffers="1048576"), "more-than-memory")  # 8 GB
    assert finding.severity is Severity.INFO
    assert "more than the memory of db.t1.micro, db.t3.micro" in finding.what
    assert not found(group(shared_buffers="1048576"), "more-than-memory", ONE)


@pytest.mark.parametrize(
    ("value", "says", "remedy"),
    [
        ("{DBInstanceClassMemory / 32768}", "is missing", "{DBInstanceClassMemory/32768}"),
        (
            "{dbinstanceclassmemory/32768}",
            "unknown variable dbinst",
            "{DBInstanceClassMemory/32768}",
        ),
        ("{(DBInstanceClassMemory)/32768}", "expected a variable", "{DBInstanceClassMemory/32768}"),
        ("{DBInstanceClassMemory*0.25/8192}", "is missing", "{DBInstanceClassMemory/32768}"),
        (
            "{DBInstanceClassMemory/32768-1000}",
            "is missing",
            "SUM({DBInstanceClassMemory/32768},-1000)",
        ),
        ("{DBInstanceClassMemory/4}/8192", "unexpected", "{DBInstanceClassMemory/32768}"),
        ("{DBInstanceClassMemory/max_connections}", "cannot refer to another parameter", None),
        ("{DBInstanceClassMemory / max_connections}", "cannot refer to another parameter", None),
        ("{TotalMemory/4}", "unknown variable TotalMemory", None),
        ("{DBInstanceClassMemory/0}", "division by zero", None),
        ("IF({DBInstanceVCPU}>2,1,0)", "unknown function IF", None),
        ("{log(0)}", "log(0)", None),
        ("{DBInstanceClassMemory*8589934592}", "exceeds 64 bits", None),
        ("{DBInstanceClassMemory*" + "9" * 5000 + "}", "a number of 5000 digits", None),
    ],
)
def test_what_rds_cannot_read_is_an_error_with_what_was_meant(
    value: str, says: str, remedy: str | None
) -> None:
    finding = only(group(shared_buffers=value), "not-a-formula")
    assert finding.severity is Severity.ERROR
    assert says in finding.what
    assert finding.remedy == (f"Write {remedy}" if remedy else "")


@pytest.mark.parametrize(
    ("text", "better"),
    [
        ("{DBInstanceClassMemory * 0.75 / 8192}", "{DBInstanceClassMemory*3/32768}"),
        ("greatest({DBInstanceVCPU / 2}, 8)", "GREATEST({DBInstanceVCPU/2},8)"),
        ("DBInstanceClassMemory/32768", "{DBInstanceClassMemory/32768}"),
        ("{DBInstanceVCPU}*2", "{DBInstanceVCPU*2}"),
        ("{4/DBInstanceClassMemory}", None),
        ("{DBInstanceClassMemory/32768", None),
        ("{DBInstanceClassMemory*DBInstanceVCPU}", None),
        ("8", None),
        ("{" * 300, None),
    ],
)
def test_what_was_meant_is_written_in_a_documented_shape(text: str, better: str | None) -> None:
    assert mended(text) == better


def test_a_division_before_a_multiplication_loses_on_small_classes() -> None:
    """On 722 MiB: 757071872 / 63963136 = 11.8, so 11 of 11.8: 7 % are lost."""
    value = "{DBInstanceClassMemory/63963136*1024}"
    finding = only(group(maintenance_work_mem=value), "truncates-first", "db.t3.micro")
    assert finding.severity is Severity.WARNING
    assert finding.what == "divides before it multiplies, losing 7.1 % on db.t3.micro"
    assert finding.remedy == "Write {DBInstanceClassMemory/62464}"


def test_where_little_is_lost_it_is_only_told() -> None:
    """On 30 GiB the quotient is some 500, so truncating it loses at most one part in 500."""
    value = "GREATEST({DBInstanceClassMemory/63963136*1024},65536)"
    finding = only(group(maintenance_work_mem=value), "truncates-first", ONE)
    assert finding.severity is Severity.INFO
    assert finding.remedy == "Write GREATEST({DBInstanceClassMemory/62464},65536)"


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("shared_buffers", "4GB", "Write 524288"),  # 4 GiB / 8 KiB
        ("work_mem", "32MB", "Write 32768"),
        ("work_mem", "4G", "Write 4194304"),
        ("checkpoint_timeout", "15min", "Write 900"),
        ("log_min_duration_statement", "2s", "Write 2000"),
        ("shared_buffers", "25%", "Write {DBInstanceClassMemory/32768}"),
        ("max_wal_size", "10%", ""),
    ],
)
def test_a_unit_suffix_is_refused_with_the_number_in_base_units(
    name: str, value: str, remedy: str
) -> None:
    finding = only(group(GroupEntry(name=name, value=value)), "unit-suffix")
    assert finding.severity is Severity.ERROR
    assert finding.remedy == remedy


def test_a_value_beyond_bounds_on_some_classes_names_them_and_the_bound() -> None:
    """wal_buffers takes 262143 pages at most: 2 GB less a page, a quarter of 8 GiB."""
    finding = only(group(wal_buffers="{DBInstanceClassMemory/32768}"), "out-of-range")
    assert finding.severity is Severity.ERROR
    assert finding.what.startswith("{DBInstanceClassMemory/32768} is refused on db.m1.xlarge, ")
    assert finding.remedy == "Write LEAST({DBInstanceClassMemory/32768},262143)"
    assert not found(
        group(wal_buffers="{DBInstanceClassMemory/32768}"), "out-of-range", "db.t3.small"
    )


def test_a_value_below_bounds_gets_a_floor() -> None:
    """autovacuum_max_workers starts at 1; a class of 32 GiB gives 0."""
    value = "{DBInstanceClassMemory/64371566592}"
    finding = only(group(autovacuum_max_workers=value), "out-of-range", ONE)
    assert finding.what == f"{value} is refused on db.r6g.xlarge"
    assert finding.remedy == f"Write GREATEST({value},1)"


def test_what_only_the_smallest_classes_refuse_is_told_with_how_to_leave_them_out() -> None:
    """1 GiB / 8 MiB is 128, RDS's minimum, but formulas see less than 1 GiB; 1.7 GiB is next."""
    written = group(min_wal_size="{DBInstanceClassMemory/8388608}")
    finding = only(written, "out-of-range")
    assert finding.severity is Severity.INFO
    assert finding.remedy == "If you use only larger classes, add --smallest db.m1.small."
    assert lint(written, smallest=instance_class("db.m1.small")) == ()


def test_without_a_class_nothing_is_judged_and_that_is_an_error() -> None:
    classes = [instance_class("db.t4g.micro")]
    with pytest.raises(BadValue, match=r"no class of postgres .* has the memory of db\.r6g\.large"):
        lint(group(work_mem="4096"), classes=classes, smallest=instance_class("db.r6g.large"))


def test_a_literal_out_of_bounds_is_an_error() -> None:
    finding = only(group(max_connections="1000000"), "out-of-range")
    assert finding.severity is Severity.ERROR
    assert finding.what == "max_connections = 1000000 is outside 1 to 262143"


def test_what_only_another_familys_list_refuses_is_a_warning() -> None:
    """The list of allowed values was seen in postgres14 only; jit is a Boolean there."""
    finding = only(group(jit="perhaps"), "out-of-range")
    assert finding.severity is Severity.WARNING
    assert only(group(family="postgres14", jit="2"), "out-of-range").severity is Severity.ERROR


@pytest.mark.parametrize("word", ["0", "1", "on", "off"])
def test_a_boolean_may_be_a_word(word: str) -> None:
    assert not lint(group(jit=word))


def test_a_formula_that_truncates_to_zero_is_named_with_its_classes() -> None:
    value = "{DBInstanceVCPU/64}"
    finding = only(group(max_parallel_workers=value), "truncates-to-zero")
    assert finding.severity is Severity.WARNING
    assert finding.what.startswith(f"{value} gives 0 on ")


def test_a_part_that_is_always_zero_is_named() -> None:
    value = "GREATEST({DBInstanceClassMemory/643715665920000},3)"
    finding = only(group(autovacuum_max_workers=value), "truncates-to-zero")
    assert finding.what == "{DBInstanceClassMemory/643715665920000} gives 0 on every class"


def test_functions_inside_functions_are_documented_nowhere() -> None:
    value = "GREATEST(LEAST({DBInstanceVCPU},16),8)"
    finding = only(group(max_worker_processes=value), "nested-functions")
    assert finding.severity is Severity.WARNING


def test_a_shape_known_only_from_awss_defaults_is_told() -> None:
    value = "GREATEST({log(DBInstanceClassMemory/21474836480)*600},200)"
    finding = only(group(autovacuum_vacuum_cost_limit=value), "undocumented-shape")
    assert finding.severity is Severity.INFO


def test_a_formula_for_a_real_number_is_an_error() -> None:
    finding = only(group(random_page_cost="{DBInstanceVCPU}"), "takes-no-formula")
    assert finding.severity is Severity.ERROR


def test_a_comparison_may_stand_for_on_and_off() -> None:
    """The user guide's own example; wal_compression has become an enum since."""
    for major in (14, 17):
        assert not lint(group(family=f"postgres{major}", wal_compression="{DBInstanceVCPU}>2"))


def test_names_are_looked_up_as_rds_writes_them() -> None:
    assert not lint(group(TimeZone="UTC", work_mem="4096"))
    assert found(group(Work_Mem="4MB"), "unit-suffix")


def test_static_and_immediate_is_an_error_for_the_whole_call() -> None:
    entry = GroupEntry(name="shared_buffers", value="16384", method="immediate", line=7)
    finding = only(group(entry), "static-immediate")
    assert (finding.severity, finding.location) == (Severity.ERROR, "main.tf:7")
    waits = GroupEntry(name="work_mem", value="4096", method="pending-reboot")
    assert only(group(waits), "waits-needlessly").severity is Severity.INFO


def test_names_that_the_family_does_not_list_are_found() -> None:
    finding = only(group(shared_bufers="16384"), "unknown-parameter")
    assert finding.severity is Severity.ERROR
    assert "shared_buffers" in finding.remedy
    extension = only(group(GroupEntry(name="my_extension.level", value="1")), "unknown-parameter")
    assert extension.severity is Severity.WARNING


def test_what_customers_cannot_set_is_found_with_its_evidence() -> None:
    fixed = [name for name, each in family("postgres14").parameters.items() if not each.modifiable]
    assert "archive_command" in fixed
    finding = only(group(family="postgres14", archive_command="/bin/true"), "not-modifiable")
    assert finding.why == f"evidence: {family('postgres14').parameter('archive_command').evidence}"


def test_a_cluster_parameter_in_an_instance_group_is_found() -> None:
    aurora = family("aurora-postgresql16")
    name = next(name for name in aurora.parameters if aurora.parameter(name).level == "cluster")
    entry = GroupEntry(name=name, value=None, unknown="var.x")
    assert found(group(entry, family=aurora.name), "cluster-level")
    assert not found(group(entry, family=aurora.name, cluster=True), "cluster-level")


def test_a_parameter_set_twice_is_found_at_its_second_line() -> None:
    entries = [GroupEntry(name="jit", value="0", line=3), GroupEntry(name="JIT", value="1", line=9)]
    finding = only(group(*entries), "duplicate")
    assert (finding.severity, finding.line) == (Severity.ERROR, 9)


def test_a_worst_case_beyond_memory_names_the_classes() -> None:
    """5000 sessions by default on 32 GiB; each may sort with twice 64000 kB: far beyond."""
    finding = only(group(work_mem="64000"), "memory-budget", ONE)
    assert finding.severity is Severity.WARNING
    assert finding.what == "the worst case does not fit into the memory of db.r6g.xlarge"
    assert finding.remedy == "Lower work_mem; rdstune show gives values that fit."


def test_a_remedy_names_what_the_group_sets() -> None:
    """In 30.5 GB: 20 workers of a 32nd each (autovacuum_work_mem of RDS), and 8 GB once."""
    written = group(maintenance_work_mem="8388608", autovacuum_max_workers="20", jit="0")
    finding = only(written, "memory-budget", ONE)
    assert finding.remedy.startswith("Lower autovacuum_max_workers or maintenance_work_mem;")


def test_classes_that_were_named_are_not_said_to_be_perhaps_unused() -> None:
    """300 times twice 64 MB are 38 GB: too much for 1 GiB, which is in use, not for 512."""
    values = group(work_mem="65536", max_connections="300")
    named = [instance_class(f"db.{size}") for size in ("t4g.micro", "r6g.16xlarge")]
    told = lint(values, classes=named)
    assert any("larger classes" in each.remedy for each in lint(values))
    assert told
    assert not any("larger classes" in each.remedy for each in told)
    assert all(each.severity is not Severity.INFO for each in told)


def test_what_is_no_worse_than_awss_defaults_is_not_blamed() -> None:
    assert not lint(group(shared_buffers="{DBInstanceClassMemory/32768}"))
    assert not lint(group(checkpoint_timeout="900"))


def test_a_value_that_is_not_known_yet_is_told_and_nothing_made_of_it() -> None:
    [finding] = lint(group(GroupEntry(name="work_mem", value=None, unknown="var.x", line=4)))
    assert (finding.check, finding.severity) == ("not-known", Severity.INFO)
    assert finding.what.endswith("var.x")


def test_without_a_family_units_and_formulas_are_checked_all_the_same() -> None:
    written = group(family=None, shared_buffers="{DBInstanceClassMemory/4}", nonsense="1")
    assert {finding.check for finding in lint(written)} == {
        "family-unknown",
        "unknown-parameter",
        "wrong-unit",
    }
    named = {finding.check for finding in lint(written, family="postgres17")}
    assert named == {"wrong-unit", "unknown-parameter"}


def test_an_old_family_is_checked_without_its_own_bounds() -> None:
    [finding] = lint(group(family="postgres11", work_mem="4096"))
    assert finding.check == "family-unknown"
    assert "postgres11" in finding.what


def test_a_group_of_another_engine_is_said_to_be_unchecked() -> None:
    [finding] = lint(group(family="mysql8.0", innodb_buffer_pool_size="{DBInstanceClassMemory}"))
    assert (finding.check, finding.severity) == ("other-engine", Severity.INFO)


def test_what_aws_says_of_a_parameter_overrules_what_is_known() -> None:
    entry = GroupEntry(
        name="work_mem", value="4096", method="immediate", apply_type="static", allowed="64-1000"
    )
    checks = {finding.check for finding in lint(group(entry))}
    assert checks == {"static-immediate", "out-of-range"}


def test_findings_stand_in_the_order_of_lines_the_worst_first() -> None:
    entries = [
        GroupEntry(name="jit", value="perhaps", line=9),
        GroupEntry(
            name="shared_buffers", value="{DBInstanceClassMemory/4}", method="immediate", line=5
        ),
        GroupEntry(name="work_mem", value="4096", method="pending-reboot", line=5),
    ]
    assert [(each.line, each.severity) for each in lint(group(*entries))] == [
        (5, Severity.ERROR),
        (5, Severity.ERROR),
        (5, Severity.INFO),
        (9, Severity.WARNING),
    ]


@pytest.mark.parametrize("name", families())
def test_awss_own_defaults_have_no_errors(name: str) -> None:
    """Some have undocumented shapes, some truncate: reported, but not as errors."""
    known = family(name)
    entries = [
        GroupEntry(name=each.name, value=each.default)
        for each in known.parameters.values()
        if each.default is not None and each.modifiable
    ]
    written = group(*entries, family=name, cluster=True)
    errors = [finding for finding in lint(written) if finding.severity is Severity.ERROR]
    assert not errors, errors


@pytest.mark.parametrize(
    ("class_name", "family_name", "workload", "connections"),
    [
        ("db.r6g.xlarge", "postgres17", "oltp", 200),
        ("db.t4g.medium", "postgres13", "web", 50),
        ("db.m7g.2xlarge", "postgres18", "olap", 100),
        ("db.r7g.large", "aurora-postgresql16", "mixed", 100),
    ],
)
def test_what_we_design_and_render_has_nothing_to_mend(
    class_name: str, family_name: str, workload: str, connections: int
) -> None:
    made = design(
        family_name=family_name,
        class_name=class_name,
        workload=workload,
        connections=connections,
    )
    lines = [
        GroupLine(name=each.name, value=each.value, method=each.method) for each in made.settings
    ]
    text = render_group(
        "terraform", lines, name="x", family=family_name, cluster=made.request.aurora
    )
    [written] = read_text(text, suffix=".tf", source="x.tf")
    classes = [
        each
        for name, each in instance_classes(made.family.engine).items()
        if name not in made.too_small
    ]
    findings = lint(written, classes=classes)
    assert not [finding for finding in findings if finding.to_be_mended]


def test_a_group_in_aws_is_linted_by_its_name(client: Any) -> None:
    rds.create_group(client, "app", "postgres17", "x")
    asked = "{DBInstanceClassMemory*3/4096}"
    rds.modify_group(client, "app", [("effective_cache_size", asked, "immediate")])
    [finding] = lint(read_live(client, "app"))
    assert finding.location == "group app"
    # 8192 * 3 / 4096
    assert finding.what == "{DBInstanceClassMemory*3/4096} asks for 6.0 times the memory"


PIECES = (
    "{", "}", "DBInstanceClassMemory", "DBInstanceVCPU", "*", "/", "+", "-", "(", ")", " ", "8192",
    "0", "1", "log(", "GREATEST(", "LEAST(", "SUM(", ",", "$", "%", "9" * 30, "0.5", ">", "<=",
    "GB", "max_connections", "é", "\\", "on",
)  # fmt: skip


@given(
    name=st.sampled_from(["shared_buffers", "work_mem", "jit", "random_page_cost", "x.y"]),
    value=st.lists(st.sampled_from(PIECES), max_size=9).map("".join),
)
@settings(deadline=None, max_examples=300)
def test_no_value_is_too_odd_to_be_looked_at(name: str, value: str) -> None:
    lint(
        group(GroupEntry(name=name, value=value)),
        classes=[instance_class("db.t3.micro"), instance_class(ONE)],
    )


@pytest.mark.parametrize("name", ["work_mem", "random_page_cost"])
def test_a_word_for_a_number_is_an_error(name: str) -> None:
    finding = only(group(GroupEntry(name=name, value="much")), "out-of-range")
    assert (finding.severity, finding.what) == (Severity.ERROR, "'much' is not a number")


def test_the_page_on_units_says_what_the_catalogue_says() -> None:
    page = Path(__file__).parents[3] / "docs" / "concepts" / "formulas-and-units.md"
    rows = re.findall(r"^\| (8 kB pages|kB|MB|B|ms|s|min) \| (.+) \|$", page.read_text(), re.M)
    assert len(rows) == 7
    known = parameters(18)
    for unit, names in rows:
        units = {name: known[name].unit for name in names.split(", ")}
        assert set(units.values()) == {"8kB" if unit == "8 kB pages" else unit}, units


def test_what_rds_lacks_on_purpose_is_no_misspelling() -> None:
    """PostgreSQL has lock_timeout, RDS's groups do not; it can be set for a role or database."""
    finding = only(group(lock_timeout="5000"), "unknown-parameter")
    assert "Did you mean" not in finding.remedy
    assert "ALTER DATABASE … SET lock_timeout" in finding.remedy
    assert only(group(lock_timeot="5000"), "unknown-parameter").severity is Severity.ERROR


# No finding where nothing is wrong (issue 10, point 1.11).


def warned(written: WrittenGroup, *class_names: str) -> set[str]:
    classes = [instance_class(name) for name in class_names] or None
    return {each.check for each in lint(written, classes=classes) if each.to_be_mended}


def test_one_more_worker_process_breaks_no_memory_budget() -> None:
    """AWS's own defaults pass the ceiling on many classes; 112 kB more change nothing."""
    assert warned(group(max_worker_processes="9")) == set()
    assert warned(group(work_mem="4100")) == set()
    # some 100 sessions with two times 512 MB: 100 GB, more than most classes have
    assert "memory-budget" in warned(group(work_mem="524288"))


ASKED = (
    ("postgres17", "db.r6g.xlarge"),
    ("postgres13", "db.t4g.small"),
    ("aurora-postgresql16", "db.r7g.large"),
)
SUFFIXES = {"terraform": ".tf", "cloudformation": ".yaml", "json": ".json"}
#: A third of the grid in each run, with each pair of workload, group and format in it.
RENDERED = [
    pytest.param(workload, asked, form, marks=[] if (n + m + k) % 3 == 0 else pytest.mark.slow)
    for n, workload in enumerate(["oltp", "web", "olap", "mixed"])
    for m, asked in enumerate(ASKED)
    for k, form in enumerate(SUFFIXES)
]


@pytest.mark.parametrize(("workload", "asked", "form"), RENDERED)
def test_our_own_render_output_lints_clean_in_every_format_that_lint_reads(
    workload: str, asked: tuple[str, str], form: str, tmp_path: Path
) -> None:
    name, class_name = asked
    words = ["render", "--family", name, "--class", class_name, "--workload", workload]
    done = CliRunner().invoke(rdstune, [*words, "--connections", "50", "--format", form])
    assert done.exit_code == 0, done.stderr
    path = tmp_path / f"group{SUFFIXES[form]}"
    path.write_text(done.stdout)
    linted = CliRunner().invoke(rdstune, ["lint", str(path)])
    assert (linted.exit_code, "nothing to fix" in linted.stderr) == (0, True), linted.stdout


USED = """\
resource "aws_db_parameter_group" "app" {
  family = "postgres17"
  parameter {
    name  = "work_mem"
    value = "16384"
  }
  parameter {
    name         = "max_connections"
    value        = "200"
    apply_method = "pending-reboot"
  }
}

resource "aws_db_instance" "app" {
  engine               = "postgres"
  engine_version       = "17.4"
  instance_class       = "db.r6g.2xlarge"
  parameter_group_name = aws_db_parameter_group.app.name
}
"""


def linted(text: str, suffix: str = ".tf") -> tuple[Finding, ...]:
    [one] = read_text(text, suffix=suffix, source="main.tf")
    return lint(one)


def test_the_class_named_in_the_same_file_is_the_one_that_counts() -> None:
    """200 sessions of 16 MB twice over are 6.4 GB: much for 1 GiB, and little for 64."""
    assert [each.what for each in linted(USED)] == []
    small = linted(USED.replace("r6g.2xlarge", "t4g.micro"))
    [finding] = [each for each in small if each.check == "memory-budget"]
    assert finding.severity is Severity.WARNING
    assert finding.what == "the worst case does not fit into the memory of db.t4g.micro"


CLOUD = """\
Resources:
  Group:
    Type: AWS::RDS::DBParameterGroup
    Properties:
      Family: postgres17
      Parameters: {max_connections: "200", work_mem: "16384"}
  Shop:
    Type: AWS::RDS::DBInstance
    Properties:
      DBInstanceClass: db.t4g.micro
      Engine: postgres
      EngineVersion: "16.4"
      DBParameterGroupName: !Ref Group
"""


def test_the_class_and_the_engine_in_a_template_count_too() -> None:
    found = linted(CLOUD, ".yaml")
    assert "db.t4g.micro" in next(each.what for each in found if each.check == "memory-budget")
    [finding] = [each for each in found if each.check == "family-mismatch"]
    assert finding.what == "the family is postgres17, but Shop uses this group and runs postgres16"
    assert (finding.severity, finding.line) == (Severity.ERROR, 7)


@pytest.mark.parametrize(
    ("engine", "version", "runs"),
    [
        ("postgres", "16.3", "postgres16"),
        ("aurora-postgresql", "17.4", "aurora-postgresql17"),
        ("mysql", "8.0.35", "mysql8.0"),
        ("postgres", "9.6.24", "postgres9.6"),
    ],
)
def test_an_engine_that_contradicts_the_family_is_an_error(
    engine: str, version: str, runs: str
) -> None:
    text = USED.replace('"postgres"', f'"{engine}"').replace("17.4", version)
    [finding] = [each for each in linted(text) if each.check == "family-mismatch"]
    assert finding.what == f"the family is postgres17, but app uses this group and runs {runs}"


def test_a_family_that_the_file_leaves_open_is_told_by_the_instance() -> None:
    found = linted(USED.replace('family = "postgres17"', "family = var.family"))
    assert [each.check for each in found] == []


@pytest.mark.parametrize(
    ("expression", "finds"),
    [
        ("64 * 1024", set()),
        ("(1024 * 1024 * 1024) / 8192", set()),
        ("local.pages", set()),
        ('"${local.pages * 2}"', set()),
        ("local.sizes.small", set()),
        ('local.sizes["large"]', {"wrong-unit"}),
        ('var.big ? "1073741824" : "131072"', {"wrong-unit"}),
        ('true ? "131072" : "1073741824"', set()),
        ("1 > 2 ? 1073741824 : 131072", set()),
        ("max(131072, local.pages)", set()),
        ("1024 * 1024 * 1024", {"wrong-unit"}),
        ('"4GB"', {"unit-suffix"}),
        ("local.missing", {"not-known"}),
        ("local.itself", {"not-known"}),
    ],
)
def test_arithmetic_ternaries_and_locals_are_understood(expression: str, finds: set[str]) -> None:
    """1 GiB in bytes, as pages of 8 kB, is 8 TiB: more than any class has."""
    text = f"""\
locals {{
  pages  = 128 * 1024
  sizes  = {{ small = 65536, large = 1073741824 }}
  itself = local.itself
}}
resource "aws_db_parameter_group" "app" {{
  family = "postgres17"
  parameter {{
    name         = "effective_cache_size"
    value        = {expression}
    apply_method = "immediate"
  }}
}}
"""
    told = {"more-than-memory"}
    assert {each.check for each in linted(text)} - told == finds


def test_blocks_made_from_a_local_are_read() -> None:
    text = """\
locals {
  settings = [
    { name = "shared_buffers", value = "{DBInstanceClassMemory/4}" },
    { name = "work_mem", value = 4 * 1024, apply_method = "immediate" },
  ]
}
resource "aws_db_parameter_group" "app" {
  family = "postgres17"
  dynamic "parameter" {
    for_each = local.settings
    content {
      name         = parameter.value.name
      value        = parameter.value.value
      apply_method = lookup(parameter.value, "apply_method", "pending-reboot")
    }
  }
}
"""
    [one] = read_text(text, suffix=".tf", source="main.tf")
    assert [(each.name, each.value, each.method) for each in one.entries] == [
        ("shared_buffers", "{DBInstanceClassMemory/4}", "pending-reboot"),
        ("work_mem", "4096", "immediate"),
    ]
    assert warned(one) == {"wrong-unit"}


def test_both_branches_of_a_condition_in_a_template_are_judged() -> None:
    text = CLOUD.replace('work_mem: "16384"', 'work_mem: !If [Big, "4MB", "4096"]')
    assert "unit-suffix" in {each.check for each in linted(text, ".yaml")}


def test_what_holds_in_every_family_is_judged_without_one() -> None:
    """max_connections is static in all of them; work_mem at 64 MB fits no usual class."""
    written = group(
        GroupEntry(name="max_connections", value="200", method="immediate"),
        family=None,
        work_mem="2097152",
        shared_bufers="1",
        block_size="8192",
    )
    found = {(each.check, each.parameter): each.severity for each in lint(written)}
    assert found["static-immediate", "max_connections"] is Severity.ERROR
    assert found["unknown-parameter", "shared_bufers"] is Severity.WARNING
    assert ("memory-budget", None) in found
    assert warned(group(family=None, work_mem="8192", wal_keep_size="2048")) <= {"memory-budget"}


@pytest.mark.parametrize(
    "names", [("character_set_client", "max_connections"), ("max_connections",), ("binlog_format",)]
)
def test_a_group_of_no_family_may_be_one_of_mysql(names: tuple[str, ...]) -> None:
    """There max_connections is dynamic; PostgreSQL's rules would be wrong."""
    entries = (GroupEntry(name=name, value="utf8", method="immediate") for name in names)
    [finding] = lint(group(*entries, family=None))
    assert (finding.check, finding.severity) == ("family-unknown", Severity.INFO)


def test_a_family_that_we_do_not_know_may_have_names_that_we_do_not_know() -> None:
    assert found(group(family="postgres12", wal_keep_segments="32"), "unknown-parameter") == []
