"""What to do about the findings, by platform. Pure; docs/how-to/check-vcpus.md has the sources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mrtuner.cpu.diagnose import Cause, CpuDiagnosis
from mrtuner.cpu.model import Mode, Record
from mrtuner.postgres.model import HOSTED

_RDS: Final = frozenset({"rds", "aurora"})


def advice(record: Record, found: CpuDiagnosis) -> tuple[str, ...]:
    """Return advice as sentences, the most useful first; none if no finding calls for any."""
    return tuple(_advice(record, found))


def _advice(record: Record, found: CpuDiagnosis) -> Iterator[str]:
    causes = {bend.cause for bend in found.bends}
    yield from _pool(found)
    if record.usable.bound == "cpuset":
        yield from _cpuset(record)
    if record.usable.bound == "affinity":
        yield (
            "This process is pinned to some CPUs (taskset, or CPUAffinity= of its unit): start it "
            "unpinned."
        )
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
            "All workers slow down equally: the clock drops or caches are shared. No setting "
            "changes that; size by the measured effective cores."
        )
    if Cause.UNEQUAL in causes:
        yield (
            "Some workers slow down more than others: the cores are fast and slow ones, or two "
            "CPUs are threads of one core that the kernel is not told of. Size by the measured "
            "effective cores, and ask the machine's owner."
        )


def _pool(found: CpuDiagnosis) -> Iterator[str]:
    """Pools are sized by the sessions active at the same time, not by those connected."""
    first = next((bend for bend in found.bends), None)
    if first is None or found.best is None:
        return
    if first.cause is Cause.SIBLINGS and found.best > first.at:
        yield (
            f"Pool size: up to {first.at} active sessions each get their own core and take equal "
            f"time; throughput grows up to {found.best}, with uneven times."
        )
    elif found.best > first.at:
        yield (
            f"Pool size: beyond {first.at} active sessions each takes longer, but throughput grows "
            f"up to {found.best}."
        )
    else:
        yield (
            f"Pool size: {first.at} active sessions; more than that share the CPUs and add little "
            "or no throughput. Sessions waiting for I/O or locks do not count."
        )


def _cpuset(record: Record) -> Iterator[str]:
    if record.place.platform == "kubernetes":
        yield (
            "The pod's cpuset has fewer CPUs than the machine, whatever its limit says: check for "
            "a static CPU manager policy, and check the container's arguments and parent cgroups."
        )
    else:
        yield (
            "The cpuset has fewer CPUs than the machine: widen cpuset.cpus of the cgroup named "
            "above."
        )


def _quota(record: Record) -> str:
    if record.place.platform == "kubernetes":
        return (
            "A quota stops all workers for the rest of each period: raise resources.limits.cpu, "
            "or drop the limit and keep the request."
        )
    return (
        "A quota stops all workers for the rest of each period: raise it (cpu.max, CPUQuota=, "
        "--cpus of a container engine), or allow fewer active sessions."
    )


def _siblings(record: Record) -> Iterator[str]:
    platform = record.place.platform
    if platform in _RDS:
        yield (
            "RDS for PostgreSQL cannot switch sibling threads off (processor features are for "
            "Oracle and SQL Server): a Graviton class (m7g, r7g, …) has one thread per core."
        )
    elif platform in HOSTED:
        yield "Only the provider can switch threads off: ask for a class with one thread per core."
    elif platform == "ec2":
        yield (
            "EC2: CpuOptions ThreadsPerCore=1 gives even times at about the same throughput, with "
            "half the vCPUs. A Graviton instance has one thread per core anyway."
        )
    elif record.plan.mode is not Mode.SQL:
        yield (
            "On your own hardware, echo off > /sys/devices/system/cpu/smt/control makes times "
            "even at about the same throughput. For a virtual machine, ask the host's owner."
        )


def _steal(record: Record) -> Iterator[str]:
    if record.place.platform in {*_RDS, "ec2"}:
        yield (
            "The hypervisor takes CPU time away: on a T class, check CPUCreditBalance or choose "
            "another class."
        )
    else:
        yield (
            "The hypervisor gives CPU time to other guests: ask for dedicated CPUs or another host."
        )
