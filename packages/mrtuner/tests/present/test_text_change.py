"""A plan of change and a proof's verdict, in words."""

from __future__ import annotations

from dataclasses import replace

from mrtuner.change.settings.plan import LeftAlone, SettingsPlan, SettingStep
from mrtuner.present.text import Look
from mrtuner.tuning.report.text import plan_of_change

STEP = SettingStep(
    name="work_mem", value="16MB", before="4MB", in_force="4096", restart=False, lowers=False
)


def test_a_plan_tells_what_is_written_and_what_it_takes() -> None:
    steps = (STEP, replace(STEP, name="shared_buffers", value="4GB", before="128MB", restart=True))
    assert list(plan_of_change(SettingsPlan(steps=steps), Look())) == [
        "",
        "the plan",
        "  setting         now    becomes  takes effect after",
        "  work_mem        4MB    16MB     a reload",
        "  shared_buffers  128MB  4GB      a restart",
    ]


def test_a_plan_tells_what_is_left_alone_and_what_must_not_be() -> None:
    left = LeftAlone(name="jit", value="off", why="it is set on the command line")
    unsafe = LeftAlone(name="max_connections", value="50", why="this is a standby")
    plan = SettingsPlan(
        steps=(), left_alone=(left,), refused=(unsafe,), elsewhere="Edit the manifest."
    )
    assert list(plan_of_change(plan, Look())) == [
        "",
        "left alone",
        "  jit = off: it is set on the command line",
        "",
        "refused",
        "  max_connections = 50: this is a standby",
        "  Edit the manifest.",
    ]


def test_what_is_noted_of_a_step_stands_beside_it() -> None:
    step = replace(STEP, notes=("ALTER ROLE app SET work_mem = '1GB' overrides it there",))
    assert list(plan_of_change(SettingsPlan(steps=(step,)), Look()))[-1] == (
        "  work_mem  4MB  16MB     a reload; ALTER ROLE app SET work_mem = '1GB' overrides it there"
    )
