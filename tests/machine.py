"""What this machine offers to tests: programs, and what its kernel and our user permit.

Nothing else in the tests looks for any of it. A test says what it needs, `@needs("pgbouncer")` or
`@needs("root", "two CPUs")`, and is skipped, with the reason, where that is missing. Code that asks
while a test runs calls `program("go")`; fixtures that do so, and tests that call such code, have
the fixture `asks`.

`make test-bare` runs the tests that ask again, with MRTUNER_TEST_HIDE=all: the programs are hidden
from this module and, by another PATH, from the code under test. MRTUNER_TEST_HIDE=podman,busybox
hides these two.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import pytest
from fetch_browser import NAMES, fetched
from install_programs import LIBRARIES, PACKAGES, has_library

HIDE: Final = "MRTUNER_TEST_HIDE"
#: Variable with the directory that replaces PATH where programs are hidden.
SHOWN: Final = "MRTUNER_TESTS_SHOWN"
_ROOT: Final = Path(__file__).resolve().parents[1]
_SBIN: Final = "/usr/sbin:/sbin"
#: axe-core is not part of the package; the tests use the copy that `make page` installs.
AXE: Final = _ROOT / "packages" / "mrtuner" / "ui" / "node_modules" / "axe-core" / "axe.min.js"
PAGE: Final = "the page (make page)"
#: Left on PATH where all others are hidden: what tests and the product take for granted.
BASIC: Final = """
    awk basename bash cat chmod chown chrt cp cut date dirname echo env expr false find git grep
    gzip head hostname id ldconfig ln locale ls make mkdir mktemp mv nproc nsenter printf pwd
    python3 readlink rm rmdir sed setpriv sh sleep sort stat tail tar taskset tee test touch tr
    true uname unshare wc which xargs
""".split()  # noqa: SIM905  # a list would take a line for each


#: Tests that are known to ask, by node id: only these may.
ASKING: Final[set[str]] = set()


@pytest.fixture(scope="session")
def asks() -> None:
    """For a test or fixture that asks for programs while it runs."""


def needs(*names: str) -> pytest.MarkDecorator:
    """Skip tests where a program or an ability is missing."""
    return pytest.mark.needs(*names)


def program(name: str) -> str:
    """The path of a program; skip the test where it is missing."""
    found = find(name)
    if found is None:
        pytest.skip(_absent(name))
    return found


def require(*names: str) -> None:
    """Skip the test where a program, a library of Ruby or an ability is missing."""
    for name in names:
        if (why := missing(name)) is not None:
            pytest.skip(why)


def missing(name: str) -> str | None:
    """Why a test that needs this cannot run here; None if it can."""
    if name in ABILITIES:
        return None if ABILITIES[name]() else f"needs {name}"
    if name in LIBRARIES:
        return None if not _hidden("ruby") and has_library(name) else _absent(name)
    return None if find(name) else _absent(name)


def find(name: str) -> str | None:
    """The path of a program, wherever Debian installs it or `make` fetches it; None without it."""
    _ask(name)
    if name == "chromium":
        return next(filter(None, map(_which, NAMES)), None) or _fetched_browser()
    return _which(name) or shutil.which(name, path=Path(sys.executable).parent)


def debian_server(major: int) -> Path | None:
    """Where Debian puts a server's programs; None where they are hidden."""
    return None if _hidden("postgres") else Path(f"/usr/lib/postgresql/{major}/bin")


def _which(name: str) -> str | None:
    if _hidden(name):
        return None
    return shutil.which(name) or (None if SHOWN in os.environ else shutil.which(name, path=_SBIN))


def _fetched_browser() -> str | None:
    return str(fetched()) if fetched().is_file() else None


def _absent(name: str) -> str:
    package = LIBRARIES.get(name) or PACKAGES[name]
    return f"{name} is not installed (apt-get install {package})"


def _ask(name: str) -> None:
    """KeyError for a program that `make test-programs` does not know; a test must be one that asks.

    Otherwise `make test-bare` would not run it.
    """
    PACKAGES[name]
    running = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    collected = bool(ASKING)  # not in a program that a test starts
    assert not (running and collected) or running in ASKING, (
        f"it asks for {name} without the fixture asks"
    )


# Hiding.


def _hidden(name: str) -> bool:
    listed = os.environ.get(HIDE, "").split(",")
    return name in listed or ("all" in listed and name not in BASIC)


def hide(directory: Path) -> None:
    """Replace PATH by a directory with links to what is not hidden, if anything is."""
    if not os.environ.get(HIDE) or SHOWN in os.environ:
        return
    directory.mkdir()
    for place in map(Path, f"{os.environ['PATH']}:{_SBIN}".split(":")):
        for file in place.iterdir() if os.access(place, os.R_OK | os.X_OK) else ():
            link = directory / file.name
            if not _hidden(file.name) and not link.is_symlink():
                link.symlink_to(file)
    os.environ[SHOWN] = os.environ["PATH"] = str(directory)


# For conftest.py.


def mark(items: Iterable[pytest.Function]) -> None:
    """Mark the tests that ask for programs."""
    for item in items:
        named = PACKAGES.keys() | LIBRARIES.keys()
        if "asks" in item.fixturenames or named & set(_needed(item)):
            item.add_marker("asks")
            ASKING.add(item.nodeid)


def skip(item: pytest.Item) -> None:
    """Skip a test that needs what is not here."""
    require(*_needed(item))


def _needed(item: pytest.Item) -> list[str]:
    return [name for marker in item.iter_markers("needs") for name in marker.args]


def _text(path: str) -> str:
    return Path(path).read_text() if Path(path).exists() else ""


def _controllers(*names: str) -> bool:
    return all(Path("/sys/fs/cgroup", name).is_dir() for name in names)


def _io_uring() -> bool:
    """Whether the kernel, our container and the limit of locked memory allow a server's rings."""
    import ctypes
    import resource

    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if limit != resource.RLIM_INFINITY and limit < 4 << 20:  # two small servers at once
        return False

    setup, parameters = 425, ctypes.create_string_buffer(120)  # the number on every architecture
    ring = ctypes.CDLL(None, use_errno=True).syscall(setup, 1, parameters)
    if ring >= 0:
        os.close(ring)
    return bool(ring >= 0)


#: What a test may need besides programs.
ABILITIES: Final[Mapping[str, Callable[[], bool]]] = {
    "root": lambda: os.geteuid() == 0,
    "a user other than root": lambda: os.geteuid() != 0,
    "two CPUs": lambda: (os.cpu_count() or 1) > 1,
    "/proc": lambda: Path("/proc/self/stat").exists(),
    "io_uring with 4 MB of locked memory": lambda: sys.platform == "linux" and _io_uring(),
    "/dev/full": lambda: Path("/dev/full").exists(),
    "/dev/net/tun": lambda: Path("/dev/net/tun").exists(),
    "/dev/shm as a mount": lambda: Path("/dev/shm").is_mount(),
    "overlay file systems": lambda: "overlay" in _text("/proc/filesystems").split(),
    "cgroup v1 memory": lambda: _controllers("memory"),
    "cgroup v1 blkio": lambda: _controllers("blkio"),
    "the root group of blkio": lambda: any(
        line.endswith(":blkio:/") for line in _text("/proc/self/cgroup").split()
    ),
    PAGE: (_ROOT / "packages/mrtuner/src/mrtuner/web/static/index.html").is_file,
    "axe-core (make page)": AXE.is_file,
}
