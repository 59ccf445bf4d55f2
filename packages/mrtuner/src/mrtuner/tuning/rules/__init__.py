"""The rules, one file per area. They are decided in the order of the imports.

To add a rule: write the function in its area's file, name the parameter, its source, its risk
and its basis, and add a test with a value worked out on paper.
"""

from mrtuner.tuning.rules import (  # isort: skip
    sessions,
    buffers,
    parallel,
    vacuum,
    wal,
    work_mem,
    storage,
    planner,
    slru,
    monitoring,
)

__all__ = [
    "buffers",
    "monitoring",
    "parallel",
    "planner",
    "sessions",
    "slru",
    "storage",
    "vacuum",
    "wal",
    "work_mem",
]
