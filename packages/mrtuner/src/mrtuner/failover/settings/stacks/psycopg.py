"""psycopg 3, and its pool."""

from __future__ import annotations

from mrtuner.failover.settings.bounds import Bounds
from mrtuner.failover.settings.stacks.stack import Stack


def write(limits: Bounds) -> str:
    """Keyword arguments of connect()."""
    rows = "\n".join(f"    {_argument(*item)}," for item in limits.conninfo.items())
    # No longer than one check of a dead connection, so that no second one is started.
    wait = min(limits.pool_wait, limits.user_timeout // 1000)
    return (
        f"FAILOVER = dict(\n{rows}\n)\n"
        "# psycopg.connect(dsn, **FAILOVER)\n"
        f"# ConnectionPool(dsn, kwargs=FAILOVER, timeout={wait},\n"
        "#                check=ConnectionPool.check_connection)\n"
    )


def _argument(name: str, value: str) -> str:
    return f"{name}={value if value.isdigit() else repr(value)}"


STACK = Stack(
    name="psycopg", title="psycopg 3", file="your program", write=write,
    sets_socket=True, read_timeout=False, read_write=True,
    verified="verified with psycopg 3.3.9 and psycopg-pool 3.3.3",
)  # fmt: skip
