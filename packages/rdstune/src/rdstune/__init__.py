"""RDSTune: parameter groups that stay right on every instance class of Amazon RDS.

import rdstune

group = rdstune.design(family_name="postgres17", class_name="db.r6g.xlarge", connections=200)
group.values["effective_cache_size"]      # '{DBInstanceClassMemory*3/32768}'
rdstune.parse("{DBInstanceClassMemory/32768}").evaluate({"DBInstanceClassMemory": 8 * 1024**3})

The modules that talk to AWS are imported separately: `rdstune.live.apply`, `diff`, `audit`,
`snapshots`, `maintenance`. `rdstune.lab` is a local stand-in for AWS to try everything on.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mrtuner.formula.class_memory import class_memory
    from mrtuner.formula.rds_formula import Formula, parse
    from rdstune.group.derive import Design, design
    from rdstune.group.group_settings import Setting
    from rdstune.lab import Lab

__all__ = ["Design", "Formula", "Lab", "Setting", "class_memory", "design", "parse"]

_HOME: Final = {
    "Design": "rdstune.group.derive",
    "Formula": "mrtuner.formula.rds_formula",
    "Lab": "rdstune.lab",
    "Setting": "rdstune.group.group_settings",
    "class_memory": "mrtuner.formula.class_memory",
    "design": "rdstune.group.derive",
    "parse": "mrtuner.formula.rds_formula",
}


def __getattr__(name: str) -> Any:
    """Load each name on first use: the lab and the main job are large."""
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
