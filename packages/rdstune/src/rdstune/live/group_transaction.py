"""One journalled change of a parameter group: forward to its target, or back to its start.

Each call is journalled before it is made. Separate calls are not atomic: in an attached group,
dynamic parameters come into force call by call. So static parameters go first, a failure restores
everything, and the next run finishes or reverts what a killed process left behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from mrtuner.aws import rds
from mrtuner.aws.calls import unless_missing
from mrtuner.aws.errors import AwsError
from mrtuner.aws.rows import Scope
from mrtuner.change.journal import Journal
from mrtuner.change.record import Change, GroupChange, ParameterChange, State
from mrtuner.change.transaction import Observer, Transaction
from mrtuner.errors import ApplyError, MrTunerError
from rdstune.live.batches import Direction, batches, send, value
from rdstune.live.failed_rollback import rollback_failed
from rdstune.live.plan import user_values
from rdstune.live.target import CHANGEABLE, INCOMPATIBLE, Target, read_target, users
from rdstune.live.wait import Pace, refuse_failure, wait

_APPLIED: Final = frozenset({"in-sync", "pending-reboot"})
#: Attempts to delete a group that was just detached; RDS needs a moment.
_DELETIONS: Final = 10


@dataclass(slots=True)
class GroupTransaction(Transaction):
    """A change of a parameter group. `may_reboot`: whether this run may reboot instances."""

    client: Any
    journal: Journal
    change: Change
    pace: Pace
    at: Observer
    may_reboot: bool
    calls: int = field(default=0, init=False)  # Modify and Reset calls made by this run

    @property
    def group(self) -> GroupChange:
        """The change's group. ApplyError if the change is of something else."""
        if self.change.group is None:
            raise ApplyError("the change in the journal is not a parameter group change")
        return self.change.group

    @property
    def scope(self) -> Scope:
        return Scope(self.group.scope)

    # Forward.

    def forward(self) -> None:
        """Write in calls of at most twenty, attach, wait, reboot if allowed, verify."""
        if self.group.creates:
            with self._step(State.WRITING, f"create group {self.group.name}"):
                name, family = self.group.name, self.group.family
                rds.create_group(self.client, name, family, self.group.description, self.scope)
        broken = read_target(self.client, self.group.identifier)
        if not self.group.removes or broken.incompatible:
            self._write("after", State.WRITING)
            with self._step(State.WRITTEN, "check the group"):
                self._check_values("after")
        if broken.incompatible:
            self._reboot_with_old_values(broken, State.RESTARTING)
        if self.group.attached_before != self.group.attached_after:
            with self._step(State.ATTACHING, f"attach group {self.group.attached_after}"):
                self._attach(self.group.attached_after)
        with self._step(State.RELOADING, "wait until RDS has applied it"):
            self._settle(self.group.attached_after, revived=bool(broken.incompatible))
        self.complete()

    def complete(self) -> None:
        """Finish a change whose group is as intended: reboot, verify, clean up."""
        begun = self._begun()
        for name in self.group.reboots if self.may_reboot else ():
            with self._step(State.RESTARTING, f"reboot {name}"):
                always = name not in begun  # whatever status RDS gives the group
                accepted = partial(self._note_reboot, name)
                reboot_waiting(self.client, name, self.pace, always=always, begun=accepted)
        with self._step(State.RELOADED, "verify"):
            self._verify()
        if self.group.removes:
            with self._step(State.RELOADED, f"delete group {self.group.name}"):
                self._delete()
        self._note(State.VERIFIED, "verified")

    def at_target(self) -> bool:
        """Whether the group is as intended and attached as intended, and nothing has failed."""
        target = self._settled_somehow()
        if target.incompatible or target.group != self.group.attached_after:
            return False
        if self.group.removes:
            return True
        now = self._values()
        return now is not None and not self._differing("after", now)

    # Back.

    def back(self) -> tuple[str, ...]:
        """Restore everything; return the parameters that keep our value until a reboot."""
        target = self._settled_somehow()
        # The values of a group that is to be deleted matter only where an instance is down.
        if not self.group.creates or target.incompatible:
            self._write("before", State.REVERTING, self._to_put_back())
            target = self._settled_somehow()
        if target.incompatible:
            target = self._reboot_with_old_values(target)
        if target.group == self.group.attached_after != self.group.attached_before:
            with self._step(State.REVERTING, f"attach group {self.group.attached_before} again"):
                self._attach(self.group.attached_before)
                self._settle(self.group.attached_before)
        waiting = self._reboot_back()
        if self.group.creates:
            self._remove_ours()
        self._note(State.REVERTED, "reverted")
        return waiting

    def as_before(self, waiting: Sequence[str]) -> str:
        """Return a message that the group is restored, and which parameters wait for a reboot."""
        if waiting:
            return f"the group is as it was before; a reboot restores {', '.join(waiting)}"
        return "the group is as it was before"

    def not_back(self, why: str, error: MrTunerError) -> ApplyError:
        """Return an error with the values in force and the command that continues the rollback."""
        return rollback_failed(self, why, error)

    def _to_put_back(self) -> tuple[ParameterChange, ...]:
        """Return our values that are not restored yet; values that others set since are kept."""
        now = self._values()
        if now is None:
            return ()
        keep = [one for one in self.change.entries if now.get(one.name) in (one.before, one.after)]
        self.change = replace(self.change, entries=tuple(keep))
        return tuple(one for one in keep if now.get(one.name) != one.before)

    def _reboot_with_old_values(self, target: Target, state: State = State.REVERTING) -> Target:
        """Reboot what cannot start; it is down, so this needs no permission."""
        for name in target.incompatible:
            with self._step(state, f"reboot {name} with its old values"):
                self._reboot_failed_member(name)
        return self._settled_somehow()

    def _reboot_failed_member(self, name: str) -> None:
        try:
            rds.reboot(self.client, name)
        except AwsError as error:
            if error.code != "InvalidDBInstanceState":
                raise
            # RDS is already trying by itself.
        began = self.pace.clock()

        def up_or_down_again(target: Target) -> bool:
            """Whether it is up or down again; RDS first shows the status before the reboot."""
            late = self.pace.clock() - began > self.pace.grace
            status = target.member(name).status
            return status in CHANGEABLE or (late and status == INCOMPATIBLE)

        wait(self.client, name, up_or_down_again, self.pace, strict=False)

    def _reboot_back(self) -> tuple[str, ...]:
        """Reboot instances that ran our values, if allowed; else return the waiting parameters."""
        rebooted = self._begun()
        waiting = [one.name for one in self.change.entries if one.restart]
        target = read_target(self.client, self.group.identifier)
        if not rebooted or not target.waiting:
            return ()
        if not self.may_reboot:
            return tuple(waiting)
        for name in rebooted:
            with self._step(State.REVERTING, f"reboot {name} with its old values"):
                reboot_waiting(self.client, name, self.pace)
        return ()

    def _begun(self) -> tuple[str, ...]:
        """Return the instances whose reboot RDS has accepted, in this run or an earlier one."""
        done = self.journal.rebooted(self.change)
        return tuple(name for name in self.group.reboots if name in done)

    def _note_reboot(self, name: str) -> None:
        """Record that RDS has accepted a reboot: one that is only planned has changed nothing."""
        self.change = self.journal.note(
            self.change, State.RESTARTING, f"{name} is rebooting", rebooting=name
        )

    def _remove_ours(self) -> None:
        """Delete the group that this change created, unless others use it by now."""
        name = self.group.name
        found = unless_missing(lambda: rds.group(self.client, name, self.scope))
        if found is None or found.description != self.group.description:
            return  # none, or another group with the same name
        with self._step(State.REVERTING, f"delete group {name}"):
            if not users(self.client, name, self.scope):
                self._delete()

    # Single steps.

    def _write(
        self, direction: Direction, state: State, entries: Sequence[ParameterChange] | None = None
    ) -> None:
        todo = self.change.entries if entries is None else entries
        for batch in batches(todo, direction):
            with self._step(state, str(batch)):
                self.calls += 1
                send(self.client, self.group.name, self.scope, batch)

    def _check_values(self, direction: Direction) -> None:
        now = self._values()
        wrong = self._differing(direction, now or {})
        if now is None or wrong:
            raise ApplyError(
                f"group {self.group.name} lacks values that were written: {', '.join(wrong)}",
                "Someone else may be changing it; run again when they have finished.",
            )

    def _differing(self, direction: Direction, now: Mapping[str, str]) -> list[str]:
        return [
            one.name for one in self.change.entries if now.get(one.name) != value(one, direction)
        ]

    def _values(self) -> dict[str, str] | None:
        """Return the group's user-set values; None when it does not exist."""
        name, scope = self.group.name, self.scope
        rows = unless_missing(lambda: rds.parameters(self.client, name, scope, source="user"))
        return None if rows is None else user_values(rows)

    def _attach(self, name: str) -> None:
        if self.scope is Scope.CLUSTER:
            rds.attach_cluster_group(self.client, self.group.identifier, name)
        else:
            rds.attach_group(self.client, self.group.identifier, name)

    def _settle(self, attached: str, *, revived: bool = False) -> Target:
        """Wait until RDS has applied the group's values as far as possible without a reboot.

        `revived`: the instance was down and has already been rebooted with them.
        """
        static = any(one.restart for one in self.change.entries)
        waits = attached != self.group.attached_before or (static and not revived)
        began = self.pace.clock()

        def done(target: Target) -> bool:
            taken = target.changeable and target.group == attached
            statuses = set(target.statuses.values())
            late = self.pace.clock() - began > self.pace.grace
            if waits and not late:
                return taken and statuses == {"pending-reboot"}
            return taken and statuses <= _APPLIED

        return wait(self.client, self.group.identifier, done, self.pace)

    def _settled_somehow(self) -> Target:
        """Wait until no work is under way, whatever the result, and return the target."""
        return wait(
            self.client,
            self.group.identifier,
            lambda one: one.busy is None and "applying" not in one.statuses.values(),
            self.pace,
            strict=False,
        )

    def _verify(self) -> None:
        target = read_target(self.client, self.group.identifier)
        refuse_failure(target)
        if target.group != self.group.attached_after:
            raise ApplyError(
                f"{target} uses group {target.group}, not {self.group.attached_after}",
                "Someone else may have attached another group; run again.",
            )
        if not self.group.removes:
            self._check_values("after")

    def _delete(self) -> None:
        """Delete the group; RDS may refuse for a moment after it was detached."""
        for attempt in range(1, _DELETIONS + 1):
            try:
                rds.delete_group(self.client, self.group.name, self.scope)
            except AwsError as error:
                if error.not_found:
                    return
                if "ParameterGroupState" not in error.code or attempt == _DELETIONS:
                    raise
                self.pace.sleep(self.pace.first)
            else:
                return


def reboot_waiting(
    client: Any,
    name: str,
    pace: Pace,
    *,
    always: bool = False,
    begun: Callable[[], None] = lambda: None,
) -> None:
    """Reboot an instance or a Multi-AZ DB cluster, and wait until it runs the group's values.

    `always`: even when RDS says that it is in sync. `begun` is called once RDS has accepted the
    call. Raises DoesNotStart when it does not start.
    """
    ready = wait(client, name, lambda one: one.up(name), pace)
    if always or not ready.runs_group(name):
        if ready.restarts_as_one and name == ready.identifier:
            rds.reboot_cluster(client, name)
        else:
            rds.reboot(client, name)
        begun()
        wait(client, name, lambda one: one.runs_group(name), pace)
