"""Settings in other tools' formats, and back.

    text = render("cloudnativepg", lines, title="16 GB, 4 CPUs, PostgreSQL 18")
    parse("cloudnativepg", text)["shared_buffers"]        # '4GB'

Every format can read back what it wrote. A parameter that an operator sets itself, or that a
managed server refuses, is left out and named in a comment. JSON is not here: it is the advice
itself, and `tune` writes it.

To add a format, add a module with a FORMAT to this folder, named after the format with underscores
for hyphens. A module is loaded when its format is first used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from mrtuner.formats.line import LINUX, Format, Line, checked, known
from mrtuner.postgres.model import FOLLOW_PRIMARY
from mrtuner.wording import enumerated

__all__ = ["NAMES", "Line", "for_containers", "known_format", "parse", "render"]

#: What several formats share; every other module here is a format.
_SHARED: Final = frozenset({"line", "managed", "manifest"})
NAMES: Final = tuple(
    module.name.replace("_", "-") for module in iter_modules(__path__) if module.name not in _SHARED
)


def render(format: str, lines: Sequence[Line], *, title: str = "") -> str:
    """Return the lines in a format of `NAMES`, in the order given, below a one-line title.

    Where nobody orders a primary and its standbys, the title says which of them changes first.

    Raises BadValue for an unknown format, a name or value that no file can contain, or a duplicate
    name; Refused where the operator accepts fewer parameters than these.
    """
    chosen = known_format(format)
    if chosen.linux or chosen.container:
        lines = [replace(one, condition="") if one.condition == LINUX else one for one in lines]
    taken = [line for line in checked(lines) if chosen.conditional or not line.condition]
    notes = [title, *_left_out(line for line in lines if line not in taken)]
    if not chosen.orders_standbys:
        notes.append(_standbys_first(taken, chosen.standbys))
    return chosen.write(taken, ". ".join(note for note in notes if note))


def _left_out(lines: Iterable[Line]) -> Iterator[str]:
    """Yield what a format cannot hold as a comment of its own: the settings by condition."""
    by_condition: dict[str, list[str]] = {}
    for line in lines:
        by_condition.setdefault(line.condition, []).append(f"{line.name} = {line.value}")
    for condition, settings in by_condition.items():
        yield f"Left out: {enumerated(settings)}. {condition}"


def _standbys_first(lines: Sequence[Line], standbys: str) -> str:
    """Return the order for what must not be lower on a standby than on its primary; "" if none.

    Where it is, replay pauses (before 14 the standby stops), and it does not start.
    """
    names = [line.name for line in lines if line.name in FOLLOW_PRIMARY and not line.condition]
    if not names:
        return ""
    rise, fall = ("rises", "falls") if len(names) == 1 else ("rise", "fall")
    return (
        f"If {enumerated(names)} {rise}, change and restart {standbys} before their primary; "
        f"if {'it' if len(names) == 1 else 'they'} {fall}, the primary first."
    )


def for_containers(format: str) -> bool:
    """Whether a format is for servers in containers, whose volumes cannot be seen from here."""
    return known_format(format).container


def parse(format: str, text: str) -> dict[str, str]:
    """Return name → value text from the output of `render`, or raise BadValue.

    Lists are returned as PostgreSQL shows them, ``a, b``, where a format stores separate items.
    """
    return known_format(format).read(text)


def known_format(name: str) -> Format:
    """Return the format of this name, or raise BadValue."""
    module = known(name, NAMES).replace("-", "_")
    found: Format = import_module(f"{__name__}.{module}").FORMAT
    return found
