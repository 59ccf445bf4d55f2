"""Which snapshots are copied to another region, how a copy is called, which old copies may go.

All of it pure; `mrtuner.rds.fleet.snapshot_copy` does the calls. The name of a copy is made from
its source alone, so that two runs at the same time ask for the same copy and AWS lets one of them
make it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from itertools import groupby
from typing import TYPE_CHECKING, Final

from mrtuner.errors import BadValue

if TYPE_CHECKING:
    from mrtuner.aws.snapshots import Snapshot

#: Copies that one region takes at once, whoever asks. Source: User Guide, Copying a DB snapshot.
AT_ONCE: Final = 20

#: A copy's own name; who copies it on, tags included, makes a snapshot with another name.
TAG_COPY: Final = "mrtuner:copy"
TAG_REGION: Final = "mrtuner:source-region"
TAG_INSTANCE: Final = "mrtuner:source-instance"
TAG_RESOURCE: Final = "mrtuner:source-resource"  # DbiResourceId: another one for each life
TAG_TAKEN: Final = "mrtuner:taken"  # when the source was taken, ISO 8601, UTC

_LONGEST: Final = 255  # of a snapshot's identifier (SDK)
_DIGITS: Final = 10  # of the digest at the end of a name
#: Statuses from which none becomes available. Source: botocore's waiter DBSnapshotAvailable.
_LOST: Final = frozenset({
    "deleted", "deleting", "failed", "incompatible-restore", "incompatible-parameters",
})  # fmt: skip
_KEY_ARN: Final = re.compile(r"arn:[\w-]+:kms:(?P<region>[\w-]+):")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to copy where.

    Refuses (BadValue) one region for both, a `keep` below 1, and a key of another region.
    """

    source: str  # region
    destination: str  # region
    kms_key: str | None = None  # of the destination; every copy is encrypted with it
    keep: int | None = None  # copies of each instance; None deletes nothing
    instances: frozenset[str] = frozenset()  # none named: all
    wait: bool = True  # until the copies are whole

    def __post_init__(self) -> None:
        # RDS keeps identifiers in lower case.
        object.__setattr__(self, "instances", frozenset(name.lower() for name in self.instances))
        if self.source == self.destination:
            raise BadValue(
                f"source and destination are both {self.source}",
                "Name another region with --to: a copy beside its source is lost with it.",
            )
        if self.keep is not None and self.keep < 1:
            raise BadValue(
                f"keep {self.keep} would delete the last good copy", "Keep 1 or more, or all."
            )
        self._check_key()

    def _check_key(self) -> None:
        named = _KEY_ARN.match(self.kms_key or "")
        if named and named["region"] != self.destination:
            raise BadValue(
                f"the key is one of {named['region']}, the copies go to {self.destination}",
                f"Name a key of {self.destination}: no key leaves its region.",
            )

    def wants(self, instance: str) -> bool:
        """Whether snapshots of this instance are asked for."""
        return not self.instances or instance in self.instances


def newest(snapshots: Iterable[Snapshot]) -> tuple[Snapshot, ...]:
    """The newest whole snapshot of each instance, copies of ours left out, by instance."""
    best: dict[str, Snapshot] = {}
    for snapshot in snapshots:
        if not snapshot.available or snapshot.taken is None or is_copy(snapshot):
            continue
        known = best.get(snapshot.instance)
        if known is None or _age(snapshot) > _age(known):
            best[snapshot.instance] = snapshot
    return tuple(best[name] for name in sorted(best))


def copy_name(source: Snapshot, region: str) -> str:
    """What the copy of a snapshot of `region` is called: the same in every run.

    Region and words are for people; the digest tells apart snapshots that had the same name one
    after the other, and names that differ only in signs which AWS takes in automated names alone.
    """
    taken = _iso(_taken(source))
    digest = sha256(f"{source.arn} {taken}".encode()).hexdigest()[:_DIGITS]
    words = re.sub(r"[^a-z0-9]+", "-", source.identifier.removeprefix("rds:").lower()).strip("-")
    head = f"mrtuner-{region}-{words}"[: _LONGEST - _DIGITS - 1].rstrip("-")
    return f"{head}-{digest}"


def copy_tags(source: Snapshot, region: str) -> dict[str, str]:
    """What marks a copy as ours and says what it is a copy of."""
    return {
        TAG_COPY: copy_name(source, region),
        TAG_REGION: region,
        TAG_INSTANCE: source.instance,
        TAG_RESOURCE: source.resource_id,
        TAG_TAKEN: _iso(_taken(source)),
    }


def is_copy(snapshot: Snapshot) -> bool:
    """Whether we made it. The tag alone does not say so: tags can be copied, names cannot."""
    return snapshot.kind == "manual" and snapshot.tags.get(TAG_COPY) == snapshot.identifier


def under_way(snapshots: Iterable[Snapshot], region: str) -> int:
    """Copies that `region` is receiving now from other regions, whoever started them."""
    return sum(
        moving(snapshot) and (is_copy(snapshot) or snapshot.source_region not in {None, region})
        for snapshot in snapshots
    )


def moving(snapshot: Snapshot) -> bool:
    """Whether it is not whole yet, but may become so."""
    return not snapshot.available and snapshot.status not in _LOST


def expired(
    snapshots: Iterable[Snapshot], job: Job, sources: Iterable[Snapshot]
) -> tuple[Snapshot, ...]:
    """Our whole copies of these sources' instances beyond the newest `job.keep` of each.

    What is still being made, has failed, or was made by others neither counts nor goes; nor do
    copies of an instance that is gone, not even when a new one has its name.
    """
    if job.keep is None:
        return ()
    lives = {(source.instance, source.resource_id) for source in sources}
    copies = [copy for copy in snapshots if _counts(copy, job) and _life(copy) in lives]
    copies.sort(key=lambda copy: (_life(copy), copy.tags[TAG_TAKEN]))
    return tuple(_older(copies, job.keep))


def _older(copies: Iterable[Snapshot], keep: int) -> Iterator[Snapshot]:
    for _, of_one in groupby(copies, key=_life):
        yield from tuple(of_one)[:-keep]


def _counts(copy: Snapshot, job: Job) -> bool:
    return (
        is_copy(copy)
        and copy.available
        and copy.tags.get(TAG_REGION) == job.source
        and TAG_TAKEN in copy.tags
    )


def _life(copy: Snapshot) -> tuple[str, str]:
    """The instance that a copy is of, told apart from another of the same name."""
    return copy.tags.get(TAG_INSTANCE, ""), copy.tags.get(TAG_RESOURCE, "")


def _age(snapshot: Snapshot) -> tuple[datetime, str]:
    return _taken(snapshot), snapshot.identifier


def _taken(snapshot: Snapshot) -> datetime:
    if snapshot.taken is None:
        raise BadValue(f"snapshot {snapshot.identifier} is not finished", "Wait until it is.")
    return snapshot.taken


def _iso(moment: datetime) -> str:
    """To the millisecond, which is what AWS gives; sorts as time does."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")
