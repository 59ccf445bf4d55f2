"""What to do about the findings, by platform. Pure; docs/how-to/check-vcpus.md has the sources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mrtuner.cpu.diagnose import Cause, Diagnosis
from mrtuner.cpu.model import Mode, Record

_RDS: Final = frozenset({"rds", "aurora"})
#: Where only the provider can change the hypervisor or the kernel.
_MANAGED: Final = frozenset(
    {"rds", "aurora", "cloud-sql", "alloydb", "azure", "supabase", "neon", "aiven", "heroku"}
)


def advice(record: Record, found: Diagnosis) -> tuple[str, ...]:
    """Return advice as sentences, the most useful first; none if no finding calls for any."""
    return tuple(_advice(record, found))


def _advice(record: Record, found: Diagnosis) -> Iterator[str]:
    causes = {bend.cause for bend in found.bends}
    yield from _pool(found)
    if record.usable.bound == "cpuset":
        yield from _cpuset(record)
    if record.usable.bound == "affinity":
        yield "Something pins this process (taskset, CPUAffinity= of its unit): start it without."
    if Cause.QUOTA in causes or record.usable.bound == "quota":
        yield _quota(record)
    if Cause.SIBLINGS in causes:
        yield from _siblings(record)
    if Cause.STEAL in causes:
        yield from _steal(record)
    if Cause.OTHERS in causes:
        yield "Other work competes for these CPUs: move it elsewhere, then test again."
    if Cause.FREQUENCY in causes:
        yield (
            "All workers get slower alike: the clock falls or caches are shared. Size by the "
            "measured effective cores; there is nothing to switch."
        )


def _pool(found: Diagnosis) -> Iterator[str]:
    """Pools are sized by the sessions active at the same time, not by those connected."""
    first = next((bend for bend in found.bends), None)
    if first is None or found.best is None:
        return
    if first.cause is Cause.SIBLINGS and found.best > first.at:
        yield (
            f"Pool size: up to {first.at} active sessions all get a core of their own and equal "
            f"times; throughput still grows to {found.best}, at uneven times."
        )
    else:
        yield (
            f"Pool size: {first.at} active at once; more of them share the CPUs and add little "
            "or no throughput. Sessions that wait for I/O or locks come on top."
        )


def _cpuset(record: Record) -> Iterator[str]:
    if record.place.platform == "kubernetes":
        yield (
            "The pod's cpuset is narrower than its machine, whatever its limit says: look for a "
            "static CPU manager policy, and at the arguments and parents of the container."
        )
    else:
        yield "The cpuset is narrower than the machine: widen cpuset.cpus of the group it names."


def _quota(record: Record) -> str:
    if record.place.platform == "kubernetes":
        return (
            "A quota stops all workers for the rest of each period: raise resources.limits.cpu, "
            "or leave the limit out and keep the request."
        )
    return (
        "A quota stops all workers for the rest of each period: raise it (cpu.max, CPUQuota=, "
        "--cpus of a container engine), or let fewer sessions be active."
    )


def _siblings(record: Record) -> Iterator[str]:
    platform = record.place.platform
    if platform in _RDS:
        yield (
            "RDS for PostgreSQL cannot switch sibling threads off (processor features are for "
            "Oracle and SQL Server): a Graviton class (m7g, r7g, …) has one thread a core."
        )
    elif platform in _MANAGED:
        yield "The provider decides on threads: ask for a class with one thread a core."
    elif platform == "ec2":
        yield (
            "EC2: CpuOptions ThreadsPerCore=1 gives even times at about the same throughput, and "
            "half the vCPUs; so does a Graviton instance, with one thread a core throughout."
        )
    elif record.plan.mode is not Mode.SQL:
        yield (
            "On a machine of your own: echo off > /sys/devices/system/cpu/smt/control makes times "
            "even at about the same throughput (a virtual machine: ask its owner)."
        )


def _steal(record: Record) -> Iterator[str]:
    if record.place.platform in {*_RDS, "ec2"}:
        yield "The hypervisor takes time: on a T class look at CPUCreditBalance, or leave T."
    else:
        yield "The hypervisor gives time to others: ask for dedicated CPUs, or another host."
