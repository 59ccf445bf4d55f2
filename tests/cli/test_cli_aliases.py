"""Old spellings still work, with a warning, and no help shows them."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from mrtuner.cli import main, rdstune
from mrtuner.cli.common.aliases import OLD, Old

GROUP = ("show", "--class", "db.r6g.xlarge", "--family", "postgres17")


def run(program: click.Command, *arguments: str) -> Result:
    return CliRunner().invoke(program, list(arguments))


def said(one: Old) -> str:
    now = one.now if one.now.startswith("-") else f"mrtuner {one.command} {one.now}"
    return f"warning: {one.spelling} is now {now}; the next version removes the old name"


@pytest.mark.parametrize("one", OLD, ids=lambda one: f"{one.command} {one.spelling}")
def test_an_old_spelling_is_understood_with_one_warning_and_is_not_in_the_help(one: Old) -> None:
    """With --help the command ends before it does anything, but after reading every option."""
    value = [] if one.is_verb else [next(iter(one.values), "x")]
    done = run(main, *one.command.split(), one.spelling, *value, "--help")
    assert done.exit_code == 0, done.stderr
    assert done.stderr.splitlines() == [said(one)]
    offered = [word.strip(",") for word in done.stdout.partition("\nOptions:")[2].split()]
    assert one.values or one.spelling not in offered
    if one.now.startswith("-"):
        assert one.now in offered
    else:
        usage = (
            done.stdout.splitlines()[0].replace("[OPTIONS] ", "").replace("[", "").replace("]", "")
        )
        assert usage.startswith(f"Usage: mrtuner {one.command} {one.now}")


@pytest.mark.parametrize("old", ["--report={}", "--report {}"])
def test_an_old_option_does_what_the_new_one_does(old: str, tmp_path: Path) -> None:
    page = tmp_path / "group.html"
    done = run(rdstune, *GROUP, *old.format(page).split())
    assert done.exit_code == 0
    assert said(Old("rds show", "--report", "--html")) in done.stderr.splitlines()
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_an_old_short_option_may_be_written_together_with_its_value() -> None:
    done = run(main, "limits", "shop", "-o/no/such/page.html")
    assert done.exit_code == 2
    assert said(Old("limits", "-o", "--html")) in done.stderr
    assert "there is no directory /no/such" in done.stderr


def test_a_value_that_looks_like_an_old_option_stays_a_value() -> None:
    done = run(main, "failover", "rehearse", "host=x", "--trigger", "--report", "--help")
    assert (done.exit_code, done.stderr) == (0, "")


def test_what_follows_two_dashes_is_no_option() -> None:
    done = run(rdstune, *GROUP, "--", "--report")
    assert done.exit_code == 2
    assert "--html" not in done.stderr


def test_another_command_does_not_know_it() -> None:
    done = run(main, "tune", "--report", "x")
    assert done.exit_code == 2
    assert "no such option '--report'" in done.stderr
