"""The tune screen as lines: widths, marks, bars."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mrtuner.facts import Missing
from mrtuner.present.text import Look, entries, sections
from mrtuner.tuning import tune
from mrtuner.tuning.report.text import screen


@pytest.mark.parametrize("width", [72, 80, 100, 200])
def test_no_line_is_wider_than_the_terminal_except_commands_to_copy(width: int) -> None:
    tuning = tune(memory="16GB", cpus=4, storage="ssd", connections=200, postgres=18)
    commands = {command for step in tuning.steps for command in step.commands}
    for line in screen(tuning, Look(width=width), everything=True):
        assert len(line) <= width or line.strip() in commands


def test_words_stand_below_their_figures_where_the_terminal_is_narrow() -> None:
    tuning = tune(memory="16GB", cpus=4, postgres=18)
    lines = list(screen(tuning, Look(width=50)))
    at = next(number for number, line in enumerate(lines) if line.startswith("  shared_buffers"))
    assert lines[at].split() == ["shared_buffers", "128MB", "4GB", "*"]
    assert lines[at + 1].startswith("      a quarter")


def test_a_restart_is_marked_and_the_mark_explained() -> None:
    lines = list(screen(tune(memory="16GB", cpus=4, postgres=18), Look()))
    assert any(line.startswith("  shared_buffers") and "4GB *" in line for line in lines)
    assert lines[-1].startswith("* needs a restart; ")


def test_what_is_unknown_names_the_flag_that_would_tell() -> None:
    lines = list(screen(tune(cpus=4, postgres=18), Look()))
    unknown = lines[lines.index("unknown") :]
    assert any(line.startswith("  shared_buffers: needs --memory") for line in unknown)


def test_a_gap_names_its_option_or_what_else_to_do() -> None:
    gaps = (
        Missing("cpus", "no quota is visible", "--cpus"),
        Missing("sourcefile", "hidden from this role", hint="Connect as a superuser."),
        Missing("kernel", "/proc cannot be read"),
    )
    tuning = replace(tune(cpus=4, postgres=18), missing=gaps, given=())
    lines = list(screen(tuning, Look()))
    assert "  cpus: no quota is visible (give --cpus)" in lines
    assert "  sourcefile: hidden from this role. Connect as a superuser." in lines
    assert "  kernel: /proc cannot be read" in lines
    told = {one["name"]: one for one in tuning.to_dict()["missing"]}
    assert (told["cpus"]["option"], told["cpus"]["supply"]) == ("--cpus", "--cpus")
    assert told["sourcefile"]["option"] is None
    assert told["sourcefile"]["supply"] == "Connect as a superuser."


def test_bars_are_as_long_as_their_share_of_the_ceiling() -> None:
    """By hand: 24 columns stand for the ceiling, rounded, at least one."""
    tuning = tune(memory="16GB", cpus=4, storage="ssd", connections=200, postgres=18)
    assert tuning.budget is not None
    shown = {
        line.split("  ")[1]: line.count("#") for line in screen(tuning, Look()) if "GB  #" in line
    }
    for part in tuning.budget.parts:
        if part.name in shown:
            assert abs(shown[part.name] - 24 * part.size / tuning.budget.ceiling) <= 1
    assert shown


def test_colour_is_only_what_was_asked_for() -> None:
    tuning = tune(memory="16GB", cpus=4, postgres=18)
    plain = list(screen(tuning, Look()))
    marked = list(screen(tuning, Look(paint=lambda text, style: f"<{style}>{text}</>")))
    assert marked[0] == f"<heading>{plain[0]}</>"
    assert not any("<heading>" in line for line in plain)


def test_a_name_that_repeats_itself_is_written_once() -> None:
    shown = list(entries([("what", "a"), ("default", "b"), ("default", "c")], Look(width=60)))
    assert shown == ["  what     a", "  default  b", "           c"]


def test_sections_share_their_columns() -> None:
    shown = list(sections([("one", [("a", "x")]), ("two", [("long", "y")])], Look(width=40)))
    assert shown == ["one", "  a     x", "", "two", "  long  y"]
