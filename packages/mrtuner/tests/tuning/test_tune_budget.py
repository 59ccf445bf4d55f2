"""The memory budget is enforced on every machine, checked by the test's own sum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import mrtuner
from mrtuner.errors import DoesNotFit

if TYPE_CHECKING:
    from mrtuner.tuning import Tuning

MIB, GIB, TIB = 2**20, 2**30, 2**40
UNITS = {"8kB": 8192, "kB": 1024, "MB": MIB, None: 1}

MACHINES = st.fixed_dictionaries(
    {
        "memory": st.one_of(
            st.integers(512 * MIB, 4 * TIB),
            st.integers(9, 22).map(lambda power: 2**power * MIB),
        ),
        "cpus": st.integers(1, 256),
        "connections": st.one_of(st.none(), st.integers(10, 5000)),
        "postgres": st.integers(13, 19),
        "workload": st.sampled_from(["web", "oltp", "olap", "mixed", "desktop"]),
        "storage": st.sampled_from(["hdd", "ssd", "nvme", "ebs", "network", None]),
    }
)


def in_bytes(tuning: Tuning, name: str) -> int:
    """What configuration text says, read with the parameter's own unit."""
    item = tuning[name]
    assert isinstance(item.target, int)
    return item.target * UNITS[item.parameter.unit]


def worst_case(tuning: Tuning) -> float:
    """The worst case [bytes] of design decision 4, computed again as the peers' survey does."""
    major = tuning.situation.major
    sessions, workers = (
        in_bytes(tuning, "max_connections"),
        in_bytes(tuning, "max_parallel_workers"),
    )
    multiplier = float(tuning["hash_mem_multiplier"].value)
    vacuum = in_bytes(tuning, "autovacuum_work_mem")
    if major < 17:
        vacuum = min(vacuum, GIB)
    return (
        in_bytes(tuning, "shared_buffers")
        + (sessions + workers) * in_bytes(tuning, "work_mem") * multiplier
        + in_bytes(tuning, "autovacuum_max_workers") * vacuum
        + in_bytes(tuning, "maintenance_work_mem")
        + sessions * 2 * MIB  # what a backend takes at least
        + sessions * in_bytes(tuning, "shared_buffers") / 512  # 8 bytes for each page of 4 kB
    )


def tuned(machine: dict[str, Any]) -> tuple[str, Tuning | None]:
    """The refusal's hint and the tuning; one of them is empty."""
    try:
        return "", mrtuner.tune(**machine)
    except DoesNotFit as refusal:
        return refusal.hint or "", None


@settings(max_examples=150, deadline=None)
@given(MACHINES)
def test_the_worst_case_is_never_above_the_ceiling(machine: dict[str, Any]) -> None:
    stays_below_the_ceiling(machine)


@pytest.mark.slow
@settings(max_examples=3000, deadline=None)
@given(MACHINES)
def test_the_worst_case_of_thousands_of_machines_is_never_above_the_ceiling(
    machine: dict[str, Any],
) -> None:
    stays_below_the_ceiling(machine)


def stays_below_the_ceiling(machine: dict[str, Any]) -> None:
    refusal, tuning = tuned(machine)
    if tuning is None:
        assert machine["connections"] is not None, "the default must always fit"
        assert "--connections" in refusal
        assert "memory" in refusal or "huge pages" in refusal
        return
    share = 0.5 if machine["workload"] == "desktop" else 0.9
    assert worst_case(tuning) <= share * machine["memory"]
    budget = tuning.budget
    assert budget is not None
    assert budget.total <= budget.ceiling
    assert sum(part.size for part in budget.parts) == budget.total


@settings(max_examples=100, deadline=None)
@given(MACHINES, st.integers(0, 64 * GIB))
@example(
    {"memory": 939313135, "cpus": 1, "connections": None, "postgres": 13, "workload": "web",
     "storage": "hdd"},
    210961,
)  # fmt: skip
@example(
    {"memory": 4294967295, "cpus": 64, "connections": None, "postgres": 13, "workload": "mixed",
     "storage": "hdd"},
    1,
)  # fmt: skip
def test_more_memory_never_gives_less(machine: dict[str, Any], more: int) -> None:
    """effective_cache_size may fall a little where another value steps up: one more session that
    memory admits, a megabyte more for each autovacuum worker.
    """
    try:
        small = mrtuner.tune(**machine)
        large = mrtuner.tune(**(machine | {"memory": machine["memory"] + more}))
    except DoesNotFit:
        return
    for name in ("shared_buffers", "maintenance_work_mem", "max_wal_size"):
        assert in_bytes(small, name) <= in_bytes(large, name), name
    name = "effective_cache_size"
    assert in_bytes(small, name) <= 1.05 * in_bytes(large, name)


@settings(max_examples=100, deadline=None)
@given(MACHINES)
def test_more_connections_give_more_work_mem_only_where_buffers_shrink(
    machine: dict[str, Any],
) -> None:
    """Page tables limit shared_buffers; page tables that shrink with it leave more for sorts.

    Fewer parallel workers beside more sessions leave their slots, 112 kB each: a step of rounding.
    """
    sessions = machine["connections"] or 100
    try:
        few = mrtuner.tune(**(machine | {"connections": sessions}))
        many = mrtuner.tune(**(machine | {"connections": sessions + 100}))
    except DoesNotFit:
        return
    if in_bytes(few, "shared_buffers") <= in_bytes(many, "shared_buffers"):
        assert in_bytes(few, "work_mem") >= 0.98 * in_bytes(many, "work_mem")


@settings(max_examples=150, deadline=None)
@given(MACHINES)
def test_every_value_is_one_that_its_version_takes(machine: dict[str, Any]) -> None:
    try:
        tuning = mrtuner.tune(**machine)
    except DoesNotFit:
        return
    for item in tuning.changes:
        parameter = item.parameter
        assert parameter.major == machine["postgres"]
        if isinstance(item.target, (int, float)) and not isinstance(item.target, bool):
            assert parameter.min is None or item.target >= parameter.min
            assert parameter.max is None or item.target <= parameter.max
        if parameter.enum:
            assert item.target in parameter.enum
            assert item.target not in parameter.build
        assert item.reason
        assert item.rule.source
        assert item.rule.risk
        assert item.rule.method
