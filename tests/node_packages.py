"""Packages of npm that tests read or run, fetched once into .cache/clients/node."""

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
PLACE: Final = ROOT / ".cache" / "clients" / "node"
_WANTED: Final = (
    ROOT / "packages" / "mrtuner" / "tests" / "failover" / "clients" / "node" / "package.json"
)


def node_packages() -> Path:
    """Return the folder node_modules with node-postgres in the version that is pinned.

    npm is taken from this environment, else from PATH. Tests are skipped where npm is missing or
    cannot reach the registry.
    """
    npm = program("npm")  # asked for even if all is there: a test that asks must always be seen
    PLACE.mkdir(parents=True, exist_ok=True)
    with (PLACE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several workers of pytest may ask for it
        if not _there():
            _fetch(npm)
    return PLACE / "node_modules"


def _there() -> bool:
    wanted = json.loads(_WANTED.read_text())["dependencies"]
    for name, version in wanted.items():
        file = PLACE / "node_modules" / name / "package.json"
        if not file.is_file() or json.loads(file.read_text())["version"] != version:
            return False
    return True


def _fetch(npm: str) -> None:
    own = Path(sys.executable).parent
    shutil.copy(_WANTED, PLACE)
    environment = {**os.environ, "PATH": f"{own}{os.pathsep}{os.environ.get('PATH', '')}"}
    command = [npm, "install", "--silent", "--no-audit", "--no-fund"]
    try:
        done = subprocess.run(
            command, cwd=PLACE, env=environment, capture_output=True, check=False, timeout=180
        )
    except subprocess.TimeoutExpired:
        pytest.skip("npm cannot fetch node-postgres here")
    if done.returncode != 0 or not _there():
        pytest.skip("npm cannot fetch node-postgres here")
