"""What the journal remembers of one change to one server, or to one RDS parameter group."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class State(StrEnum):
    """How far a change has come. The state is written down before the step it names."""

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


#: A change in one of these needs nothing more.
FINISHED = frozenset({State.VERIFIED, State.REVERTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One parameter's line in the file that a change writes; None means that there is no line.

    In a parameter group: the value that somebody has set (Source user), None for none.
    """

    name: str
    before: str | None
    after: str | None
    restart: bool  # context postmaster; RDS: ApplyType static
    in_force: str  # pg_settings.setting before the change, in base units; RDS: the group's value


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    """The parameter group whose entries change, and what it is attached to."""

    region: str
    scope: str  # aws.rows.Scope: db or db_cluster
    identifier: str  # of the instance or cluster
    name: str  # the group that holds the entries
    family: str
    attached_before: str  # the group that the instance or cluster uses
    attached_after: str
    creates: bool = False  # the group is new; the way back deletes it
    removes: bool = False  # the group is deleted when nothing uses it any more
    reboots: tuple[str, ...] = ()  # the instances that may be rebooted, in this order


#: How it is changed: what an adapter does.
Method = Literal["alter system", "include file", "parameter group", "storage parameters"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change to one server: all its entries reach their `after`, or all their `before`."""

    id: int = 0
    server: str  # who it is: system identifier, data directory, port; RDS: the ARN
    address: str  # how it was reached: host:port, for when it no longer answers
    method: Method
    state: State = State.PLANNED
    began: str = ""  # ISO 8601, UTC
    entries: tuple[Entry, ...]
    restarts: bool  # consent to restart was given and a restart is needed
    started: str = ""  # pg_postmaster_start_time() before the change
    system_identifier: str | None = None
    file: str | None = None  # the file that holds the entries, as the server names it
    local: bool = False  # we can replace that file ourselves
    # Include file only, since that is ours alone: postgresql.auto.conf may hold a password.
    text_before: str | None = None  # all of it; None: there was none
    text_after: str | None = None
    group: GroupChange | None = None  # parameter group only
    undoes: int | None = None  # the change that this one takes back
    proof: bool = False  # made to be measured, and to be taken back by who measures

    @property
    def finished(self) -> bool:
        """Nothing remains to be done."""
        return self.state in FINISHED

    @property
    def names(self) -> tuple[str, ...]:
        """What its entries are called."""
        return tuple(one.name for one in self.entries)


#: What has become of a change; rebooted: nothing was to be changed, and a reboot was due.
Result = Literal["nothing", "rebooted", "applied", "undone", "finished", "reverted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What has become of a change. finished, reverted: one that had been interrupted."""

    did: Result
    change: int | None = None  # its number in the journal
    changed: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()  # in force only after the next restart or reboot
    left: tuple[str, ...] = ()  # not put back: somebody has changed it since
    was_undo: bool = False  # what was finished or reverted had been an undo itself

    @property
    def change_is_undone(self) -> bool:
        """Whether the last change is gone by what became of an interrupted one."""
        return self.did == ("finished" if self.was_undo else "reverted")
