"""The data of a rotation. Only `Credential` contains a password, and it hides it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

from mrtuner.described import Doc
from mrtuner.errors import BadValue

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection


class RotationStep(StrEnum):
    """The progress of a rotation. Recorded before the step is taken."""

    PLANNED = "planned"
    PREPARING = "preparing"  # create roles, equalize grants and settings
    SETTING = "setting"  # give the new role a password and LOGIN
    VERIFYING = "verifying"  # a real login with it
    STORING = "storing"  # put the secret where applications read it
    WAITING = "waiting"  # until no session uses the old role
    DISABLING = "disabling"  # the old role gets NOLOGIN and another password
    DONE = "done"
    ABORTING = "aborting"
    ABORTED = "aborted"


FINISHED: Final = frozenset({RotationStep.DONE, RotationStep.ABORTED})
#: Applications may know the new credential: from here on it must not change.
DELIVERED: Final = frozenset({RotationStep.STORING, RotationStep.WAITING, RotationStep.DISABLING})

#: Applications have been given it, and use the new role.
MOVED: Final = frozenset({RotationStep.WAITING, RotationStep.DISABLING})

_LONGEST: Final = 63  # NAMEDATALEN - 1 bytes


@dataclass(frozen=True, slots=True)
class RoleGroup:
    """The role that owns and is granted everything, and its two login roles."""

    name: str

    def __post_init__(self) -> None:
        if not self.name or len(self.green.encode()) > _LONGEST:
            raise BadValue(
                f"{self.name!r} is not a valid group name",
                f"{self.name}_green must be a role name of at most {_LONGEST} bytes.",
            )

    @property
    def blue(self) -> str:
        return f"{self.name}_blue"

    @property
    def green(self) -> str:
        return f"{self.name}_green"

    @property
    def roles(self) -> tuple[str, str, str]:
        """All roles that may log in; the group itself only before it was converted."""
        return self.name, self.blue, self.green

    def after(self, old: str | None) -> str:
        """Return the login role whose turn it is.

        >>> app = RoleGroup("app")
        >>> app.after("app_blue"), app.after("app"), app.after(None)
        ('app_green', 'app_blue', 'app_blue')
        """
        return self.green if old == self.blue else self.blue


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """What an application needs to connect. The repr hides the password."""

    username: str
    password: str = field(repr=False)
    host: str
    port: int
    dbname: str

    def document(self) -> dict[str, str | int]:
        """Return the credential with the keys that AWS uses in a database secret.

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
        """Return a document with this user and password, and otherwise unchanged.

        It keeps another host (a pooler's, a replica's) and the application's own keys.
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
    member: bool  # of the group; also true for the group itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A session that still uses the role to be disabled."""

    pid: Annotated[int, Doc("of its backend")]
    application: Annotated[str, Doc("`application_name`")]
    address: Annotated[str, Doc("of the client")]
    database: Annotated[str, Doc("to which it is connected")]
    since: Annotated[str, Doc("when it connected")]
    server: Annotated[str, Doc("a replica's host:port; empty: the primary")] = ""

    @property
    def words(self) -> str:
        """The session in words, for the person who has to find it."""
        who = self.application or "an unnamed application"
        where = f"{self.database} at {self.server}" if self.server else self.database
        return f"{who} from {self.address} on {where}, pid {self.pid}, since {self.since}"


@dataclass(frozen=True, slots=True)
class Replica:
    """A standby that applications read: its sessions count, and the new login has to work."""

    dsn: str = field(repr=False)
    conn: Connection


@dataclass(frozen=True, slots=True)
class BegunStep:
    """A step that has begun."""

    step: Annotated[RotationStep, Doc("its name")]
    at: Annotated[str, Doc("when, ISO 8601")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationState:
    """One rotation."""

    server: Annotated[str, Doc("system identifier")]
    address: Annotated[str, Doc("host:port as asked for")]
    group: Annotated[str, Doc("the role that owns everything")]
    old: Annotated[str | None, Doc("the role that was in use, or null")]
    new: Annotated[str, Doc("the role whose turn it is")]
    to: Annotated[str, Doc("the store, as named")]
    began: Annotated[str, Doc("when, ISO 8601")]
    step: Annotated[RotationStep, Doc("the last step begun; it is recorded before it is taken")] = (
        RotationStep.PLANNED
    )
    steps: Annotated[tuple[BegunStep, ...], Doc("each step begun, in order")] = ()
    seen: Annotated[
        bool, Doc("whether a session of the new role was seen, if the store cannot be read back")
    ] = False

    @property
    def finished(self) -> bool:
        return self.step in FINISHED

    def reached(self, step: RotationStep) -> bool:
        return any(begun.step is step for begun in self.steps)

    def at(self, step: RotationStep, when: str) -> RotationState:
        return replace(self, step=step, steps=(*self.steps, BegunStep(step, when)))
