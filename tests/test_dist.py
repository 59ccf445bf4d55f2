"""The wheel and the source distribution are complete, and work where nothing else is installed."""

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

ROOT = Path(__file__).resolve().parent.parent
#: Whether `make page` was run, as `make dist` does.
BUILT = (ROOT / "packages/mrtuner/src/mrtuner/web/static/index.html").is_file()
#: What each extra is for, as a command that needs it; `{tmp}` is a directory to write to.
USES = {
    "embedded": "python -c 'from mrtuner.postgres.binaries import find_binaries; find_binaries()'",
    "export": "python -c 'import prometheus_client, opentelemetry.proto'",
    "gcm": "python -c 'import google.cloud.monitoring_v3'",
    "history": "python -c 'from mrtuner.history.store.parquet import engine; engine().close()'",
    "lab": "python -c 'import rdstune.lab.front'",
    "limits": "mrtuner limits {tmp}/metrics.csv --class db.r5.2xlarge",
    "parquet": "python -c 'from mrtuner.bench.record import parquet; import pyarrow.parquet'",
    "prove": "python -c 'import scipy.stats'",
    "rds": "rdstune lint {tmp}/group.tf",
    "web": "python -c 'import mrtuner.web.app, starlette, uvicorn'",
    "report": "rdstune show --class db.r6g.xlarge --family postgres17 --html {tmp}/group.html",
}


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the wheel and the source distribution, built as `make dist` does."""
    place = tmp_path_factory.mktemp("dist")
    done = run(sys.executable, "-m", "build", "--outdir", place, ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return place


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin directory of an environment with the wheel and its requirements."""
    return installation(built, tmp_path_factory.mktemp("bare"), "")


def installation(built: Path, place: Path, extra: str) -> Path:
    (wheel,) = built.glob("*.whl")
    venv.create(place, with_pip=True)
    pip = place / "bin" / "pip"
    done = run(pip, "install", "--quiet", "--disable-pip-version-check", f"{wheel}{extra}")
    assert done.returncode == 0, done.stderr
    return place / "bin"


def sources() -> set[str]:
    """Every file of the package that git knows, as a wheel names it."""
    listed = run("git", "-C", ROOT, "ls-files", "-z", "packages/mrtuner/src/mrtuner").stdout
    return {name.removeprefix("src/") for name in listed.split("\0") if name}


def test_a_wheel_holds_the_whole_package_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert len(names) > 100
    page = {name for name in names if name.startswith("mrtuner/web/static/")}
    assert names - page == sources()
    kinds = {name.rpartition(".")[2] for name in page}
    assert kinds == ({"html", "js", "css", "svg"} if BUILT else set())


def test_a_source_distribution_holds_what_the_wheel_is_built_from(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in sources()} <= names
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "ui/package.json"} <= names
    assert ("packages/mrtuner/src/mrtuner/web/static/index.html" in names) == BUILT
    assert not any(name.startswith("ui/node_modules") for name in names)


def test_without_extras_it_tunes(installed: Path) -> None:
    assert mrtuner.__version__ in run(installed / "mrtuner", "--version").stdout
    described = ("--memory", "16GB", "--cpus", "4", "--storage", "ssd", "--pg", "17")
    done = run(installed / "mrtuner", "tune", *described, "--json")
    assert done.returncode == 0, done.stderr
    values = {one["name"]: one["value"] for one in json.loads(done.stdout)["advice"]}
    assert values["shared_buffers"] == "4GB"
    shown = run(installed / "rdstune", "show", "--class", "db.r6g.xlarge", "--family", "postgres17")
    assert "{DBInstanceClassMemory" in shown.stdout


def test_without_its_extra_a_command_names_it(installed: Path, tmp_path: Path) -> None:
    done = run(
        installed / "rdstune", "show", "--class", "db.r6g.xlarge", "--family", "postgres17",
        "--html", tmp_path / "group.html",
    )  # fmt: skip
    assert done.returncode == 1
    assert "HINT: Run: pip install 'mrtuner[report]'" in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("extra", USES)
def test_with_an_extra_its_command_works(built: Path, tmp_path: Path, extra: str) -> None:
    programs = installation(built, tmp_path / "venv", f"[{extra}]")
    (tmp_path / "metrics.csv").write_text(run(programs / "mrtuner", "limits", "--example").stdout)
    (tmp_path / "group.tf").write_text(
        'resource "aws_db_parameter_group" "shop" {\n  name = "shop"\n  family = "postgres17"\n}\n'
    )
    command = USES[extra].format(tmp=tmp_path)
    done = run("env", f"PATH={programs}:/usr/bin:/bin", "sh", "-c", command)
    assert done.returncode == 0, done.stderr


def test_every_extra_has_a_use() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(project["optional-dependencies"]) == set(USES)
