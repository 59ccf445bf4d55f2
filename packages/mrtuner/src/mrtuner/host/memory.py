"""How much memory there is, how much of it we may use, swap, and huge pages."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

from mrtuner.facts import Fact, Missing
from mrtuner.host.cgroup import ControlGroup, Lineage, lineage, read_limit
from mrtuner.host.model import HugePages
from mrtuner.host.tree import Tree
from mrtuner.units import Bytes, GiB, KiB, MiB

#: Version 1 writes "unlimited" as the largest multiple of a page below 2^63, and pages differ.
UNLIMITED_V1 = 2**62

TRANSPARENT = "/sys/kernel/mm/transparent_hugepage/enabled"
#: A folder for each size of huge pages.
SIZES = "/sys/kernel/mm/hugepages"


def memory(tree: Tree) -> tuple[Fact[Bytes] | Missing, tuple[Missing, ...]]:
    """The lowest of RAM and every limit above the process [bytes], and limits not understood.

    memory.high counts like memory.max: above it the kernel does not kill, but throttles every
    allocation, and a server sized for more would spend its time there.
    """
    ram = _ram(tree)
    above = lineage(tree, "memory")
    found = list(_cgroup_limits(tree, above.groups))
    limits = [each for each in found if isinstance(each, Fact)]
    unclear = tuple(each for each in found if isinstance(each, Missing))
    return _least(ram, limits), (*unclear, *_missing(tree, above))


def _least(ram: Fact[Bytes] | None, limits: Iterable[Fact[Bytes]]) -> Fact[Bytes] | Missing:
    """RAM, unless a limit is lower: a limit above RAM adds no memory."""
    known = [*([ram] if ram else []), *limits]
    if not known:
        return Missing("memory", "this system shows neither its RAM nor a limit", "--memory")
    return min(known, key=lambda fact: fact.value)


def _ram(tree: Tree) -> Fact[Bytes] | None:
    total = meminfo(tree).get("MemTotal")
    if total:
        return Fact(Bytes(total * KiB), "/proc/meminfo: MemTotal")
    return ram_by_sysconf() if tree.live else None


def ram_by_sysconf() -> Fact[Bytes] | None:
    """RAM where there is no /proc, as on macOS."""
    try:
        size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
    return Fact(Bytes(size), "sysconf: SC_PHYS_PAGES") if size > 0 else None


def _cgroup_limits(tree: Tree, groups: Iterable[ControlGroup]) -> Iterator[Fact[Bytes] | Missing]:
    for group in groups:
        for file, parse in _FILES[group.version]:
            limit = read_limit(tree, group, file, parse, of="memory")
            if limit is not None:
                yield limit


def _limit_v2(text: str) -> Bytes | None:
    return None if text == "max" else _positive(text)


def _limit_v1(text: str) -> Bytes | None:
    return None if text == "-1" or int(text) >= UNLIMITED_V1 else _positive(text)


def _hierarchical_v1(text: str) -> Bytes | None:
    """The kernel's own minimum over all parents, including those that a container cannot see."""
    line = re.search(r"^hierarchical_memory_limit (\S+)$", text, re.MULTILINE)
    return _limit_v1(line[1]) if line else None


def _positive(text: str) -> Bytes:
    if int(text) <= 0:
        raise ValueError(text)
    return Bytes(int(text))


_FILES = {
    1: (("memory.limit_in_bytes", _limit_v1), ("memory.stat", _hierarchical_v1)),
    2: (("memory.max", _limit_v2), ("memory.high", _limit_v2)),
}


def _missing(tree: Tree, above: Lineage) -> Iterator[Missing]:
    """What keeps us from seeing a limit that may exist."""
    for why in above.hidden:
        yield Missing("memory", f"{why}: a limit would not be seen", "--memory")
    own = above.groups[0].name if above.groups else None
    if own is not None and len(above.groups) > 1 and not _controlled(tree, above.groups):
        yield Missing("memory", f"no memory controller in cgroup {own}: no limit found", "--memory")


