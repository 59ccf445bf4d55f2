"""A rotation from start to finish, or continued after an interruption.

At every moment one credential works: the old role is not touched until the new one has logged in,
its secret is where applications read it, and the old one has been unused for a while. With a
store that cannot be read back, an application must also have been seen using the new role.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Final

from mrtuner.described import Doc
from mrtuner.errors import ApplyError, BadValue, MissingPart, Refused
from mrtuner.rotate import equalize, roles
from mrtuner.rotate.base import now
from mrtuner.rotate.handover import Handover
from mrtuner.rotate.model import DELIVERED, MOVED, Holder, RotationState, RotationStep

if TYPE_CHECKING:
    from mrtuner.rotate.stores import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The state of a group: who can log in now, and who delays a rotation."""

    rotation: Annotated[RotationState | None, Doc("the latest of the group, or null")]
    enabled: Annotated[tuple[str, ...], Doc("the group's roles that can log in now")]
    holders: Annotated[tuple[Holder, ...], Doc("sessions that use the role to be disabled")] = ()
    notices: Annotated[tuple[str, ...], Doc("what makes the result doubtful")] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationResult(Standing):
    """The progress of a rotation."""

    rotation: RotationState


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotator(Handover):
    """A whole rotation: plan it, carry it out, continue it, abort it."""

    def status(self) -> Standing:
        """Return the state, who can log in, and who delays the rotation. Changes nothing."""
        if (rotation := self.last()) is None:
            return Standing(rotation=None, enabled=self._enabled())
        return self._outcome(rotation, self._holders(rotation))

    def plan(self, to: str, store: Store, current: str | None = None) -> RotationState:
        """Return the next rotation, not yet begun. Refused when the role in use is not known."""
        if current is not None and current not in self.group.roles:
            raise BadValue(
                f"{current} is not a role of {self.group.name}",
                f"Use one of {', '.join(self.group.roles)}.",
            )
        if current is not None and current not in self._enabled():
            raise Refused(f"{current} cannot log in", "Give the role that the applications use.")
        old = current or self._in_use(store)
        return RotationState(
            server=self.server, address=roles.address(self.conn), group=self.group.name, old=old,
            new=self.group.after(old), to=to, began=now(),
        )  # fmt: skip

    def run(self, rotation: RotationState, store: Store) -> RotationResult:
        """Continue from the rotation's current step to the end, or until patience runs out."""
        with roles.alone(self.conn, self.group):
            if rotation.step is RotationStep.ABORTING:
                return self._abort(rotation, store)
            self._refuse_overtaken(rotation)
            self._forget_finished(rotation)
            notices: tuple[str, ...] = ()
            if not self._delivered(rotation, store):
                rotation, notices = self._hand_over(rotation, store)
            return self._retire(rotation, store, notices)

    def abort(self, rotation: RotationState, store: Store) -> RotationResult:
        """Return to the old role. Refused when the secret cannot be restored."""
        with roles.alone(self.conn, self.group):
            return self._abort(rotation, store)

    def _in_use(self, store: Store) -> str | None:
        """Return the role that applications log in as: the only one that can, or the store's."""
        if len(able := self._enabled()) <= 1:
            return able[0] if able else None
        stored = (store.read() or {}).get("username")
        if stored in able:
            return str(stored)
        raise Refused(
            f"more than one role of {self.group.name} can log in: {', '.join(able)}",
            "Specify the one that the applications use: --current ROLE.",
        )

    def _refuse_overtaken(self, rotation: RotationState) -> None:
        """Refuse to continue when the role to be kept can no longer log in.

        Another machine, with its own journal, may have rotated since this one was interrupted, or
        since this rotation was planned.
        """
        stays, enabled = rotation.new if rotation.step in MOVED else rotation.old, self._enabled()
        if stays is not None and stays not in enabled:
            raise Refused(
                f"{stays} can no longer log in: the group was changed after {rotation.began}",
                _BEGIN_ANEW,
            )
        if stays is None and (others := set(enabled) - {rotation.new}):
            raise Refused(
                f"{others.pop()} can log in now: the group was changed after {rotation.began}",
                _BEGIN_ANEW,
            )

    def _forget_finished(self, rotation: RotationState) -> None:
        """Delete the passwords that a rotation leaves behind if killed at its very end."""
        if not rotation.steps and ((last := self.last()) is None or last.finished):
            self.book.forget(rotation)

    def _retire(
        self, rotation: RotationState, store: Store, notices: tuple[str, ...]
    ) -> RotationResult:
        """Wait until the old role is unused, then disable it."""
        if (old := rotation.old) is None:
            return self._outcome(self._step(rotation, RotationStep.DONE), (), notices)
        deadline = time.monotonic() + self.patience.wait
        rotation = self._step(rotation, RotationStep.WAITING)
        if not store.readable:
            rotation = self._until_seen(rotation, deadline)
            if not rotation.seen:
                unseen = (_UNSEEN.format(new=rotation.new, old=old),)
                return self._outcome(rotation, self._watch.sessions(old), notices + unseen)
        rotation, holders = self._disable(rotation, old, deadline)
        if holders:
            return self._outcome(rotation, holders, notices)
        return self._outcome(self._step(rotation, RotationStep.DONE), (), notices)

    def _until_seen(self, rotation: RotationState, deadline: float) -> RotationState:
        """Wait until the new role is used or time is up; return the rotation with `seen`.

        If the old role may already have been disabled, the new one has been seen.
        """
        if not rotation.seen:
            seen = rotation.reached(RotationStep.DISABLING) or self._watch.until_used(
                rotation.new, deadline, self.tell
            )
            rotation = replace(rotation, seen=seen)
            self.book.write(rotation)
        return rotation

    def _disable(
        self, rotation: RotationState, role: str, deadline: float
    ) -> tuple[RotationState, tuple[Holder, ...]]:
        """Set NOLOGIN, then check again: for a session that got in, enable the role and wait on."""
        quiet = self.patience.quiet
        aborting = rotation.step is RotationStep.ABORTING
        while not (holders := self._watch.until_quiet(role, quiet, deadline, self.tell)):
            rotation = rotation if aborting else self._step(rotation, RotationStep.DISABLING)
            roles.close(self.conn, role)
            if not self._watch.sessions(role):
                roles.scramble(self.conn, role, roles.new_password())
                self._inherit(role)
                return rotation, ()
            roles.open_again(self.conn, role)
            rotation = rotation if aborting else self._step(rotation, RotationStep.WAITING)
        return rotation, holders

    def _inherit(self, role: str) -> None:
        """Let the group own what the disabled role created; a failure is only reported."""
        try:
            equalize.hand_to_group(self.conn, self.group, role)
        except (MissingPart, Refused) as error:
            self.tell(f"warning: {role} keeps the objects it owns here: {error.message}")

    def _abort(self, rotation: RotationState, store: Store) -> RotationResult:
        if rotation.old is not None and rotation.old not in self._enabled():
            raise Refused(f"{rotation.old} can no longer log in", _BEGIN_ANEW)
        self._give_back(rotation, store)
        rotation = self._step(rotation, RotationStep.ABORTING)
        if not rotation.reached(RotationStep.SETTING):  # the new role may be in use by others
            return self._outcome(self._step(rotation, RotationStep.ABORTED))
        deadline = time.monotonic() + self.patience.wait
        rotation, holders = self._disable(rotation, rotation.new, deadline)
        if holders:
            return self._outcome(rotation, holders)
        return self._outcome(self._step(rotation, RotationStep.ABORTED))

    def _give_back(self, rotation: RotationState, store: Store) -> None:
        """Restore the old credential in the store, if it has or may have the new one."""
        unknown = self._handed_out_unseen(rotation, store)
        if rotation.step not in DELIVERED and not unknown:
            return
        if rotation.reached(RotationStep.DISABLING):
            raise Refused(
                f"{rotation.old} may have been disabled already", "Run rotate again to finish."
            )
        if rotation.old is None:
            raise Refused("there is no older credential to go back to", "Rotate again instead.")
        found = store.read()
        if not unknown and found is not None and found.get("username") != rotation.new:
            return  # the old one's, or someone else's
        if (unknown and store.readable) or not store.restore(rotation.old):
            raise Refused(
                f"{rotation.to} cannot restore the old secret",
                "Run rotate again to finish this rotation; with another --to if the secret was "
                "not accepted there: the secret stays the same.",
            )

    def _handed_out_unseen(self, rotation: RotationState, store: Store) -> bool:
        """Whether a store that cannot be read, now or before, may have the new secret."""
        hidden = not store.readable or self.book.kept(rotation) is not None
        return hidden and rotation.reached(RotationStep.STORING)

    def _holders(self, rotation: RotationState) -> tuple[Holder, ...]:
        """Return the sessions of the role to be disabled, if there is one."""
        going = {
            RotationStep.WAITING: rotation.old,
            RotationStep.DISABLING: rotation.old,
            RotationStep.ABORTING: rotation.new,
        }.get(rotation.step)
        return () if going is None else self._watch.sessions(going)

    def _outcome(
        self,
        rotation: RotationState,
        holders: tuple[Holder, ...] = (),
        notices: tuple[str, ...] = (),
    ) -> RotationResult:
        return RotationResult(
            rotation=rotation, enabled=self._enabled(), holders=holders, notices=notices
        )


def unfinished(rotation: RotationState | None) -> RotationState:
    """Return the rotation that `mrtuner rotate abort` ends. ApplyError without one."""
    if rotation is None or rotation.finished:
        raise ApplyError("no rotation is in progress", "See mrtuner rotate status.")
    return rotation


_BEGIN_ANEW: Final = "Start over with --current ROLE, the role that the applications use."
_UNSEEN: Final = (
    "no session of {new} has been seen yet, so {old} stays enabled: do the applications have the "
    "secret? If they do, and connect rarely: --current {new}"
)
