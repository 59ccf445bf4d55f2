"""Fetch into .cache/lambda what runs Lambda functions locally, for tests and benchmarks.

    python tools/fetch_lambda.py

The runtime interface emulator is taken from the wheel of the SAM CLI, which is not installed. The
client that runs a handler, and boto3, which Lambda's runtime provides, are installed beside it.
"""

from __future__ import annotations

import platform
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from fetch_servers import CannotFetch, alone

SAM: Final = "1.170.0"
CLIENT: Final = "4.2.2"
CACHE: Final = Path(__file__).resolve().parent.parent / ".cache" / "lambda"
_ROOT: Final = Path(__file__).resolve().parent.parent
_EMULATOR: Final = re.compile(r"samcli/local/rapid/aws-lambda-rie-(?P<machine>\w+)")


def fetch(cache: Path = CACHE) -> Path:
    """Return the directory with `emulator` and `runtime/`; raise CannotFetch on failure."""
    place = cache / f"{SAM}-{CLIENT}-{_boto3()}-{sys.version_info.major}.{sys.version_info.minor}"
    if not place.exists():  # it is renamed into place, so it is never incomplete
        with alone(cache, place.name):
            if not place.exists():
                with tempfile.TemporaryDirectory(prefix=".fetch-", dir=cache) as name:
                    work = Path(name) / "done"
                    work.mkdir()
                    _emulator(Path(name), work / "emulator")
                    _pip("install", "--target", str(work / "runtime"),
                         f"awslambdaric=={CLIENT}", f"boto3=={_boto3()}")  # fmt: skip
                    work.rename(place)
    return place


def _boto3() -> str:
    """Return the version of boto3 that the tests use."""
    text = (_ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8")
    found = re.search(r"^boto3==(\S+)", text, re.M)
    assert found
    return found[1]


def _emulator(work: Path, target: Path) -> None:
    machine = {"x86_64": "x86_64", "aarch64": "arm64"}.get(platform.machine())
    if platform.system() != "Linux" or machine is None:
        raise CannotFetch("the emulator runs on Linux, on x86_64 and aarch64")
    _pip("download", "--no-deps", "--dest", str(work), f"aws-sam-cli=={SAM}")
    (wheel,) = work.glob("aws_sam_cli-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            found = _EMULATOR.fullmatch(name)
            if found and found["machine"] == machine:
                target.write_bytes(archive.read(name))
                target.chmod(0o755)
                return
    raise CannotFetch(f"the wheel of aws-sam-cli {SAM} has no emulator for {machine}")


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check",
               "--no-input", "--only-binary=:all:"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise CannotFetch(f"pip could not fetch {arguments[-1]}: {said[-1] if said else '?'}")


def main() -> int:
    """Fetch both and print their directory; return 1 on failure."""
    try:
        sys.stdout.write(f"{fetch()}\n")
    except CannotFetch as error:
        sys.stderr.write(f"Lambda's emulator: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
