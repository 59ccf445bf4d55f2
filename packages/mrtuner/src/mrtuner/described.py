"""What a field of a record means, beside its type: ``pages: Annotated[int, Doc("its size")]``.

The reference page and the JSON Schema of a document show it. `documents` writes and reads such a
record as it is; nothing is imported for that where the record is declared.
"""

from __future__ import annotations


class Doc(str):
    """What a field means, in words that continue its name; units in brackets."""

    __slots__ = ()
