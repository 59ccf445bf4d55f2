"""What a machine really is, as far as PostgreSQL can use it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mrtuner.facts import Fact, Missing
from mrtuner.units import Bytes


class Storage(StrEnum):
    """Kinds of storage that call for different settings."""

    HDD = "hdd"
    SSD = "ssd"
    NVME = "nvme"
    EBS = "ebs"  # Amazon's network block store, whatever driver shows it
    NETWORK = "network"  # NFS, Ceph, iSCSI and other volumes behind a network
    OVERLAY = "overlay"  # a container's image layer: not a place for data


@dataclass(frozen=True, slots=True, kw_only=True)
class HugePages:
    """Huge pages of the default size. Source: /proc/meminfo, HugePages_* and Hugepagesize."""

    size: Bytes
    reserved: int  # pages
    free: int  # pages
    transparent: str | None  # always, madvise, never


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One machine or container. A fact that could not be read is None and named in `missing`."""

    memory: Fact[Bytes] | None  # the least of RAM and every cgroup limit above us
    cpus: Fact[int] | None  # whole CPUs the scheduler really gives: affinity, cpuset, quota
    architecture: Fact[str] | None  # x86_64, aarch64, …
    kernel: Fact[str] | None
    storage: Fact[Storage] | None  # below the data directory
    disk_size: Fact[Bytes] | None
    disk_free: Fact[Bytes] | None
    huge_pages: Fact[HugePages] | None
    swap: Fact[Bytes] | None
    clock: Fact[str] | None  # clocksource: tsc, kvm-clock, hpet, …
    missing: tuple[Missing, ...] = ()
