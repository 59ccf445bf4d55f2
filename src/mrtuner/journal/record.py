"""What the journal remembers of one change to one server."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class State(StrEnum):
    """How far a change has come. The state is written down before the step it names."""

    PLANNED = "planned"
    WRITING = "writing"
    WRITTEN = "written"
    RELOADING = "reloading"
    RELOADED = "reloaded"
    RESTARTING = "restarting"
    REVERTING = "reverting"
    VERIFIED = "verified"
    REVERTED = "reverted"


#: A change in one of these needs nothing more.
FINISHED = frozenset({State.VERIFIED, State.REVERTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One parameter's line in the file that a change writes; None means that there is no line."""

    name: str
    before: str | None
    after: str | None
    restart: bool  # context postmaster
    in_force: str  # pg_settings.setting before the change, in base units


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change to one server: all its entries reach their `after`, or all their `before`."""

    id: int = 0
    server: str  # who it is: system identifier, data directory, port
    address: str  # how it was reached: host:port, for when it no longer answers
    method: Literal["alter system", "include file"]
    state: State = State.PLANNED
    began: str = ""  # ISO 8601, UTC
    entries: tuple[Entry, ...]
    restarts: bool  # consent to restart was given and a restart is needed
    started: str  # pg_postmaster_start_time() before the change
    system_identifier: str | None
    file: str | None  # the file that holds the entries, as the server names it
    local: bool  # we can replace that file ourselves
    text_before: str | None  # all of it; None: absent (include file) or unreadable
    text_after: str | None = None  # include file only
    undoes: int | None = None  # the change that this one takes back

    @property
    def finished(self) -> bool:
        """Nothing remains to be done."""
        return self.state in FINISHED
