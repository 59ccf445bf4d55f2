"""One group for all classes: formulas of the main job's rules, within the budget everywhere."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from budget_oracle import shared, value, worst_case
from mrtuner.catalog.classes import InstanceClass, instance_class, instance_classes
from mrtuner.catalog.families import families
from mrtuner.errors import BadValue, DoesNotFit
from mrtuner.formula.rds_formula import is_formula, parse
from rdstune.group.derive import Design, design
from rdstune.group.sizes import on_class, sizes


@pytest.fixture(scope="module")
def oltp() -> Design:
    return design(
        family_name="postgres17", class_name="db.r6g.xlarge", workload="oltp", connections=200
    )


def test_rules_become_formulas_in_each_parameters_base_unit(oltp: Design) -> None:
    # kB: 1/16 of memory / 1024, at most 1 GB
    assert oltp.values["maintenance_work_mem"] == "LEAST({DBInstanceClassMemory/16384},1048576)"
    assert oltp.values["max_parallel_maintenance_workers"] == "LEAST({DBInstanceVCPU/2},4)"


def test_what_does_not_scale_is_a_literal_without_a_unit(oltp: Design) -> None:
    # 200 for applications; 3 for superusers, 2 that RDS sets reserved_connections to, 4 of its own
    assert oltp.values["max_connections"] == "209"
    assert oltp.values["checkpoint_timeout"] == "900"  # 15 min, in seconds
    assert oltp.values["random_page_cost"] == "1.1"
    assert oltp.values["jit"] == "0"


def test_static_parameters_wait_for_a_reboot(oltp: Design) -> None:
    methods = {setting.name: setting.method for setting in oltp.settings}
    assert methods["max_connections"] == "pending-reboot"
    assert methods["work_mem"] == "immediate"


def test_what_the_family_has_right_already_is_not_set_again(oltp: Design) -> None:
    assert "shared_buffers" not in oltp.values
    assert "{DBInstanceClassMemory/32768}" in oltp.without["shared_buffers"]


def test_wal_may_not_fill_the_volume(oltp: Design) -> None:
    size = on_class(oltp.values, oltp.request, oltp.instance_class)
    # a tenth of 100 GiB is 10,240 MB
    assert size.values["max_wal_size"] == "10240"


def test_every_formula_is_of_a_documented_shape(oltp: Design) -> None:
    formulas = [parse(value) for value in oltp.values.values() if is_formula(value)]
    assert len(formulas) >= 6
    assert all(formula.documented for formula in formulas)


def test_aurora_keeps_its_own_buffers_and_gets_no_checkpoint_settings() -> None:
    made = design(family_name="aurora-postgresql16", class_name="db.r7g.large", connections=100)
    assert "shared_buffers" not in made.values
    assert "Aurora" in made.without["shared_buffers"]
    assert not {"max_wal_size", "checkpoint_timeout", "backend_flush_after"} & set(made.values)


#: Each workload and each class once; all pairs of them in `make test-slow`.
USUAL = {
    ("postgres17", "web"), ("postgres17", "olap"), ("postgres13", "mixed"),
    ("postgres13", "desktop"), ("aurora-postgresql16", "oltp"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("family_name", "class_name", "workload"),
    [
        pytest.param(
            family, name, workload, marks=[] if (family, workload) in USUAL else pytest.mark.slow
        )
        for family, name in (
            ("postgres17", "db.r6g.xlarge"),
            ("postgres13", "db.t4g.micro"),
            ("aurora-postgresql16", "db.t4g.medium"),
        )
        for workload in ("web", "oltp", "olap", "mixed", "desktop")
    ],
)
def test_without_a_number_max_connections_is_never_lowered(
    family_name: str, class_name: str, workload: str
) -> None:
    made = design(family_name=family_name, class_name=class_name, workload=workload)
    assert "max_connections" not in made.values
    assert made.sessions is not None
    assert made.sessions.reckoned.active <= made.sessions.reckoned.open


def test_without_a_number_it_says_what_holds_and_what_a_number_would_buy() -> None:
    """By hand: 32,089,427,641 bytes at the least / 9,531,392 = 3,366.7; 100 are usual."""
    made = design(family_name="postgres17", class_name="db.r6g.xlarge")
    some = made.sessions
    assert some is not None
    least = made.memory.low // 9_531_392
    assert some.allowed[0] == some.reckoned.open == least
    assert 3300 < least < 3500  # AWS: about 3,400
    assert some.reckoned.active == 100
    fewer = design(family_name="postgres17", class_name="db.r6g.xlarge", connections=100)
    assert some.work_mem <= some.work_mem_then
    assert some.worst > some.worst_then + 7 * 2**30  # 3,269 processes of 2.5 MB: 8 GB
    assert int(fewer.values["max_connections"]) >= 100
    assert fewer.sessions is None


def test_what_the_attached_group_allows_is_kept_and_counted() -> None:
    made = design(family_name="postgres17", class_name="db.r6g.xlarge", kept="500")
    assert "max_connections" not in made.values
    assert made.sessions is not None
    assert made.sessions.allowed == (500, 500)
    assert made.sessions.reckoned.open == 500


def test_the_sessions_that_are_promised_hold_by_a_second_budget() -> None:
    """The worst case as docs/concepts/budget.md adds it up, against nine tenths of memory."""
    for family_name, class_name, huge_pages in (
        ("postgres17", "db.r6g.xlarge", True),
        ("postgres16", "db.t4g.small", False),
        ("aurora-postgresql16", "db.r7g.large", True),
    ):
        made = design(family_name=family_name, class_name=class_name)
        some = made.sessions
        assert some is not None
        for memory in (made.memory.low, made.memory.value):
            machine = {
                "DBInstanceClassMemory": memory,
                "DBInstanceVCPU": made.instance_class.vcpus,
                "AllocatedStorage": 100 * 2**30,
                "EndPointPort": 5432,
            }
            total = worst_case(
                made.values, made.family, machine,
                open_=some.reckoned.open, active=some.reckoned.active, huge_pages=huge_pages,
            )  # fmt: skip
            assert 0.3 * memory < total <= 0.9 * memory
            assert shared(made.values, made.family, machine) < 0.9 * memory


def test_a_class_too_small_for_its_connections_is_refused_with_the_remedy() -> None:
    """The remedies are of what rdstune takes, and each of them is just enough."""
    asked: dict[str, Any] = {"family_name": "postgres17", "workload": "oltp"}
    with pytest.raises(DoesNotFit, match="2000 connections do not fit") as caught:
        design(class_name="db.t4g.micro", connections=2000, **asked)
    found = re.fullmatch(
        r"Set --connections to (\d+) \(a pooler serves more clients with them\), "
        r"or take a class with .+, such as (\S+)\.",
        caught.value.hint or "",
    )
    assert found is not None, caught.value.hint
    fewer, larger = int(found[1]), instance_class(found[2])
    assert design(class_name="db.t4g.micro", connections=fewer, **asked).too_small is not None
    with pytest.raises(DoesNotFit):
        design(class_name="db.t4g.micro", connections=fewer + 1, **asked)
    assert larger.name not in design(class_name=larger.name, connections=2000, **asked).too_small
    smaller = [each for each in instance_classes("postgres").values() if each.family == "t4g"]
    [below] = [each for each in smaller if 2 * each.memory == larger.memory]
    with pytest.raises(DoesNotFit):
        design(class_name=below.name, connections=2000, **asked)


def test_a_class_of_another_engine_is_refused() -> None:
    with pytest.raises(BadValue, match="not offered for aurora-postgresql"):
        design(family_name="aurora-postgresql16", class_name="db.m7g.large")


def test_classes_that_cannot_hold_are_named_and_all_others_hold(oltp: Design) -> None:
    everywhere = sizes(oltp.values, oltp.request)
    broken = {size.instance_class.name for size in everywhere if not size.holds}
    assert broken <= set(oltp.too_small)
    assert "db.t4g.micro" in broken  # 200 connections of 2.5 MB each in 722 MiB
    assert len(everywhere) == len(instance_classes("postgres"))


def test_bytes_where_pages_are_meant_break_the_budget(oltp: Design) -> None:
    size = on_class(
        {**oltp.values, "shared_buffers": "{DBInstanceClassMemory/4}"},
        oltp.request,
        oltp.instance_class,
    )
    # a quarter of memory in bytes, taken as pages of 8,192: 2,048 times the memory
    assert not size.holds
    assert 2048 < size.share < 2200


GROUPS = st.fixed_dictionaries(
    {
        "family_name": st.sampled_from(families()),
        "workload": st.sampled_from(["web", "oltp", "olap", "mixed"]),
        "connections": st.one_of(st.none(), st.integers(10, 2000)),
    }
)
# Shrinking would take minutes, and any one example says enough.
FEW = settings(
    max_examples=6,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)


@FEW
@given(asked=GROUPS, place=st.floats(0, 1))
def test_one_group_stays_within_the_budget_on_every_class(
    asked: dict[str, Any], place: float
) -> None:
    stays_within_the_budget(asked, place)


@pytest.mark.slow
@settings(FEW, max_examples=100)
@given(asked=GROUPS, place=st.floats(0, 1))
def test_many_groups_stay_within_the_budget_on_every_class(
    asked: dict[str, Any], place: float
) -> None:
    stays_within_the_budget(asked, place)


def stays_within_the_budget(asked: dict[str, Any], place: float) -> None:
    """Judged by a second budget and a second evaluator, which share no code with the first."""
    engine = "aurora-postgresql" if asked["family_name"].startswith("aurora") else "postgres"
    classes = sorted(instance_classes(engine).values(), key=lambda each: each.memory)
    chosen = classes[int(place * (len(classes) - 1))]
    try:
        made = design(class_name=chosen.name, **asked)
    except DoesNotFit:
        return
    assert chosen.name not in made.too_small
    broken = {each.name for each in classes if not _holds_by_oracle(made, each, asked["workload"])}
    assert broken <= set(made.too_small)


def _holds_by_oracle(made: Design, each: InstanceClass, workload: str) -> bool:
    """Whether shared memory and the worst case fit nine tenths of the memory estimate's middle."""
    memory = made.request.memory_of(each).value
    machine = {
        "DBInstanceClassMemory": memory,
        "DBInstanceVCPU": each.vcpus,
        "AllocatedStorage": made.request.storage,
        "EndPointPort": 5432,
    }
    reckoned = made.request.reckoned(each, memory)
    every = int(value("max_connections", made.values, made.family, machine))
    off: tuple[str, ...] = (".micro", ".small", ".medium")
    if made.request.aurora:
        off = ("t3.medium", "t3.large", "t4g.medium", "t4g.large")
    total = worst_case(
        made.values, made.family, machine,
        open_=reckoned.open if reckoned else every,
        active=reckoned.active if reckoned else every,
        operations=2 if workload == "olap" else 1,
        huge_pages=not each.name.endswith(off),
    )  # fmt: skip
    # Each quotient that is truncated on the way errs by at most one page.
    return (
        total <= 0.9 * memory + 64 * 8192
        and shared(made.values, made.family, machine) <= 0.9 * memory
    )
