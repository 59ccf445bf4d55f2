"""What is compared with a kernel: client settings, each in one of the first three cases.

A batch shares the sysctls of one client's network namespace. SHORT takes seconds; the batches of
WHOLE run in parallel, and take as long as the longest hang in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mrtuner.failover.predict.kernel import Kernel
from mrtuner.failover.predict.path import Path
from mrtuner.failover.predict.tcp_timers import (
    Connecting,
    Keepalive,
    Trace,
    Unacknowledged,
    Waiting,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelftestTrial:
    """One setting in one case."""

    case: int
    setting: str
    user_timeout: int = 0  # ms
    keepalive: Keepalive | None = None

    def trace(self, kernel: Kernel, path: Path) -> Trace:
        if self.case == 1:
            return Connecting(kernel=kernel, user_timeout=self.user_timeout)
        if self.case == 3 and self.keepalive is not None:
            return Waiting(
                kernel=kernel, keepalive=self.keepalive, user_timeout=self.user_timeout,
                path=path,
            )  # fmt: skip
        return Unacknowledged(
            kernel=kernel, path=path, user_timeout=self.user_timeout, several=False
        )  # the stage sends one segment


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Trials that share a client's kernel settings; `limit` [s] is longer than any hang in it."""

    trials: tuple[SelftestTrial, ...]
    sysctls: Mapping[str, int] = field(default_factory=dict)  # under net.ipv4
    limit: float = 60.0


def _syn(setting: str, user_timeout: int = 0) -> SelftestTrial:
    return SelftestTrial(case=1, setting=setting, user_timeout=user_timeout)


def _data(setting: str, user_timeout: int = 0) -> SelftestTrial:
    return SelftestTrial(case=2, setting=setting, user_timeout=user_timeout)


def _answer(idle: int, interval: int, count: int, user_timeout: int = 0) -> SelftestTrial:
    text = f"keepalive {idle}/{interval}/{count}"
    if user_timeout:
        text += f", tcp_user_timeout {user_timeout / 1000:g} s"
    keepalive = Keepalive(idle=idle, interval=interval, count=count)
    return SelftestTrial(case=3, setting=text, keepalive=keepalive, user_timeout=user_timeout)


#: Takes 3 s for a SYN, 6.7 s for data at HZ 250.
SHORT: Final = Batch(
    sysctls={"tcp_syn_retries": 1, "tcp_retries2": 3},
    trials=(
        _syn("tcp_syn_retries=1"),
        _syn("tcp_user_timeout 2 s", 2000),
        _data("tcp_retries2=3"),
        _data("tcp_user_timeout 1 s", 1000),
        _answer(1, 1, 3),
        _answer(1, 1, 3, 2500),
    ),
)

WHOLE: Final = (
    Batch(
        trials=(
            *(_syn(f"tcp_user_timeout {each} s", each * 1000) for each in (2, 5, 10)),
            *(_data(f"tcp_user_timeout {each} s", each * 1000) for each in (1, 5, 10, 30)),
            _answer(5, 2, 3), _answer(10, 3, 3), _answer(30, 3, 5),
            *(_answer(5, 2, 3, each) for each in (1000, 8000, 30_000)),
        ),
    ),
    Batch(
        sysctls={"tcp_syn_retries": 1, "tcp_retries2": 3},
        trials=(_syn("tcp_syn_retries=1"), _data("tcp_retries2=3")),
    ),
    Batch(
        sysctls={"tcp_syn_retries": 2, "tcp_retries2": 4},
        trials=(_syn("tcp_syn_retries=2"), _data("tcp_retries2=4")),
    ),
    Batch(
        sysctls={"tcp_syn_retries": 3, "tcp_retries2": 5},
        trials=(_syn("tcp_syn_retries=3"), _data("tcp_retries2=5")),
    ),
    Batch(
        sysctls={"tcp_syn_retries": 1, "tcp_syn_linear_timeouts": 0, "tcp_retries2": 6},
        trials=(
            _syn("tcp_syn_retries=1, tcp_syn_linear_timeouts=0"),
            _data("tcp_retries2=6"),
            SelftestTrial(case=2, setting="tcp_retries2=6, keepalive 5/2/3",
                 keepalive=Keepalive(idle=5, interval=2, count=3)),
        ),
    ),
    Batch(
        sysctls={"tcp_syn_retries": 2, "tcp_syn_linear_timeouts": 0, "tcp_retries2": 5,
                 "tcp_early_retrans": 0},
        trials=(_syn("tcp_syn_retries=2, tcp_syn_linear_timeouts=0"),
               _data("tcp_retries2=5, tcp_early_retrans=0")),
    ),
    Batch(
        sysctls={"tcp_syn_retries": 3, "tcp_syn_linear_timeouts": 0, "tcp_retries2": 5,
                 "tcp_rto_min_us": 195_000},
        trials=(_syn("tcp_syn_retries=3, tcp_syn_linear_timeouts=0"),
               _data("tcp_retries2=5, tcp_rto_min_us=195000")),
    ),
    Batch(
        sysctls={"tcp_retries2": 5, "tcp_rto_min_us": 300_000},
        trials=(_data("tcp_retries2=5, tcp_rto_min_us=300000"),),
    ),
    Batch(
        sysctls={"tcp_retries2": 15, "tcp_rto_max_ms": 1000},
        trials=(_data("tcp_retries2=15, tcp_rto_max_ms=1000"),),
    ),
    Batch(
        sysctls={"tcp_retries2": 8}, trials=(_data("tcp_retries2=8"),), limit=150.0,
    ),
)  # fmt: skip
