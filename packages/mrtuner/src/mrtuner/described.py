"""What a field of a record means, beside its type: ``pages: Annotated[int, Doc("its size")]``.

The reference page and the JSON Schema of a document show it. `documents` writes and reads such a
record as it is; nothing is imported for that where the record is declared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_C = TypeVar("_C", bound=type)


class Doc(str):
    """What a field means, in words that continue its name; units in brackets."""

    __slots__ = ()


class Omissible(Doc):
    """What a field means that a document may omit; then the default of the record holds."""

    __slots__ = ()


def document_name(name: str) -> Callable[[_C], _C]:
    """Name a record in JSON Schemas, where its own name would say too little."""

    def named(cls: _C) -> _C:
        cls.__document_name__ = name  # type: ignore[attr-defined]
        return cls

    return named
