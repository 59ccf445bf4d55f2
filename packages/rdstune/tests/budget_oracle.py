"""A second memory budget of a group on a class, added up from docs/concepts/budget.md.

It shares nothing with the product's budget, expressions or evaluator of formulas.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from formula_oracle import Machine, worth
from mrtuner.catalog import parameters
from mrtuner.catalog.families import Family

KIB, MIB, GIB = 1024, 1024**2, 1024**3
#: PostgreSQL's own defaults, in base units, of memory settings that AWS leaves unset.
_UNSET = {"work_mem": "4096", "autovacuum_work_mem": "-1", "maintenance_work_mem": "65536"}


def value(name: str, texts: Mapping[str, str], family: Family, machine: Machine) -> float:
    """A parameter's value in base units: the group's, else the family's, else PostgreSQL's."""
    known = family.parameters.get(name)
    default = known.default if known is not None else None
    postgres = _UNSET.get(name, str(parameters(family.major)[name].default))
    text = texts.get(name) or default or postgres
    return float(worth(text, machine) if "{" in text else text)


def shared(texts: Mapping[str, str], family: Family, machine: Machine) -> float:
    """Shared memory [bytes]: buffers and 3 %, WAL buffers, 112 kB a process, 20 MB."""

    def of(name: str) -> float:
        return value(name, texts, family, machine)

    buffers = of("shared_buffers") * 8 * KIB
    wal = of("wal_buffers")
    wal_buffers = min(16 * MIB, max(64 * KIB, buffers / 32)) if wal < 0 else wal * 8 * KIB
    processes = of("max_connections") + of("max_worker_processes")
    return 1.03 * buffers + wal_buffers + 112 * KIB * processes + 20 * MIB


def worst_case(
    texts: Mapping[str, str],
    family: Family,
    machine: Machine,
    *,
    open_: int,
    active: int,
    operations: int = 1,
    huge_pages: bool,
) -> float:
    """The most memory [bytes] that `open_` sessions take, of which `active` sort."""
    texts = {**texts, "max_connections": str(open_)}

    def of(name: str) -> float:
        return value(name, texts, family, machine)

    workers = min(of("max_parallel_workers"), of("max_worker_processes"))
    readers = max(0, of("io_workers") - 3) if family.major == 18 else 0
    processes = open_ + workers + of("autovacuum_max_workers") + readers
    maintenance = of("maintenance_work_mem") * KIB
    vacuum = of("autovacuum_work_mem") * KIB
    vacuum = maintenance if vacuum < 0 else vacuum
    vacuum = min(vacuum, GIB) if family.major < 17 else vacuum
    taken = shared(texts, family, machine)
    tables = 0 if huge_pages else taken * (processes + 10) / 512
    sorts = (active + workers) * operations * of("work_mem") * KIB * of("hash_mem_multiplier")
    overhead = processes * 2.5 * MIB + 16 * MIB
    autovacuum = of("autovacuum_max_workers") * vacuum
    return math.fsum([taken, tables, sorts, overhead, autovacuum, maintenance])
