"""Packages of npm that tests read or run, fetched once into .cache/clients."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from machine import program

ROOT: Final = Path(__file__).resolve().parents[1]
PLACES: Final = ROOT / ".cache" / "clients"
_CLIENTS: Final = (
    ROOT / "packages" / "mrtuner" / "tests" / "failover" / "clients" / "node" / "package.json"
)


def node_packages(wanted: Path = _CLIENTS) -> Path:
    """Return the folder node_modules with what a package.json pins; by default, node-postgres.

    It is kept by the name of the folder that the package.json is in. npm is taken from this
    environment, else from PATH. Tests are skipped where it is missing or cannot reach the registry.
    """
    npm = program("npm")  # asked for even if all is there: a test that asks must always be seen
    place = PLACES / wanted.parent.name
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several workers of pytest may ask for it
        if not _there(wanted, place):
            _fetch(npm, wanted, place)
    return place / "node_modules"


def _there(wanted: Path, place: Path) -> bool:
    for name, version in json.loads(wanted.read_text())["dependencies"].items():
        file = place / "node_modules" / name / "package.json"
        if not file.is_file() or json.loads(file.read_text())["version"] != version:
            return False
    return True


def _fetch(npm: str, wanted: Path, place: Path) -> None:
    own = Path(sys.executable).parent
    shutil.copy(wanted, place)
    environment = {**os.environ, "PATH": f"{own}{os.pathsep}{os.environ.get('PATH', '')}"}
    command = [npm, "install", "--silent", "--no-audit", "--no-fund"]
    try:
        done = subprocess.run(
            command, cwd=place, env=environment, capture_output=True, check=False, timeout=180
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm cannot fetch packages of {place.name} here")
    if done.returncode != 0 or not _there(wanted, place):
        pytest.skip(f"npm cannot fetch packages of {place.name} here")
