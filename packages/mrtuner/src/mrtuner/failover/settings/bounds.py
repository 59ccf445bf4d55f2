"""Limits that keep a hang within a requested time, and are as generous as that allows.

Each limit is the largest for which the prediction stays within the time: stricter ones would more
often mistake a slow network for a dead server.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from mrtuner.errors import Refused
from mrtuner.failover.predict.kernel import Kernel
from mrtuner.failover.predict.path import Path
from mrtuner.failover.predict.tcp_timers import (
    Connecting,
    Keepalive,
    Unacknowledged,
    Waiting,
    keeps,
    model,
)
from mrtuner.wording import plural

#: The shortest connect_timeout that libpq before 17 and psycopg accept [s].
_SHORTEST: Final = 2
#: A login only takes longer than this if something is wrong [s].
_LONGEST: Final = 10
_COUNT: Final = 3
_STEP: Final = 500  # ms of the user timeout
_FINE: Final = 100  # the same if less than _SCARCE [s] is left for it
_SCARCE: Final = 5.0
#: A shorter one would mistake a packet lost twice for a dead server [ms].
_SHORTEST_USER: Final = 1000
#: The kernel's timers are bounded by this even if a longer time was requested [s].
_REACH: Final = 300.0
#: The TTL of an RDS instance's name is 5 s. Source: its DNS answers.
_DNS_TTL: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits for every level, in seconds except for `user_timeout` (ms) and counts."""

    within: float
    hosts: int
    connect_timeout: int
    keepalive: Keepalive
    user_timeout: int
    tcp_retries2: int  # 0: even 1 takes too long, as for tcp_syn_retries
    tcp_syn_retries: int
    pool_wait: int
    validation: int  # of a pool's connection check
    dns_ttl: int
    read_timeout: int | None  # None: the longest legitimate query is unknown

    @property
    def names(self) -> tuple[str, ...]:
        """Host names for a snippet, as many as hosts were asked for: db, or db1, db2, …"""
        return ("db",) if self.hosts == 1 else tuple(f"db{n + 1}" for n in range(self.hosts))

    @property
    def conninfo(self) -> dict[str, str]:
        """Return libpq's parameters."""
        return {
            "connect_timeout": str(self.connect_timeout),
            "keepalives": "1",
            "keepalives_idle": str(self.keepalive.idle),
            "keepalives_interval": str(self.keepalive.interval),
            "keepalives_count": str(self.keepalive.count),
            "tcp_user_timeout": str(self.user_timeout),
            "target_session_attrs": "read-write",
        }

    def sysctls(self) -> dict[str, int]:
        """Return sysctls for drivers that cannot set these on a socket."""
        return {
            "net.ipv4.tcp_retries2": self.tcp_retries2,
            "net.ipv4.tcp_syn_retries": self.tcp_syn_retries,
            "net.ipv4.tcp_keepalive_time": self.keepalive.idle,
            "net.ipv4.tcp_keepalive_intvl": self.keepalive.interval,
            "net.ipv4.tcp_keepalive_probes": self.keepalive.count,
        }

    def applied(self, kernel: Kernel) -> Kernel:
        values = {name.removeprefix("net.ipv4."): value for name, value in self.sysctls().items()}
        origin = {**kernel.origin, **dict.fromkeys(values, "this advice")}
        return replace(kernel, **values, origin=origin)  # type: ignore[arg-type]


def bounds(
    within: float,
    kernel: Kernel,
    path: Path,
    *,
    hosts: int = 1,
    attempts: int = 0,
    longest_query: float | None = None,
    cancel_wait: float | None = None,
) -> Bounds:
    """Return limits for a bound of `within` [s]; Refused, with the reason, if there are none.

    `hosts`: addresses in the connection string, each with its own connect_timeout.
    `cancel_wait`: after the limit on answers, the driver connects to cancel, and waits so long [s].
    `attempts`: new connections that a pool tries while the caller waits, once it found one dead.
    """
    reach, path = min(within, _REACH), path.at_its_worst()
    keepalive = _keepalive(reach, kernel, path)
    connect = _connect_timeout(reach, hosts, attempts)
    spent = attempts * hosts * connect  # the rest is for finding out that it is dead
    cancelling = 0.0 if cancel_wait is None else connect + cancel_wait
    return Bounds(
        within=within,
        hosts=hosts,
        connect_timeout=connect,
        keepalive=keepalive,
        user_timeout=_user_timeout(reach - spent, reach, kernel, path, keepalive),
        tcp_retries2=_retries(reach - spent, kernel, path),
        tcp_syn_retries=_syn_retries(reach, kernel),
        pool_wait=int(within) - 1,  # PgBouncer checks only now and then
        validation=1 if within < _LONGEST else 2,
        dns_ttl=_DNS_TTL,
        read_timeout=_read_timeout(within - spent - cancelling, within, longest_query),
    )


