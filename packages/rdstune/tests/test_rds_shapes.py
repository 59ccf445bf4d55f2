"""Rules' expressions in the shapes that AWS documents: exact where they fit, else lower."""

from __future__ import annotations

import pytest

from mrtuner.formula.expression import CPUS, MEMORY, Constant, Expr, greatest, least
from rdstune.group.fit import SizeOnMachine, exactly, nearest, nearness

GIB = 1024**3


def machine(memory: int, cpus: int = 2) -> dict[str, int]:
    return {"DBInstanceClassMemory": memory, "DBInstanceVCPU": cpus}


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (MEMORY / 4 / 8192, "{DBInstanceClassMemory/32768}"),
        (MEMORY * 3 / 4 / 8192, "{DBInstanceClassMemory*3/32768}"),
        (CPUS, "{DBInstanceVCPU}"),
        (Constant(200), "200"),
        (least(MEMORY / 16384, 1048576), "LEAST({DBInstanceClassMemory/16384},1048576)"),
        # a least inside a least is one least; the larger constant never applies
        (least(least(CPUS / 2, 9), 4), "LEAST({DBInstanceVCPU/2},4)"),
        (MEMORY / 12038 - 50003, "SUM({DBInstanceClassMemory/12038},-50003)"),
    ],
)
def test_what_fits_a_documented_shape_is_written_exactly(expression: Expr, text: str) -> None:
    assert str(exactly(expression)) == text


def test_least_inside_greatest_fits_no_documented_shape() -> None:
    assert exactly(greatest(2, least(CPUS, MEMORY / 64))) is None


def test_a_branch_that_is_right_on_every_machine_is_found() -> None:
    # from 1 GiB on, memory gives 65,536 or more, so the floor of 16,384 never applies
    expression = greatest(16384, least(MEMORY / 16384, 1048576))
    samples = [
        SizeOnMachine(machine(GIB), 65_536, 65_536),
        SizeOnMachine(machine(32 * GIB), 1_048_576, 1_048_576),
    ]
    found = nearest(expression, samples)
    assert str(found) == "LEAST({DBInstanceClassMemory/16384},1048576)"
    assert nearness(found, samples) == 1


def test_a_line_with_an_offset_is_found_where_nothing_else_is_near() -> None:
    # 10 for each GiB beyond the first two
    expression = greatest(0, least(MEMORY / (GIB // 10) - 20, MEMORY / (GIB // 10)))
    values = {4: 20, 8: 60, 16: 140, 64: 620}
    samples = [SizeOnMachine(machine(gib * GIB), value, value) for gib, value in values.items()]
    found = nearest(expression, samples)
    assert str(found).startswith("SUM({DBInstanceClassMemory/")
    for sample in samples:
        assert sample.value * 0.95 - 2 <= found.evaluate(sample.machine) <= sample.value


def test_what_the_budget_allows_is_never_passed() -> None:
    samples = [
        SizeOnMachine(machine(4 * GIB), 100, 100),
        SizeOnMachine(machine(8 * GIB), 400, 150),
        SizeOnMachine(machine(16 * GIB), 800, 800, weight=10),
    ]
    found = nearest(MEMORY / (GIB // 50), samples)
    assert all(found.evaluate(sample.machine) <= sample.most for sample in samples)


def test_nearness_is_the_smaller_over_the_larger_by_weight() -> None:
    samples = [
        SizeOnMachine(machine(8 * GIB), 2, 2, weight=3.0),
        SizeOnMachine(machine(4 * GIB), 1, 1),
    ]
    four = exactly(Constant(4))
    assert four is not None
    assert nearness(four, samples) == pytest.approx((3 * 0.5 + 0.25) / 4)
