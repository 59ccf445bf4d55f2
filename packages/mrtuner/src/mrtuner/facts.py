"""A fact and where it came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fact(Generic[T]):
    """A value and its origin, in words that can be checked: ``/proc/meminfo: MemTotal``."""

    value: T
    source: str


@dataclass(frozen=True, slots=True)
class Missing:
    """A fact that could not be read, why, and the option or another way to supply it."""

    name: str
    why: str
    option: str | None = None  # --memory
    hint: str | None = None  # a sentence

    @property
    def supply(self) -> str | None:
        """How to supply it: the option, or a sentence."""
        return self.option or self.hint
