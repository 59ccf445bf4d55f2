"""Turn each stack's generated settings into a running program with the real client."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from failover_clients import lead
from psycopg.conninfo import conninfo_to_dict

from machine import find
from mrtuner.errors import MissingPart
from mrtuner.failover.namespaces import SERVER, enter, require

if TYPE_CHECKING:
    from mrtuner.failover.settings.advice import Settings
    from mrtuner.postgres.cluster import Cluster

CLIENTS = Path(__file__).parent / "clients"
#: The server that the snippets stand in for the reader's own, and ours.
THEIRS, OURS = "app@db/shop", f"postgres@{SERVER}/postgres"
DSN = f"host={SERVER} dbname=postgres user=postgres"
CASES = ("connect", "idle", "flight")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hang:
    """What a real client did in one case."""

    seconds: float
    said: str  # ``failed`` and the client's message, or ``answered``


def python(program: str, *arguments: str) -> list[str]:
    """The command line of one of our clients."""
    return [sys.executable, str(CLIENTS / program), *arguments]


def written(directory: Path, name: str, text: str) -> str:
    """Write a snippet to a file, with our server in it; its path."""
    place = directory / name
    place.write_text(text.replace(THEIRS, OURS))
    return str(place)


def hangs(
    programs: Mapping[str, Sequence[str]],
    fault: str,
    directory: Path,
    door: Path,
    *,
    sysctl: str = "",
    cases: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, dict[str, Hang]]:
    """How long each client hung, by case; skips the test where there are no namespaces."""
    try:
        require()
    except MissingPart as missing:
        pytest.skip(missing.message)
    request = {
        "socket": str(door),
        "sysctl": sysctl,
        "fault": fault,
        "programs": programs,
        "cases": {name: (cases or {}).get(name, CASES) for name in programs},
    }
    done = subprocess.run(
        enter([sys.executable, str(Path(__file__).with_name("failover_clients.py"))]),
        input=json.dumps(request), capture_output=True, text=True, check=False, timeout=200,
        cwd=directory,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return {
        name: {case: Hang(seconds=took, said=said) for case, (took, said) in each.items()}
        for name, each in found.items()
    }


@contextmanager
def door(server: Cluster, directory: Path) -> Iterator[Path]:
    """A Unix socket that leads to the server's, for users who may not open the server's own."""
    where = conninfo_to_dict(server.dsn())
    with opened(f"{where['host']}/.s.PGSQL.{where['port']}", directory / "server") as path:
        yield path


@contextmanager
def opened(target: str, path: Path) -> Iterator[Path]:
    """A Unix socket that leads to another."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen()
    lead(listening, target)
    try:
        yield path
    finally:
        listening.shutdown(socket.SHUT_RDWR)


def python_programs(
    made: Mapping[str, Settings], directory: Path, psql: Mapping[str, Path]
) -> dict[str, list[str]]:
    """Every client that needs only Python or a small program."""
    texts = {
        name: written(directory, f"{name}.txt", settings.text) for name, settings in made.items()
    }
    programs = {
        "psycopg": python("client_psycopg.py", texts["psycopg"], DSN),
        "psycopg pool": python("client_psycopg_pool.py", texts["psycopg"], DSN),
        "sqlalchemy": python("client_sqlalchemy.py", texts["sqlalchemy"]),
        "django": python("client_django.py", texts["django"], SERVER),
    }
    for name, program in psql.items():
        programs[name] = python("client_libpq.py", texts["libpq"], str(program), SERVER)
    bouncer = find("pgbouncer")
    if bouncer:
        port = "6432"
        ini = written(directory, "pgbouncer.ini", bouncer_ini(made["pgbouncer"].text, port))
        programs["pgbouncer"] = python("client_pgbouncer.py", ini, bouncer, port)
    return programs


def bouncer_ini(snippet: str, port: str) -> str:
    """A configuration with the generated settings among those that readers write themselves."""
    return (
        f"[databases]\n* = host={SERVER} dbname=postgres user=postgres\n{snippet}"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = any\nunix_socket_dir =\n"
    )
