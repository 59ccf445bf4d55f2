"""The options and timers of a live TCP connection, according to its own kernel."""

from __future__ import annotations

import os
import socket
import struct
from dataclasses import dataclass
from typing import Final

from mrtuner.errors import MissingPart

#: Offsets of u32 fields in struct tcp_info. Source: linux/tcp.h.
_RTO: Final = 8
_RTT: Final = 68
_INFO: Final = 104
_US: Final = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options in force on one socket."""

    keepalives: bool
    idle: int  # s
    interval: int  # s
    count: int
    user_timeout: int  # ms; 0: none
    rto: float  # s, before any backoff if the connection is at rest
    rtt: float  # s, smoothed


def options(fd: int) -> Options:
    """Read the options, leaving the descriptor open. MissingPart if the system is not Linux."""
    if not hasattr(socket, "TCP_USER_TIMEOUT"):
        raise MissingPart("socket options can be read on Linux only", "Run it on the client.")
    with socket.socket(fileno=os.dup(fd)) as copy:
        return _read(copy)


def _read(sock: socket.socket) -> Options:
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO)
    return Options(
        keepalives=bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)),
        idle=sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
        interval=sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL),
        count=sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT),
        user_timeout=sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT),
        rto=_field(info, _RTO) / _US,
        rtt=_field(info, _RTT) / _US,
    )


def _field(info: bytes, offset: int) -> int:
    value: int = struct.unpack_from("=I", info, offset)[0]
    return value
