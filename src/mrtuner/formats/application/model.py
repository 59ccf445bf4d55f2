"""What the formats of an application need to know of it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from mrtuner.errors import Refused
from mrtuner.wording import enumerated


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """Pods of workers of threads, and what each of them gets."""

    title: str  # the load, one line
    server: str  # gunicorn, gthread, unicorn, puma, jvm
    pods: int
    workers: int  # in a pod
    threads: int  # of a worker
    pool: int  # connections of a worker
    cpu_request: float  # CPUs of a pod
    cpu_limit: float | None
    cpu_because: str
    memory: int | None  # bytes of a pod
    clients: int  # connections of all pods to a pooler, at most
    server_connections: int | None  # of the pooler to the database

    def check_server(self, servers: Collection[str], format: str) -> None:
        """Raise Refused for the configuration of another server than was planned for."""
        if self.server not in servers:
            raise Refused(
                f"this plan is for {self.server}; {format} configures {enumerated(servers, 'or')}",
                f"Plan with --server {next(iter(servers))}.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationFormat:
    """A way to write an application's settings."""

    name: str
    summary: str
    write: Callable[[Application], str]
