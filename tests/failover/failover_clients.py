"""Real clients through real silent loss: run inside new user and network namespaces.

The server is a real PostgreSQL outside; a relay in the server's namespace leads to a Unix socket
that leads to the server's own, which is closed to our user there. Reads a JSON request from
stdin, writes the hangs [s] by client and case to stdout.
"""

from __future__ import annotations

import atexit
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
from importlib import import_module
from importlib.util import find_spec
from itertools import count
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


class Alchemy:
    """SQLAlchemy's engine out of the generated program."""

    def __init__(self, snippet: str) -> None:
        found = {"create_engine": import_module("sqlalchemy").create_engine}
        exec(snippet.replace("app@db/shop", f"postgres@{SERVER}/postgres"), found)
        self.engine: Any = found["engine"]

    def open(self) -> Any:
        return self.engine.connect()

    def ask(self, conn: Any, query: str) -> None:
        with suppress(import_module("sqlalchemy.exc").OperationalError):
            conn.exec_driver_sql(query)
            raise AssertionError("it was answered")

    def connect(self) -> None:
        """A new connection, not one of the pool's."""
        with suppress(psycopg.OperationalError):  # as the pool itself passes it on
            self.engine.pool.recreate().connect()
            raise AssertionError("it was answered")


class Django:
    """Django's database with the generated settings merged in."""

    def __init__(self, snippet: str) -> None:
        found: dict[str, Any] = {}
        exec(snippet, found)
        where = {"HOST": SERVER, "NAME": "postgres", "USER": "postgres"}
        databases = {"default": {**found["DATABASES"]["default"], **where}}
        import_module("django.conf").settings.configure(DATABASES=databases)
        self.connections = import_module("django.db").connections

    def open(self) -> Any:
        conn = self.connections.create_connection("default")
        conn.inc_thread_sharing()
        conn.ensure_connection()
        return conn

    def ask(self, conn: Any, query: str) -> None:
        with suppress(import_module("django.db").OperationalError), conn.cursor() as cursor:
            cursor.execute(query)
            raise AssertionError("it was answered")

    def connect(self) -> None:
        with suppress(import_module("django.db").OperationalError):
            self.open()
            raise AssertionError("it was answered")


class PgBouncer:
    """PgBouncer with the generated limits before a client that has none.

    It takes no root, so it runs as another user of a namespace within ours.
    """

    port = 6432

    def __init__(self, program: str, snippet: str) -> None:
        Path("pgbouncer.ini").write_text(
            f"[databases]\n* = host={SERVER} dbname=postgres user=postgres\n{snippet}"
            f"listen_addr = 127.0.0.1\nlisten_port = {self.port}\nauth_type = any\n"
            "unix_socket_dir =\n"
        )
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        self.child = subprocess.Popen(
            ["unshare", "--user", "--map-user=65534", "--", program, "-q", "pgbouncer.ini"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        atexit.register(self.child.kill)
        self.pools = count()

    def open(self) -> psycopg.Connection[Any]:
        """A client, and a server connection of its own behind it."""
        client = self._client()
        client.execute("SELECT 1")
        return client

    def _client(self) -> psycopg.Connection[Any]:
        pool = f"pool{next(self.pools)}"
        where = f"host=127.0.0.1 port={self.port} user=postgres dbname={pool}"
        return psycopg.connect(where, autocommit=True, prepare_threshold=None)

    def ask(self, client: psycopg.Connection[Any], query: str) -> None:
        with suppress(psycopg.OperationalError):
            client.execute(query)
            raise AssertionError("it was answered")

    def connect(self) -> None:
        """A pool that never had a server: the login waits for one. Others let clients in."""
        with suppress(psycopg.OperationalError):
            self._client()
            raise AssertionError("it was answered")


def main() -> None:
    request = json.load(sys.stdin)
    server = [sys.executable, __file__, "relay", request["socket"]]
    with Network(server) as network, ThreadPoolExecutor(40) as pool:
        _wait_for((SERVER, PORT))
        clients = dict(_clients(request))
        hangs = {name: dict(futures) for name, futures in _started(clients, network, pool)}
        found = {
            name: {case: future.result(60) for case, future in futures.items()}
            for name, futures in hangs.items()
        }
    json.dump(found, sys.stdout)


def _clients(request: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Those that are there."""
    texts = request["texts"]
    yield "psycopg", Psycopg(texts["psycopg"])
    for name, program in request["psql"].items():
        yield name, Psql(program, texts["libpq"])
    if find_spec("sqlalchemy"):
        yield "sqlalchemy", Alchemy(texts["sqlalchemy"])
    if find_spec("django"):
        yield "django", Django(texts["django"])
    if request["pgbouncer"]:
        yield "pgbouncer", PgBouncer(request["pgbouncer"], texts["pgbouncer"])
        _wait_for(("127.0.0.1", PgBouncer.port))


def _wait_for(address: tuple[str, int]) -> None:
    for _ in range(500):
        with suppress(OSError), socket.create_connection(address, 1):
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
