"""The target of a command, its first argument, in the same forms everywhere (`answers.targets`).

A command that does not accept one of them says what to use instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mrtuner.answers.targets import TargetKind, instance_named, kind_of
from mrtuner.cli.common.options import path_option, warn_of_password
from mrtuner.errors import UsageError

if TYPE_CHECKING:
    from mrtuner.history.recording.recorder import Instance

config_option = path_option(
    "--config", "FILE", 'File in TOML with a table [instances]: NAME = "connection string".'
)
#: Commands of rdstune that do for an instance what these do for a server.
_OF_RDS: Final = {"tune": "diff", "apply": "apply", "undo": "undo"}


class ServerArgument(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """A connection string; ``local`` is the empty one, for which libpq's defaults apply."""

    name = "dsn"

    def __init__(self, *, rds: bool = False) -> None:
        self.rds = rds  # whether rds:NAME is one as well

    def convert(self, value: Any, _param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the connection string; UsageError for an instance or a file."""
        text = str(value)
        kind = kind_of(text)
        if kind is TargetKind.LOCAL:
            return ""
        if kind is TargetKind.RDS and self.rds:
            return text
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


def servers_named(dsns: Sequence[str], config: Path | None) -> dict[str, Instance]:
    """Return servers by name: host and port, or as the file of --config names them.

    UsageError for two servers of one name.
    """
    from mrtuner.history.fleet_file import instance_of, read_fleet

    for dsn in dsns:
        warn_of_password(dsn)
    found = [instance_of(dsn) for dsn in dsns]
    if config is not None:
        found += read_fleet(config).instances
    servers = {one.name: one for one in found}
    if len(servers) < len(found):
        raise UsageError("two servers have the same name", "Name them in a file: --config.")
    return servers
