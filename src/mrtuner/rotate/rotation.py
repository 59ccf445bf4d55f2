"""A rotation from beginning to end, and on from wherever it was broken off.

At every moment one credential works: the old role is not touched until the new one has logged in,
its secret is where applications read it, and nobody has used the old one for a while.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from mrtuner.errors import ApplyError, BadValue, ConnectError, MissingPart, Refused
from mrtuner.rotate import equal, login, roles
from mrtuner.rotate.doubts import doubts
from mrtuner.rotate.model import (
    DELIVERED,
    MOVED,
    Credential,
    Group,
    Replica,
    Rotation,
    Session,
    Step,
)
from mrtuner.rotate.waiting import Patience, Watch

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection
    from mrtuner.rotate.book import Book
    from mrtuner.rotate.stores import Store


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

    dsn: str = field(repr=False)
    conn: Connection
    group: Group
    book: Book
    patience: Patience = field(default_factory=Patience)
    replicas: tuple[Replica, ...] = ()
    tell: Callable[[str], None] = lambda _text: None

    def last(self) -> Rotation | None:
        """The latest rotation that the journal knows."""
        return self.book.last(self.server, roles.address(self.conn), self.group.name)

    @property
    def server(self) -> str:
        """Which server this is, whatever its address."""
        return roles.system_identifier(self.conn)

    def status(self) -> Standing:
        """Where it stands, who can log in, who holds it up. Changes nothing."""
        if (rotation := self.last()) is None:
            return Standing(rotation=None, enabled=self._enabled())
        return self._outcome(rotation, self._holders(rotation))

    def doubts(self, rotation: Rotation) -> tuple[str, ...]:
        """What is doubtful of it on this server, before anything is done."""
        return doubts(self.conn, self.group, rotation.old, len(self.replicas))

    def plan(self, to: str, store: Store, current: str | None = None) -> Rotation:
        """The next rotation, nothing done yet. Refused when the role in use cannot be told."""
        if current is not None and current not in self.group.roles:
            raise BadValue(
                f"{current} is not a role of {self.group.name}",
                f"Name one of {', '.join(self.group.roles)}.",
            )
        if current is not None and current not in self._enabled():
            raise Refused(f"{current} cannot log in", "Name the role that the applications use.")
        old = current or self._in_use(store)
        return Rotation(
            server=self.server, address=roles.address(self.conn), group=self.group.name, old=old,
            new=self.group.after(old), to=to, began=_now(),
        )  # fmt: skip

    def run(self, rotation: Rotation, store: Store) -> Outcome:
        """Go on from the step that the rotation is at, to the end or until patience ends."""
        with roles.alone(self.conn, self.group):
            if rotation.step is Step.ABORTING:
                return self._abort(rotation, store)
            self._refuse_overtaken(rotation)
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
        if len(able := self._enabled()) <= 1:
            return able[0] if able else None
        stored = (store.read() or {}).get("username")
        if stored in able:
            return str(stored)
        raise Refused(
            f"more than one role of {self.group.name} can log in: {', '.join(able)}",
            "Say which one the applications use: --current ROLE.",
        )

    def _refuse_overtaken(self, rotation: Rotation) -> None:
        """Never go on when the role that is to stay meanwhile cannot log in.

        Another machine, with a journal of its own, may have rotated since this one broke off, or
        since this rotation was planned.
        """
        stays, enabled = rotation.new if rotation.step in MOVED else rotation.old, self._enabled()
        if stays is not None and stays not in enabled:
            raise Refused(
                f"{stays} cannot log in any more: the group was changed after {rotation.began}",
                _BEGIN_ANEW,
            )
        if stays is None and (others := set(enabled) - {rotation.new}):
            raise Refused(
                f"{others.pop()} can log in now: the group was changed after {rotation.began}",
                _BEGIN_ANEW,
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
            return not store.readable and bool(self._watch.strangers(rotation.new))
        if store.readable:
            whose = "no secret" if found is None else f"the secret of {found.get('username')}"
            raise Refused(
                f"{rotation.to} holds {whose}, not {rotation.new}'s",
                "Somebody has changed it since. Put it right, or go back with --abort.",
            )
        return True

    def _accepted(self, rotation: Rotation, password: str) -> bool:
        """Whether the stored password is the new role's; any other failure is raised.

        Once applications use it, another must not be made, whatever keeps us from coming in.
        """
        try:
            login.try_login(self.dsn, self._credential(rotation.new, password), self.group)
        except ConnectError as error:
            if rotation.step is Step.STORING and error.message.startswith(login.TURNED_AWAY):
                return False
            raise
        return True

    def _refuse_in_use(self, rotation: Rotation, store: Store) -> None:
        """With another password, whoever has the new role's could not come back."""
        if users := self._watch.strangers(rotation.new):
            raise Refused(
                f"{rotation.new} is in use: {users[0].words}",
                "Its turn comes when its sessions have ended; if applications use it and not "
                f"{rotation.old}, say --current {rotation.new}.",
            )
        found = store.read() or {}
        if found.get("username") == rotation.new and self._works(found):
            raise Refused(
                f"{rotation.to} holds a working secret of {rotation.new}",
                "Applications may have read it: leave --current out, or let its last rotation end "
                "where it was begun.",
            )

    def _works(self, found: dict[str, object]) -> bool:
        credential = self._credential(str(found["username"]), str(found.get("password", "")))
        try:
            login.try_login(self.dsn, credential, self.group)
        except ConnectError:
            return False
        return True

    def _hand_over(self, rotation: Rotation, store: Store) -> tuple[Rotation, tuple[str, ...]]:
        """A new credential, tried and stored. The old role is as it was."""
        self._refuse_in_use(rotation, store)
        rotation = self._step(rotation, Step.PREPARING)
        notices = self.doubts(rotation)
        equal.prepare(self.conn, self.group, rotation.old)
        rotation = self._step(rotation, Step.SETTING)
        credential = self._credential(rotation.new, new_password())
        roles.enable(self.conn, rotation.new, credential.password)
        rotation = self._step(rotation, Step.VERIFYING)
        notices += self._tried(credential, rotation.old, store)
        rotation = self._step(rotation, Step.STORING)
        store.write(credential)
        return rotation, notices

    def _tried(self, credential: Credential, old: str | None, store: Store) -> tuple[str, ...]:
        """Log in wherever applications may; what the logins do not prove."""
        try:
            found = (
                login.try_login(self.dsn, credential, self.group),
                *(login.try_replica(each.dsn, credential, self.group) for each in self.replicas),
                login.try_where_stored(self.dsn, store.read(), credential),
            )
        except ConnectError as error:
            state = "nothing else was touched" if old is None else f"{old} is as it was"
            raise ConnectError(
                f"{credential.username} does not come in, {state}: {error.message}",
                f"Let it in as {old or self.group.name} is (pg_hba.conf: +{self.group.name}), "
                f"then run again; or --abort. {error.hint or ''}".rstrip(),
            ) from None
        return tuple(dict.fromkeys(words for words in found if words))

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
        deadline, quiet = time.monotonic() + self.patience.wait, self.patience.quiet
        aborting = rotation.step is Step.ABORTING
        while not (holders := self._watch.until_quiet(role, quiet, deadline, self.tell)):
            rotation = rotation if aborting else self._step(rotation, Step.DISABLING)
            roles.close(self.conn, role)
            if not self._watch.sessions(role):
                roles.scramble(self.conn, role, new_password())
                self._inherit(role)
                return rotation, ()
            roles.open_again(self.conn, role)
            rotation = rotation if aborting else self._step(rotation, Step.WAITING)
        return rotation, holders

    def _inherit(self, role: str) -> None:
        """Let the group own what the disabled role made. It is disabled all the same."""
        try:
            equal.hand_to_group(self.conn, self.group, role)
        except MissingPart as error:
            self.tell(f"warning: what {role} owns here stays its own: {error.message}")

    def _abort(self, rotation: Rotation, store: Store) -> Outcome:
        if rotation.old is not None and rotation.old not in self._enabled():
            raise Refused(f"{rotation.old} cannot log in any more", _BEGIN_ANEW)
        self._give_back(rotation, store)
        rotation = self._step(rotation, Step.ABORTING)
        if not rotation.reached(Step.SETTING):  # the new role may be somebody else's
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
        found = store.read()
        if found is not None and found.get("username") != rotation.new:
            return  # the old one's, or what somebody else put there
        if not store.restore(rotation.old):
            raise Refused(
                f"{rotation.to} cannot give the old secret back",
                "Run rotate again to finish this rotation; with another --to, if its secret was "
                "not taken there.",
            )

    def _holders(self, rotation: Rotation) -> tuple[Session, ...]:
        """The sessions of the role that is to be disabled, while one is."""
        going = {
            Step.WAITING: rotation.old,
            Step.DISABLING: rotation.old,
            Step.ABORTING: rotation.new,
        }.get(rotation.step)
        return () if going is None else self._watch.sessions(going)

    def _outcome(
        self,
        rotation: Rotation,
        holders: tuple[Session, ...] = (),
        notices: tuple[str, ...] = (),
    ) -> Outcome:
        return Outcome(rotation=rotation, enabled=self._enabled(), holders=holders, notices=notices)

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

    def _step(self, rotation: Rotation, step: Step) -> Rotation:
        rotation = rotation.at(step, _now())
        self.book.write(rotation)
        old = rotation.old or rotation.group
        self.tell(_WORDS[step].format(old=old, new=rotation.new, to=rotation.to))
        return rotation


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


_BEGIN_ANEW: Final = "Begin anew: --current ROLE names the role that the applications use."
_WORDS: Final = {
    Step.PLANNED: "from {old} to {new}",
    Step.PREPARING: "making {new} equal to {old}",
    Step.SETTING: "giving {new} a new password",
    Step.VERIFYING: "logging in as {new}",
    Step.STORING: "writing the secret to {to}",
    Step.WAITING: "waiting until nobody uses {old}",
    Step.DISABLING: "disabling {old}",
    Step.DONE: "{new} is in use",
    Step.ABORTING: "going back to {old}",
    Step.ABORTED: "{old} is in use, as before",
}
