"""What a rotation needs, and how it moves from step to step: recorded first, then reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from mrtuner.rotate import roles
from mrtuner.rotate.model import Credential, Replica, RoleGroup, RotationState, RotationStep
from mrtuner.rotate.sessions import Patience, Watch

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection
    from mrtuner.rotate.journal import RotationJournal


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationBase:
    """What a rotation needs. `dsn` is for a role that may administer the group's roles."""

    dsn: str = field(repr=False)
    conn: Connection
    group: RoleGroup
    book: RotationJournal
    patience: Patience = field(default_factory=Patience)
    replicas: tuple[Replica, ...] = ()
    tell: Callable[[str], None] = lambda _text: None

    def last(self) -> RotationState | None:
        return self.book.last(self.server, roles.address(self.conn), self.group.name)

    @property
    def server(self) -> str:
        """The identity of this server, whatever its address."""
        return roles.system_identifier(self.conn)

    @property
    def _watch(self) -> Watch:
        return Watch(self.conn, self.replicas)

    def _enabled(self) -> tuple[str, ...]:
        there = roles.read_roles(self.conn, self.group)
        return tuple(sorted(name for name, role in there.items() if role.login))

    def _credential(self, role: str, password: str) -> Credential:
        info = self.conn.info
        return Credential(
            username=role, password=password, host=info.host, port=info.port, dbname=info.dbname
        )

    def _step(self, rotation: RotationState, step: RotationStep) -> RotationState:
        rotation = rotation.at(step, now())
        self.book.write(rotation)
        if rotation.finished:
            self.book.forget(rotation)
        old = rotation.old or rotation.group
        self.tell(_WORDS[step].format(old=old, new=rotation.new, to=rotation.to))
        return rotation


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


_WORDS: Final = {
    RotationStep.PLANNED: "from {old} to {new}",
    RotationStep.PREPARING: "giving {new} the attributes and settings of {old}",
    RotationStep.SETTING: "giving {new} a new password",
    RotationStep.VERIFYING: "logging in as {new}",
    RotationStep.STORING: "writing the secret to {to}",
    RotationStep.WAITING: "waiting until {old} is no longer used",
    RotationStep.DISABLING: "disabling {old}",
    RotationStep.DONE: "{new} is in use",
    RotationStep.ABORTING: "going back to {old}",
    RotationStep.ABORTED: "{old} is in use, as before",
}
