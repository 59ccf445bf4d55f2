"""Real clients through real silent loss: run inside new user and network namespaces.

The server is a real PostgreSQL outside; a relay in the server's namespace leads to a Unix socket
that leads to the server's own, which is closed to our user there. Reads a JSON request from
stdin, writes the hangs [s] by client and case to stdout.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg

from mrtuner.failover.namespaces import SERVER, Network

PORT = 5432
ENDLESS = "SELECT pg_sleep(60)"


def relay(path: str) -> None:
    """Lead TCP connections to a Unix socket until stdin ends."""
    lead(socket.create_server(("", PORT)), path)
    sys.stdin.read()
    os._exit(0)


def lead(listening: socket.socket, path: str) -> None:
    """Lead connections to a Unix socket, in threads, until the listening socket is shut down."""
    threading.Thread(target=_accept, args=(listening, path), daemon=True).start()


def _accept(listening: socket.socket, path: str) -> None:
    with listening, suppress(OSError):
        while True:
            client, _ = listening.accept()
            server = socket.socket(socket.AF_UNIX)
            server.connect(path)
            threading.Thread(target=_copy, args=(client, server), daemon=True).start()


def _copy(*ends: socket.socket) -> None:
    """Both ways, until one end is closed."""
    other = dict(zip(ends, reversed(ends), strict=True))
    with selectors.DefaultSelector() as selector, suppress(OSError), ends[0], ends[1]:
        for end in ends:
            selector.register(end, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                assert isinstance(key.fileobj, socket.socket)
                data = key.fileobj.recv(65536)
                if not data:
                    return
                other[key.fileobj].sendall(data)


class Psql:
    """libpq itself, through psql and the generated service file."""

    def __init__(self, program: str, service: str) -> None:
        self.program = program
        Path("pg_service.conf").write_text(service)
        self.environment = {**os.environ, "PGSERVICEFILE": str(Path("pg_service.conf").resolve())}

    def start(self) -> subprocess.Popen[str]:
        dsn = f"service=failover host={SERVER} dbname=postgres user=postgres"
        return subprocess.Popen(
            [self.program, "-XAtq", dsn],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=self.environment,
        )  # fmt: skip

    def open(self) -> subprocess.Popen[str]:
        child = self.start()
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write("SELECT 1;\n")
        child.stdin.flush()
        assert child.stdout.readline() == "1\n"
        return child

    def ask(self, child: subprocess.Popen[str], query: str) -> None:
        """Return when psql gives up: it ends when it lost its connection."""
        assert child.stdin is not None
        child.stdin.write(query + ";\n")
        child.stdin.flush()
        assert child.wait(60) == 2

    def connect(self) -> None:
        child = self.start()
        assert child.wait(60) == 2


class Psycopg:
    """psycopg with the generated keyword arguments."""

    def __init__(self, snippet: str) -> None:
        found: dict[str, Any] = {}
        exec(snippet, found)
        self.settings: Mapping[str, Any] = found["FAILOVER"]

    def open(self) -> psycopg.Connection[Any]:
        return psycopg.connect(
            host=SERVER, dbname="postgres", user="postgres", autocommit=True, **self.settings
        )

    def ask(self, conn: psycopg.Connection[Any], query: str) -> None:
        with suppress(psycopg.OperationalError):
            conn.execute(query)
            raise AssertionError("it was answered")

    def connect(self) -> None:
        with suppress(psycopg.OperationalError):
            self.open()
            raise AssertionError("it was answered")


def main() -> None:
    request = json.load(sys.stdin)
    clients: dict[str, Any] = {"psycopg": Psycopg(request["psycopg"])}
    for name, program in request["psql"].items():
        clients[name] = Psql(program, request["libpq"])
    server = [sys.executable, __file__, "relay", request["socket"]]
    with Network(server) as network, ThreadPoolExecutor(20) as pool:
        _wait_for_the_server()
        hangs = {name: dict(futures) for name, futures in _started(clients, network, pool)}
        found = {
            name: {case: future.result(60) for case, future in futures.items()}
            for name, futures in hangs.items()
        }
    json.dump(found, sys.stdout)


def _wait_for_the_server() -> None:
    for _ in range(500):
        with suppress(OSError), socket.create_connection((SERVER, PORT), 1):
            return
        time.sleep(0.02)


def _started(
    clients: Mapping[str, Any], network: Network, pool: ThreadPoolExecutor
) -> Iterator[tuple[str, list[tuple[str, Future[float]]]]]:
    idle = {name: client.open() for name, client in clients.items()}
    busy = {name: client.open() for name, client in clients.items()}
    flight = {
        name: pool.submit(_timed, client.ask, busy[name], ENDLESS)
        for name, client in clients.items()
    }
    time.sleep(0.2)
    network.silence()
    for name, client in clients.items():
        yield (
            name,
            [
                ("connect", pool.submit(_timed, client.connect)),
                ("idle", pool.submit(_timed, client.ask, idle[name], "SELECT 1")),
                ("flight", flight[name]),
            ],
        )


def _timed(call: Callable[..., None], *arguments: Any) -> float:
    began = time.monotonic()
    call(*arguments)
    return time.monotonic() - began


if __name__ == "__main__":
    if sys.argv[1:2] == ["relay"]:
        relay(sys.argv[2])
    else:
        main()
