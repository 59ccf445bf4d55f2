"""Watch the sessions of a role, here and on replicas, until there are none."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mrtuner.rotate import roles
from mrtuner.rotate.model import Holder, Replica
from mrtuner.wording import plural

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection

_POLL_SECONDS: Final = 0.2
_NAMED: Final = 5  # applications listed in one line of progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait for applications [s]."""

    wait: float = 600.0  # at most, for the old role's sessions to end
    quiet: float = 60.0  # without any session before the old role is disabled


@dataclass(frozen=True, slots=True)
class Watch:
    """Watches sessions of roles, on the primary and the named replicas."""

    conn: Connection
    replicas: tuple[Replica, ...]

    def sessions(self, role: str) -> tuple[Holder, ...]:
        found = roles.sessions_of(self.conn, role)
        for replica in self.replicas:
            found += roles.sessions_of(replica.conn, role, roles.address(replica.conn))
        return found

    def strangers(self, role: str) -> tuple[Holder, ...]:
        """Return a role's sessions that are not our own login tests."""
        return tuple(each for each in self.sessions(role) if each.application != roles.OURS)

    def until_used(self, role: str, deadline: float, tell: Callable[[str], None]) -> bool:
        """Whether anyone but us logs in as a role before the deadline."""
        told = False
        while not self.strangers(role):
            if time.monotonic() >= deadline:
                return False
            if not told:
                told = True
                tell(f"waiting until {role} is used")
            time.sleep(_POLL_SECONDS)
        return True

    def until_quiet(
        self, role: str, quiet: float, deadline: float, tell: Callable[[str], None]
    ) -> tuple[Holder, ...]:
        """Return () after `quiet` [s] without a session, else the sessions left at the deadline."""
        seen, said = time.monotonic(), ""
        while True:
            holders, now = self.sessions(role), time.monotonic()
            if holders:
                seen = now
            elif now - seen >= quiet:
                return ()
            if holders and now >= deadline:
                return holders
            if holders and (text := in_words(holders, role)) != said:
                said = text
                tell(said)
            time.sleep(min(_POLL_SECONDS, quiet or _POLL_SECONDS))


def in_words(holders: tuple[Holder, ...], role: str) -> str:
    """Describe who is waited for, applications with the most sessions first."""
    counted = Counter(each.application or "unnamed" for each in holders).most_common()
    names = [f"{name} ({count})" for name, count in counted[:_NAMED]]
    more = ["…"] if len(counted) > _NAMED else []
    return (
        f"{plural(len(holders), 'session')} still {'uses' if len(holders) == 1 else 'use'} "
        f"{role}: {', '.join(names + more)}"
    )
