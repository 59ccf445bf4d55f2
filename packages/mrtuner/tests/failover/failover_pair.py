"""A primary, its streaming standby, and an address in front of them that can be moved."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conftest import NewCluster

from machine import program
from mrtuner.postgres.cluster import Cluster, free_port
from mrtuner.postgres.server_user import scratch_directory, server_user
from servers import sql, standby_of


class Address:
    """A TCP port that forwards to a Unix socket; the target can be changed, or removed."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listening.getsockname()[1]
        self.leads_to: str | None = None
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def lead_to(self, cluster: Cluster | None) -> None:
        """Forward new connections to this cluster; open ones stay where they are."""
        self.leads_to = None if cluster is None else socket_of(cluster)

    def cut(self) -> None:
        """Close all open connections."""
        for end in list(self._open):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):
            self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        self.cut()

    def dsn(self, more: str = "") -> str:
        return f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres {more}"

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        ends = {client: server, server: client}
        with client, server, selectors.DefaultSelector() as selector, suppress(OSError):
            server.connect(self.leads_to or "/nowhere")
            self._open |= set(ends)
            try:
                for end in ends:
                    selector.register(end, selectors.EVENT_READ)
                while True:
                    for key, _ in selector.select():
                        end = next(one for one in ends if one is key.fileobj)
                        data = end.recv(65536)
                        if not data:
                            return
                        ends[end].sendall(data)
            finally:
                self._open -= set(ends)


def socket_of(cluster: Cluster) -> str:
    return str(cluster.directory / f".s.PGSQL.{cluster.port}")


@dataclass(frozen=True)
class Pair:
    """A primary, its streaming standby, and the primary's address."""

    primary: Cluster
    standby: Cluster
    address: Address

    def promote(self) -> str:
        """A command that promotes the standby."""
        return f"{self.psql} -c 'SELECT pg_promote(wait => true)' '{self.standby.dsn()}'"

    def move_when_promoted(self) -> None:
        """Move the address to the standby as soon as it is a primary."""
        while sql(self.standby.dsn(), "SELECT pg_is_in_recovery()") == [(True,)]:
            time.sleep(0.05)
        self.address.lead_to(self.standby)

    def thaw(self) -> None:
        """Resume every stopped process of the primary, so that it can be ended."""
        found = subprocess.run(
            [program("ps"), "-o", "pid=", "--ppid", str(self.primary.pid)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        for pid in [*map(int, found.stdout.split()), self.primary.pid]:
            with suppress(ProcessLookupError, TypeError):
                os.kill(pid, signal.SIGCONT)  # type: ignore[arg-type]  # None: it is gone

    @property
    def psql(self) -> Path:
        return self.standby.binaries.program("psql")


@contextmanager
def streaming_pair(new_cluster: NewCluster) -> Iterator[Pair]:
    """A running pair inside the block; the standby is in recovery."""
    primary = new_cluster()
    with standby_of(primary) as standby, closing(Address()) as address:
        address.lead_to(primary)
        assert sql(standby.dsn(), "SELECT pg_is_in_recovery()") == [(True,)]
        yield Pair(primary, standby, address)


class PgBouncer:
    """PgBouncer in transaction mode in front of a cluster, run as a user other than root."""

    def __init__(self, cluster: Cluster) -> None:
        self.directory = scratch_directory()
        self.port = free_port()
        configuration = self.directory / "pgbouncer.ini"
        configuration.write_text(
            f"[databases]\n* = host={cluster.directory} port={cluster.port} user=postgres\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.port}\nauth_type = any\n"
            "pool_mode = transaction\nunix_socket_dir =\nserver_login_retry = 1\n",
            encoding="utf-8",
        )
        configuration.chmod(0o644)
        user = server_user()
        who: dict[str, Any] = {"user": user.uid, "group": user.gid} if user else {}
        self.child = subprocess.Popen(
            [program("pgbouncer"), "-q", configuration], cwd="/",
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **who,
        )  # fmt: skip

    def __enter__(self) -> PgBouncer:
        for _ in range(200):
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return self
            time.sleep(0.05)
        raise AssertionError("pgbouncer does not listen")

    def __exit__(self, *_: object) -> None:
        self.child.terminate()
        self.child.wait()
        shutil.rmtree(self.directory)

    def dsn(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres"
