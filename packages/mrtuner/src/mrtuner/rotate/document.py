"""A rotation as JSON: ``mrtuner.rotate/1``."""

from __future__ import annotations

from typing import Annotated

from mrtuner.documents import Doc, Document
from mrtuner.rotate.model import Holder, RotationState


class RotateDocument(Document, tag="mrtuner.rotate/1"):
    """Written by `mrtuner rotate --json`, `rotate status` and `rotate abort`.

    No field ever holds a password.
    """

    rotation: Annotated[RotationState | None, Doc("the latest of the group, or null")]
    enabled: Annotated[list[str], Doc("the group's roles that can log in now")]
    holders: Annotated[list[Holder], Doc("sessions that use the role to be disabled")]
    notices: Annotated[list[str], Doc("what makes the result doubtful")]
