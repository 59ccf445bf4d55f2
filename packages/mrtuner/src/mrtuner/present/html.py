"""The templates of every HTML page: their number formats, and the masking of passwords."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import groupby
from math import isfinite
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from mrtuner.errors import BadValue
from mrtuner.escape import printable
from mrtuner.extras import without
from mrtuner.postgres.connect import masked
from mrtuner.present.figures import PALETTE
from mrtuner.units import pretty_bytes, pretty_duration
from mrtuner.wording import enumerated, first_upper, plural

if TYPE_CHECKING:
    from jinja2 import Environment


class InArea(Protocol):
    """What is listed under an area."""

    area: str


_Item = TypeVar("_Item", bound=InArea)
_AREAS: Final = {"wal": "WAL"}
_TEMPLATES: Final = Path(__file__).parent / "templates"
#: Facts about a host that are in bytes.
_SIZES: Final = frozenset({"memory", "disk_size", "disk_free", "swap", "size"})
#: Connection strings and passwords inside any text, up to the end of the shell word.
_SECRET: Final = re.compile(
    r"""(?P<uri>\b\w+://\S+?(?=["']?(?:\s|$)))"""
    r"""|(?P<name>\w*(?:password|secret)\s*=\s*)(?:"""
    r"""'"'"'.*?(?:(?<!\\)'"'"'|$)"""  # quotes inside quotes, as shlex writes them
    r"""|'(?:\\.|[^'\\])*'?"""
    r"""|\S+?(?=["']?(?:\s|$)))""",
    re.IGNORECASE,
)


def ratio(value: float) -> str:
    """Return three digits, or three decimals just above one: ``1.42``, ``1.031``, ``0.978``."""
    if 0.1 <= value < 1.1:
        return f"{value:.3f}"
    return f"{value:.2f}" if 1 <= value < 10 else f"{value:.3g}"


def count(value: float | None) -> str:
    """Return ``1,234`` for whole numbers and from 100 up, else three digits; a dash for None."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def percent(share: float | None) -> str:
    """Return a share of one as ``3.1 %`` or ``45 %``; a dash for None."""
    if share is None or not isfinite(share):
        return "–"
    return f"{share * 100:.2g} %" if share < 0.1 else f"{share * 100:.0f} %"


def moment(text: str) -> str:
    """Return an ISO 8601 time to the minute: ``2026-07-01 12:40 UTC``."""
    zone = " UTC" if text.endswith("+00:00") else text[19:].lstrip(".0123456789")
    return text[:16].replace("T", " ") + zone


def _host_value(value: Any, name: str) -> str:
    """Return a host's fact as text: sizes in readable units, a mapping as ``name value, …``."""
    if isinstance(value, Mapping):
        inner = (f"{key} {_host_value(item, key)}" for key, item in value.items())
        return ", ".join(inner)
    if name in _SIZES and isinstance(value, int):
        return pretty_bytes(value)
    return str(value)


def by_area(advice: Iterable[_Item]) -> Iterator[tuple[str, list[_Item]]]:
    """Yield areas in the order of their first parameter."""
    items = list(advice)
    order = list(dict.fromkeys(item.area for item in items))
    items.sort(key=lambda item: order.index(item.area))
    for area, group in groupby(items, key=attrgetter("area")):
        yield _AREAS.get(area, first_upper(area)), list(group)


def as_written(name: str, value: str, major: int) -> str:
    """Return a pg_settings value as in a configuration file: ``128MB`` for 16384 of 8 kB."""
    from mrtuner.catalog import parameters

    known = parameters(major).get(name)
    if known is None:
        return value
    try:
        return known.show(known.parse(value))
    except BadValue:
        return value


# Passwords


def text_without_secrets(text: str) -> str:
    """Return the text with every password in it masked.

    >>> text_without_secrets("mrtuner apply postgresql://app:hunter2@db/shop --yes")
    'mrtuner apply postgresql://app:***@db/shop --yes'
    """
    return _SECRET.sub(_masked, text)


def _masked(match: re.Match[str]) -> str:
    return masked(match["uri"]) if match["uri"] else f"{match['name']}***"


def _safe(value: Any) -> Any:
    """Mask passwords and escape invisible characters in a {{ … }}, before HTML escaping."""
    from markupsafe import Markup

    return (
        printable(text_without_secrets(value), lines=True)
        if isinstance(value, str) and not isinstance(value, Markup)
        else value
    )


def rendered(template: Path, **given: Any) -> str:
    """Return a page from a template, a file that may include what is beside it and what is here.

    Passwords in any text are masked. Raises MissingPart without jinja2.
    """
    page = _environment(template.parent).get_template(template.name)
    return page.render(given, palette=PALETTE)


@cache
def _environment(directory: Path) -> Environment:
    """Return the templates of a directory and those of every page, with their filters."""
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError as missing:
        raise without("jinja2") from missing
    made = Environment(
        loader=FileSystemLoader([directory, _TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_safe,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {
        "bytes": pretty_bytes,
        "by_area": by_area,
        "count": count,
        "duration": pretty_duration,
        "enumerated": enumerated,
        "moment": moment,
        "percent": percent,
        "plural": plural,
        "ratio": ratio,
        "first_upper": first_upper,
        "host_value": _host_value,
    }
    return made
