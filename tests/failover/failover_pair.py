"""A primary, its streaming standby, and an address in front of them that can be moved."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from conftest import NewCluster
from mrtuner.postgres.cluster import Cluster, scratch_directory
from servers import sql


class Address:
    """A TCP port that leads to a Unix socket, and can be led to another one, or to nowhere."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listening.getsockname()[1]
        self.leads_to: str | None = None
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def lead_to(self, cluster: Cluster | None) -> None:
        """New connections go there; those that are open stay where they are."""
        self.leads_to = None if cluster is None else socket_of(cluster)

    def cut(self) -> None:
        """Close whatever is open."""
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
    """Two servers that stream, and the address of the primary."""

    primary: Cluster
    standby: Cluster
    address: Address

    def promote(self) -> str:
        """A command that promotes the standby."""
        return f"{self.psql} -c 'SELECT pg_promote(wait => true)' '{self.standby.dsn()}'"

    @property
    def psql(self) -> Path:
        return self.standby.binaries.program("psql")


@contextmanager
def streaming_pair(new_cluster: NewCluster) -> Iterator[Pair]:
    """Ready: the standby has caught up."""
    primary = new_cluster()
    standby = Cluster(primary.binaries, scratch_directory(), primary.port, primary.user)
    done = primary.run("pg_basebackup", "-D", standby.data, "-R", "-c", "fast", "-d", primary.dsn())
    assert done.returncode == 0, done.stderr
    standby.configure({"unix_socket_directories": str(standby.directory)})
    address = Address()
    address.lead_to(primary)
    try:
        standby.start()
        assert sql(standby.dsn(), "SELECT pg_is_in_recovery()") == [(True,)]
        yield Pair(primary, standby, address)
    finally:
        address.close()
        standby.remove()
