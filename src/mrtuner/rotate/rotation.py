"""A rotation from beginning to end, and on from wherever it was broken off.

At every moment one credential works: the old role is not touched until the new one has logged in,
its secret is where applications read it, and nobody has used the old one for a while.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from mrtuner.errors import ApplyError, BadValue, ConnectError, Refused
from mrtuner.rotate import roles
from mrtuner.rotate.model import DELIVERED, Credential, Group, Rotation, Session, Step

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection
    from mrtuner.rotate.book import Book
    from mrtuner.rotate.stores import Store

_POLL_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait for the applications [s]."""

    wait: float = 600.0  # at most, for the old role's sessions to go
    quiet: float = 5.0  # without any session of it before it is disabled


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a group stands, who can log in now, and who holds a rotation up."""

    rotation: Rotation | None  # the latest; None: the journal knows of none
    enabled: tuple[str, ...]
    holders: tuple[Session, ...] = ()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Standing):
    """Where a rotation has come to."""

    rotation: Rotation


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotator:
    """What a rotation works with. `dsn` is of a role that may administer the group's."""

    dsn: str
    conn: Connection
    group: Group
    book: Book
    patience: Patience = Patience()
    tell: Callable[[str], None] = lambda _text: None

    def last(self) -> Rotation | None:
        """The latest rotation that the journal knows."""
        return self.book.last(self.server, self.group.name)

    @property
    def server(self) -> str:
        """Which server this is, whatever its address."""
        return roles.system_identifier(self.conn)

    def status(self) -> Standing:
        """Where it stands, who can log in, who holds it up. Changes nothing."""
        if (rotation := self.last()) is None:
            return Standing(rotation=None, enabled=self._enabled())
        return self._outcome(rotation, self._holders(rotation))

    def plan(self, to: str, store: Store, current: str | None = None) -> Rotation:
        """The next rotation, nothing done yet. Refused when the role in use cannot be told."""
        old = current or self._in_use(store)
        return Rotation(
            server=self.server, group=self.group.name, old=old,
            new=self.group.after(old), to=to, began=_now(),
        )  # fmt: skip

    def run(self, rotation: Rotation, store: Store) -> Outcome:
        """Go on from the step that the rotation is at, to the end or until patience ends."""
        with roles.alone(self.conn, self.group):
            self._refuse_overtaken(rotation)
            if rotation.step is Step.ABORTING:
                return self._abort(rotation, store)
            notices: tuple[str, ...] = ()
            if not self._delivered(rotation, store):
                rotation, notices = self._hand_over(rotation, store)
            return self._retire(rotation, notices)

    def abort(self, rotation: Rotation, store: Store) -> Outcome:
        """Back to the old role. Refused when the secret cannot be put back where it was."""
        with roles.alone(self.conn, self.group):
            return self._abort(rotation, store)

    def _in_use(self, store: Store) -> str | None:
        """The role that applications log in as: the only one that can, or the store's."""
        there = roles.read_roles(self.conn, self.group)
        able = [name for name, role in there.items() if role.login]
        if len(able) <= 1:
            return able[0] if able else None
        stored = (store.read() or {}).get("username")
        if stored in able:
            return str(stored)
        raise Refused(
            f"more than one role of {self.group.name} can log in: {', '.join(sorted(able))}",
            "Say which one the applications use: --current ROLE.",
        )

    def _refuse_overtaken(self, rotation: Rotation) -> None:
        """Never disable a role when the one that is to stay cannot log in.

        Another machine, with a journal of its own, may have rotated since this one broke off.
        """
        stays = {
            Step.WAITING: rotation.new,
            Step.DISABLING: rotation.new,
            Step.ABORTING: rotation.old,
        }.get(rotation.step)
        if stays is not None and stays not in self._enabled():
            raise Refused(
                f"{stays} cannot log in any more: the group was changed after {rotation.began}",
                "Begin anew: --current ROLE names the role that the applications use.",
            )

    def _delivered(self, rotation: Rotation, store: Store) -> bool:
        """Whether applications have the new credential already, and it works.

        A kill while it was being stored leaves that open. What can be read back is tried. Of a
        store that cannot be read, sessions of the new role say the same; without any it gets
        another password, for the one before is lost.
        """
        if rotation.step not in DELIVERED:
            return False
        found = store.read()
        if found is not None and found.get("username") == rotation.new:
            return self._accepted(rotation, str(found.get("password", "")))
        if rotation.step is Step.STORING:
            return found is None and bool(self._strangers(rotation.new))
        if found is not None:
            raise Refused(
                f"{rotation.to} holds the secret of {found.get('username')}, not {rotation.new}",
                "Somebody has changed it since. Put it right, or go back with --abort.",
            )
        return True

    def _tried(self, credential: Credential, old: str | None) -> bool:
        """Log in with a credential that nobody has yet; whether the password was asked for."""
        try:
            return roles.try_login(self.dsn, credential, self.group)
        except ConnectError as error:
            state = "nothing else was touched" if old is None else f"{old} is as it was"
            raise ConnectError(
                f"{credential.username} does not come in, {state}: {error.message}",
                f"Let {credential.username} in as {old or self.group.name} is (pg_hba.conf: "
                f"+{self.group.name}), then run again; or --abort.",
            ) from None

    def _strangers(self, role: str) -> tuple[Session, ...]:
        """The sessions of a role that are not of a login that we tried."""
        found = roles.sessions_of(self.conn, role)
        return tuple(each for each in found if each.application != roles.OURS)

    def _accepted(self, rotation: Rotation, password: str) -> bool:
        """Whether the stored password is the new role's; any other failure is raised.

        Once applications use it, another must not be made, whatever keeps us from coming in.
        """
        try:
            roles.try_login(self.dsn, self._credential(rotation.new, password), self.group)
        except ConnectError as error:
            if rotation.step is Step.STORING and error.message.startswith(_TURNED_AWAY):
                return False
            raise
        return True

    def _hand_over(self, rotation: Rotation, store: Store) -> tuple[Rotation, tuple[str, ...]]:
        """A new credential, tried and stored. The old role is as it was.

        Refused while somebody uses the new role: with a new password they could not come back.
        """
        if users := self._strangers(rotation.new):
            raise Refused(
                f"{rotation.new} is in use: {users[0].words}",
                "Its turn comes when its sessions have ended; if applications use it and not "
                f"{rotation.old}, say --current {rotation.new}.",
            )
        rotation = self._step(rotation, Step.PREPARING)
        roles.prepare(self.conn, self.group, rotation.old)
        rotation = self._step(rotation, Step.SETTING)
        credential = self._credential(rotation.new, new_password())
        roles.enable(self.conn, rotation.new, credential.password)
        rotation = self._step(rotation, Step.VERIFYING)
        asked = self._tried(credential, rotation.old)
        rotation = self._step(rotation, Step.STORING)
        store.write(credential)
        return rotation, () if asked else (_NOT_ASKED,)

    def _retire(self, rotation: Rotation, notices: tuple[str, ...]) -> Outcome:
        """Wait until nobody uses the old role, then disable it."""
        if (old := rotation.old) is None:
            return self._outcome(self._step(rotation, Step.DONE), (), notices)
        rotation = self._step(rotation, Step.WAITING)
        rotation, holders = self._disable(rotation, old)
        if holders:
            return self._outcome(rotation, holders, notices)
        return self._outcome(self._step(rotation, Step.DONE), (), notices)

    def _disable(self, rotation: Rotation, role: str) -> tuple[Rotation, tuple[Session, ...]]:
        """NOLOGIN, then look again: whoever slipped in gets the role back, and we wait on."""
        deadline = time.monotonic() + self.patience.wait
        aborting = rotation.step is Step.ABORTING
        while not (holders := self._until_quiet(role, deadline)):
            rotation = rotation if aborting else self._step(rotation, Step.DISABLING)
            roles.close(self.conn, role)
            if not roles.sessions_of(self.conn, role):
                roles.scramble(self.conn, role, new_password())
                return rotation, ()
            roles.open_again(self.conn, role)
            rotation = rotation if aborting else self._step(rotation, Step.WAITING)
        return rotation, holders

    def _until_quiet(self, role: str, deadline: float) -> tuple[Session, ...]:
        """Nobody after a while without any session; those that are there when patience ends."""
        seen, said = time.monotonic(), 0
        while True:
            holders = roles.sessions_of(self.conn, role)
            now = time.monotonic()
            if holders:
                seen = now
            elif now - seen >= self.patience.quiet:
                return ()
            if holders and now >= deadline:
                return holders
            if holders and len(holders) != said:
                said = len(holders)
                self.tell(f"{said} session{'s' * (said != 1)} still use {role}")
            time.sleep(min(_POLL_SECONDS, self.patience.quiet or _POLL_SECONDS))

    def _abort(self, rotation: Rotation, store: Store) -> Outcome:
        self._give_back(rotation, store)
        rotation = self._step(rotation, Step.ABORTING)
        if rotation.new not in roles.read_roles(self.conn, self.group):
            return self._outcome(self._step(rotation, Step.ABORTED))
        rotation, holders = self._disable(rotation, rotation.new)
        if holders:
            return self._outcome(rotation, holders)
        return self._outcome(self._step(rotation, Step.ABORTED))

    def _give_back(self, rotation: Rotation, store: Store) -> None:
        """The old credential back into the store, if the new one is or may be there."""
        if rotation.step not in DELIVERED:
            return
        if rotation.reached(Step.DISABLING):
            raise Refused(
                f"{rotation.old} may have been disabled already", "Run rotate again to finish."
            )
        if rotation.old is None:
            raise Refused("there is no older credential to go back to", "Rotate again instead.")
        roles.open_again(self.conn, rotation.old)
        if (store.read() or {}).get("username") == rotation.old:
            return
        if not store.restore(rotation.old):
            raise Refused(
                f"{rotation.to} cannot give the old secret back",
                "Run rotate again to finish this rotation, and once more to leave its password.",
            )

    def _holders(self, rotation: Rotation) -> tuple[Session, ...]:
        """The sessions of the role that is to be disabled, while one is."""
        going = {
            Step.WAITING: rotation.old,
            Step.DISABLING: rotation.old,
            Step.ABORTING: rotation.new,
        }.get(rotation.step)
        return () if going is None else roles.sessions_of(self.conn, going)

    def _outcome(
        self,
        rotation: Rotation,
        holders: tuple[Session, ...] = (),
        notices: tuple[str, ...] = (),
    ) -> Outcome:
        return Outcome(rotation=rotation, enabled=self._enabled(), holders=holders, notices=notices)

    def _enabled(self) -> tuple[str, ...]:
        there = roles.read_roles(self.conn, self.group)
        return tuple(sorted(name for name, role in there.items() if role.login))

    def _credential(self, role: str, password: str) -> Credential:
        info = self.conn.info
        return Credential(
            username=role, password=password, host=info.host, port=info.port, dbname=info.dbname
        )

    def _step(self, rotation: Rotation, step: Step) -> Rotation:
        rotation = rotation.at(step, _now())
        self.book.write(rotation)
        self.tell(_WORDS[step].format(old=rotation.old or "none", new=rotation.new, to=rotation.to))
        return rotation


