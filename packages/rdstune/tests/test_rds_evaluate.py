"""What a formula gives on a machine, and what is wrong with it. All figures worked out by hand."""

from __future__ import annotations

import pytest

from mrtuner.catalog import parameter
from mrtuner.catalog.classes import instance_class, instance_classes
from mrtuner.catalog.families import family
from mrtuner.formula.class_memory import Estimate, class_memory, given
from mrtuner.formula.rds_formula import FormulaError, MissingMachine
from mrtuner.units import Bytes, GiB, KiB
from rdstune.group.evaluate import Evaluation, Machine, evaluate


def on(memory: int, formula: str, name: str | None = None) -> Evaluation:
    machine = Machine(memory=given(Bytes(memory)), vcpus=8)
    return evaluate(formula, machine, parameter=parameter(name, 17) if name else None)


def codes(found: Evaluation) -> list[str]:
    return [problem.code for problem in found.problems]


@pytest.mark.parametrize(
    ("formula", "name", "value", "pretty"),
    [
        # 16 GiB = 2^34: / 2^15 = 2^19 pages of 8 kB
        ("{DBInstanceClassMemory/32768}", "shared_buffers", 524288, "4 GB"),
        # 2^34 x 75 / 819200 = 1,572,864 pages: 75 %
        ("{DBInstanceClassMemory*75/819200}", "effective_cache_size", 1572864, "12 GB"),
        # 2^34 / 204800 = 83886.08 kB
        ("{DBInstanceClassMemory/204800}", "work_mem", 83886, "81.9 MB"),
        # 2^34 x 1024 / 63963136 = 275036.7 kB
        (
            "GREATEST({DBInstanceClassMemory*1024/63963136},65536)",
            "maintenance_work_mem", 275036, "269 MB",
        ),
        # 2^34 / 9531392 = 1802.4
        ("LEAST({DBInstanceClassMemory/9531392},5000)", "max_connections", 1802, None),
        ("300", "checkpoint_timeout", 300, "5min"),
        ("2048", "max_wal_size", 2048, "2 GB"),
    ],
)  # fmt: skip
def test_a_value_is_an_integer_in_base_units_and_a_size_for_people(
    formula: str, name: str, value: int, pretty: str | None
) -> None:
    found = on(16 * GiB, formula, name)
    assert (found.value, found.pretty) == (value, pretty)
    assert found.problems == ()


def test_a_stated_memory_has_no_bounds_and_an_estimate_has() -> None:
    stated = on(16 * GiB, "{DBInstanceClassMemory/32768}")
    assert stated.low == stated.value == stated.high
    memory = Estimate(
        value=Bytes(100 * GiB), low=Bytes(98 * GiB), high=Bytes(102 * GiB),
        source="here", measured=False,
    )  # fmt: skip
    found = evaluate(
        "{DBInstanceClassMemory/1073741824}",
        Machine(memory=memory),
        parameter=parameter("max_connections", 17),
    )
    assert (found.low, found.value, found.high) == (98, 100, 102)


def test_bytes_where_pages_are_meant_ask_for_2048_times_the_memory() -> None:
    """{M/4} in pages of 8 kB is M x 2048: the field's commonest mistake."""
    found = on(15 * GiB, "{DBInstanceClassMemory/4}", "shared_buffers")
    assert codes(found) == ["out-of-range", "absurd"]
    absurd = found.problems[1]
    assert absurd.text == (
        "shared_buffers would be 30 TB, 2,048 times the memory: is the formula in bytes?"
    )
    assert absurd.hint == "Its unit is 8kB: write {DBInstanceClassMemory/32768}."


def test_bytes_where_kilobytes_are_meant_are_found_within_the_range_too() -> None:
    """{M/16} on 1 GiB is 67108864 kB = 64 GB: PostgreSQL would take it."""
    found = on(1 * GiB, "{DBInstanceClassMemory/16}", "work_mem")
    assert codes(found) == ["absurd"]
    assert found.problems[0].text == (
        "work_mem would be 64 GB, 64 times the memory: is the formula in bytes?"
    )
    assert str(found.problems[0].hint).endswith("write {DBInstanceClassMemory/16384}.")


def test_a_factor_stays_a_factor_in_the_formula_proposed() -> None:
    """3/4 of the memory in pages: 3 / (4 x 8192) = 3 / 32768."""
    found = on(16 * GiB, "{DBInstanceClassMemory*3/4}", "effective_cache_size")
    assert str(found.problems[-1].hint).endswith("write {DBInstanceClassMemory*3/32768}.")


def test_a_size_of_storage_may_exceed_the_memory() -> None:
    """max_wal_size counts in MB: 2^30 / 2^16 = 16,384 MB on a machine of 1 GiB."""
    assert on(1 * GiB, "{DBInstanceClassMemory/65536}", "max_wal_size").problems == ()


def test_a_literal_that_is_too_large_is_found_without_a_proposal() -> None:
    found = on(1 * GiB, "1048576", "shared_buffers")
    assert codes(found) == ["absurd"]
    assert found.problems[0].hint == "Its unit is 8kB."


