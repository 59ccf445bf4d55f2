"""Copy the newest snapshot of each instance to another region; repeated runs copy it once.

If one snapshot fails, the others are still copied; the report lists all, and is not `ok`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain
from typing import Annotated, Any, Final

from mrtuner.aws import rds
from mrtuner.aws.calls import unless_missing
from mrtuner.aws.errors import AwsError
from mrtuner.aws.session import Account, client
from mrtuner.described import Doc
from rdstune.fleet import aws_snapshots as api
from rdstune.fleet.aws_snapshots import Snapshot
from rdstune.fleet.snapshots import (
    AT_ONCE,
    Job,
    copy_name,
    copy_tags,
    expired,
    moving,
    newest,
    under_way,
)

#: A copy under way counts as gone after this many polls that do not list it.
_PATIENCE: Final = 3


class CopyState(StrEnum):
    """What became of the copy of one snapshot."""

    COPIED = "copied"
    PRESENT = "present"  # made by an earlier run, or by a concurrent one
    STARTED = "started"  # under way; we did not wait
    POSTPONED = "postponed"  # the destination is full for now; we did not wait
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotCopy:
    """One snapshot and its copy."""

    instance: Annotated[str, Doc("whose snapshot it is")]
    source: Annotated[str, Doc("identifier of the snapshot")]
    copy: Annotated[str, Doc("identifier of the copy")]
    outcome: Annotated[CopyState, Doc("how it ended")]
    error: Annotated[str | None, Doc("why it failed")] = None
    hint: Annotated[str | None, Doc("what to do")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a run did. `ok` when nothing failed."""

    job: Job
    copies: tuple[SnapshotCopy, ...]
    deleted: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()  # of retention, and where there was nothing to copy
    notes: tuple[str, ...] = ()  # instances that were not named and have nothing to copy

    @property
    def ok(self) -> bool:
        """Whether every snapshot asked for is copied or under way, and retention succeeded."""
        return not self.failures and all(copy.outcome != CopyState.FAILED for copy in self.copies)

    def to_dict(self) -> dict[str, Any]:
        """Return the document of `rdstune snapshots copy --json` and of the Lambda function."""
        from mrtuner.documents import as_builtins
        from rdstune.fleet.document import snapshots_document

        return as_builtins(snapshots_document(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a run."""

    done: int
    of: int
    moving: Mapping[str, int]  # name of a copy: percent


def copy_snapshots(
    job: Job,
    *,
    profile: str | None = None,
    poll: float = 30.0,  # seconds between checks
    sleep: Callable[[float], None] = time.sleep,
    tell: Callable[[Progress], None] = lambda _: None,
) -> Report:
    """Copy the snapshots. Raises AwsError when a region cannot be queried at all."""
    here = client("rds", Account(job.source, profile))
    there = client("rds", Account(job.destination, profile))
    sources = _sources(here, job)
    notes = () if job.instances else tuple(_unprotected(here, job, sources))
    without_key = _without_key(job, sources, profile)
    run = _Run(job=job, there=there, waiting=deque(sources), without_key=without_key)
    while run.advance():
        tell(run.progress(len(sources)))
        sleep(poll)
    tell(run.progress(len(sources)))
    deleted, failures = _retain(there, job, sources)
    return Report(
        job=job,
        copies=tuple(sorted(run.done, key=lambda copy: copy.instance)),
        deleted=deleted,
        failures=(*_absent(job, sources), *failures),
        notes=notes,
    )


def _sources(here: Any, job: Job) -> tuple[Snapshot, ...]:
    listed = chain(api.snapshots(here, "automated"), api.snapshots(here, "manual"))
    return newest(snapshot for snapshot in listed if job.wants(snapshot.instance))


def _absent(job: Job, sources: tuple[Snapshot, ...]) -> Iterator[str]:
    """Yield what has no snapshot: a wrong name or region must not look like success."""
    if not job.instances and not sources:
        yield f"no snapshot of any instance in {job.source}"
    for name in sorted(job.instances - {source.instance for source in sources}):
        yield f"no snapshot of instance {name} in {job.source}"


def _unprotected(here: Any, job: Job, sources: tuple[Snapshot, ...]) -> Iterator[str]:
    copied = {source.instance for source in sources}
    for instance in rds.instances(here):
        if instance.cluster:
            yield f"{instance.identifier} is in cluster {instance.cluster}: {_CLUSTERS}"
        elif instance.identifier not in copied:
            yield f"{instance.identifier} has no snapshot in {job.source}"


_CLUSTERS: Final = "snapshots of clusters are not copied"


def _without_key(job: Job, sources: tuple[Snapshot, ...], profile: str | None) -> AwsError | None:
    """Return why encrypted snapshots cannot be copied, checked before anything is copied."""
    if not any(source.encrypted for source in sources):
        return None
    if job.kms_key is None:
        return AwsError(
            f"an encrypted snapshot needs a key in {job.destination}",
            "Name one with --kms-key; alias/aws/rds is the account's own key for RDS.",
        )
    try:
        state = api.key_state(client("kms", Account(job.destination, profile)), job.kms_key)
    except AwsError as error:
        return error
    if state == "Enabled":
        return None
    return AwsError(f"the key {job.kms_key} is {state}", "Enable it, or use another one.")


@dataclass(slots=True)
class _Flight:
    """A copy under way, started by us or found in progress."""

    source: Snapshot
    outcome: CopyState  # its outcome once it has completed
    misses: int = 0


@dataclass(slots=True, kw_only=True)
class _Run:
    """Snapshots waiting for a slot, copies under way, and finished copies."""

    job: Job
    there: Any
    waiting: deque[Snapshot]
    without_key: AwsError | None = None  # why no encrypted snapshot can be copied
    flying: dict[str, _Flight] = field(default_factory=dict)
    done: list[SnapshotCopy] = field(default_factory=list)
    percent: dict[str, int] = field(default_factory=dict)
    busy: int = 0  # copies that the destination is receiving, whoever started them

    def advance(self) -> bool:
        """Poll, settle finished copies, start what fits; return whether to go on waiting."""
        if not self.waiting and not self.flying:
            return False
        landed = {one.identifier: one for one in api.snapshots(self.there, "manual")}
        self._settle(landed)
        self._start(landed)
        self.percent = {name: one.progress for name, one in landed.items() if name in self.flying}
        if not self.job.wait:
            self._let_go()
        return bool(self.waiting or self.flying)

    def progress(self, of: int) -> Progress:
        return Progress(done=len(self.done), of=of, moving=dict(self.percent))

    def _settle(self, landed: Mapping[str, Snapshot]) -> None:
        for name, flight in list(self.flying.items()):
            copy = landed.get(name)
            if copy is None:
                flight.misses += 1
            elif not moving(copy):
                self._arrived(flight, copy)
            if flight.misses >= _PATIENCE:
                self._fail(flight.source, AwsError(f"the copy {name} has disappeared", _SOMEBODY))

    def _start(self, landed: Mapping[str, Snapshot]) -> None:
        unseen = sum(name not in landed for name in self.flying)
        self.busy = unseen + under_way(landed.values(), self.job.destination)
        for source in list(self.waiting):
            name = copy_name(source, self.job.source)
            if name in landed:
                self._found(source, landed[name])
            elif source.encrypted and self.without_key is not None:
                self.waiting.remove(source)
                self._fail(source, self.without_key)
            elif self.busy < AT_ONCE:
                self.busy = self.busy + 1 if self._begin(source, name) else AT_ONCE

    def _found(self, source: Snapshot, copy: Snapshot) -> None:
        self.waiting.remove(source)
        flight = _Flight(source, CopyState.PRESENT)
        if moving(copy):
            self.flying[copy.identifier] = flight
        else:
            self._arrived(flight, copy)

    def _begin(self, source: Snapshot, name: str) -> bool:
        """Request one copy. Return False when the destination has no room for more."""
        try:
            self._ask(source, name)
        except AwsError as error:
            if error.code == api.QUOTA and self.busy:
                return False  # retry when one of them has completed
            self.waiting.remove(source)
            if error.code == api.ALREADY_EXISTS:
                self.flying[name] = _Flight(source, CopyState.PRESENT)
            else:
                self._fail(source, error)
            return True
        self.waiting.remove(source)
        self.flying[name] = _Flight(source, CopyState.COPIED)
        return True

    def _ask(self, source: Snapshot, name: str) -> None:
        api.copy_snapshot(
            self.there,
            source,
            name,
            source_region=self.job.source,
            kms_key=self.job.kms_key,
            tags=copy_tags(source, self.job.source),
        )

    def _arrived(self, flight: _Flight, copy: Snapshot) -> None:
        if copy.available:
            self._done(flight.source, flight.outcome)
        else:
            self._fail(flight.source, AwsError(f"the copy is {copy.status}", _REPEAT))

    def _let_go(self) -> None:
        for flight in list(self.flying.values()):
            self._done(flight.source, CopyState.STARTED)
        while self.waiting:
            self._done(self.waiting.popleft(), CopyState.POSTPONED)

    def _done(self, source: Snapshot, outcome: CopyState) -> None:
        name = copy_name(source, self.job.source)
        self.flying.pop(name, None)
        done = SnapshotCopy(
            instance=source.instance, source=source.identifier, copy=name, outcome=outcome
        )
        self.done.append(done)

    def _fail(self, source: Snapshot, why: AwsError) -> None:
        self._done(source, CopyState.FAILED)
        self.done[-1] = replace(self.done[-1], error=why.message, hint=why.hint)


_SOMEBODY: Final = "Someone deleted it while it was being made; run again."
_REPEAT: Final = "Check its events, delete that copy, and run again."


def _retain(
    there: Any, job: Job, sources: tuple[Snapshot, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Delete all but the newest of our copies of this run's instances; return names, failures."""
    if job.keep is None:
        return (), ()
    deleted, failures = [], []
    try:
        old = expired(api.snapshots(there, "manual"), job, sources)
    except AwsError as error:
        return (), (f"cannot list old copies: {error.message}",)
    for copy in old:
        try:
            if _delete(there, copy.identifier):
                deleted.append(copy.identifier)
        except AwsError as error:
            failures.append(f"cannot delete {copy.identifier}: {error.message}")
    return tuple(deleted), tuple(failures)


def _delete(there: Any, name: str) -> bool:
    """Delete a copy and return whether we did. If a concurrent run was faster, that is fine too."""
    try:
        api.delete_snapshot(there, name)
    except AwsError as error:
        if error.code == api.NOT_FOUND or (error.code == api.INVALID_STATE and _going(there, name)):
            return False
        raise
    return True


def _going(there: Any, name: str) -> bool:
    found = unless_missing(lambda: api.snapshot(there, name))
    return found is None or found.status in {"deleting", "deleted"}
