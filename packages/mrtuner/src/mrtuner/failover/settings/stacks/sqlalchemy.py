"""SQLAlchemy over psycopg."""

from __future__ import annotations

from mrtuner.failover.settings.bounds import Bounds
from mrtuner.failover.settings.stacks.stack import Stack


def write(limits: Bounds) -> str:
    """create_engine() with its pool."""
    hosts = "&".join(f"host={name}" for name in limits.names)
    where = f"app@/shop?{hosts}" if limits.hosts > 1 else "app@db/shop"
    rows = "\n".join(f'        "{name}": "{value}",' for name, value in limits.conninfo.items())
    return (
        "engine = create_engine(\n"
        f'    "postgresql+psycopg://{where}",\n'
        "    pool_pre_ping=True,  # finds dead connections; connect_args limit the time\n"
        f"    pool_timeout={limits.pool_wait},\n"
        "    pool_recycle=600,\n"
        f"    connect_args={{\n{rows}\n    }},\n"
        ")\n"
    )


STACK = Stack(
    name="sqlalchemy", title="SQLAlchemy", file="your program", write=write,
    sets_socket=True, read_timeout=False, read_write=True,
    attempts=1,
    verified="verified with SQLAlchemy 2.1.9 over psycopg 3.3.9",
)  # fmt: skip
