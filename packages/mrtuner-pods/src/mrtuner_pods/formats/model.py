"""What the formats of an application need to know about it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from mrtuner.errors import Refused
from mrtuner.wording import enumerated

#: Puma of any version.
PUMA: Final = ("puma", "puma-6")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The workload in a manifest that a patch applies to."""

    kind: str
    name: str
    namespace: str | None  # None: the manifest names none
    container: str
    autoscaler: str | None  # where an autoscaler sets the number of pods; None: no autoscaler
    in_command: bool  # workers or threads are options of its command
    workers_variable: str | None = None  # sets their number; None: the one its server reads
    threads_variable: str | None = None
    elsewhere: frozenset[str] = frozenset()  # variables whose values are in other objects


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """An application's pods, workers and threads, and the resources of each."""

    title: str  # the load, one line
    server: str  # gunicorn, gthread, unicorn, puma, puma-6, jvm
    pods: int
    workers: int  # in a pod
    threads: int  # of a worker
    pool: int  # connections of a worker
    cpu_request: float | None  # CPUs of a pod; None: unknown, as is the limit
    cpu_limit: float | None  # None: without one
    cpu_because: str
    memory: int | None  # bytes of a pod
    clients: int  # connections of all pods to a pooler, at most
    server_connections: int | None  # of the pooler to the database
    deployment: Deployment | None = None  # None: its manifest is not known

    def check_server(self, servers: Collection[str], format: str) -> None:
        """Raise Refused unless the plan is for one of these servers, which `format` configures."""
        if self.server not in servers:
            raise Refused(
                f"this plan is for {self.server}; {format} configures {enumerated(servers, 'or')}",
                f"Plan with --server {next(iter(servers))}.",
            )
