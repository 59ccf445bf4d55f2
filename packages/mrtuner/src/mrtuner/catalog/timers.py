"""Timers of the kernel, of drivers and of poolers: how long a dead server hangs a client.

The facts are in timers.json, each with its source and kind of evidence: ``measured`` (on the wire,
by us), ``code`` (read in the source), ``document`` (its own manual), ``memory`` (unverified;
predictions based on it say so).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, get_args

from mrtuner.catalog.load import table
from mrtuner.errors import BadValue

Evidence = Literal["measured", "code", "document", "memory"]
EVIDENCE = get_args(Evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTimer:
    """One sysctl below net.ipv4."""

    name: str
    default: int
    unit: str
    since: str  # kernel version
    meaning: str
    evidence: Evidence
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """A driver's own limits with default settings, in seconds; None: there is none."""

    name: str
    title: str
    connect_timeout: float | None
    read_timeout: float | None  # for each wait for the server
    keepalives: bool
    keepalives_idle: int | None  # None: the kernel's
    keepalives_interval: int | None
    user_timeout: bool  # whether it can set TCP_USER_TIMEOUT
    pool_wait: float | None  # how long a pool makes a caller wait
    sets_libpq: bool  # whether it accepts libpq's connection string
    evidence: Evidence
    source: str
    #: After `read_timeout` it connects anew to cancel, then waits this long; None: it gives up.
    cancel_wait: float | None = None
    covers_login: bool = True  # whether `connect_timeout` ends a login too, not TCP's part alone
    login_timeout: float | None = None  # a limit on the login alone
    dns_cache: float = 0.0  # how long its runtime keeps the address of a name


@cache
def tcp_timers() -> tuple[KernelTimer, ...]:
    """Return every sysctl that affects a prediction."""
    return tuple(KernelTimer(**row) for row in table("timers.json")["kernel"])


def kernel_defaults() -> dict[str, int]:
    return {timer.name: timer.default for timer in tcp_timers()}


@cache
def drivers() -> Mapping[str, Driver]:
    rows: dict[str, dict[str, Any]] = table("timers.json")["drivers"]
    return MappingProxyType({name: Driver(name=name, **row) for name, row in rows.items()})


def driver(name: str) -> Driver:
    """Return a client; BadValue for an unknown name."""
    known = drivers()
    if name not in known:
        raise BadValue(f"unknown client {name!r}", f"Known clients: {', '.join(known)}.")
    return known[name]
