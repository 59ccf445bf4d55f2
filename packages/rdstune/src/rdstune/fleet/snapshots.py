"""Which snapshots to copy to another region, how to name copies, which old copies to delete.

Pure functions; `rdstune.fleet.snapshot_copy` makes the calls. A copy's name is made from its
source alone, so two concurrent runs ask for the same copy and AWS lets only one of them make it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from itertools import groupby
from typing import TYPE_CHECKING, Final

from mrtuner.errors import BadValue

if TYPE_CHECKING:
    from rdstune.fleet.aws_snapshots import Snapshot

#: Copies that one region accepts at a time. Source: User Guide, Copying a DB snapshot.
AT_ONCE: Final = 20

#: A copy's own name: a copy of the copy may have the same tags, but has another name.
TAG_COPY: Final = "mrtuner:copy"
TAG_REGION: Final = "mrtuner:source-region"
TAG_INSTANCE: Final = "mrtuner:source-instance"
TAG_RESOURCE: Final = "mrtuner:source-resource"  # DbiResourceId: new for a re-created instance
TAG_TAKEN: Final = "mrtuner:taken"  # when the source was taken, ISO 8601, UTC

_LONGEST: Final = 255  # a snapshot's identifier (SDK)
_DIGITS: Final = 10  # of the digest at the end of a name
#: Statuses from which a snapshot never becomes available. Source: botocore's waiter
#: DBSnapshotAvailable.
_LOST: Final = frozenset({
    "deleted", "deleting", "failed", "incompatible-restore", "incompatible-parameters",
})  # fmt: skip
_KEY_ARN: Final = re.compile(r"arn:[\w-]+:kms:(?P<region>[\w-]+):")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to copy, and where to.

    Raises BadValue for equal regions, a `keep` below 1, and a key of another region.
    """

    source: str  # region
    destination: str  # region
    kms_key: str | None = None  # in the destination; every copy is encrypted with it
    keep: int | None = None  # copies of each instance; None deletes nothing
    instances: frozenset[str] = frozenset()  # empty: all
    wait: bool = True  # until the copies are complete

    def __post_init__(self) -> None:
        # RDS stores identifiers in lower case.
        object.__setattr__(self, "instances", frozenset(name.lower() for name in self.instances))
        if self.source == self.destination:
            raise BadValue(
                f"source and destination are both {self.source}",
                "Use another region with --to-region: a copy in the same region can be lost "
                "together with its source.",
            )
        if self.keep is not None and self.keep < 1:
            raise BadValue(
                f"keep = {self.keep} would delete the last good copy", "Keep 1 or more, or all."
            )
        self._check_key()

    def _check_key(self) -> None:
        named = _KEY_ARN.match(self.kms_key or "")
        if named and named["region"] != self.destination:
            raise BadValue(
                f"the key is in {named['region']}, but the copies go to {self.destination}",
                f"Use a key in {self.destination}: a KMS key works only in its own region.",
            )

    def wants(self, instance: str) -> bool:
        """Whether to copy snapshots of this instance."""
        return not self.instances or instance in self.instances


def newest(snapshots: Iterable[Snapshot]) -> tuple[Snapshot, ...]:
    """Return the newest complete snapshot of each instance, by instance, leaving out our copies."""
    best: dict[str, Snapshot] = {}
    for snapshot in snapshots:
        if not snapshot.available or snapshot.taken is None or is_copy(snapshot):
            continue
        known = best.get(snapshot.instance)
        if known is None or _age(snapshot) > _age(known):
            best[snapshot.instance] = snapshot
    return tuple(best[name] for name in sorted(best))


def copy_name(source: Snapshot, region: str) -> str:
    """Return the name of the copy of a snapshot of `region`, the same in every run.

    Region and words are for people. The digest distinguishes snapshots that had the same name at
    different times, and names that differ only in characters that a copy's name cannot have.
    """
    taken = _iso(_taken(source))
    digest = sha256(f"{source.arn} {taken}".encode()).hexdigest()[:_DIGITS]
    words = re.sub(r"[^a-z0-9]+", "-", source.identifier.removeprefix("rds:").lower()).strip("-")
    head = f"mrtuner-{region}-{words}"[: _LONGEST - _DIGITS - 1].rstrip("-")
    return f"{head}-{digest}"


def copy_tags(source: Snapshot, region: str) -> dict[str, str]:
    """Return the tags that mark a copy as ours and identify its source."""
    return {
        TAG_COPY: copy_name(source, region),
        TAG_REGION: region,
        TAG_INSTANCE: source.instance,
        TAG_RESOURCE: source.resource_id,
        TAG_TAKEN: _iso(_taken(source)),
    }


def is_copy(snapshot: Snapshot) -> bool:
    """Whether we made it. Both tag and name must match: tags can be copied, names cannot."""
    return snapshot.kind == "manual" and snapshot.tags.get(TAG_COPY) == snapshot.identifier


def under_way(snapshots: Iterable[Snapshot], region: str) -> int:
    """Count the copies that `region` is receiving from other regions, whoever started them."""
    return sum(
        moving(snapshot) and (is_copy(snapshot) or snapshot.source_region not in {None, region})
        for snapshot in snapshots
    )


def moving(snapshot: Snapshot) -> bool:
    """Whether it is incomplete but may still complete."""
    return not snapshot.available and snapshot.status not in _LOST


def expired(
    snapshots: Iterable[Snapshot], job: Job, sources: Iterable[Snapshot]
) -> tuple[Snapshot, ...]:
    """Return our complete copies of the sources' instances beyond the newest `job.keep` of each.

    Copies that are in progress, have failed, or were made by others are neither counted nor
    deleted; nor are copies of a deleted instance, even if a new one has its name.
    """
    if job.keep is None:
        return ()
    lives = {(source.instance, source.resource_id) for source in sources}
    copies = [copy for copy in snapshots if _counts(copy, job) and _life(copy) in lives]
    copies.sort(key=lambda copy: (_life(copy), copy.tags[TAG_TAKEN]))
    return tuple(
        copy for _, of_one in groupby(copies, key=_life) for copy in tuple(of_one)[: -job.keep]
    )


def _counts(copy: Snapshot, job: Job) -> bool:
    return (
        is_copy(copy)
        and copy.available
        and copy.tags.get(TAG_REGION) == job.source
        and TAG_TAKEN in copy.tags
    )


def _life(copy: Snapshot) -> tuple[str, str]:
    """Return what identifies the copied instance, even if another had the same name."""
    return copy.tags.get(TAG_INSTANCE, ""), copy.tags.get(TAG_RESOURCE, "")


def _age(snapshot: Snapshot) -> tuple[datetime, str]:
    return _taken(snapshot), snapshot.identifier


def _taken(snapshot: Snapshot) -> datetime:
    if snapshot.taken is None:
        raise BadValue(f"snapshot {snapshot.identifier} is not finished", "Wait until it is.")
    return snapshot.taken


def _iso(moment: datetime) -> str:
    """Format to the millisecond, AWS's precision; sorts chronologically."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")
