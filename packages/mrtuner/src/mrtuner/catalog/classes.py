"""The instance classes of RDS for PostgreSQL and Aurora PostgreSQL, from classes.json.

Memory, processors, EBS and network limits are those of the EC2 type behind the class, also where
the RDS class table differs (31 classes in 2023).
`tools/refresh_classes.py` writes the file.

>>> instance_class("db.r5.2xlarge").vcpus
8
>>> instance_class("db.r5.2xlarge").ebs_baseline_mbps
2300
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from mrtuner.catalog.load import table
from mrtuner.errors import BadValue
from mrtuner.units import Bytes, MiB
from mrtuner.wording import enumerated

POSTGRES: Final = "postgres"
AURORA: Final = "aurora-postgresql"
#: The classes of a Multi-AZ DB cluster (two readable standbys) of RDS for PostgreSQL.
MULTI_AZ_CLUSTER: Final = "postgres-multi-az-cluster"
ENGINES: Final = (POSTGRES, AURORA, MULTI_AZ_CLUSTER)

#: Families that run on Xen: an older rule reserved their memory, see formula/class_memory.py.
_XEN: Final = frozenset({"m1", "m2", "m3", "m4", "r3", "r4", "t1", "t2"})


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceClass:
    """The hardware and limits of one class. None: AWS has not published it (14 old classes)."""

    name: str  # db.r6g.xlarge
    memory: Bytes  # the machine's, not DBInstanceClassMemory, which is less
    vcpus: int
    threads_per_core: int
    ebs_baseline_mbps: int | None  # megabits per second, reads and writes together
    ebs_max_mbps: int | None  # for at least 30 minutes in 24 hours, where above the baseline
    ebs_baseline_iops: int | None
    ebs_max_iops: int | None
    network: str  # EC2's label, with figures where there are any
    engines: frozenset[str]  # of ENGINES

    @property
    def family(self) -> str:
        """``r6g`` of ``db.r6g.xlarge``."""
        return self.name.split(".")[1]

    @property
    def graviton(self) -> bool:
        """Whether it has AWS's own ARM processor: a g after the generation's number."""
        return re.match(r"[a-z]+[0-9]+g", self.family) is not None

    @property
    def xen(self) -> bool:
        """Whether its generation is older than Nitro."""
        return self.family in _XEN

    @property
    def bursts(self) -> bool:
        """Whether its EBS limits fall to a baseline when credits are used up."""
        return self.ebs_baseline_mbps != self.ebs_max_mbps


@cache
def instance_classes(engine: str = POSTGRES) -> Mapping[str, InstanceClass]:
    """Return the classes of an engine by name, family by family, smallest first.

    Raises BadValue for an engine that is not one of ENGINES.
    """
    if engine not in ENGINES:
        raise BadValue(f"unknown engine {engine!r}", f"The engines are {', '.join(ENGINES)}.")
    return MappingProxyType(
        {name: known for name, known in all_classes().items() if engine in known.engines}
    )


@cache
def all_classes() -> Mapping[str, InstanceClass]:
    """Return every class of any engine by name."""
    document = table("classes.json")
    columns = document["columns"]
    return MappingProxyType(
        {
            name: from_row(name, dict(zip(columns, row, strict=True)))
            for name, row in document["classes"].items()
        }
    )


def instance_class(name: str) -> InstanceClass:
    """Return a class, named with or without ``db.``; BadValue suggests similar names."""
    known = all_classes()
    wanted = name.strip().lower()
    found = known.get(wanted) or known.get(f"db.{wanted}")
    if found is None:
        raise no_such_class(wanted)
    return found


def sources() -> Mapping[str, str]:
    found: dict[str, str] = table("classes.json")["sources"]
    return MappingProxyType(found)


def size_order(name: str) -> tuple[str, int, str]:
    """Return a sort key: ``db.m5.large`` before ``db.m5.2xlarge`` before ``db.m5.12xlarge``."""
    _, family, size = name.split(".")
    multiple = re.fullmatch(r"([0-9]+)xlarge", size)
    rank = int(multiple[1]) if multiple else _SMALL.index(size) - len(_SMALL) + 2
    return family, rank, size


#: Smallest first; xlarge counts as 1xlarge.
_SMALL: Final = ("micro", "small", "medium", "large", "xlarge")


def from_row(name: str, row: Mapping[str, Any]) -> InstanceClass:
    """Return a class from its values by column, as in the file."""
    rest = {column: row[column] for column in COLUMNS if column not in {"memory_mib", "engines"}}
    memory, engines = Bytes(row["memory_mib"] * MiB), frozenset(row["engines"].split())
    return InstanceClass(name=name, memory=memory, engines=engines, **rest)


def no_such_class(name: str) -> BadValue:
    """Return the error for a name that is not in the table, with similar ones."""
    return BadValue(f"unknown instance class {name!r}", _advice(name.lower()))


def _advice(name: str) -> str:
    if name.removeprefix("db.") == "serverless":
        return "Its memory follows its capacity, 2 GiB a unit: give --memory and --vcpus."
    close = get_close_matches(f"db.{name.removeprefix('db.')}", all_classes(), n=3, cutoff=0.75)
    meant = f"Did you mean {enumerated(close, 'or')}? " if close else ""
    return (
        f"{meant}For a class that MrTuner does not know yet, name one with the same memory "
        "and vCPUs; rdstune evaluate takes --memory and --vcpus."
    )


#: The columns of classes.json, in order: the fields except the name, with memory in MiB.
COLUMNS: Final = tuple(
    "memory_mib" if field.name == "memory" else field.name
    for field in fields(InstanceClass)
    if field.name != "name"
)
