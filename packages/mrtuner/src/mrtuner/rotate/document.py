"""A rotation as JSON: ``mrtuner.rotate/1``."""

from __future__ import annotations

from mrtuner.documents import Document, fields_of
from mrtuner.rotate.rotation import Standing


@fields_of(Standing)
class RotateDocument(Document, tag="mrtuner.rotate/1"):
    """Written by `mrtuner rotate --json`, `rotate status` and `rotate abort`.

    No field ever holds a password.
    """
