"""A planned application in its own tools' formats: Kubernetes, servers, poolers, pools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from mrtuner.formats.line import known
from mrtuner_pods.formats import kubernetes, pools, servers
from mrtuner_pods.formats.model import Application, Deployment

__all__ = ["FORMATS", "NAMES", "Application", "Deployment", "render"]

_WRITERS: Final[Mapping[str, tuple[str, Callable[[Application], str]]]] = {
    "kubernetes": ("a strategic merge patch for a Deployment", kubernetes.write),
    "gunicorn": ("gunicorn.conf.py", servers.gunicorn),
    "puma": ("config/puma.rb", servers.puma),
    "unicorn": ("config/unicorn.rb", servers.unicorn),
    "pgbouncer": ("pgbouncer.ini", pools.pgbouncer),
    "hikaricp": ("hikari.properties", pools.hikaricp),
    "sqlalchemy": ("SQLAlchemy's create_engine()", pools.sqlalchemy),
}

#: Name → one-line summary.
FORMATS: Final[Mapping[str, str]] = MappingProxyType(
    {name: summary for name, (summary, _) in _WRITERS.items()}
)
NAMES: Final = tuple(FORMATS)


def render(format: str, application: Application) -> str:
    """Return the application's settings in a format of `FORMATS`.

    Raises BadValue for an unknown format; Refused if the format is for another server, or if a
    value that it needs is unknown.
    """
    _, write = _WRITERS[known(format, NAMES)]
    return write(application)