def check_role(current: str | None, group: Group) -> None:
    """Refuse a --current that is not one of the group. BadValue."""
    if current is not None and current not in group.roles:
        raise BadValue(
            f"{current} is not a role of {group.name}", f"Name one of {', '.join(group.roles)}."
        )


def unfinished(rotation: Rotation | None) -> Rotation:
    """The rotation that --abort ends. ApplyError without one."""
    if rotation is None or rotation.finished:
        raise ApplyError("no rotation is under way", "Look with --status.")
    return rotation


def new_password() -> str:
    """256 random bits in letters that need no quoting in a URI, a shell or ~/.pgpass."""
    return secrets.token_urlsafe(32)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


_TURNED_AWAY: Final = "the password was not accepted"  # as postgres.connect words it
_NOT_ASKED: Final = (
    "the server let the new role in without asking for a password (trust, peer or a certificate "
    "in pg_hba.conf), so the login proves nothing"
)
_WORDS: Final = {
    Step.PLANNED: "from {old} to {new}",
    Step.PREPARING: "making {new} equal to {old}",
    Step.SETTING: "giving {new} a new password",
    Step.VERIFYING: "logging in as {new}",
    Step.STORING: "writing the secret",
    Step.WAITING: "waiting until nobody uses {old}",
    Step.DISABLING: "disabling {old}",
    Step.DONE: "{new} is in use",
    Step.ABORTING: "going back to {old}",
    Step.ABORTED: "{old} is in use, as before",
}
