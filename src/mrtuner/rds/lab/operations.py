"""Every RDS operation that the lab has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from mrtuner.rds.lab import events, groups, instances, snapshots, versions
from mrtuner.rds.lab.world import Region

Handler = Callable[[Region, Mapping[str, Any]], dict[str, Any]]

OPERATIONS: Final[Mapping[str, Handler]] = {
    **groups.OPERATIONS,
    **instances.OPERATIONS,
    **events.OPERATIONS,
    **snapshots.OPERATIONS,
    **versions.OPERATIONS,
}
