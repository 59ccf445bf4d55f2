"""The screens of the viewer, in the order of its menu. A new one is a module with a `SCREEN`."""

from __future__ import annotations

from typing import Final

from mrtuner.web.screens import (
    changes,
    compare,
    connections,
    headroom,
    io,
    load,
    moment,
    replication,
    statements,
    vacuum,
    wal,
)
from mrtuner.web.screens.screen import Screen

SCREENS: Final[dict[str, Screen]] = {
    module.SCREEN.name: module.SCREEN
    for module in (
        load, moment, statements, headroom, wal, io, vacuum, connections, replication, compare,
        changes,
    )
}  # fmt: skip
