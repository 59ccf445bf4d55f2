"""libpq itself, through psql and the generated service file: SNIPPET PSQL HOST."""

from __future__ import annotations

import os
import subprocess
import sys

from conversation import ENDLESS, converse

os.environ["PGSERVICEFILE"] = sys.argv[1]
DSN = f"service=failover host={sys.argv[3]} dbname=postgres user=postgres"


class Lost(Exception):
    """psql ended, as it does when it loses its connection."""


def start() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.argv[2], "-XAtq", DSN], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def opened() -> subprocess.Popen[str]:
    child = start()
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write("SELECT 1;\n")
    child.stdin.flush()
    assert child.stdout.readline() == "1\n"
    return child


def ask(child: subprocess.Popen[str], query: str) -> None:
    assert child.stdin is not None
    child.stdin.write(f"{query};\n")
    child.stdin.flush()
    raise Lost(child.wait())


def connect() -> None:
    raise Lost(start().wait())


held, idle = opened(), opened()
converse(connect=connect, idle=lambda: ask(idle, "SELECT 1"), flight=lambda: ask(held, ENDLESS))
