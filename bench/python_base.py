"""A base image with Python, pip and useradd, made from this machine's files, without a registry.

It replaces `python:3.12-slim` where that is not available. It contains the wheels that pip would
download, so builds need no network.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

#: The programs that our recipes call, besides Python.
PROGRAMS = ("sh", "useradd", "install", "chown", "chmod", "find", "mkdir", "rm", "ls", "id", "env")
_WITHOUT = ("site-packages", "test", "idlelib", "tkinter", "turtledemo", "__pycache__", "lib2to3")
_LIBRARY = re.compile(r"(/\S+) \(0x")
RECIPE = """FROM scratch
COPY files /
ENV PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels \\
    PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_INPUT=1
RUN python3 --version
"""


def python_base(root: Path, requirements: Sequence[str]) -> Path:
    """Make the directory of the base image, with wheels of these requirements."""
    files = root / "files"
    for name in ("tmp", "root", "var/lib", "home", "etc", "wheels"):
        (files / name).mkdir(parents=True)
    (files / "tmp").chmod(0o1777)
    for name, text in {
        "passwd": "root:x:0:0::/root:/bin/sh\n", "group": "root:x:0:\n",
        "shadow": "root:*:1::::::\n", "gshadow": "root:*::\n",
    }.items():  # fmt: skip
        (files / "etc" / name).write_text(text)
    if (definitions := Path("/etc/login.defs")).exists():
        _copy(definitions, files / "etc/login.defs")
    subprocess.run(
        [
            sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
            "--only-binary", ":all:", "--dest", str(files / "wheels"), "pip", *requirements,
        ],
        check=True,
    )  # fmt: skip
    _python(files)
    found = [Path(path) for name in PROGRAMS if (path := shutil.which(name, path=_PATHS))]
    for program in found:
        _copy(program, files / "usr/bin" / program.name)
    (files / "bin").mkdir()
    (files / "bin/sh").symlink_to("/usr/bin/sh")
    for library in _libraries([*found, *files.rglob("*.so"), Path(sys.executable).resolve()]):
        _copy(library, files / library.relative_to("/"))
    (root / "Dockerfile").write_text(RECIPE)
    return root


_PATHS = "/usr/sbin:/usr/bin:/sbin:/bin"


def _python(files: Path) -> None:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    prefix = files / "usr/local"
    library = prefix / "lib" / version
    shutil.copytree(
        Path(sys.base_prefix) / "lib" / version, library, symlinks=True,
        ignore=lambda _, names: {n for n in names if n in _WITHOUT or n.startswith("config-")},
    )  # fmt: skip
    (library / "site-packages").mkdir()
    (prefix / "bin").mkdir()
    _copy(Path(sys.executable).resolve(), prefix / "bin" / version)
    for name in ("python3", "python"):
        (prefix / "bin" / name).symlink_to(version)
    (wheel,) = (files / "wheels").glob("pip-*.whl")
    shutil.unpack_archive(wheel, library / "site-packages", "zip")
    (prefix / "bin/pip").write_text('#!/bin/sh\nexec python3 -m pip "$@"\n')
    (prefix / "bin/pip").chmod(0o755)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


def _libraries(programs: Iterable[Path]) -> set[Path]:
    """Return the libraries that programs are linked with, at the paths where they are found."""
    found: set[Path] = set()
    for program in programs:
        told = subprocess.run(["ldd", program], check=False, capture_output=True, text=True)
        found |= {Path(path) for path in _LIBRARY.findall(told.stdout)}
    return found
