"""Settings written for each client stack: one file a stack."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mrtuner.failover.settings.stacks import (
    asyncpg,
    django,
    hikaricp,
    libpq,
    mysql,
    node_postgres,
    npgsql,
    oracle,
    pg8000,
    pgbouncer,
    pgjdbc,
    pgx,
    psycopg,
    rails,
    sqlalchemy,
    wildfly,
)
from mrtuner.failover.settings.stacks.stack import Stack

__all__ = ["STACKS", "Stack"]

_ALL: Final[tuple[Stack, ...]] = (
    libpq.STACK,
    psycopg.STACK,
    sqlalchemy.STACK,
    django.STACK,
    rails.STACK,
    asyncpg.STACK,
    pg8000.STACK,
    pgjdbc.STACK,
    hikaricp.STACK,
    wildfly.STACK,
    pgx.STACK,
    node_postgres.STACK,
    npgsql.STACK,
    pgbouncer.STACK,
    oracle.STACK,
    mysql.STACK,
)
STACKS: Final[Mapping[str, Stack]] = MappingProxyType({stack.name: stack for stack in _ALL})