def test_a_value_out_of_range_says_the_range() -> None:
    found = on(1 * GiB, "{DBInstanceClassMemory/107374182400}", "max_connections")
    assert found.value == 0
    assert codes(found) == ["out-of-range"]
    assert found.problems[0].text == "max_connections = 0 is outside 1 to 262143"


def test_rds_has_bounds_of_its_own() -> None:
    """AllowedValues of max_connections starts at 6."""
    machine = Machine(memory=given(Bytes(GiB)))
    found = evaluate(
        "5", machine, parameter=parameter("max_connections", 17), family=family("postgres17")
    )
    assert codes(found) == ["not-allowed"]
    assert "6-8388607" in found.problems[0].text


def test_what_a_group_cannot_hold_is_said() -> None:
    machine = Machine(memory=given(Bytes(GiB)))
    found = evaluate(
        "8192", machine, parameter=parameter("wal_block_size", 17), family=family("postgres17")
    )
    assert codes(found) == ["not-settable"]


def test_the_edges_of_an_estimate_are_judged_too() -> None:
    memory = Estimate(
        value=Bytes(7 * GiB), low=Bytes(5 * GiB), high=Bytes(8 * GiB), source="", measured=False
    )
    found = evaluate(
        "{DBInstanceClassMemory/1073741824}",
        Machine(memory=memory),
        parameter=parameter("max_connections", 17),
        family=family("postgres17"),
    )
    assert found.value == 7
    assert "'5'" in found.problems[0].text


def test_a_comparison_is_for_booleans_and_wal_compression() -> None:
    formula = "{DBInstanceVCPU}>2"
    assert on(GiB, formula, "wal_compression").problems == ()
    assert on(GiB, formula, "autovacuum").problems == ()
    assert on(GiB, formula, "autovacuum").value == 1


def test_a_real_parameter_takes_no_formula_but_a_number() -> None:
    assert codes(on(GiB, "{DBInstanceClassMemory/1000}", "random_page_cost")) == [
        "takes-no-formula"
    ]
    assert on(GiB, "4", "random_page_cost").problems == ()


def test_what_is_not_documented_or_only_inferred_is_noted() -> None:
    """20 GiB x 64 = 2^6: log 6, x 600 = 3600."""
    found = on(1280 * GiB, "GREATEST({log(DBInstanceClassMemory/21474836480)*600},200)")
    assert found.value == 3600
    assert any("appear only in its own defaults" in note for note in found.notes)
    assert any(note.endswith("inferred, not documented") for note in found.notes)
    assert on(GiB, "{DBInstanceClassMemory/32768}").notes == ()


def test_what_contradicts_the_memory_is_passed_on() -> None:
    memory = Estimate(
        value=Bytes(GiB), low=Bytes(GiB), high=Bytes(GiB), source="", measured=True,
        notes=("shared_buffers contradicts that",),
    )  # fmt: skip
    found = evaluate("{DBInstanceClassMemory/32768}", Machine(memory=memory))
    assert found.notes == ("shared_buffers contradicts that",)
    assert evaluate("200", Machine(memory=memory)).notes == ()


def test_storage_is_in_bytes() -> None:
    """100 GiB / 1 MiB = 102400."""
    found = evaluate("{AllocatedStorage/1048576}", Machine(storage=Bytes(100 * GiB)))
    assert found.value == 102400


def test_a_fact_that_the_formula_needs_is_asked_for() -> None:
    with pytest.raises(MissingMachine, match="DBInstanceVCPU"):
        evaluate("{DBInstanceVCPU*2}", Machine(memory=given(Bytes(GiB))))
    with pytest.raises(MissingMachine, match="DBInstanceClassMemory"):
        evaluate("{DBInstanceClassMemory/4}", Machine(vcpus=2))


def test_a_text_that_is_no_formula_is_refused() -> None:
    with pytest.raises(FormulaError):
        evaluate("{ DBInstanceClassMemory / 4 }", Machine(memory=given(Bytes(GiB))))


def test_the_figures_of_2013_on_an_m1_xlarge() -> None:
    """924 MB, about 74 MB, a little over 10 GB."""
    cls = instance_class("db.m1.xlarge")
    machine = Machine(memory=class_memory(cls), vcpus=cls.vcpus, name=cls.name)
    shown = [
        evaluate(formula, machine, parameter=parameter(name, 17)).pretty
        for formula, name in (
            ("{DBInstanceClassMemory/16384}", "maintenance_work_mem"),
            ("{DBInstanceClassMemory/204800}", "work_mem"),
            ("{DBInstanceClassMemory*75/819200}", "effective_cache_size"),
        )
    ]
    assert shown == ["924 MB", "73.9 MB", "10.8 GB"]


def test_the_default_of_shared_buffers_is_a_quarter_on_every_class() -> None:
    """Compared with a quarter of memory: less than one page of 8 kB is lost."""
    for cls in instance_classes("postgres").values():
        memory = class_memory(cls)
        found = evaluate(
            "{DBInstanceClassMemory/32768}",
            Machine(memory=memory, name=cls.name),
            parameter=parameter("shared_buffers", 17),
        )
        assert found.size is not None
        assert 0 <= memory.value / 4 - found.size < 8 * KiB
        assert found.problems == ()
