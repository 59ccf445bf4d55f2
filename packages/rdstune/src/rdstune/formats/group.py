"""An RDS parameter group to be written to a file, with what every format needs to know."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from keyword import iskeyword
from typing import Final, get_args

from mrtuner.aws.rows import ApplyMethod
from mrtuner.errors import BadValue
from mrtuner.formats.line import one_line, refuse_second
from mrtuner.wording import enumerated, first_upper

#: Source: shape CreateDBParameterGroupMessage of the RDS API 2014-10-31.
_NAME: Final = re.compile(r"[A-Za-z](?:-?[A-Za-z0-9])*")
LONGEST: Final = 255
_FAMILY: Final = re.compile(r"(aurora-)?postgres(ql)?[0-9]+(\.[0-9]+)?")
_PARAMETER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_BREAKING: Final = ("Cc", "Cs", "Zl", "Zp")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLine:
    """One parameter of a group: the value as RDS stores it, a formula or in base units."""

    name: str
    value: str
    method: ApplyMethod
    comment: str = ""  # the reason, one line

    @property
    def reason(self) -> str:
        """The comment as one printable line, marked where a reboot is needed."""
        due = " (reboot)" if self.method == "pending-reboot" else ""
        return f"{one_line(self.comment)}{due}" if self.comment else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A parameter group to be written to a file."""

    name: str
    family: str
    description: str
    lines: tuple[GroupLine, ...]
    cluster: bool  # a DB cluster parameter group: Aurora and Multi-AZ DB clusters
    notes: tuple[str, ...] = ()  # for the head of the file

    @property
    def identifier(self) -> str:
        """The name as a variable: ``app_pg17``."""
        name = self.name.replace("-", "_")
        return f"{name}_group" if iskeyword(name) else name

    @property
    def logical_name(self) -> str:
        """The name as a class, only letters and digits: ``AppPg17``."""
        name = "".join(first_upper(part) for part in self.name.split("-"))
        return f"{name}Group" if iskeyword(name) else name


def checked_name(name: str) -> str:
    """Return the name as RDS stores it, in lower case, or raise BadValue."""
    if not _NAME.fullmatch(name) or len(name) > LONGEST:
        raise BadValue(
            f"{name!r} is not a valid name for a parameter group",
            "Use up to 255 letters, digits and single hyphens, starting with a letter and "
            "not ending with a hyphen.",
        )
    return name.lower()


def checked_family(family: str) -> str:
    """Return the family if its name is well-formed, else raise BadValue."""
    if not _FAMILY.fullmatch(family):
        raise BadValue(
            f"{family!r} is not a family of PostgreSQL", "Give a family such as postgres17."
        )
    return family


def checked_lines(lines: Iterable[GroupLine]) -> tuple[GroupLine, ...]:
    """Return the lines if every format can express them, else raise BadValue."""
    seen: set[str] = set()
    for line in (found := tuple(lines)):
        if not _PARAMETER.fullmatch(line.name):
            raise BadValue(f"{line.name!r} is not the name of a parameter")
        if any(unicodedata.category(character) in _BREAKING for character in line.value):
            raise BadValue(f"the value of {line.name} holds a line break or control character")
        if line.method not in get_args(ApplyMethod):
            raise BadValue(
                f"unknown apply method {line.method!r} for {line.name}",
                f"Use {enumerated(get_args(ApplyMethod), 'or')}.",
            )
        refuse_second(line.name, seen)
    return found
