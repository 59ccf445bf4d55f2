"""Lint of many groups: a rough sum finds what the budget itself finds, and it takes seconds."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrtuner.catalog.classes import instance_classes
from mrtuner.catalog.families import families, family
from mrtuner.inputs import Workload
from rdstune.group.request import GroupRequest
from rdstune.group.screening import SOME_STORAGE, TOLERANCE, Screening
from rdstune.group.sizes import on_class
from rdstune.group.source import GroupEntry, WrittenGroup
from rdstune.lint.check import lint

MEMORY = st.integers(2_000, 40_000_000).map(lambda by: f"{{DBInstanceClassMemory/{by}}}")
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "shared_buffers": st.integers(16, 10**7).map(str) | MEMORY,
        "wal_buffers": st.just("-1") | st.integers(8, 262_143).map(str),
        "work_mem": st.integers(64, 10**6).map(str) | MEMORY,
        "maintenance_work_mem": st.integers(1024, 10**7).map(str) | MEMORY,
        "autovacuum_work_mem": st.just("-1") | st.integers(1024, 10**7).map(str),
        "autovacuum_max_workers": st.integers(1, 40).map(str),
        "max_connections": st.integers(10, 9000).map(str) | MEMORY,
        "max_parallel_workers": st.just("{DBInstanceVCPU/2}") | st.integers(0, 64).map(str),
        "max_worker_processes": st.just("{DBInstanceVCPU*2}") | st.integers(1, 64).map(str),
        "hash_mem_multiplier": st.sampled_from(["1", "1.5", "2", "8"]),
        "huge_pages": st.sampled_from(["on", "off"]),
    },
)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), values=VALUES, name=st.sampled_from(families()))
def test_the_rough_sum_is_the_budget_to_a_millionth(
    data: st.DataObject, values: dict[str, str], name: str
) -> None:
    known = family(name)
    each = data.draw(st.sampled_from(sorted(instance_classes(known.engine).values(), key=str)))
    request = GroupRequest(
        family=known, workload=data.draw(st.sampled_from([Workload.MIXED, Workload.OLAP])),
        connections=None, storage=SOME_STORAGE, every="max_connections" in values,
    )  # fmt: skip
    rough, exact = Screening(values, request).on(each), on_class(values, request, each)
    assert rough.share == pytest.approx(float(exact.share), rel=TOLERANCE)
    assert rough.shared == pytest.approx(float(exact.shared), rel=TOLERANCE)


@pytest.mark.slow
@pytest.mark.quiet
def test_two_thousand_groups_take_seconds() -> None:
    """3.2 s of CPU here; 7.6 while each group's values were checked anew."""
    draw = random.Random(1)
    groups = [_group(draw, number) for number in range(2000)]
    began = time.process_time()
    found = [lint(group) for group in groups]
    assert time.process_time() - began < 5
    assert any(found)


def _group(draw: random.Random, number: int) -> WrittenGroup:
    values = {
        "max_connections": str(draw.choice([100, 200, 300, 500, 800])),
        "work_mem": str(draw.randrange(4096, 65537, 1024)),
        "shared_buffers": "{DBInstanceClassMemory/32768}",
        "maintenance_work_mem": f"{{DBInstanceClassMemory/{draw.choice([16384, 32768])}}}",
        "log_min_duration_statement": str(draw.randint(0, 5000)),
    }
    kept = {name: value for name, value in values.items() if draw.random() < 0.8}
    return WrittenGroup(
        entries=tuple(GroupEntry(name=name, value=value) for name, value in kept.items()),
        source="many.tf", family=f"postgres{draw.randint(15, 17)}", line=number,
    )  # fmt: skip
