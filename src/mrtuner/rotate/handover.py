"""Handing a new credential to the applications, so that no second one ever spoils the first.

A store that gives back what it has is asked. One that cannot (a command, stdout) may have handed a
password out although it failed, or although we were killed. So that password is kept before, and
handed out again until it has arrived; another is made only by the next rotation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mrtuner.errors import ConnectCause, ConnectError, Refused
from mrtuner.rotate import equalize, login, roles
from mrtuner.rotate.cautions import doubts
from mrtuner.rotate.model import DELIVERED, MOVED, Credential, Rotation, Step
from mrtuner.rotate.steps import Steps, new_password

if TYPE_CHECKING:
    from mrtuner.rotate.stores import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover(Steps):
    """The steps from a password that nobody knows to one that applications have."""

    def doubts(self, rotation: Rotation) -> tuple[str, ...]:
        """What is doubtful of it on this server, before anything is done."""
        return doubts(self.conn, self.group, rotation.old, len(self.replicas))

    def _delivered(self, rotation: Rotation, store: Store) -> bool:
        """Whether applications have the new credential already, and it works.

        A kill while it was being stored leaves that open. What can be read back is tried; where
        nothing can, it counts once the store has taken it.
        """
        if rotation.step not in DELIVERED:
            return False
        if not store.readable:
            kept = self.book.kept(rotation)
            known = kept is None or rotation.step is Step.STORING
            return rotation.step in MOVED and (known or self._accepted(rotation, str(kept)))
        found = store.read()
        if found is not None and found.get("username") == rotation.new:
            return self._accepted(rotation, str(found.get("password", "")))
        if rotation.step is Step.STORING:
            return False
        whose = "no secret" if found is None else f"the secret of {found.get('username')}"
        raise Refused(
            f"{rotation.to} holds {whose}, not {rotation.new}'s",
            "Somebody has changed it since. Put it right, or go back with --abort.",
        )

    def _accepted(self, rotation: Rotation, password: str) -> bool:
        """Whether the stored password is the new role's; any other failure is raised.

        Once applications use it, another must not be made, whatever keeps us from coming in.
        """
        try:
            login.try_login(self.dsn, self._credential(rotation.new, password), self.group)
        except ConnectError as error:
            if rotation.step is Step.STORING and error.cause is ConnectCause.PASSWORD:
                return False
            raise
        return True

    def _hand_over(self, rotation: Rotation, store: Store) -> tuple[Rotation, tuple[str, ...]]:
        """A credential, tried and stored. The old role is as it was."""
        kept = self._kept(rotation, store)
        if kept is None:  # else whoever has it goes on coming in
            self._refuse_in_use(rotation, store)
        rotation = self._step(rotation, Step.PREPARING)
        notices = self.doubts(rotation)
        equalize.prepare(self.conn, self.group, rotation.old)
        rotation = self._step(rotation, Step.SETTING)
        credential = self._credential(rotation.new, kept or self._fresh(rotation, store))
        roles.enable(self.conn, rotation.new, credential.password)
        rotation = self._step(rotation, Step.VERIFYING)
        notices += self._tried(credential, rotation.old, store)
        rotation = self._step(rotation, Step.STORING)
        store.write(credential)
        return rotation, notices

    def _kept(self, rotation: Rotation, store: Store) -> str | None:
        """The password that may have been handed out before. Refused when it should be here."""
        kept = self.book.kept(rotation)
        if kept is None and rotation.reached(Step.STORING) and not store.readable:
            raise Refused(
                f"{rotation.to} may have handed out a password of {rotation.new} that is not kept "
                f"in {self.book.directory}",
                "Go on with the journal that it was begun with; or name the role that the "
                "applications use, --current ROLE, to begin anew.",
            )
        return kept

    def _fresh(self, rotation: Rotation, store: Store) -> str:
        """Another password; kept beside the journal where the store cannot tell what it has."""
        password = new_password()
        if not store.readable:
            self.book.keep(rotation, password)
        return password

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
