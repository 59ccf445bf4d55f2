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


def io_uring(tree: Tree) -> Fact[IoUring] | None:
    """Read what is in the way of io_uring; None if neither kernel nor process shows it."""
    disabled = _number(r"(\d+)", tree.peek(DISABLED))
    seccomp = _number(r"^Seccomp:\s*(\d+)", tree.peek(f"{tree.process}/status"))
    if disabled is None and seccomp is None:
        return None
    locked = _number(r"^Max locked memory\s+(\d+)", tree.peek(f"{tree.process}/limits"))
    limit = None if locked is None else Bytes(locked)
    return Fact(
        IoUring(disabled=disabled, seccomp=seccomp, locked_memory=limit),
        f"{DISABLED}; status and limits of {tree.process}",
    )


def _number(pattern: str, text: str | None) -> int | None:
    found = re.search(pattern, text or "", re.MULTILINE)
    return int(found[1]) if found else None
