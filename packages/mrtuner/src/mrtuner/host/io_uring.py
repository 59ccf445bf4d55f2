"""What a kernel, a container or a limit allows a process that would use io_uring."""

from __future__ import annotations

import re
from typing import Final

from mrtuner.facts import Fact
from mrtuner.host.model import IoUring
from mrtuner.host.tree import Tree
from mrtuner.units import Bytes

#: Since Linux 6.6. Source: the kernel's Documentation/admin-guide/sysctl/kernel.rst.
DISABLED: Final = "/proc/sys/kernel/io_uring_disabled"
#: From this release on, control groups count the memory of rings. Before, the limit of locked
#: memory did. Source: Linux commit 26bfa89e25f4.
_COUNTED_BEFORE: Final = (5, 12)


def io_uring(tree: Tree) -> Fact[IoUring] | None:
    """Read what is in the way of io_uring; None if neither kernel nor process shows it."""
    disabled = _number(r"(\d+)", tree.peek(DISABLED))
    seccomp = _number(r"^Seccomp:\s*(\d+)", tree.peek(f"{tree.process}/status"))
    if disabled is None and seccomp is None:
        return None
    return Fact(
        IoUring(disabled=disabled, seccomp=seccomp, locked_memory=_locked_memory(tree)),
        f"{DISABLED}, {tree.process}/status",
    )


def _locked_memory(tree: Tree) -> Bytes | None:
    release = re.match(r"(\d+)\.(\d+)", tree.peek("/proc/sys/kernel/osrelease") or "")
    if release is None or (int(release[1]), int(release[2])) >= _COUNTED_BEFORE:
        return None
    limit = _number(r"^Max locked memory\s+(\d+)", tree.peek(f"{tree.process}/limits"))
    return None if limit is None else Bytes(limit)


def _number(pattern: str, text: str | None) -> int | None:
    found = re.search(pattern, text or "", re.MULTILINE)
    return int(found[1]) if found else None