def _controlled(tree: Tree, groups: Iterable[ControlGroup]) -> bool:
    return any(
        tree.is_there(group.folder / file) for group in groups for file, _ in _FILES[group.version]
    )


def meminfo(tree: Tree) -> dict[str, int]:
    """Read /proc/meminfo: kilobytes, or pages for HugePages_*; empty if there is none."""
    text = tree.peek("/proc/meminfo") or ""
    return {key: int(number) for key, number in re.findall(r"^(\w+):\s+(\d+)", text, re.MULTILINE)}


def swap(tree: Tree) -> Fact[Bytes] | Missing:
    """Swap of the whole machine [bytes]; a cgroup's share may be less."""
    total = meminfo(tree).get("SwapTotal")
    if total is None:
        return Missing("swap", "/proc/meminfo does not show it")
    return Fact(Bytes(total * KiB), "/proc/meminfo: SwapTotal")


def huge_pages(tree: Tree, size: int = 0) -> Fact[HugePages] | Missing:
    """Huge pages of a size [bytes], or of the default one; Missing where the kernel has none."""
    info = meminfo(tree)
    if size and size != info.get("Hugepagesize", 0) * KiB:
        return _pages_of(tree, size)
    if "Hugepagesize" not in info:
        return Missing(
            "huge_pages", "/proc/meminfo does not show any: not Linux, or a kernel without them"
        )
    counts = (info.get(f"HugePages_{each}", 0) for each in ("Total", "Free", "Rsvd"))
    return Fact(
        _counted(tree, info["Hugepagesize"] * KiB, *counts), "/proc/meminfo: HugePages_Total"
    )


def _pages_of(tree: Tree, size: int) -> Fact[HugePages] | Missing:
    """Source: the kernel's Documentation/admin-guide/mm/hugetlbpage.rst."""
    folder = f"{SIZES}/hugepages-{size // KiB}kB"
    texts = [tree.peek(f"{folder}/{each}_hugepages") for each in ("nr", "free", "resv")]
    numbers = [int(text) for text in texts if text and text.isdigit()]
    if len(numbers) < len(texts):
        return Missing("huge_pages", f"{folder} shows none")
    return Fact(_counted(tree, size, *numbers), folder)


def _counted(tree: Tree, size: int, reserved: int, free: int, committed: int) -> HugePages:
    return HugePages(
        size=Bytes(size),
        reserved=reserved,
        free=free,
        committed=committed,
        transparent=_chosen(tree.peek(TRANSPARENT) or ""),
        allowed=_allowed(tree, size),
    )


def _allowed(tree: Tree, size: int) -> int | None:
    """How many more pages of a size [bytes] cgroups let the process have; None: any number."""
    shown = f"{size // GiB}GB" if size >= GiB else f"{size // MiB}MB"
    left = []
    for group in lineage(tree, "hugetlb").groups:
        limit, usage = _HUGETLB[group.version]
        numbers: dict[str, list[int]] = {limit: [], usage: []}
        for name, found in numbers.items():
            for part in ("", "rsvd."):
                text = tree.peek(group.folder / f"hugetlb.{shown}.{part}{name}")
                if text and text.isdigit() and int(text) < UNLIMITED_V1:
                    found.append(int(text))
        if numbers[limit]:
            left.append(max(0, min(numbers[limit]) - max(numbers[usage], default=0)) // size)
    return min(left, default=None)


#: The limit and what counts against it: pages in use and, with rsvd., those that were mapped and
#: will be. Source: the kernel's admin-guide/cgroup-v2.rst and admin-guide/cgroup-v1/hugetlb.rst.
_HUGETLB = {1: ("limit_in_bytes", "usage_in_bytes"), 2: ("max", "current")}


def _chosen(text: str) -> str | None:
    """Return the word in brackets, as in ``always [madvise] never``."""
    word = re.search(r"\[(\w+)\]", text)
    return word[1] if word else None
