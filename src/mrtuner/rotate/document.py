"""A rotation as JSON: ``mrtuner.rotate/1``."""

from __future__ import annotations

from typing import Annotated

from mrtuner.documents import Doc, Document, Struct
from mrtuner.rotate.model import RotationStep


class BegunStep(Struct):
    """A step that has begun."""

    step: Annotated[RotationStep, Doc("its name")]
    at: Annotated[str, Doc("when, ISO 8601")]


class RotationState(Struct):
    """One rotation."""

    server: Annotated[str, Doc("system identifier")]
    address: Annotated[str, Doc("host:port as asked for")]
    group: Annotated[str, Doc("the role that owns everything")]
    old: Annotated[str | None, Doc("the role that was in use, or null")]
    new: Annotated[str, Doc("the role whose turn it is")]
    to: Annotated[str, Doc("the store, as named")]
    began: Annotated[str, Doc("when, ISO 8601")]
    step: Annotated[RotationStep, Doc("the last step begun; it is recorded before it is taken")]
    steps: Annotated[list[BegunStep], Doc("each step begun, in order")]
    seen: Annotated[
        bool,
        Doc("whether a session of the new role was seen, if the store cannot be read back"),
    ]


class Holder(Struct):
    """A session that still uses the role to be disabled."""

    pid: Annotated[int, Doc("of its backend")]
    application: Annotated[str, Doc("`application_name`")]
    address: Annotated[str, Doc("of the client")]
    database: Annotated[str, Doc("to which it is connected")]
    since: Annotated[str, Doc("when it connected")]
    server: Annotated[str, Doc("a replica's host:port; empty: the primary")]


class RotateDocument(Document, tag="mrtuner.rotate/1"):
    """Written by `mrtuner rotate --json`, `rotate status` and `rotate abort`.

    No field ever holds a password.
    """

    rotation: Annotated[RotationState | None, Doc("the latest of the group, or null")]
    enabled: Annotated[list[str], Doc("the group's roles that can log in now")]
    holders: Annotated[list[Holder], Doc("sessions that use the role to be disabled")]
    notices: Annotated[list[str], Doc("what makes the result doubtful")]
