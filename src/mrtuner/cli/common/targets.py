"""The target of a command, its first argument, in the same forms everywhere.

    postgresql://postgres@db/app      a server, by its connection string (also host=db dbname=app)
    local                             the server of this machine, as psql finds it
    rds:NAME                          an instance of Amazon RDS
    metrics.csv                       a file

A command that does not accept one of them says what to use instead.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any, Final

import click

from mrtuner.errors import UsageError

LOCAL: Final = "local"
_RDS: Final = "rds:"
#: Commands of rdstune that do for an instance what these do for a server.
_OF_RDS: Final = {"tune": "diff", "apply": "apply", "undo": "undo"}


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
    if text.startswith(_RDS):
        return TargetKind.RDS
    if "://" in text or "=" in text:
        return TargetKind.SERVER
    return TargetKind.FILE if set(text) & set("./") else TargetKind.NAME


def instance_named(text: str) -> str:
    """Return the name of an instance, with or without ``rds:``."""
    return text.removeprefix(_RDS)


class ServerArgument(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """A connection string; ``local`` is the empty one, for which libpq's defaults apply."""

    name = "dsn"

    def convert(self, value: Any, _param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the connection string; UsageError for an instance or a file."""
        text = str(value)
        kind = kind_of(text)
        if kind is TargetKind.LOCAL:
            return ""
        if kind is TargetKind.RDS:
            verb = _OF_RDS.get(ctx.info_name or "") if ctx else None
            run = f"Run rdstune {verb} {instance_named(text)}" if verb else ""
            raise UsageError(
                f"{text} is an instance of Amazon RDS",
                f"{run}, or give its connection string." if run else "Give its connection string.",
            )
        if kind is TargetKind.FILE:
            raise UsageError(f"{text} is not a connection string", "Write postgresql://host/db.")
        return text


class InstanceArgument(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """The identifier of an instance of Amazon RDS, with or without ``rds:``."""

    name = "instance"

    def convert(
        self, value: Any, _param: click.Parameter | None, _ctx: click.Context | None
    ) -> str:
        """Return the identifier; UsageError for anything else."""
        text = str(value)
        if kind_of(text) not in {TargetKind.RDS, TargetKind.NAME}:
            raise UsageError(
                f"{text} is not an instance of Amazon RDS",
                "Give its identifier; servers elsewhere are for mrtuner.",
            )
        return instance_named(text)
