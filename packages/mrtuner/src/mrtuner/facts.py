"""A fact and where it came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

from mrtuner.described import Doc

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fact(Generic[T]):
    """A value and its origin, in words that can be checked: ``/proc/meminfo: MemTotal``."""

    value: T
    source: str


@dataclass(frozen=True, slots=True)
class Missing:
    """A fact that could not be read, why, and the option or another way to supply it."""

    name: Annotated[str, Doc("what is missing")]
    why: Annotated[str, Doc("why it could not be read")]
    option: Annotated[str | None, Doc("the option that supplies it, such as --memory")] = None
    hint: Annotated[str | None, Doc("another way to supply it, a sentence")] = None

    @property
    def supply(self) -> str | None:
        """How to supply it: the option, or a sentence."""
        return self.option or self.hint
