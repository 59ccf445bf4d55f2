"""The variables of formulas on a lab instance, and the values of its groups' texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mrtuner.catalog.classes import InstanceClass, instance_class
from mrtuner.errors import BadValue
from mrtuner.formula import rds_formula
from mrtuner.formula.class_memory import class_memory
from mrtuner.units import GiB
from rdstune.lab.refusals import Fault, invalid_value
from rdstune.lab.world import Instance, Region

_PAGE: Final = 8192
_MOST_SHARED: Final = 90  # percent of memory


def known_class(name: str, engine: str) -> InstanceClass:
    """Return the class, or refuse it as RDS refuses one that it does not offer for the engine."""
    try:
        found = instance_class(name)
    except BadValue:
        raise invalid_value(f"Invalid DB Instance class: {name}") from None
    if engine not in found.engines and name != "db.serverless":
        raise Fault(
            "InvalidParameterCombination",
            f"RDS does not support creating a DB instance with the following combination:"
            f" DBInstanceClass={name}, Engine={engine}. For supported combinations of instance"
            f" class and database engine version, see the documentation.",
        )
    return found


def machine(region: Region, instance: Instance) -> Mapping[str, int]:
    """Return a formula's variables, under AWS's names; memory and storage in bytes."""
    found = instance_class(instance.class_name)
    memory = region.world.memory.get(found.name) or class_memory(found, instance.engine).value
    return rds_formula.machine_variables(memory, found.vcpus, instance.storage * GiB, instance.port)


def evaluated(region: Region, instance: Instance, text: str | None) -> int | None:
    """Return the integer that a number or formula gives on this instance; None for other texts."""
    if text is None:
        return None
    try:
        return rds_formula.parse(text).evaluate(machine(region, instance))
    except BadValue:
        return None


def values(region: Region, instance: Instance) -> dict[str, str]:
    """Return every text in force, with formulas evaluated for the instance's class."""
    sees = machine(region, instance)
    return {
        name: str(rds_formula.parse(text).evaluate(sees)) if rds_formula.is_formula(text) else text
        for name, text in instance.running.items()
    }


def writer_of(region: Region, instance: Instance) -> Instance:
    """Return the instance that owns the server: a cluster's writer, else the instance itself."""
    cluster = region.clusters.get(instance.cluster or "")
    return region.instances.get((cluster and cluster.writer) or "", instance)


def has_server(region: Region, instance: Instance) -> bool:
    """Whether the instance has its own server: in a cluster only the writer does."""
    return writer_of(region, instance) is instance


def sharing(region: Region, instance: Instance) -> list[Instance]:
    """Return all instances that share the server of an instance."""
    cluster = region.clusters.get(instance.cluster or "")
    return [instance] if cluster is None else region.members(cluster)


def cannot_start(region: Region, instance: Instance) -> str | None:
    """Return why the instance would not start (shared buffers above 90 % of memory), else None.

    Source: RDS User Guide, "Huge pages for RDS for PostgreSQL": shared memory of "more than 90
    percent of the DB instance memory". The lab uses DBInstanceClassMemory for that, and counts
    only the buffers.
    """
    pages = evaluated(region, instance, instance.running.get("shared_buffers"))
    memory = machine(region, instance)["DBInstanceClassMemory"]
    if pages is not None and pages * _PAGE * 100 > memory * _MOST_SHARED:
        return f"shared_buffers asks for {pages * _PAGE} bytes of {memory}"
    return None
