"""Rails: ActiveRecord over ruby-pg, which is libpq.

Before 1.6, ruby-pg raises at connect_timeout and does not go on to the next host.
Source: ged/ruby-pg, issue 618 and pull request 637.
"""

from __future__ import annotations

from mrtuner.failover.settings.bounds import Bounds
from mrtuner.failover.settings.stacks.stack import Stack


def write(limits: Bounds) -> str:
    """database.yml: what to merge into the environment."""
    rows = "\n".join(f"  {name}: {value}" for name, value in limits.conninfo.items())
    several = (
        "# Several hosts need ruby-pg 1.6: before, one that does not answer ends the attempt.\n"
        if limits.hosts > 1
        else ""
    )
    return (
        f"{several}production:\n  adapter: postgresql\n  checkout_timeout: {limits.pool_wait}\n"
        f"{rows}\n"
    )


STACK = Stack(
    name="rails", title="Rails", file="config/database.yml", write=write,
    sets_socket=True, read_timeout=False, read_write=True,
    attempts=2,
    verified="verified with ActiveRecord 6.1.7 over ruby-pg 1.4.5",
)  # fmt: skip
