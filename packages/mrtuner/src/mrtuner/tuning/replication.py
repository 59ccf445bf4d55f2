"""What a standby's settings cost: queries that replay cancels, or replay that waits for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from mrtuner.tuning.advice import Level, Notice
from mrtuner.wording import enumerated

if TYPE_CHECKING:
    from mrtuner.postgres.model import Conflicts, Server

#: Fields of Conflicts, and what made replay cancel the queries.
_CAUSES: Final = {
    "snapshot": "rows that vacuum removed on the primary",
    "lock": "exclusive locks",
    "bufferpin": "pinned pages",
    "deadlock": "deadlocks",
    "tablespace": "dropped tablespaces",
}


def notices(server: Server) -> Iterator[Notice]:
    """Yield notices on cancelled queries, late replay and bloat on the primary."""
    if not server.standby:
        return
    if server.conflicts and (causes := _causes(server.conflicts)):
        yield Notice(
            Level.WARNING, f"replay cancelled queries on this standby: {causes}. {_CHOICE}"
        )
    if server.text("max_standby_streaming_delay") == "-1":
        yield Notice(
            Level.WARNING,
            "max_standby_streaming_delay is -1: a long query holds up replay without limit, and a "
            "failover then waits for it",
        )
    if server.text("hot_standby_feedback") == "on":
        yield Notice(
            Level.INFO,
            "hot_standby_feedback is on: a long query here keeps dead rows on the primary",
        )


_CHOICE: Final = (
    "Either let them finish (a longer max_standby_streaming_delay, and replay falls behind), or "
    "keep the rows (hot_standby_feedback = on, and the primary bloats)"
)


def _causes(conflicts: Conflicts) -> str:
    counted = ((getattr(conflicts, name), words) for name, words in _CAUSES.items())
    return enumerated(f"{number:,} for {words}" for number, words in counted if number)
