"""A planned application in its own tools' formats: Kubernetes, servers, poolers, pools.

    text = render("puma", application)

To add a format, add a module here with a FORMAT, and its place in the list below.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mrtuner.formats.line import known
from mrtuner_pods.formats import (
    gunicorn,
    hikaricp,
    kubernetes,
    pgbouncer,
    puma,
    sqlalchemy,
    unicorn,
)
from mrtuner_pods.formats.model import Application, ApplicationFormat, Deployment

__all__ = ["FORMATS", "NAMES", "Application", "Deployment", "render"]

_KNOWN: Final[Mapping[str, ApplicationFormat]] = {
    module.FORMAT.name: module.FORMAT
    for module in (kubernetes, gunicorn, puma, unicorn, pgbouncer, hikaricp, sqlalchemy)
}

#: Name → one-line summary.
FORMATS: Final[Mapping[str, str]] = MappingProxyType(
    {name: one.summary for name, one in _KNOWN.items()}
)
NAMES: Final = tuple(FORMATS)


def render(format: str, application: Application) -> str:
    """Return the application's settings in a format of `FORMATS`.

    Raises BadValue for an unknown format; Refused if the format is for another server, or if a
    value that it needs is unknown.
    """
    return _KNOWN[known(format, NAMES)].write(application)
