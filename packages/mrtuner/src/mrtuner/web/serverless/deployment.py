"""What `mrtuner deploy lambda` writes: template, function package, static site and instructions."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from mrtuner.aws.iam_policy import Scope, policy
from mrtuner.errors import MissingPart, MrTunerError, Refused, UsageError
from mrtuner.files import replace
from mrtuner.history.store.s3 import Place
from mrtuner.web.app import HEADERS, STATIC, require_page, tuner_page

#: Names of the architectures for Lambda, and as in names of wheels.
ARCHITECTURES: Final = {"arm64": "aarch64", "x86_64": "x86_64"}
#: The C library of Amazon Linux 2023 is 2.34. With Python up to 3.11 Lambda runs on Amazon Linux 2,
#: whose 2.26 is too old for DuckDB's wheels.
_GLIBC: Final = 34
_OLDEST_GLIBC: Final = 17
#: Lambda's own limit for a package [bytes]. Source: Lambda quotas.
LARGEST: Final = 250 * 1024 * 1024
_TEMPLATES: Final = files("mrtuner.web.serverless") / "templates"
_SECURITY: Final = {
    "Content-Security-Policy", "X-Content-Type-Options", "X-Frame-Options", "Referrer-Policy",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What is to be deployed."""

    place: Place  # the history
    password_hash: str
    python: str
    architecture: str
    kms_key: str | None = None  # the account's own key that encrypts the history, if any


def write(of: Deployment, out: Path) -> int:
    """Write everything into a directory, and return the size of the package [bytes].

    An earlier deployment there is replaced.

    Raises:
        Refused: the directory holds something else.
        UsageError: it cannot be written.
        MissingPart: the page has not been built, or pip is missing.
        MrTunerError: the required packages cannot be installed, or are too large for Lambda.
    """
    require_page()
    _refuse_others(out)
    texts = {"template.yaml": template(of), "README.md": _filled("README.md", of)}
    try:
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".unfinished-", dir=out) as made:
            unfinished = Path(made)
            _write_package(of, unfinished / "function")
            _write_site(unfinished / "site")
            size = size_of(unfinished / "function")
            if size > LARGEST:
                raise MrTunerError(f"the package has {size} bytes; Lambda takes {LARGEST}")
            for part in ("function", "site"):
                shutil.rmtree(out / part, ignore_errors=True)
                (unfinished / part).rename(out / part)
        for name, text in texts.items():
            replace(out / name, text)
        _write_parameters(of, out / "parameters.json")
    except OSError as error:
        raise UsageError(
            f"cannot write {out}: {error.strerror}", "Name another directory with --out."
        ) from None
    return size


def _refuse_others(out: Path) -> None:
    known = {"function", "site", "template.yaml", "README.md", "parameters.json", "packaged.yaml"}
    try:
        found = {path.name for path in out.iterdir()} if out.is_dir() else set()
    except OSError as error:
        raise UsageError(f"cannot read {out}: {error.strerror}", "Name another one.") from None
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is not a directory", "Name one with --out.")
    if found and not ("template.yaml" in found and found <= known):
        raise Refused(
            f"{out} holds something else", "Name an empty directory with --out, or a new one."
        )


def size_of(directory: Path) -> int:
    """Return the bytes of all files below a directory."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


# The template.


def template(of: Deployment) -> str:
    return _filled("viewer.yaml", of)


def policy_of(of: Deployment) -> Mapping[str, Any]:
    """Return the function's IAM policy: the one that `rdstune policy serve` prints."""
    scope = Scope(bucket=of.place.bucket, prefix=of.place.prefix, kms_key=of.kms_key)
    return policy("serve", scope, () if of.kms_key else ("--kms-key",)).document


def _filled(name: str, of: Deployment) -> str:
    text = (_TEMPLATES / name).read_text(encoding="utf-8")
    for key, value in _values(of):
        text = text.replace(f"@{key}@", value)
    return text


def _values(of: Deployment) -> Iterator[tuple[str, str]]:
    yield "PLACE", str(of.place)
    yield "PYTHON", of.python
    yield "ARCHITECTURE", of.architecture
    # JSON is YAML as well.
    yield "POLICY", json.dumps(policy_of(of))
    custom = [
        {"Header": name, "Override": True, "Value": value}
        for name, value in HEADERS.items() if name not in _SECURITY
    ]  # fmt: skip
    yield "HEADERS", json.dumps(custom)
    yield "CSP", HEADERS["Content-Security-Policy"]


def _write_parameters(of: Deployment, path: Path) -> None:
    parameters = [{"ParameterKey": "PasswordHash", "ParameterValue": of.password_hash}]
    replace(path, json.dumps(parameters, indent=2) + "\n", mode=0o600)


# The static site.


def _write_site(target: Path) -> None:
    shutil.copytree(str(STATIC), target)
    (target / "tuner.html").write_text(tuner_page(), encoding="utf-8")


# The package of the functions.


def requirements() -> str:
    """Return the packages that the functions need besides this one and boto3, with versions.

    boto3 is part of Lambda's runtime.
    """
    return (_TEMPLATES / "requirements.txt").read_text(encoding="utf-8")


def _write_package(of: Deployment, target: Path) -> None:
    """Write this package and what it requires, for the platform of the functions."""
    _install(of, target)
    shutil.copytree(
        str(files("mrtuner")), target / "mrtuner",
        ignore=shutil.ignore_patterns("__pycache__", "static"),
    )  # fmt: skip


def platforms(of: Deployment) -> list[str]:
    """Return the names of the wheels that Lambda can run."""
    machine = ARCHITECTURES[of.architecture]
    names = [f"manylinux_2_{minor}_{machine}" for minor in range(_GLIBC, _OLDEST_GLIBC - 1, -1)]
    return [*names, f"manylinux2014_{machine}"]


def _install(of: Deployment, target: Path) -> None:
    if find_spec("pip") is None:
        raise MissingPart("pip is not installed", "Run: python -m ensurepip.")
    with TemporaryDirectory(prefix="mrtuner-") as name:
        wanted = Path(name) / "requirements.txt"
        wanted.write_text(requirements(), encoding="utf-8")
        command = [
            sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
            "--no-input", "--no-compile", "--no-deps", "--only-binary=:all:",
            "--target", str(target), "--implementation", "cp", "--python-version", of.python,
            *(f"--platform={one}" for one in platforms(of)), "--requirement", str(wanted),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
        why = said[-1].removeprefix("ERROR:").strip() if said else "pip failed"
        raise MrTunerError(
            f"cannot install what the function requires: {why}",
            "Check the network, and pip's configuration.",
        )
    shutil.rmtree(target / "bin", ignore_errors=True)
