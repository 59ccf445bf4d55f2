"""Settings in other tools' formats, and back.

    text = render("cloudnativepg", lines, title="16 GB, 4 CPUs, PostgreSQL 18")
    parse("cloudnativepg", text)["shared_buffers"]        # '4GB'

Every format reads back what it wrote. A parameter that an operator sets itself is left out
and named in a comment. JSON is not here: it is the advice itself, and `tune` writes it.

To add a format: a module beside these with a FORMAT, and its place in the list below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from mrtuner.errors import BadValue
from mrtuner.render import (
    cloudnativepg,
    conf,
    crunchy,
    docker,
    helm,
    markdown,
    patroni,
    sql,
    zalando,
)
from mrtuner.render.line import Format, Line, checked

__all__ = ["FORMATS", "Line", "parse", "render"]

_FORMATS: Final[Mapping[str, Format]] = {
    module.FORMAT.name: module.FORMAT
    for module in (conf, sql, markdown, patroni, cloudnativepg, zalando, crunchy, docker, helm)
}

#: Name → one line about it.
FORMATS: Final[Mapping[str, str]] = MappingProxyType(
    {name: known.summary for name, known in _FORMATS.items()}
)


def render(format: str, lines: Sequence[Line], *, title: str = "") -> str:
    """The lines in a format of `FORMATS`, in the order given, below a title of one line.

    Raises BadValue for an unknown format, a name or value that no file can carry, or a name
    given twice; Refused where the operator takes fewer parameters than these.
    """
    return _known(format).write(checked(lines), title)


def parse(format: str, text: str) -> dict[str, str]:
    """Name → value text of what `render` wrote, or BadValue.

    Lists come back as PostgreSQL shows them, ``a, b``, where a format keeps their items apart.
    """
    return _known(format).read(text)


def _known(name: str) -> Format:
    try:
        return _FORMATS[name]
    except KeyError:
        raise BadValue(
            f"unknown format {name!r}", f"Known formats: {', '.join(_FORMATS)}."
        ) from None
