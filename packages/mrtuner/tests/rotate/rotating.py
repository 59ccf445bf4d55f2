"""A server that asks for passwords, and what an application and the command do with it."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Self

import servers
from mrtuner import rotate as face
from mrtuner.postgres.cluster import Cluster
from mrtuner.rotate import Patience, RotationResult
from servers import sql

ADMIN = "correct horse battery staple"
IMPATIENT = Patience(wait=0.5, quiet=0.2)


def running(
    settings: Mapping[str, str | int | float] | None = None, major: int = 18
) -> AbstractContextManager[Cluster]:
    """A server that asks for passwords over TCP; from 16 on, logins cost a client little CPU."""
    cheap = {"scram_iterations": 64} if major >= 16 else {}
    return servers.running(major, {**cheap, **(settings or {})}, listen=True, password=ADMIN)


def admin(server: Cluster) -> str:
    return f"{server.dsn(tcp=True)} password='{ADMIN}'"


def login(secret: Path) -> str:
    """The connection string of an application that has read its secret."""
    found = json.loads(secret.read_text())
    names = {"host": "host", "port": "port", "dbname": "dbname", "user": "username"}
    parts = {**{key: found[name] for key, name in names.items()}, "password": found["password"]}
    return " ".join(f"{key}='{value}'" for key, value in parts.items())


class Applications:
    """Threads that run `work` until the block ends, which sets `over`."""

    def __init__(self, number: int) -> None:
        self.over = threading.Event()
        self.failures: list[str] = []
        self.threads = [threading.Thread(target=self.work, args=(n,)) for n in range(number)]

    def work(self, number: int) -> None:
        """What one of them does."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join()


def rotate(
    dsn: str, group: str, secret: Path, patience: Patience = IMPATIENT, state: Path | None = None
) -> RotationResult:
    """A rotation into a file, with its journal beside it."""
    journal = state or secret.parent / "state"
    return face.rotate(dsn, group, to=f"file:{secret}", patience=patience, journal=journal)


def may_login(server: Cluster, group: str) -> set[str]:
    rows = sql(
        server.dsn(), f"SELECT rolname FROM pg_roles WHERE rolcanlogin AND rolname ^@ '{group}'"
    )
    return {name for (name,) in rows}


def unused(name: str) -> str:
    """Return a group's name that no earlier try of the same test has used."""
    return f"{name}_{secrets.token_hex(3)}"
