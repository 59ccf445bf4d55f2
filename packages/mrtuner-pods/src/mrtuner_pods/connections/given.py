"""What the caller says about pods, with or instead of manifests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from mrtuner.errors import BadValue
from mrtuner.facts import Fact

T = TypeVar("T")

#: Values by the name of a workload, or of one container in it (web/puma); "" is for all of them.
Named = Mapping[str, T]


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Numbers and names that take precedence over manifests."""

    workers: Named[int] = field(default_factory=dict)
    threads: Named[int] = field(default_factory=dict)
    pool: Named[int] = field(default_factory=dict)
    overflow: Named[int] = field(default_factory=dict)
    databases: Named[int] = field(default_factory=dict)
    runs: Named[int] = field(default_factory=dict)
    replicas: Named[int] = field(default_factory=dict)
    framework: Named[str] = field(default_factory=dict)
    role: str | None = None  # that applications connect as, where no connection string says so
    dbname: str | None = None
    nodes: int | None = None  # of the cluster, for DaemonSets
    node_cpus: int | None = None  # of a node, which some runtimes count

    def names(self) -> frozenset[str]:
        values = (
            self.workers, self.threads, self.pool, self.overflow, self.databases, self.runs,
            self.replicas, self.framework,
        )  # fmt: skip
        return frozenset(name.partition("/")[0] for one in values for name in one if name)


class Uncounted(BadValue):
    """What is there is valid, but a number that it depends on is elsewhere: not an error."""


def at_least(least: int, value: int, source: str) -> int:
    """Return `value`; BadValue if it is below `least`."""
    if value < least:
        raise BadValue(f"{source}: {value} is less than {least}", f"Give {least} or more.")
    return value


def fact(
    values: Named[T], workload: str, option: str, container: str | None = None
) -> Fact[T] | None:
    """Return an option's value for a container, its workload, or all; None if there is none."""
    for name in (f"{workload}/{container}", workload):
        if name in values:
            return Fact(values[name], f"{option} {name}={values[name]}")
    return Fact(values[""], f"{option} {values['']}") if "" in values else None