def _connect_timeout(within: float, hosts: int, attempts: int) -> int:
    least = _SHORTEST * hosts
    if within < least:
        raise Refused(
            f"{plural(hosts, 'host')} cannot be tried within {within:g} s: "
            f"connect_timeout is at least {_SHORTEST} s for each",
            f"Allow {least} s or more, or give fewer hosts.",
        )
    return min(_LONGEST, max(_SHORTEST, int(within / max(3, attempts + 2) / hosts)))


def _keepalive(within: float, kernel: Kernel, path: Path) -> Keepalive:
    """The idle time gets a third, three probes the rest."""
    idle, interval = max(1, int(within * 0.3)), max(1, int(within * 0.2))
    while interval >= 1:
        for seconds in range(idle, 0, -1):
            keepalive = Keepalive(idle=seconds, interval=interval, count=_COUNT)
            trace = Waiting(kernel=kernel, keepalive=keepalive, path=path)
            if keeps(trace, kernel, within):
                return keepalive
        interval -= 1
    raise Refused(
        f"keepalive cannot notice a missing answer within {within:g} s: its times are whole "
        "seconds, at least 1 s idle and three probes of 1 s",
        "Allow 5 s or more.",
    )


def _user_timeout(
    left: float, within: float, kernel: Kernel, path: Path, keepalive: Keepalive
) -> int:
    """The largest with which case 2 leaves time for new attempts, and case 3 ends in time."""
    first = 2 * path.first_rtos(kernel)[-1] / kernel.hz  # the probe and the first timeout, at most
    step = _FINE if left < _SCARCE else _STEP
    for user in range(int(left * 1000) // step * step, _SHORTEST_USER - 1, -step):
        data = Unacknowledged(kernel=kernel, path=path, user_timeout=user)
        answer = Waiting(kernel=kernel, keepalive=keepalive, user_timeout=user, path=path)
        if keeps(answer, kernel, within) and keeps(data, kernel, left):  # the faster check first
            return user
    spent = f", of which new attempts take {within - left:g} s" if left < within else ""
    raise Refused(
        f"no tcp_user_timeout of a second or more ends a hang within {within:g} s{spent}: on this "
        f"path the first retransmission alone takes up to {first:.1f} s",
        "Allow a longer time.",
    )


def _retries(within: float, kernel: Kernel, path: Path) -> int:
    """The count that holds for any first timeout: a slightly smaller one can double the hang."""
    for count in range(15, 0, -1):
        changed = replace(kernel, tcp_retries2=count)
        shortest = model(changed, count)
        if shortest <= within and keeps(Unacknowledged(kernel=changed, path=path), changed, within):
            return count
    return 0


def _syn_retries(within: float, kernel: Kernel) -> int:
    for count in range(6, 0, -1):
        changed = replace(kernel, tcp_syn_retries=count)
        if keeps(Connecting(kernel=changed), changed, within):
            return count
    return 0


def _read_timeout(left: float, within: float, longest_query: float | None) -> int | None:
    """A limit on answers: a frozen server and a long query differ only if queries have a maximum.

    A second less than available, since PgBouncer checks only now and then.
    """
    if longest_query is None:
        return None
    limit = int(left) - 1
    if longest_query >= limit:
        raise Refused(
            f"a frozen server cannot be distinguished from a query of {longest_query:g} s within "
            f"{within:g} s, of which {limit} s are left for an answer",
            "Allow more time than the longest query takes, or leave out --longest-query: then "
            "that case is not bounded.",
        )
    return limit
