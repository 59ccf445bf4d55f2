"""pg8000. Its one timeout covers everything; a socket of our own separates login and answers."""

from __future__ import annotations

from mrtuner.failover.settings.bounds import Bounds
from mrtuner.failover.settings.stacks.python import options
from mrtuner.failover.settings.stacks.stack import Stack


def write(limits: Bounds) -> str:
    """A function that connects."""
    note = "the limit on each answer" if limits.read_timeout else "no limit on answers"
    return f"""\
import socket

import pg8000.dbapi

{options(limits)}

def connect(host, port=5432, **login):
    sock = socket.create_connection((host, port), timeout={limits.connect_timeout})
    for option in OPTIONS:
        sock.setsockopt(*option)
    conn = pg8000.dbapi.connect(host=host, sock=sock, **login)  # covers the login too
    conn._usock.settimeout({limits.read_timeout})  # {note}; with TLS it is another socket
    return conn


# After a network error, close the connection: pg8000 does not mark it as broken.
"""


STACK = Stack(
    name="pg8000", title="pg8000", file="your program", write=write,
    sets_socket=True, read_timeout=True, read_write=False,
    verified="verified with pg8000 1.31.6",
)  # fmt: skip
