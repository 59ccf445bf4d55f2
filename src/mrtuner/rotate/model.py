"""What a rotation is made of. Nothing here keeps a password but `Credential`, which hides it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from mrtuner.errors import BadValue

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection


class Step(StrEnum):
    """How far a rotation has come. Written down before the step it names is taken."""

    PLANNED = "planned"
    PREPARING = "preparing"  # roles made, grants and settings made equal
    SETTING = "setting"  # the new role gets a password and LOGIN
    VERIFYING = "verifying"  # a real login with it
    STORING = "storing"  # the secret goes to where applications read it
    WAITING = "waiting"  # until no session uses the old role
    DISABLING = "disabling"  # the old role: NOLOGIN, another password
    DONE = "done"
    ABORTING = "aborting"
    ABORTED = "aborted"


FINISHED: Final = frozenset({Step.DONE, Step.ABORTED})
#: The applications may know the new credential: from here on it must not change any more.
DELIVERED: Final = frozenset({Step.STORING, Step.WAITING, Step.DISABLING})

#: They have it, and use the new role.
MOVED: Final = frozenset({Step.WAITING, Step.DISABLING})

_LONGEST: Final = 63  # NAMEDATALEN - 1 bytes


@dataclass(frozen=True, slots=True)
class Group:
    """The role that owns and is granted everything, and the two roles that log in for it."""

    name: str

    def __post_init__(self) -> None:
        if not self.name or len(self.green.encode()) > _LONGEST:
            raise BadValue(
                f"{self.name!r} cannot name a group",
                f"{self.name}_green has to be a role's name of at most {_LONGEST} bytes.",
            )

    @property
    def blue(self) -> str:
        """The one login role."""
        return f"{self.name}_blue"

    @property
    def green(self) -> str:
        """The other login role."""
        return f"{self.name}_green"

    @property
    def roles(self) -> tuple[str, str, str]:
        """All that may log in; the group itself only before it was taken over."""
        return self.name, self.blue, self.green

    def after(self, old: str | None) -> str:
        """The login role whose turn it is.

        >>> Group("app").after("app_blue"), Group("app").after("app"), Group("app").after(None)
        ('app_green', 'app_blue', 'app_blue')
        """
        return self.green if old == self.blue else self.blue


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """What an application needs to connect. The password is not part of the repr."""

    username: str
    password: str = field(repr=False)
    host: str
    port: int
    dbname: str

    def document(self) -> dict[str, str | int]:
        """The keys that AWS uses in a secret of a database.

        Source: AWS Secrets Manager User Guide, "JSON structure of secrets".
        """
        return {
            "engine": "postgres",
            "host": self.host,
            "port": self.port,
            "dbname": self.dbname,
            "username": self.username,
            "password": self.password,
        }

    def within(self, kept: Mapping[str, Any]) -> dict[str, Any]:
        """A document with this user and password; what else it says (another host: a pooler's,
        a replica's; keys of the application's own) stays.
        """
        return {
            **self.document(),
            **kept,
            "username": self.username,
            "password": self.password,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """One role of the group as the server has it."""

    name: str
    login: bool
    superuser: bool
    member: bool  # of the group; true for the group itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One session that still uses a role."""

    pid: int
    application: str
    address: str
    database: str
    since: str
    server: str = ""  # the replica; "" is the primary

    @property
    def words(self) -> str:
        """For a person who has to find it."""
        who = self.application or "an unnamed application"
        where = f"{self.database} at {self.server}" if self.server else self.database
        return f"{who} from {self.address} on {where}, pid {self.pid}, since {self.since}"


@dataclass(frozen=True, slots=True)
class Replica:
    """A standby that applications read from: its sessions count, and the new login has to work."""

    dsn: str = field(repr=False)
    conn: Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """One rotation as the journal keeps it."""

    server: str  # system identifier
    address: str  # host:port as asked for: a restored copy has the same identifier
    group: str
    old: str | None  # None: a fresh group, nothing to disable
    new: str
    to: str  # the store, as named
    began: str
    step: Step = Step.PLANNED
    steps: tuple[str, ...] = ()  # when each was begun
    seen: bool = False  # somebody was logged in as `new`, which a store that can be read need not

    @property
    def finished(self) -> bool:
        """Nothing remains to be done."""
        return self.step in FINISHED

    def reached(self, step: Step) -> bool:
        """Whether a step was ever begun."""
        return any(taken.endswith(f" {step}") for taken in self.steps)

    def at(self, step: Step, when: str) -> Rotation:
        """The same, one step on."""
        return replace(self, step=step, steps=(*self.steps, f"{when} {step}"))
