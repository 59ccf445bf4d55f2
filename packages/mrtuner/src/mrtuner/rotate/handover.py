"""Hand a new credential to the applications without ever invalidating one they already have.

A store that can be read back is queried. One that cannot (a command, stdout) may have handed out
a password although it failed or we were killed. So the password is kept before it is stored, and
handed out again until it has arrived; only the next rotation makes another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mrtuner.errors import ConnectCause, ConnectError, Refused
from mrtuner.rotate import equalize, login, roles
from mrtuner.rotate.base import RotationBase
from mrtuner.rotate.cautions import doubts
from mrtuner.rotate.model import DELIVERED, MOVED, Credential, RotationState, RotationStep

if TYPE_CHECKING:
    from mrtuner.rotate.stores import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover(RotationBase):
    """The steps from a new password to one that applications use."""

    def doubts(self, rotation: RotationState) -> tuple[str, ...]:
        """Return the doubts about the rotation on this server, before anything is done."""
        return doubts(self.conn, self.group, rotation.old, len(self.replicas))

    def _delivered(self, rotation: RotationState, store: Store) -> bool:
        """Whether applications already have the new credential, and it works.

        If we were killed while storing it, that is unknown. A credential that can be read back is
        tried; otherwise it counts once the store has accepted it.
        """
        if rotation.step not in DELIVERED:
            return False
        if not store.readable:
            kept = self.book.kept(rotation)
            known = kept is None or rotation.step is RotationStep.STORING
            return rotation.step in MOVED and (known or self._accepted(rotation, str(kept)))
        found = store.read()
        if found is not None and found.get("username") == rotation.new:
            return self._accepted(rotation, str(found.get("password", "")))
        if rotation.step is RotationStep.STORING:
            return False
        whose = "none" if found is None else f"that of {found.get('username')}"
        raise Refused(
            f"{rotation.to} should hold the secret of {rotation.new}, but holds {whose}",
            "Someone has changed it since. Correct it, or go back with mrtuner rotate abort.",
        )

    def _accepted(self, rotation: RotationState, password: str) -> bool:
        """Whether the new role can log in with the stored password; other failures are raised.

        Once applications use it, no other password may be made, whatever prevents the login.
        """
        try:
            login.try_login(self.dsn, self._credential(rotation.new, password), self.group)
        except ConnectError as error:
            if rotation.step is RotationStep.STORING and error.cause is ConnectCause.PASSWORD:
                return False
            raise
        return True

    def _hand_over(
        self, rotation: RotationState, store: Store
    ) -> tuple[RotationState, tuple[str, ...]]:
        """Store a credential that has been tried. The old role is unchanged."""
        kept = self._kept(rotation, store)
        if kept is None:  # with a kept password, its users can still log in
            self._refuse_in_use(rotation, store)
        rotation = self._step(rotation, RotationStep.PREPARING)
        notices = self.doubts(rotation)
        equalize.prepare(self.conn, self.group, rotation.old)
        rotation = self._step(rotation, RotationStep.SETTING)
        credential = self._credential(rotation.new, kept or self._fresh(rotation, store))
        roles.enable(self.conn, rotation.new, credential.password)
        rotation = self._step(rotation, RotationStep.VERIFYING)
        notices += self._tried(credential, rotation.old, store)
        rotation = self._step(rotation, RotationStep.STORING)
        store.write(credential)
        return rotation, notices

    def _kept(self, rotation: RotationState, store: Store) -> str | None:
        """Return the password that may have been handed out. Refused if it is missing."""
        kept = self.book.kept(rotation)
        if kept is None and rotation.reached(RotationStep.STORING) and not store.readable:
            raise Refused(
                f"{rotation.to} may have handed out a password of {rotation.new} that is not kept "
                f"in {self.book.journal.directory}",
                "Continue with the journal that the rotation was started with; or start over with "
                "--current ROLE, the role that the applications use.",
            )
        return kept

    def _fresh(self, rotation: RotationState, store: Store) -> str:
        """Make a new password; keep it beside the journal if the store cannot be read back."""
        password = roles.new_password()
        if not store.readable:
            self.book.keep(rotation, password)
        return password

    def _refuse_in_use(self, rotation: RotationState, store: Store) -> None:
        """Refuse if the new role is in use: its users could not log in with another password."""
        if users := self._watch.strangers(rotation.new):
            raise Refused(
                f"{rotation.new} is in use: {users[0].words}",
                "Run again when its sessions have ended; if applications use it instead of "
                f"{rotation.old}, use --current {rotation.new}.",
            )
        found = store.read() or {}
        if found.get("username") == rotation.new and self._works(found):
            raise Refused(
                f"{rotation.to} holds a working secret of {rotation.new}",
                "Applications may have read it: leave out --current, or finish its last rotation "
                "where it was started.",
            )

    def _works(self, found: dict[str, object]) -> bool:
        credential = self._credential(str(found["username"]), str(found.get("password", "")))
        try:
            login.try_login(self.dsn, credential, self.group)
        except ConnectError:
            return False
        return True

    def _tried(self, credential: Credential, old: str | None, store: Store) -> tuple[str, ...]:
        """Log in wherever applications may; return what the logins do not prove."""
        try:
            found = (
                login.try_login(self.dsn, credential, self.group),
                *(login.try_replica(each.dsn, credential, self.group) for each in self.replicas),
                login.try_where_stored(self.dsn, store.read(), credential),
            )
        except ConnectError as error:
            state = "nothing else was changed" if old is None else f"{old} is unchanged"
            raise ConnectError(
                f"{credential.username} cannot log in ({state}): {error.message}",
                f"Allow it like {old or self.group.name} (pg_hba.conf: +{self.group.name}), then "
                f"run again; or run mrtuner rotate abort. {error.hint or ''}".rstrip(),
            ) from None
        return tuple(dict.fromkeys(words for words in found if words))
