"""The inside of the self-test: run as root of a network namespace by `selftest.run`.

`python -m mrtuner.failover.selftest.stage` reads one batch of trials as JSON, and writes one
document.
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
from dataclasses import asdict
from pathlib import Path as File
from typing import Any, Final

from mrtuner.failover.namespaces import SERVER, Network, python
from mrtuner.failover.predict.kernel import local
from mrtuner.failover.predict.path import Path
from mrtuner.failover.predict.tcp_timers import hang
from mrtuner.failover.selftest.cases import Batch, SelftestTrial
from mrtuner.failover.selftest.peer import HELLO, PORT
from mrtuner.failover.sockets import options

#: How often each trial runs, and at what distance [s]: no multiple of the wheel's steps.
_TIMES: Final = 4
_APART: Final = 0.037


def main() -> None:
    """Set up, go silent, measure, write."""
    from mrtuner.documents import convert

    batch = convert(json.load(sys.stdin), Batch)
    for name, value in batch.sysctls.items():
        File("/proc/sys/net/ipv4", name).write_text(str(value))
    with Network(python("mrtuner.failover.selftest.peer")) as network:
        json.dump(_measured(network, batch), sys.stdout)


def _measured(network: Network, batch: Batch) -> dict[str, Any]:
    kernel, trials = local(), batch.trials
    opened = [(each, [_opened(each) for _ in range(_TIMES)]) for each in trials if each.case > 1]
    seen = options(opened[0][1][0].fileno())
    path = Path(rtt=seen.rtt, rto=seen.rto)
    with ThreadPoolExecutor(_TIMES * len(trials)) as pool:
        waits = list(_started(pool, network, opened, trials))
        rows = [
            {
                "case": each.case,
                "setting": each.setting,
                "predicted": asdict(hang(each.trace(kernel, path), kernel)),
                "measured": [future.result(batch.limit) for future in futures],
            }
            for each, futures in sorted(waits, key=lambda wait: wait[0].case)
        ]
    return {"release": platform.release(), "hz": kernel.hz, "rto": seen.rto, "trials": rows}


def _started(
    pool: ThreadPoolExecutor,
    network: Network,
    opened: list[tuple[SelftestTrial, list[socket.socket]]],
    trials: tuple[SelftestTrial, ...],
) -> Iterator[tuple[SelftestTrial, list[Future[float]]]]:
    """Send the queries to be acknowledged first, then go silent, then send the others."""
    yield from _all_asked(pool, opened, case=3)
    time.sleep(_TIMES * _APART + 0.1)  # all acknowledged: a round trip takes some 0.1 ms here
    network.silence()
    yield from _all_asked(pool, opened, case=2)
    for each in trials:
        if each.case == 1:
            places = range(_TIMES)
            yield each, [pool.submit(_connected, each, place * _APART) for place in places]


def _all_asked(
    pool: ThreadPoolExecutor,
    opened: list[tuple[SelftestTrial, list[socket.socket]]],
    *,
    case: int,
) -> Iterator[tuple[SelftestTrial, list[Future[float]]]]:
    for each, socks in opened:
        if each.case == case:
            phases = enumerate(socks)
            yield each, [pool.submit(_asked, sock, place * _APART) for place, sock in phases]


def _opened(one: SelftestTrial) -> socket.socket:
    """Open a connection, and prove that it is open."""
    sock = _socket(one)
    for _ in range(200):
        try:
            sock.connect((SERVER, PORT))
            break
        except ConnectionRefusedError:  # the server is not up yet
            sock.close()
            time.sleep(0.02)
            sock = _socket(one)
    sock.sendall(HELLO)
    sock.recv(1)
    return sock


def _socket(one: SelftestTrial) -> socket.socket:
    sock = socket.socket()
    if one.user_timeout:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, one.user_timeout)
    if one.keepalive:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, one.keepalive.idle)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, one.keepalive.interval)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, one.keepalive.count)
    return sock


def _asked(sock: socket.socket, after: float = 0.0) -> float:
    """Return how long a query on an open connection hangs [s]."""
    time.sleep(after)
    with sock:
        began = time.monotonic()
        sock.sendall(b"query")
        return _timed_out(began, lambda: sock.recv(1))


def _connected(one: SelftestTrial, after: float) -> float:
    """Return how long a new connection hangs [s]."""
    time.sleep(after)
    with _socket(one) as sock:
        began = time.monotonic()
        return _timed_out(began, lambda: sock.connect((SERVER, PORT)))


def _timed_out(began: float, call: Callable[[], object]) -> float:
    try:
        call()
    except OSError as error:
        if error.errno == errno.ETIMEDOUT:
            return time.monotonic() - began
        raise
    raise ConnectionError("something answered through a network that drops everything")


if __name__ == "__main__":
    main()
