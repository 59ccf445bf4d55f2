"""RDSTune: parameter groups that stay right on every instance class of Amazon RDS.

from mrtuner import rds

group = rds.design(family_name="postgres17", class_name="db.r6g.xlarge", connections=200)
group.values["effective_cache_size"]      # '{DBInstanceClassMemory*3/32768}'
rds.parse("{DBInstanceClassMemory/32768}").evaluate({"DBInstanceClassMemory": 8 * 1024**3})

The modules that talk to AWS are imported separately: `mrtuner.rds.live.apply`, `diff`, `audit`,
`snapshots`, `maintenance`. `mrtuner.rds.lab` is a local stand-in for AWS to try everything on.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mrtuner.formula.class_memory import class_memory
    from mrtuner.formula.grammar import Formula, parse
    from mrtuner.rds.group.derive import Design, design
    from mrtuner.rds.group.group_settings import Setting
    from mrtuner.rds.lab import Lab

__all__ = ["Design", "Formula", "Lab", "Setting", "class_memory", "design", "parse"]

_HOME: Final = {
    "Design": "mrtuner.rds.group.derive",
    "Formula": "mrtuner.formula.grammar",
    "Lab": "mrtuner.rds.lab",
    "Setting": "mrtuner.rds.group.group_settings",
    "class_memory": "mrtuner.formula.class_memory",
    "design": "mrtuner.rds.group.derive",
    "parse": "mrtuner.formula.grammar",
}


def __getattr__(name: str) -> Any:
    """Load each name on first use: the lab and the main job are large."""
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
