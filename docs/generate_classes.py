"""The page of instance classes, for `docs.generate`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from mrtuner.catalog.classes import (
    AURORA,
    MULTI_AZ_CLUSTER,
    POSTGRES,
    InstanceClass,
    all_classes,
    size_order,
    sources,
)
from mrtuner.formula.class_memory import LARGEST_READ, class_memory
from mrtuner.units import pretty_bytes

_NAMES: Final = {POSTGRES: "RDS", AURORA: "Aurora", MULTI_AZ_CLUSTER: "Multi-AZ cluster"}

_ABOUT: Final = """\
# Instance classes

The {number} classes of RDS for PostgreSQL, of its Multi-AZ DB clusters and of Aurora PostgreSQL
that MrTuner knows. For any other give `--memory` and `--vcpus` to `rdstune evaluate`; `diff`,
`apply` and `audit` ask EC2 for them.

- **Memory** is the machine's. **DBInstanceClassMemory** is what formulas see: AWS does not
  publish it, so it is [estimated](../concepts/formulas-and-units.md), with bounds. Above
  {largest} that is an extrapolation; `rdstune evaluate --connect` reads it off an instance.
- **EBS** limits are Mbit/s and operations a second, reads and writes together. Where there are
  two figures, the first is for good, and the second for as long as credits last: 30 minutes a
  day at least. Aurora does not store on EBS: for it they say nothing.
"""


def classes_page() -> Iterator[str]:
    """Every class with what it has, family by family."""
    known = sorted(all_classes().values(), key=lambda each: size_order(each.name))
    yield _ABOUT.format(number=len(known), largest=pretty_bytes(LARGEST_READ))
    for part, words in sources().items():
        yield f"- Source of {part}: {words}."
    for family, members in groupby(known, key=lambda each: each.family):
        yield f"\n## `db.{family}`"
        yield ""
        yield from _table(tuple(members))


def _table(members: Iterable[InstanceClass]) -> Iterator[str]:
    yield (
        "| Class | Memory | DBInstanceClassMemory, RDS | …, Aurora | vCPUs | EBS, Mbit/s |"
        " EBS, IOPS | Engines |"
    )
    yield "|:--|--:|--:|--:|--:|--:|--:|:--|"
    for each in members:
        yield f"| {' | '.join(_cells(each))} |"


def _cells(each: InstanceClass) -> Iterator[str]:
    yield f"`{each.name}`"
    yield pretty_bytes(each.memory)
    yield _estimate(each, POSTGRES) if each.engines - {AURORA} else ""
    yield _estimate(each, AURORA) if AURORA in each.engines else ""
    yield str(each.vcpus)
    yield _limits(each.ebs_baseline_mbps, each.ebs_max_mbps)
    yield _limits(each.ebs_baseline_iops, each.ebs_max_iops)
    yield ", ".join(name for engine, name in _NAMES.items() if engine in each.engines)


def _estimate(each: InstanceClass, engine: str) -> str:
    """``30.5 GB (29.9 to 31.1)``."""
    found = class_memory(each, engine)
    low, middle, high = map(pretty_bytes, (found.low, found.value, found.high))
    return f"{middle} ({low} to {high})"


def _limits(baseline: int | None, maximum: int | None) -> str:
    """The figure, or both; nothing where none is published."""
    if baseline is None or maximum is None:
        return ""
    return f"{baseline:,}" if baseline == maximum else f"{baseline:,} to {maximum:,}"
