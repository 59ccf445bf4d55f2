"""Socket options, set explicitly, for the Python stacks without libpq."""

from __future__ import annotations

from mrtuner.failover.settings.bounds import Bounds


def options(limits: Bounds) -> str:
    """A tuple OPTIONS with the arguments for setsockopt()."""
    chosen = {
        "TCP_KEEPIDLE": limits.keepalive.idle,
        "TCP_KEEPINTVL": limits.keepalive.interval,
        "TCP_KEEPCNT": limits.keepalive.count,
        "TCP_USER_TIMEOUT": limits.user_timeout,
    }
    rows = "\n".join(
        f"    (socket.IPPROTO_TCP, socket.{name}, {value})," for name, value in chosen.items()
    )
    first = "    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),"
    return f"OPTIONS = (  # Linux only\n{first}\n{rows}\n)\n"
