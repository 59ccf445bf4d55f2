"""Rails: ActiveRecord over ruby-pg, which is libpq."""

from __future__ import annotations

from mrtuner.failover.settings.bounds import Bounds
from mrtuner.failover.settings.stacks.stack import Stack


def write(limits: Bounds) -> str:
    """database.yml: what to merge into the environment."""
    rows = "\n".join(f"  {name}: {value}" for name, value in limits.conninfo.items())
    return f"production:\n  adapter: postgresql\n  checkout_timeout: {limits.pool_wait}\n{rows}\n"


STACK = Stack(
    name="rails", title="Rails", file="config/database.yml", write=write,
    sets_socket=True, read_timeout=False, read_write=True,
    attempts=2,
    verified="verified with ActiveRecord 6.1.7 over ruby-pg 1.4.5",
)  # fmt: skip
