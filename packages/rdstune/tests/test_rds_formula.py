"""Formulas of parameter groups: read, evaluated by hand-worked figures, refused with a remedy."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formula_oracle import formulas, machines, worth
from mrtuner.formula.rds_formula import FormulaError, MissingMachine, braces, is_formula, parse

GIB = 1024**3
MEMORY = "DBInstanceClassMemory"


#: Worked out by hand; the oracle is held to them too.
WORKED_OUT = [
    ("{DBInstanceClassMemory/32768}", {MEMORY: 8 * GIB}, 262_144),
    # 8,053,063,680 * 75 = 603,979,776,000; / 819,200 = 737,280
    ("{DBInstanceClassMemory*75/819200}", {MEMORY: 15 * GIB // 2}, 737_280),
    # 8,589,934,592 / 63,963,136 = 134.29…: 134 * 1024
    ("GREATEST({DBInstanceClassMemory/63963136*1024},65536)", {MEMORY: 8 * GIB}, 137_216),
    # the other order: 8,796,093,022,208 / 63,963,136 = 137,518.1…
    ("GREATEST({DBInstanceClassMemory*1024/63963136},65536)", {MEMORY: 8 * GIB}, 137_518),
    ("LEAST({DBInstanceClassMemory/9531392},5000)", {MEMORY: 8 * GIB}, 901),
    ("LEAST({DBInstanceClassMemory/9531392},5000)", {MEMORY: 64 * GIB}, 5000),
    # 8,589,934,592 / 12,038 = 713,568.2…; - 50,003
    ("SUM({DBInstanceClassMemory/12038},-50003)", {MEMORY: 8 * GIB}, 663_565),
    # 64 GiB / 20 GiB = 3.2: log2 is 1.68, rounded 2
    ("GREATEST({log(DBInstanceClassMemory/21474836480)*600},200)", {MEMORY: 64 * GIB}, 1200),
    # 8 / 20 = 0.4: log2 is -1.32, rounded -1: the floor of 200 holds
    ("GREATEST({log(DBInstanceClassMemory/21474836480)*600},200)", {MEMORY: 8 * GIB}, 200),
    ("GREATEST(${DBInstanceVCPU/2},8)", {"DBInstanceVCPU": 64}, 32),
    ("greatest({DBInstanceVCPU*2}, 8)", {"DBInstanceVCPU": 2}, 8),
    ("{DBInstanceVCPU} > 2", {"DBInstanceVCPU": 4}, 1),
    ("{DBInstanceVCPU}=<2", {"DBInstanceVCPU": 4}, 0),
    ("{AllocatedStorage/1073741824}", {"AllocatedStorage": 100 * GIB}, 100),
    ("{EndPointPort}", {"EndPointPort": 5432}, 5432),
    # log2(1 / 20) is -4.32, rounded -4: * 10 = -40; / 7 = -5.7, cut towards zero
    ("SUM({log(DBInstanceVCPU/20)*10/7},100)", {"DBInstanceVCPU": 1}, 95),
    ("200", {}, 200),
]


@pytest.mark.parametrize(("text", "machine", "value"), WORKED_OUT)
def test_what_aws_takes_is_read_and_evaluated(
    text: str, machine: dict[str, int], value: int
) -> None:
    assert parse(text).evaluate(machine) == value


@pytest.mark.parametrize(("text", "machine", "value"), WORKED_OUT)
def test_the_second_evaluator_gives_what_was_worked_out_by_hand(
    text: str, machine: dict[str, int], value: int
) -> None:
    assert worth(text, machine) == value


@settings(max_examples=300, deadline=None)
@given(text=formulas(), machine=machines())
def test_two_evaluators_that_share_no_code_agree_on_every_formula(
    text: str, machine: dict[str, int]
) -> None:
    both_agree(text, machine)


@pytest.mark.slow
@settings(max_examples=20_000, deadline=None)
@given(text=formulas(), machine=machines())
def test_two_evaluators_that_share_no_code_agree_on_thousands_of_formulas(
    text: str, machine: dict[str, int]
) -> None:
    both_agree(text, machine)


def both_agree(text: str, machine: dict[str, int]) -> None:
    formula = parse(text)
    assert formula.evaluate(machine) == worth(text, machine)
    assert worth(str(formula), machine) == worth(text, machine)


def test_the_logarithm_turns_at_the_square_root_of_two_exactly() -> None:
    # 1414213562 / 10^9 is just below the root of 2 (1.41421356237…), 1414213563 just above
    formula = parse("{log(DBInstanceClassMemory/1000000000)*1}")
    assert formula.evaluate({MEMORY: 1_414_213_562}) == 0
    assert formula.evaluate({MEMORY: 1_414_213_563}) == 1
    assert formula.evaluate({MEMORY: 1024 * 10**9}) == 10
    assert formula.evaluate({MEMORY: 10**9 - 1}) == 0


def test_a_logarithm_takes_numbers_of_any_size_and_refuses_a_division_by_zero() -> None:
    """By hand: log2 of (2^63 - 1)^20 is just below 1,260; a float holds no number of that size."""
    factors = "*".join(["9223372036854775807"] * 20)
    assert parse(f"{{log({factors})}}").evaluate({}) == 1260
    with pytest.raises(FormulaError, match="division by zero"):
        parse("{log(1/DBInstanceVCPU)}").evaluate({"DBInstanceVCPU": 0})


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("{DBInstanceClassMemory / 4}", "character 23", "Spaces are not"),
        ("{DBInstanceClassMemory+4}", "'}' is missing", "SUM("),
        ("{(DBInstanceClassMemory/4)}", "variable or an integer", "Parentheses are not"),
        ("{DBInstanceClassMemory*0.75}", "'}' is missing", "*3/4"),
        ("{max_connections}", "cannot refer to another parameter at character 2", "number itself"),
        ("{dbinstanceclassmemory/2}", "dbinstanceclassmemory", "DBInstanceClassMemory"),
        ("{TrueIfReplica}", "MySQL", "DBInstanceVCPU"),
        ("IF({DBInstanceVCPU},1,2)", "unknown function IF", "GREATEST"),
        ("{DBInstanceClassMemory}/4", "unexpected", "inside braces"),
        ("{DBInstanceClassMemory/4", "'}' is missing", "Inside braces"),
        ("{DBInstanceClassMemory/0}", "division by zero", "above zero"),
        ("GREATEST(,1)", "expected an integer", "like"),
        ("LEAST()", "expected an integer", "like"),
        ("4GB", "unexpected", "like"),
        ("", "expected an integer", "like"),
        ("LEAST(" * 5000, "nested too deeply", "GREATEST"),
    ],
)
def test_what_aws_refuses_is_refused_with_its_place_and_remedy(
    text: str, what: str, hint: str
) -> None:
    with pytest.raises(FormulaError) as caught:
        parse(text)
    assert what in caught.value.message
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("variable", "unit", "option"),
    [
        (MEMORY, "bytes", "--memory"),
        ("DBInstanceVCPU", "vCPUs", "--vcpus"),
        ("AllocatedStorage", "bytes", "--allocated-storage"),
        ("EndPointPort", "port", "Write the number"),
    ],
)
def test_a_missing_fact_is_named_with_its_unit_and_what_gives_it(
    variable: str, unit: str, option: str
) -> None:
    """A class, which may have been given, has neither a volume nor a port."""
    with pytest.raises(MissingMachine, match=rf"{variable} \({unit}\)") as caught:
        parse(f"{{{variable}}}").evaluate({})
    assert option in (caught.value.hint or "")
    of_a_class = variable in {MEMORY, "DBInstanceVCPU"}
    assert ("--class" in (caught.value.hint or "")) is of_a_class


@pytest.mark.parametrize(
    ("text", "documented"),
    [
        ("{DBInstanceClassMemory}", True),
        ("{DBInstanceClassMemory*3}", True),
        ("{DBInstanceClassMemory/32768}", True),
        ("{DBInstanceClassMemory*3/32768}", True),
        ("LEAST({DBInstanceClassMemory/9531392},5000)", True),
        ("{DBInstanceClassMemory/63963136*1024}", False),
        ("{log(DBInstanceClassMemory/2)*3}", False),
        ("LEAST(SUM({DBInstanceVCPU},1),8)", False),
    ],
)
def test_documented_shapes_are_told_from_those_only_seen(text: str, documented: bool) -> None:
    assert parse(text).documented is documented


def test_a_quotient_that_is_multiplied_afterwards_is_noticed() -> None:
    formula = parse("{DBInstanceClassMemory/63963136*1024}")
    assert getattr(formula, "truncates_first") is True  # noqa: B009


def test_literals_are_no_formulas() -> None:
    assert not is_formula("on")
    assert not is_formula("16384")
    assert is_formula("{DBInstanceVCPU}")
    assert is_formula("GREATEST(1,2)")


def test_a_number_of_thousands_of_digits_is_refused_in_a_short_sentence() -> None:
    """Python reads no more than 4300 of them, and says so by an error of its own."""
    for text in ("{DBInstanceClassMemory*" + "9" * 5000 + "}", "-" + "9" * 5000):
        with pytest.raises(FormulaError, match="a number of 5000 digits") as caught:
            parse(text)
        assert len(caught.value.message) < 300


@given(st.integers(1, 2**50), st.integers(0, 2**45), st.fractions(min_value=Fraction(1, 2**40)))
def test_a_fraction_of_memory_is_written_so_that_it_is_floored_once(
    memory: int, step: int, factor: Fraction
) -> None:
    formula = braces(MEMORY, factor)
    assert formula.documented
    value = parse(str(formula)).evaluate({MEMORY: memory})
    assert value == (memory * factor.numerator) // factor.denominator
    assert value <= formula.evaluate({MEMORY: memory + step})
