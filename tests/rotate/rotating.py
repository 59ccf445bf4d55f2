"""A server that asks for passwords, and what an application and the command do with it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from mrtuner.postgres.cluster import Cluster, scratch_directory
from mrtuner.postgres.connect import connect
from mrtuner.rotate.book import Book
from mrtuner.rotate.model import Group
from mrtuner.rotate.rotation import Outcome, Patience, Rotator
from mrtuner.rotate.stores import File
from servers import binaries, sql

ADMIN = "correct horse battery staple"
IMPATIENT = Patience(wait=0.5, quiet=0.2)


@contextmanager
def running(settings: Mapping[str, str | int | float] | None = None) -> Iterator[Cluster]:
    """A server of 18 that asks for passwords over TCP."""
    cluster = Cluster.create(
        binaries(18), scratch_directory(), settings, listen=True, password=ADMIN
    )
    try:
        with cluster:
            yield cluster
    finally:
        cluster.remove()


def admin(server: Cluster) -> str:
    return f"{server.dsn(tcp=True)} password='{ADMIN}'"


def login(secret: Path) -> str:
    """The connection string of an application that has read its secret."""
    found = json.loads(secret.read_text())
    names = {"host": "host", "port": "port", "dbname": "dbname", "user": "username"}
    parts = {**{key: found[name] for key, name in names.items()}, "password": found["password"]}
    return " ".join(f"{key}='{value}'" for key, value in parts.items())


def rotate(
    dsn: str, group: str, secret: Path, patience: Patience = IMPATIENT, book: Book | None = None
) -> Outcome:
    """What the command does: go on with what is unfinished, else begin anew."""
    store = File(secret)
    with connect(dsn) as conn:
        rotator = Rotator(
            dsn=dsn, conn=conn, group=Group(group),
            book=book or Book(secret.parent / "state"), patience=patience,
        )  # fmt: skip
        last = rotator.last()
        going = last if last and not last.finished else rotator.plan(f"file:{secret}", store)
        return rotator.run(going, store)


def may_login(server: Cluster, group: str) -> set[str]:
    rows = sql(
        server.dsn(), f"SELECT rolname FROM pg_roles WHERE rolcanlogin AND rolname ^@ '{group}'"
    )
    return {name for (name,) in rows}
