"""What the journal records about one change to one server or RDS parameter group."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class State(StrEnum):
    """How far a change has progressed. A state is recorded before the step it names."""

    PLANNED = "planned"
    WRITING = "writing"
    WRITTEN = "written"
    ATTACHING = "attaching"  # RDS: another parameter group
    RELOADING = "reloading"
    RELOADED = "reloaded"
    RESTARTING = "restarting"
    REVERTING = "reverting"
    VERIFIED = "verified"
    REVERTED = "reverted"


#: A change in one of these states needs nothing more.
FINISHED = frozenset({State.VERIFIED, State.REVERTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterChange:
    """One parameter's line in the file that a change writes; None means no line.

    In a parameter group: the value that the user has set (Source user); None if not set.
    """

    name: str
    before: str | None
    after: str | None
    restart: bool  # context postmaster; RDS: ApplyType static
    in_force: str  # pg_settings.setting before the change, in base units; RDS: the group's value


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    """The parameter group whose entries change, and where it is attached."""

    region: str
    scope: str  # aws.rows.Scope: db or db_cluster
    identifier: str  # of the instance or cluster
    name: str  # the group that holds the entries
    family: str
    attached_before: str  # the group that the instance or cluster uses
    attached_after: str
    creates: bool = False  # the group is new; undoing deletes it
    removes: bool = False  # the group is deleted when nothing uses it any more
    reboots: tuple[str, ...] = ()  # the instances that may be rebooted, in this order
    description: str = ""  # of a group that we create: identifies it among others of that name


#: How the change is made; there is one adapter for each.
Method = Literal[
    "alter system", "include file", "parameter group", "storage parameters", "role settings"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change to one server: all its entries reach their `after`, or all their `before`."""

    id: int = 0
    server: str  # its identity: system identifier, data directory, port; RDS: the ARN
    address: str  # how it was reached: host:port, to find it when it no longer answers
    method: Method
    state: State = State.PLANNED
    began: str = ""  # ISO 8601, UTC
    entries: tuple[ParameterChange, ...]
    restarts: bool  # consent to restart was given and a restart is needed
    started: str = ""  # pg_postmaster_start_time() before the change
    system_identifier: str | None = None
    file: str | None = None  # the file that holds the entries, as the server names it
    local: bool = False  # we can replace that file ourselves
    # Only for an include file, which is ours alone: postgresql.auto.conf may contain a password.
    text_before: str | None = None  # the whole text; None: there was no file
    text_after: str | None = None
    group: GroupChange | None = None  # parameter group only
    undoes: int | None = None  # the change that this one undoes
    proof: bool = False  # made for a measurement, which also undoes it

    @property
    def finished(self) -> bool:
        return self.state in FINISHED

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.entries)


#: What happened to a change. rebooted: nothing needed changing, but a reboot was due.
Result = Literal["nothing", "rebooted", "applied", "undone", "finished", "reverted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What happened to a change. finished and reverted refer to an interrupted one."""

    result: Result
    change: int | None = None  # its number in the journal
    changed: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()  # in force only after the next restart or reboot
    left: tuple[str, ...] = ()  # not put back, because someone has changed it since
    was_undo: bool = False  # what was finished or reverted was itself an undo

    @property
    def kept(self) -> str | None:
        """What of an undo was left, in words; None if nothing."""
        if not self.left:
            return None
        return f"kept, since somebody else has set it: {', '.join(self.left)}"

    @property
    def change_is_undone(self) -> bool:
        return self.result == ("finished" if self.was_undo else "reverted")
