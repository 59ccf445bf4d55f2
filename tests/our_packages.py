"""Our packages, as their pyproject.toml declare them."""

from __future__ import annotations

import tomllib
from typing import Any, Final

from servers import ROOT

#: The core first: the others need it.
PACKAGES: Final = ("mrtuner", "rdstune", "mrtuner-pods", "mrtuner-image")


def project(package: str) -> dict[str, Any]:
    """The table [project] of a package."""
    text = (ROOT / "packages" / package / "pyproject.toml").read_text(encoding="utf-8")
    found: dict[str, Any] = tomllib.loads(text)["project"]
    return found
