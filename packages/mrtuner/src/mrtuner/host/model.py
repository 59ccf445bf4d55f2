"""What a machine really has, as far as PostgreSQL can use it."""

from __future__ import annotations

from dataclasses import dataclass

from mrtuner.facts import Fact, Missing
from mrtuner.inputs import Storage
from mrtuner.units import Bytes, GiB


@dataclass(frozen=True, slots=True, kw_only=True)
class HugePages:
    """Huge pages of the default size. Source: /proc/meminfo, HugePages_* and Hugepagesize."""

    size: Bytes
    reserved: int  # pages
    free: int  # pages, including those committed
    transparent: str | None  # always, madvise, never
    committed: int = 0  # pages promised to a process that has not touched them yet
    allowed: int | None = None  # pages that cgroups let the process have beside its own; None: any

    @property
    def used(self) -> int:
        """Pages that somebody has, or was promised."""
        return self.reserved - self.free + self.committed

    @property
    def unclaimed(self) -> int:
        """Pages that the process gets if it asks."""
        there = max(0, self.free - self.committed)
        return there if self.allowed is None else min(there, self.allowed)


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualMemory:
    """The kernel's memory settings, by the names of their sysctls; None: not readable."""

    overcommit_memory: int | None = None  # 0 guess, 1 always, 2 never beyond the limit
    overcommit_ratio: int | None = None
    dirty_background_bytes: int | None = None  # 0: the ratio applies
    dirty_background_ratio: int | None = None
    dirty_bytes: int | None = None
    dirty_ratio: int | None = None
    swappiness: int | None = None
    zone_reclaim_mode: int | None = None
    numa_balancing: int | None = None
    ram: Bytes | None = None  # of the whole machine, whatever a cgroup allows
    committed: Bytes | None = None  # address space promised to all programs
    nodes: int = 1  # NUMA nodes
    gigantic: int | None = None  # pages of 1 GB reserved; None: this CPU or kernel has none


@dataclass(frozen=True, slots=True, kw_only=True)
class IoUring:
    """What may keep a process from using io_uring; None: not readable, or no limit."""

    disabled: int | None = None  # kernel.io_uring_disabled: 1 for most users, 2 for all
    seccomp: int | None = None  # 2: system calls are filtered
    locked_memory: Bytes | None = None  # the most that the processes of its user may lock


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One machine or container. A fact that could not be read is None and listed in `missing`."""

    memory: Fact[Bytes] | None = None  # the lowest of RAM and every cgroup limit above us
    cpus: Fact[int] | None = None  # whole CPUs the scheduler really gives: affinity, cpuset, quota
    architecture: Fact[str] | None = None  # x86_64, aarch64, …
    kernel: Fact[str] | None = None
    storage: Fact[Storage] | None = None  # of the data directory
    filesystem: Fact[str] | None = None  # of the data directory: ext4, xfs, zfs, …
    disk_size: Fact[Bytes] | None = None
    disk_free: Fact[Bytes] | None = None
    huge_pages: Fact[HugePages] | None = None
    swap: Fact[Bytes] | None = None
    clock: Fact[str] | None = None  # clocksource: tsc, kvm-clock, hpet, …
    #: Of pg_wal's own volume; None if it is on the data volume.
    wal_size: Fact[Bytes] | None = None
    wal_free: Fact[Bytes] | None = None
    vm: Fact[VirtualMemory] | None = None
    io_uring: Fact[IoUring] | None = None
    #: Requests and bytes a second that control groups allow the data volume; None: no limit.
    volume_iops: Fact[int] | None = None
    volume_bandwidth: Fact[Bytes] | None = None
    missing: tuple[Missing, ...] = ()

    @property
    def limited(self) -> bool:
        """Whether a cgroup allows less memory than there is; it does not charge huge pages."""
        ram = self.vm.value.ram if self.vm else None
        return bool(ram and self.memory and self.memory.value < ram)

    @property
    def in_huge_pages(self) -> Bytes:
        """Memory that is reserved as huge pages, of the default size and of 1 GB."""
        sizes = {GiB, self.huge_pages.value.size} if self.huge_pages else {GiB}
        return Bytes(sum(size * (self.reserved(size) or 0) for size in sizes))

    def reserved(self, size: int) -> int | None:
        """Huge pages of this size [bytes] that are reserved; None: not known."""
        if self.huge_pages and self.huge_pages.value.size == size:
            return self.huge_pages.value.reserved
        return self.vm.value.gigantic if self.vm and size == GiB else None
