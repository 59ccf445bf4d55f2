"""Oracle Net (OCI): written from its reference manual, never run here."""

from __future__ import annotations

from mrtuner.failover.settings.bounds import Bounds
from mrtuner.failover.settings.stacks.stack import Stack


def addresses(limits: Bounds) -> str:
    """The part of a descriptor that names the hosts, which are tried in this order."""
    each = [f"(ADDRESS = (PROTOCOL = TCP)(HOST = {name})(PORT = 1521))" for name in limits.names]
    if len(each) == 1:
        return f"  {each[0]}"
    rows = "\n".join(f"    {one}" for one in each)
    return f"  (ADDRESS_LIST = (LOAD_BALANCE = OFF)(FAILOVER = ON)\n{rows})"


def write(limits: Bounds) -> str:
    """sqlnet.ora and the descriptor of tnsnames.ora."""
    read = f"SQLNET.RECV_TIMEOUT = {limits.read_timeout}\n" if limits.read_timeout else ""
    seconds = limits.connect_timeout
    return (
        "# sqlnet.ora\n"
        f"TCP.CONNECT_TIMEOUT = {seconds}\n"
        f"SQLNET.OUTBOUND_CONNECT_TIMEOUT = {min(seconds + 2, int(limits.within))}\n"
        f"{read}"
        "# tnsnames.ora; ENABLE=BROKEN enables keepalive; its times are the kernel's\n"
        "SHOP = (DESCRIPTION =\n"
        f"  (ENABLE = BROKEN)(TRANSPORT_CONNECT_TIMEOUT = {seconds})(RETRY_COUNT = 0)\n"
        f"{addresses(limits)}\n"
        "  (CONNECT_DATA = (SERVICE_NAME = SHOP)))\n"
    )


STACK = Stack(
    name="oracle", title="Oracle Net", file="sqlnet.ora and tnsnames.ora", write=write,
    sets_socket=False, read_timeout=True, read_write=False,
    stale="check OPEN_MODE of v$database when a connection is taken",
)  # fmt: skip
