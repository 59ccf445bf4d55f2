"""The inside of the self-test: run as root of a network namespace by `selftest.run`.

`python -m mrtuner.failover.stage` writes one JSON document.
"""

from __future__ import annotations

import errno
import json
import platform
import socket
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any, Final

from mrtuner.failover.kernel import Kernel, local
from mrtuner.failover.namespaces import SERVER, Network, python
from mrtuner.failover.peer import HELLO, PORT
from mrtuner.failover.sockets import options
from mrtuner.failover.traces import (
    Connecting,
    Keepalive,
    Path,
    Trace,
    Unacknowledged,
    Waiting,
    hang,
)

#: Short, so that it takes seconds: 3 s for a SYN, 6.7 s for data at HZ 250.
_SYSCTLS: Final = {"tcp_syn_retries": 1, "tcp_retries2": 3}
#: How often each trial runs, and how far apart [s]: no multiple of the wheel's steps.
_TIMES: Final = 4
_APART: Final = 0.037
_LIMIT: Final = 45.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One setting of one case."""

    case: int
    setting: str
    user_timeout: int = 0  # ms
    keepalive: Keepalive | None = None

    def trace(self, kernel: Kernel, path: Path) -> Trace:
        """What is expected."""
        if self.case == 1:
            return Connecting(kernel=kernel, user_timeout=self.user_timeout)
        if self.keepalive is None:
            return Unacknowledged(kernel=kernel, path=path, user_timeout=self.user_timeout)
        return Waiting(kernel=kernel, keepalive=self.keepalive, user_timeout=self.user_timeout)


_FAST: Final = Keepalive(idle=1, interval=1, count=3)
PLANS: Final = (
    Plan(case=1, setting="tcp_syn_retries=1"),
    Plan(case=1, setting="tcp_user_timeout 2 s", user_timeout=2000),
    Plan(case=2, setting="tcp_retries2=3"),
    Plan(case=2, setting="tcp_user_timeout 1 s", user_timeout=1000),
    Plan(case=3, setting="keepalive 1/1/3", keepalive=_FAST),
    Plan(case=3, setting="keepalive 1/1/3, tcp_user_timeout 2.5 s", keepalive=_FAST,
         user_timeout=2500),
)  # fmt: skip


def main() -> None:
    """Set up, go silent, measure, write."""
    for name, value in _SYSCTLS.items():
        File("/proc/sys/net/ipv4", name).write_text(str(value))
    with Network(python("mrtuner.failover.peer")) as network:
        json.dump(_measured(network), sys.stdout)


def _measured(network: Network) -> dict[str, Any]:
    kernel = local()
    opened = [(plan, [_opened(plan) for _ in range(_TIMES)]) for plan in PLANS if plan.case > 1]
    seen = options(opened[0][1][0].fileno())
    path = Path(rtt=seen.rtt, rto=seen.rto)
    with ThreadPoolExecutor(_TIMES * len(PLANS)) as pool:
        waits = list(_started(pool, network, opened))
        rows = [
            {
                "case": plan.case,
                "setting": plan.setting,
                "predicted": hang(plan.trace(kernel, path), kernel).to_dict(),
                "measured": [future.result(_LIMIT) for future in futures],
            }
            for plan, futures in sorted(waits, key=lambda each: each[0].case)
        ]
    return {"release": platform.release(), "hz": kernel.hz, "rto": seen.rto, "trials": rows}


def _started(
    pool: ThreadPoolExecutor, network: Network, opened: list[tuple[Plan, list[socket.socket]]]
) -> Iterator[tuple[Plan, list[Future[float]]]]:
    """Questions that are to be acknowledged go out first, then silence, then the others."""
    answers = [(plan, socks) for plan, socks in opened if plan.case == 3]
    for plan, socks in answers:
        yield plan, [pool.submit(_asked, sock) for sock in socks]
    time.sleep(0.1)  # all acknowledged: a round trip takes some 0.1 ms here
    network.silence()
    for plan, socks in opened:
        if plan.case == 2:
            yield (
                plan,
                [pool.submit(_asked, sock, place * _APART) for place, sock in enumerate(socks)],
            )
    for plan in PLANS:
        if plan.case == 1:
            yield plan, [pool.submit(_connected, plan, place * _APART) for place in range(_TIMES)]


def _opened(plan: Plan) -> socket.socket:
    """A connection proven open."""
    sock = _socket(plan)
    for _ in range(200):
        try:
            sock.connect((SERVER, PORT))
            break
        except ConnectionRefusedError:  # the server is not up yet
            sock.close()
            time.sleep(0.02)
            sock = _socket(plan)
    sock.sendall(HELLO)
    sock.recv(1)
    return sock


def _socket(plan: Plan) -> socket.socket:
    sock = socket.socket()
    if plan.user_timeout:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, plan.user_timeout)
    if plan.keepalive:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, plan.keepalive.idle)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, plan.keepalive.interval)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, plan.keepalive.count)
    return sock


def _asked(sock: socket.socket, after: float = 0.0) -> float:
    """How long a question on an open connection hangs [s]."""
    time.sleep(after)
    with sock:
        began = time.monotonic()
        sock.sendall(b"query")
        return _timed_out(began, lambda: sock.recv(1))


def _connected(plan: Plan, after: float) -> float:
    """How long a new connection hangs [s]."""
    time.sleep(after)
    with _socket(plan) as sock:
        began = time.monotonic()
        return _timed_out(began, lambda: sock.connect((SERVER, PORT)))


def _timed_out(began: float, call: Callable[[], object]) -> float:
    try:
        call()
    except OSError as error:
        if error.errno == errno.ETIMEDOUT:
            return time.monotonic() - began
        raise
    raise ConnectionError("somebody answered through a network that drops everything")


if __name__ == "__main__":
    main()
