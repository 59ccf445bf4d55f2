"""A server far away that vanishes: real TCP over two TUN devices and a relay that adds delay.

Run inside new user and network namespaces (`namespaces.enter`). Reads a JSON request from stdin:
the round trip, sysctls of the client, and clients with what they do before and after the silence.
Writes how long each hung [s], with its socket's round trip and timeout before the request.

Only the namespaces come from the code under test, and the far end, which answers `?` with `?`.

    client 10.78.0.1 ── far0 ~ relay ~ far1 ── 10.78.0.2 server
"""

from __future__ import annotations

import fcntl
import heapq
import json
import os
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from mrtuner.failover.namespaces import enter

CLIENT, SERVER, PORT = "10.78.0.1", "10.78.0.2", 5432
#: From linux/if_tun.h.
_TUNSETIFF, _TUN, _NO_PI = 0x400454CA, 0x0001, 0x1000
#: Interval between clients of one kind [s]: no multiple of the timer wheel's steps.
_APART = 0.037


def command() -> list[str]:
    """The command line of this program, with real-time priority where that is allowed."""
    from machine import find

    first = ["chrt", "--fifo", "1"]
    allowed = find("chrt") and subprocess.run([*first, "true"], check=False).returncode == 0
    return [*(first if allowed else []), *enter([sys.executable, __file__])]


def tun(name: str) -> int:
    """A TUN device: its descriptor reads and writes IP packets."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _TUN | _NO_PI))
    return device


def relay(delay: float, client: str, server: str) -> None:
    """Pass packets on with half a round trip of delay; after a line on stdin, drop them all."""
    ends = (tun("far0"), tun("far1"))
    for name, place in (("far0", client), ("far1", server)):
        subprocess.run(["ip", "link", "set", name, "netns", place], check=True)
    print("ready", flush=True)
    other, number = {ends[0]: ends[1], ends[1]: ends[0]}, count()
    waiting: list[tuple[float, int, int, bytes]] = []
    silent = False
    while True:
        left = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        ready, _, _ = select.select([*ends, sys.stdin.fileno()], [], [], left)
        for end in ready:
            if end not in other:
                if not os.read(end, 64):
                    return
                silent = True
                waiting.clear()
                print("silent", flush=True)
                continue
            packet = os.read(end, 65536)
            if not silent:
                heapq.heappush(
                    waiting, (time.monotonic() + delay, next(number), other[end], packet)
                )
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, end, packet = heapq.heappop(waiting)
            with suppress(OSError):  # the kernel sends packets before both ends are up
                os.write(end, packet)


@contextmanager
def network(rtt: float) -> Iterator[subprocess.Popen[str]]:
    """Both ends, connected by the relay; writing to its stdin silences it."""
    peer = [sys.executable, "-m", "mrtuner.failover.selftest.peer"]
    with ExitStack() as stack:
        server = stack.enter_context(_apart(peer, stdout=subprocess.DEVNULL))
        _wait_apart(server.pid)
        between = [sys.executable, __file__, "relay", str(rtt / 2), str(os.getpid()),
                   str(server.pid)]  # fmt: skip
        middle = stack.enter_context(_apart(between, stdout=subprocess.PIPE))
        assert middle.stdout is not None
        assert middle.stdout.readline() == "ready\n"
        into = ["nsenter", "--target", str(server.pid), "--net", "--"]
        for prefix, name, at in (([], "far0", CLIENT), (into, "far1", SERVER)):
            for words in (["address", "add", f"{at}/24", "dev", name], ["link", "set", name, "up"]):
                subprocess.run([*prefix, "ip", *words], check=True)
        yield middle


@contextmanager
def _apart(command: Sequence[str], **more: Any) -> Iterator[subprocess.Popen[str]]:
    """A process in a network namespace of its own; it ends with its stdin, or with the block."""
    with subprocess.Popen(
        ["unshare", "--net", "--", *command], stdin=subprocess.PIPE, text=True, **more
    ) as child:
        try:
            yield child
        finally:
            child.kill()


def _wait_apart(pid: int) -> None:
    ours = os.readlink("/proc/self/ns/net")  # noqa: PTH115
    for _ in range(500):
        if os.readlink(f"/proc/{pid}/ns/net") != ours:  # noqa: PTH115
            return
        time.sleep(0.01)


def connected(one: Mapping[str, Any]) -> socket.socket:
    """A connection after `exchanges` requests and answers, by default four."""
    sock = _socket(one)
    for _ in range(200):
        try:
            sock.connect((SERVER, PORT))
            break
        except OSError:
            sock.close()
            time.sleep(0.05)
            sock = _socket(one)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(one.get("exchanges", 4)):
        sock.sendall(b"?")
        assert sock.recv(1) == b"?"
    return sock


def _socket(one: Mapping[str, Any]) -> socket.socket:
    sock = socket.socket()
    if one.get("user_timeout"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, one["user_timeout"])
    if one.get("keepalive"):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        for option, value in zip(options, one["keepalive"], strict=True):
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
    return sock


def hung(one: Mapping[str, Any], sock: socket.socket, after: float) -> dict[str, float]:
    """How long a request hangs, and the socket's timeout and round trip before it."""
    time.sleep(after)
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    rto, rtt = (struct.unpack_from("=I", info, offset)[0] / 1e6 for offset in (8, 68))
    began = time.monotonic()
    try:
        sock.sendall(b"q" * one.get("size", 5))
        sock.recv(1)
    except OSError as error:
        return {"hang": time.monotonic() - began, "rto": rto, "rtt": rtt, "errno": error.errno or 0}
    raise AssertionError("somebody answered")


def _wait_acknowledged(one: Mapping[str, Any], sock: socket.socket) -> None:
    """Wait until the far end has acknowledged all that was sent, including the SYN."""
    sent = 1 + one.get("exchanges", 4) + one.get("size", 5)
    for _ in range(2000):
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 128)
        if struct.unpack_from("=Q", info, 120)[0] == sent:  # tcpi_bytes_acked
            return
        time.sleep(0.005)
    raise AssertionError("not all was acknowledged")


def main() -> None:
    request = json.load(sys.stdin)
    for name, value in request["sysctls"].items():
        Path("/proc/sys/net/ipv4", name).write_text(str(value))
    clients = request["clients"]
    with network(request["rtt"]) as middle, ThreadPoolExecutor(len(clients)) as pool:
        socks = list(pool.map(connected, clients))
        waits = {}
        for place, (one, sock) in enumerate(zip(clients, socks, strict=True)):
            if one["case"] == "flight":
                waits[place] = pool.submit(hung, one, sock, 0.0)
        for place in waits:
            _wait_acknowledged(clients[place], socks[place])
        assert middle.stdin is not None
        assert middle.stdout is not None
        middle.stdin.write("silence\n")
        middle.stdin.flush()
        assert middle.stdout.readline() == "silent\n"
        for place, (one, sock) in enumerate(zip(clients, socks, strict=True)):
            if one["case"] == "idle":
                waits[place] = pool.submit(partial(hung, one, sock, place * _APART))
        found = [{**clients[place], **waits[place].result()} for place in sorted(waits)]
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    if sys.argv[1:2] == ["relay"]:
        relay(float(sys.argv[2]), sys.argv[3], sys.argv[4])
    else:
        main()
