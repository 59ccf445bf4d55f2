"""What an answer is about, named in one form everywhere.

postgresql://postgres@db/app      a server, by its connection string (also host=db dbname=app)
local                             the server of this machine, as psql finds it
rds:NAME                          an instance of Amazon RDS
metrics.csv                       a file
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

LOCAL: Final = "local"
RDS: Final = "rds:"


class TargetKind(Enum):
    """What the text of a target names."""

    SERVER = auto()
    LOCAL = auto()
    RDS = auto()
    FILE = auto()
    NAME = auto()  # a bare word: an instance, where a command is about instances


def kind_of(text: str) -> TargetKind:
    """Return what a target names; no instance of RDS has a dot or a slash in its name."""
    if text == LOCAL:
        return TargetKind.LOCAL
    if text.startswith(RDS):
        return TargetKind.RDS
    if "://" in text or "=" in text:
        return TargetKind.SERVER
    return TargetKind.FILE if set(text) & set("./") else TargetKind.NAME


def instance_named(text: str) -> str:
    """Return the name of an instance, with or without ``rds:``."""
    return text.removeprefix(RDS)
