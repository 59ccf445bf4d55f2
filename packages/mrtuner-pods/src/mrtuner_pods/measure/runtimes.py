"""How many CPUs runtimes believe they have, and how many they have.

Each counts in its own way. One that does not see a quota, its own or that of a control group above,
may start more threads or processes than can run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Annotated, Final

from mrtuner.described import Doc
from mrtuner_pods.measure.reading import Measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What there is to count, in CPUs."""

    online: int
    allowed: int  # affinity and cpuset
    own_quota: Fraction | None  # of the process's own control group


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """A runtime, and how it counts its CPUs."""

    name: str
    counts: Callable[[Counted], int]
    how: str
    source: str


def _at_most(known: Counted, rounded: Callable[[Fraction], int], least: int = 1) -> int:
    if known.own_quota is None:
        return known.allowed
    return min(known.allowed, max(least, rounded(known.own_quota)))


RUNTIMES: Final = (
    Runtime(
        name="Python os.cpu_count, gunicorn's (2 x cores) + 1", counts=lambda known: known.online,
        how="CPUs online",
        source="docs.python.org, os.cpu_count; docs.gunicorn.org, design; gunicorn#2028",
    ),
    Runtime(
        name="Python 3.13 os.process_cpu_count", counts=lambda known: known.allowed,
        how="CPUs it may run on", source="docs.python.org, os.process_cpu_count",
    ),
    Runtime(
        name="Ruby Etc.nprocessors", counts=lambda known: known.allowed,
        how="CPUs it may run on", source="docs.ruby-lang.org, Etc.nprocessors",
    ),
    Runtime(
        name="Puma workers :auto (concurrent-ruby 1.3.1)", how="its own quota, rounded down",
        counts=lambda known: _at_most(known, floor, least=0),
        source="concurrent-ruby#1038; puma#3827",
    ),
    Runtime(
        name="Go to 1.24", counts=lambda known: known.allowed,
        how="CPUs it may run on", source="pkg.go.dev/runtime, NumCPU; golang/go#33803",
    ),
    Runtime(
        name="Go 1.25", counts=lambda known: _at_most(known, ceil, least=2),
        how="its own quota, rounded up, at least two", source="golang/go#73193, #81180",
    ),
    Runtime(
        name="JVM 10, 8u191", counts=lambda known: _at_most(known, ceil),
        how="its own quota, rounded up", source="JDK-8146115",
    ),
    Runtime(
        name="Node.js os.availableParallelism, libuv to 1.48", counts=lambda known: known.allowed,
        how="CPUs it may run on", source="libuv#4146",
    ),
    Runtime(
        name="Node.js os.availableParallelism, libuv 1.51", how="its own quota, rounded down",
        counts=lambda known: _at_most(known, floor), source="libuv#4740, #4746",
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeBelief:
    """How many CPUs a runtime counts in this place."""

    runtime: Annotated[str, Doc("what counts")]
    cpus: Annotated[int, Doc("how many it counts")]
    how: Annotated[str, Doc("which CPUs it counts")]
    source: Annotated[str, Doc("where this is documented")]


def beliefs(seen: Measurement) -> tuple[RuntimeBelief, ...]:
    """Return what each runtime would count where these processes run; none if that is unknown."""
    if seen.narrowest is None or seen.online is None:
        return ()
    known = Counted(
        online=seen.online, allowed=seen.narrowest[0],
        own_quota=next((one.quota for one in seen.quotas if one.own), None),
    )  # fmt: skip
    return tuple(
        RuntimeBelief(runtime=one.name, cpus=one.counts(known), how=one.how, source=one.source)
        for one in RUNTIMES
    )


def usable(seen: Measurement) -> Fraction | None:
    """Return the CPUs that the processes can really have: the least of sets and quotas."""
    limits = [Fraction(seen.narrowest[0])] if seen.narrowest else []
    limits += [one.quota for one in seen.quotas]
    return min(limits, default=None)
