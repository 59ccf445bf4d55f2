"""The problems found in a parameter group, one finding each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Severity(StrEnum):
    """How certain it is that the group must be changed."""

    ERROR = "error"  # RDS or the server refuses it, or it is implausible
    WARNING = "warning"  # probably not intended, or refused as far as is known
    INFO = "info"  # worth knowing


#: Checks whose findings say what was not checked.
_NOT_JUDGED: Final = frozenset({"not-known", "family-unknown", "other-engine"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A finding about one parameter, or about the group where `parameter` is None."""

    check: str  # a stable identifier: wrong-unit, truncates-first, …
    severity: Severity
    parameter: str | None
    what: str
    why: str = ""
    remedy: str = ""
    source: str = ""  # the file, or the group in AWS
    line: int | None = None

    @property
    def location(self) -> str:
        """A location to jump to: ``main.tf:12``."""
        return self.source if self.line is None else f"{self.source}:{self.line}"

    @property
    def told(self) -> str:
        """What is wrong with which parameter, or with the group."""
        return f"{self.parameter}: {self.what}" if self.parameter else self.what

    @property
    def judged(self) -> bool:
        """False if it says what was not checked."""
        return self.check not in _NOT_JUDGED

    @property
    def to_be_mended(self) -> bool:
        return self.severity is not Severity.INFO
