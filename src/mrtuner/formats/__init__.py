"""Settings in other tools' formats, and back.

    text = render("cloudnativepg", lines, title="16 GB, 4 CPUs, PostgreSQL 18")
    parse("cloudnativepg", text)["shared_buffers"]        # '4GB'

Every format reads back what it wrote. A parameter that an operator sets itself, or that a managed
server refuses, is left out and named in a comment. JSON is not here: it is the advice itself, and
`tune` writes it.

To add a format: a module beside these with a FORMAT, and its name in the list below. A module is
loaded when its format is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

from mrtuner.errors import BadValue
from mrtuner.formats.line import Format, Line, checked

__all__ = ["FORMATS", "Line", "for_containers", "known_format", "parse", "render"]

#: Name → one line about it.
FORMATS: Mapping[str, str]

#: The modules are called like the formats, with an underscore for a hyphen.
_NAMES: Final = (
    "conf", "sql", "markdown",
    "patroni", "cloudnativepg", "zalando", "crunchy", "docker", "helm",
    "puppet", "ansible", "ansible-tasks", "nixos",
    "cloudsql", "cloudsql-terraform", "azure", "azure-terraform",
)  # fmt: skip


def render(format: str, lines: Sequence[Line], *, title: str = "") -> str:
    """The lines in a format of `FORMATS`, in the order given, below a title of one line.

    Raises BadValue for an unknown format, a name or value that no file can carry, or a name
    given twice; Refused where the operator takes fewer parameters than these.
    """
    known = known_format(format)
    taken = [line for line in checked(lines) if known.conditional or not line.condition]
    return known.write(taken, title)


def for_containers(format: str) -> bool:
    """Whether a format is for servers in containers, on volumes that are not seen from here."""
    return known_format(format).container


def parse(format: str, text: str) -> dict[str, str]:
    """Name → value text of what `render` wrote, or BadValue.

    Lists come back as PostgreSQL shows them, ``a, b``, where a format keeps their items apart.
    """
    return known_format(format).read(text)


def known_format(name: str) -> Format:
    """A format by its name, or BadValue."""
    if name not in _NAMES:
        raise BadValue(f"unknown format {name!r}", f"Known formats: {', '.join(_NAMES)}.")
    found: Format = import_module(f"{__name__}.{name.replace('-', '_')}").FORMAT
    return found


def __getattr__(name: str) -> Any:
    if name == "FORMATS":
        return _summaries()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _summaries() -> Mapping[str, str]:
    return MappingProxyType({name: known_format(name).summary for name in _NAMES})
