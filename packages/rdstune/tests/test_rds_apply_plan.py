"""What to set in a group, in which calls: pure."""

from __future__ import annotations

import pytest

from mrtuner.aws.rows import GroupParameter
from mrtuner.change.record import ParameterChange
from mrtuner.errors import BadValue, Refused
from mrtuner.formula.rds_formula import FormulaError
from rds_flows import wanted
from rdstune.live.batches import batches, method
from rdstune.live.plan import WantedValue, group_name, steps, user_values

WORK_MEM = GroupParameter(name="work_mem", value=None, data_type="integer", allowed="64-2147483647")
SHARED_BUFFERS = GroupParameter(
    name="shared_buffers",
    value="{DBInstanceClassMemory/32768}",
    source="system",
    apply_type="static",
    data_type="integer",
    allowed="16-1073741823",
)
JIT = GroupParameter(name="jit", value="0", source="user", data_type="boolean", allowed="0,1")
FSYNC = GroupParameter(name="fsync", value="1", source="system", modifiable=False)
GROUP = (WORK_MEM, SHARED_BUFFERS, JIT, FSYNC)


def test_static_parameters_wait_for_a_reboot_and_go_first() -> None:
    found, left = steps(GROUP, wanted(work_mem="8192", shared_buffers="131072", jit="1"))
    assert [(one.name, one.method) for one in found] == [
        ("shared_buffers", "pending-reboot"),
        ("work_mem", "immediate"),
        ("jit", "immediate"),
    ]
    assert left == ()


def test_only_a_value_that_somebody_set_is_what_was_there_before() -> None:
    found, _ = steps(GROUP, wanted(shared_buffers="131072", jit="1"))
    assert [(one.before, one.shown) for one in found] == [
        (None, "{DBInstanceClassMemory/32768}"),
        ("0", "0"),
    ]


@pytest.mark.parametrize(
    "same",
    [
        WantedValue("shared_buffers", "{DBInstanceClassMemory/32768}"),
        WantedValue("jit", "off"),
        WantedValue("jit", "0"),
    ],
)
def test_what_is_so_already_is_not_written(same: WantedValue) -> None:
    assert steps(GROUP, [same]) == ((), ())


def test_what_rds_does_not_let_be_set_is_left_alone_with_the_reason() -> None:
    found, left = steps(GROUP, wanted(fsync="0", io_method="worker"))
    assert found == ()
    assert [(one.name, one.why) for one in left] == [
        ("fsync", "RDS does not allow changing it"),
        ("io_method", "the family has no such parameter"),
    ]


def test_a_literal_outside_the_allowed_values_is_refused_before_its_batch_is() -> None:
    with pytest.raises(BadValue, match="work_mem = '8' is not among the allowed values"):
        steps(GROUP, wanted(work_mem="8"))
    with pytest.raises(BadValue, match="work_mem = '8MB'"):
        steps(GROUP, wanted(work_mem="8MB"))


def test_a_formula_that_rds_would_not_take_is_refused_with_its_parameter() -> None:
    with pytest.raises(FormulaError, match="work_mem: "):
        steps(GROUP, wanted(work_mem="{DBInstanceClassMemory / 1000}"))


def test_a_parameter_wanted_twice_is_refused() -> None:
    with pytest.raises(BadValue, match="given more than once: jit"):
        steps(GROUP, [WantedValue("jit", "1"), WantedValue("jit", "0")])


def test_user_values_are_those_that_somebody_set() -> None:
    assert user_values(GROUP) == {"jit": "0"}


@pytest.mark.parametrize(("name", "stored"), [("shop", "shop"), ("Shop-17", "shop-17"), ("a", "a")])
def test_a_group_has_a_name_as_rds_stores_it(name: str, stored: str) -> None:
    assert group_name(name) == stored


@pytest.mark.parametrize("name", ["1shop", "shop-", "shop--17", "shop_17", "", "x" * 256])
def test_a_name_that_rds_would_not_take_is_refused(name: str) -> None:
    with pytest.raises(BadValue, match="is not a valid name for a parameter group"):
        group_name(name)


def test_a_default_group_is_never_changed() -> None:
    with pytest.raises(Refused, match=r"default\.postgres17 is a default group"):
        group_name("default.postgres17")


def entry(number: int, after: str | None = "1", *, static: bool = False) -> ParameterChange:
    return ParameterChange(name=f"p{number}", before=None, after=after, restart=static, in_force="")


def test_a_call_names_at_most_twenty_parameters() -> None:
    made = batches([entry(number) for number in range(45)], "after")
    assert [len(one.entries) for one in made] == [20, 20, 5]
    assert [one.kind for one in made] == ["set"] * 3
    assert str(made[2]) == "set (3 of 3) p40, p41, p42, p43, p44"


def test_values_are_set_and_the_rest_is_reset_in_calls_of_their_own() -> None:
    entries = [entry(1, None), entry(2), entry(3, None)]
    made = batches(entries, "after")
    assert [str(one) for one in made] == ["set (1 of 2) p2", "reset (2 of 2) p1, p3"]
    back = batches(entries, "before")
    assert [str(one) for one in back] == ["reset (1 of 1) p1, p2, p3"]


def test_nothing_needs_no_call() -> None:
    assert batches([], "after") == ()


def test_static_parameters_never_get_the_method_that_rds_refuses() -> None:
    assert method(entry(1, static=True)) == "pending-reboot"
    assert method(entry(1)) == "immediate"
