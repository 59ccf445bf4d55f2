"""Every RDS operation that the lab supports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from rdstune.lab.operations import (
    clusters,
    events,
    groups,
    instances,
    maintenance,
    offers,
    snapshots,
    versions,
)
from rdstune.lab.world import Region

Handler = Callable[[Region, Mapping[str, Any]], dict[str, Any]]

OPERATIONS: Final[Mapping[str, Handler]] = {
    **groups.OPERATIONS,
    **instances.OPERATIONS,
    **clusters.OPERATIONS,
    **maintenance.OPERATIONS,
    **snapshots.OPERATIONS,
    **events.OPERATIONS,
    **versions.OPERATIONS,
    **offers.OPERATIONS,
}
