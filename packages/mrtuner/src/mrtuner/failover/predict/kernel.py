"""The kernel's TCP settings in force, which decide how long a client waits for a dead server."""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from mrtuner.catalog.timers import kernel_defaults
from mrtuner.errors import BadValue, MissingPart, UsageError

#: The version in which each behaviour was introduced. Source: the kernel's own history.
WHEEL: Final = (4, 8)  # timers fire late, depending on their level of the wheel
CLAMPED: Final = (4, 19)  # the last timer is cut to the rest of TCP_USER_TIMEOUT
LINEAR: Final = (6, 5)  # tcp_syn_linear_timeouts

#: HZ of Debian's and Ubuntu's kernels up to 2024; Fedora's and newer ones have 1000.
ASSUMED_HZ: Final = 250

_ROOT: Final = Path("/proc/sys/net/ipv4")
_PREFIX: Final = "net.ipv4."
_ASSIGNMENT: Final = re.compile(r"-?\s*(?P<name>[\w./-]+)\s*=\s*(?P<value>.*?)\s*")
#: What the kernel itself accepts; no other value can be in force.
_BOUNDS: Final[Mapping[str, tuple[int, int]]] = {
    "tcp_retries2": (0, 255),
    "tcp_syn_retries": (1, 127),
    "tcp_syn_linear_timeouts": (0, 127),
    "tcp_rto_min_us": (1, 100_000_000),
    "tcp_rto_max_ms": (1_000, 120_000),
    "tcp_early_retrans": (0, 4),
    "tcp_keepalive_time": (1, 2_147_483),  # a jiffies count in an int, at HZ 1000
    "tcp_keepalive_intvl": (1, 2_147_483),
    "tcp_keepalive_probes": (1, 255),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One network namespace of one kernel. Names and units are those of sysctl."""

    hz: int = ASSUMED_HZ
    release: tuple[int, int] = (6, 12)
    tcp_retries2: int = 15
    tcp_syn_retries: int = 6
    tcp_syn_linear_timeouts: int = 4
    tcp_rto_min_us: int = 200_000
    tcp_rto_max_ms: int = 120_000
    tcp_early_retrans: int = 3
    tcp_keepalive_time: int = 7200
    tcp_keepalive_intvl: int = 75
    tcp_keepalive_probes: int = 9
    #: Where each value that is not the kernel's default comes from.
    origin: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        if not 24 <= self.hz <= 10_000:
            raise BadValue(
                f"HZ {self.hz} is not a tick rate of any kernel",
                "Usual values are 100, 250, 300 and 1000.",
            )
        for name, (low, high) in _BOUNDS.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise BadValue(
                    f"{name} = {value} is outside {low} to {high}", "The kernel would reject it."
                )

    @property
    def wheel(self) -> bool:
        """Whether timers use the wheel that makes them late."""
        return self.release >= WHEEL

    @property
    def linear(self) -> int:
        """SYNs that are resent at even intervals before the intervals grow."""
        return self.tcp_syn_linear_timeouts if self.release >= LINEAR else 0

    @property
    def tail_loss_probe(self) -> bool:
        """Whether a probe is sent before the first timeout that counts."""
        return self.tcp_early_retrans in {3, 4}

    def jiffies(self, seconds: float) -> int:
        """Round seconds up to jiffies, as the kernel does, ignoring floating-point error."""
        count = seconds * self.hz
        return round(count) if abs(count - round(count)) < 1e-6 else int(count) + 1

    def with_origin(self, name: str) -> str:
        """Format as ``tcp_retries2 = 15 (kernel default)``."""
        return f"{name} = {getattr(self, name)} ({self.origin.get(name, 'kernel default')})"

    @property
    def settings(self) -> dict[str, int]:
        """The sysctls below net.ipv4 by name, in their own units."""
        return {name: getattr(self, name) for name in _BOUNDS}


def local(root: Path = _ROOT) -> Kernel:
    """Return this machine's kernel, with the settings of this process's network namespace.

    MissingPart on anything but Linux.
    """
    if platform.system() != "Linux" or not root.is_dir():
        raise MissingPart(
            "this machine has no Linux TCP settings to read",
            "Run sysctl -a > FILE on the client machine, then give --sysctl FILE.",
        )
    found: dict[str, Any] = {
        name: int(root.joinpath(name).read_text())
        for name in _BOUNDS
        if root.joinpath(name).is_file()
    }
    origin = dict.fromkeys(found, "this machine")
    hz = round(1 / time.clock_getres(_COARSE))  # the coarse clock advances once per tick
    return Kernel(hz=hz, release=_release(platform.release()), **found, origin=origin)


#: CLOCK_MONOTONIC_COARSE, which the time module does not define. Source: linux/time.h.
_COARSE: Final = 6


def _release(text: str) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", text)
    if match is None:
        raise BadValue(f"cannot read {text!r} as a kernel version", "Write it as uname -r: 6.1.")
    return int(match[1]), int(match[2])


def from_text(
    text: str, source: str, *, hz: int = ASSUMED_HZ, release: str | None = None
) -> Kernel:
    """Parse settings as printed by ``sysctl -a`` or written in sysctl.conf; the rest is default.

    A listing that includes ``kernel.osrelease`` gives the version too. UsageError if it contains
    nothing about TCP: a prediction from nothing would look like a checked one.
    """
    values = dict(_assignments(text))
    found = {
        name: _number(name, values[_PREFIX + name]) for name in _BOUNDS if _PREFIX + name in values
    }
    if not found:
        raise UsageError(
            f"no TCP settings in {source}",
            "It should have lines such as net.ipv4.tcp_retries2 = 15.",
        )
    version = release or values.get("kernel.osrelease")
    chosen: dict[str, Any] = kernel_defaults() | found
    kernel = Kernel(hz=hz, **chosen, origin=dict.fromkeys(found, source))
    return kernel if version is None else replace(kernel, release=_release(version))


def _assignments(text: str) -> list[tuple[str, str]]:
    rows = (row.strip() for row in text.splitlines())
    matches = (_ASSIGNMENT.fullmatch(row) for row in rows if row and row[0] not in "#;")
    return [(match["name"].replace("/", "."), match["value"]) for match in matches if match]


def _number(name: str, text: str) -> int:
    if not text.isdigit():
        raise BadValue(f"{name} = {text!r} is not a number", "Give it as sysctl prints it.")
    return int(text)
