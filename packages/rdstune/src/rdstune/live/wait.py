"""Wait for AWS: poll at growing intervals until a condition holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from mrtuner.errors import ApplyError
from rdstune.live.target import Target, read_target

#: RDS answers are eventually consistent: a condition must hold this many times in a row.
_LOOKS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often to poll and how long to wait [s]; `tell` receives every change of state."""

    first: float = 1.0
    most: float = 15.0
    grace: float = 45.0  # how long an unexpected state may last
    patience: float = 3600.0
    tell: Callable[[str], None] = lambda _text: None
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic


#: For AWS itself; the lab is faster.
USUAL: Final = Pace()


class DoesNotStart(ApplyError):
    """An instance does not start with its parameters. RDS-EVENT-0035."""


class NotTaken(ApplyError):
    """RDS says that it could not apply the group's values."""


def wait(
    client: Any,
    identifier: str,
    done: Callable[[Target], bool],
    pace: Pace,
    *,
    strict: bool = True,
) -> Target:
    """Poll until `done` is true. Strict: raise DoesNotStart and NotTaken as soon as they are seen.

    Raises ApplyError when patience runs out.
    """
    begun, pause, seen, said = pace.clock(), pace.first, 0, ""
    while True:
        target = read_target(client, identifier)
        if strict:
            refuse_failure(target)
        seen = seen + 1 if done(target) else 0
        if seen == _LOOKS:
            return target
        if (now := state(target)) != said:
            said = now
            pace.tell(now)
        if pace.clock() - begun > pace.patience:
            raise ApplyError(
                f"still waiting after {pace.patience:.0f} s: {now}",
                "The change is in the journal: run again when the instance has settled.",
            )
        pace.sleep(pause if not seen else pace.first)
        pause = min(pause * 1.5, pace.most)


def refuse_failure(target: Target) -> None:
    """Raise if RDS has failed to apply the values."""
    if target.incompatible:
        raise DoesNotStart(
            f"{', '.join(target.incompatible)} does not start with these parameters"
            " (incompatible-parameters)",
            "They probably need more memory than the class has: see rdstune evaluate.",
        )
    failed = [name for name, status in target.statuses.items() if status == "failed-to-apply"]
    if failed:
        raise NotTaken(
            f"RDS could not apply the parameters to {', '.join(failed)}",
            "Check its events and log.",
        )


def state(target: Target) -> str:
    """Return the state of all members in one line."""
    members = [
        f"{one.identifier} {one.status}, {target.group} {target.statuses.get(one.identifier, '?')}"
        for one in target.members
    ]
    return "; ".join(members)
