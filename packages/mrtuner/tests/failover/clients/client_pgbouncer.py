"""PgBouncer with the generated limits, used by a client without any: INI PGBOUNCER PORT.

PgBouncer refuses root, so it runs as another user in a nested namespace.
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from itertools import count
from typing import Any

import psycopg
from conversation import ENDLESS, converse

pools = count()


def client() -> psycopg.Connection[Any]:
    """Connect through a new pool: one that never had a server lets the login wait for one."""
    where = f"host=127.0.0.1 port={sys.argv[3]} user=postgres dbname=pool{next(pools)}"
    return psycopg.connect(where, autocommit=True, prepare_threshold=None)


def opened() -> psycopg.Connection[Any]:
    for _ in range(500):
        with suppress(psycopg.OperationalError):
            made = client()
            made.execute("SELECT 1")
            return made
        time.sleep(0.02)
    raise TimeoutError("PgBouncer does not answer")


subprocess.Popen(
    ["unshare", "--user", "--map-user=65534", "--", sys.argv[2], sys.argv[1]],
    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
)  # fmt: skip
held, idle = opened(), opened()
converse(
    connect=client, idle=lambda: idle.execute("SELECT 1"), flight=lambda: held.execute(ENDLESS)
)
