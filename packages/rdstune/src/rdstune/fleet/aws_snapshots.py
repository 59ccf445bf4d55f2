"""Snapshots of RDS instances, and their encryption keys: one function per call, typed rows.

Every function takes a boto3 client and raises AwsError. None waits for an operation to finish.
Source of names and limits: botocore's service model of the RDS API 2014-10-31.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from mrtuner.aws.calls import call, pages
from mrtuner.aws.rows import tags_of

SnapshotType = Literal["automated", "manual"]

AVAILABLE: Final = "available"
#: Error codes to match; the text is never matched. Source: shape DBSnapshot…Fault.
ALREADY_EXISTS: Final = "DBSnapshotAlreadyExists"
NOT_FOUND: Final = "DBSnapshotNotFound"
QUOTA: Final = "SnapshotQuotaExceeded"
INVALID_STATE: Final = "InvalidDBSnapshotState"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One DB snapshot. Source: shape DBSnapshot."""

    identifier: str  # rds:db-2026-11-20-05-00 for automated ones
    arn: str
    instance: str
    resource_id: str  # of the instance: new for a re-created one
    kind: str  # automated, manual
    status: str  # creating, copying, available, failed, deleting …
    taken: datetime | None  # when the data were as in it; None while in progress
    encrypted: bool = False
    progress: int = 0  # percent
    source_region: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def available(self) -> bool:
        """Whether it is complete: it can be restored, copied or deleted."""
        return self.status == AVAILABLE


def snapshots(client: Any, kind: SnapshotType) -> Iterator[Snapshot]:
    """Yield the automated or the manual snapshots of the region's own instances, paged."""
    rows = pages(client, "describe_db_snapshots", "DBSnapshots", SnapshotType=kind)
    return (_row(row) for row in rows)


def snapshot(client: Any, identifier: str) -> Snapshot:
    """Return a manual snapshot. AwsError with `not_found` when none has that name."""
    answer = call(client, "describe_db_snapshots", DBSnapshotIdentifier=identifier)
    return _row(answer["DBSnapshots"][0])


def copy_snapshot(
    client: Any,
    source: Snapshot,
    target: str,
    *,
    source_region: str,
    kms_key: str | None = None,
    tags: Mapping[str, str],
) -> Snapshot:
    """Start a copy into the client's region; an encrypted source needs a key in that region.

    AwsError by code: ALREADY_EXISTS, QUOTA (too many manual snapshots, or too many copies in
    progress: AWS has one code for both), NOT_FOUND, KMSKeyNotAccessibleFault, INVALID_STATE.
    """
    optional = {"KmsKeyId": kms_key} if kms_key else {}
    if source_region.startswith("us-gov-"):
        optional["SourceRegion"] = source_region  # botocore presigns a URL, which GovCloud needs
    answer = call(
        client,
        "copy_db_snapshot",
        SourceDBSnapshotIdentifier=source.arn,
        TargetDBSnapshotIdentifier=target,
        Tags=[{"Key": key, "Value": value} for key, value in tags.items()],
        **optional,
    )
    return _row(answer["DBSnapshot"])


def delete_snapshot(client: Any, identifier: str) -> None:
    call(client, "delete_db_snapshot", DBSnapshotIdentifier=identifier)


def key_state(client: Any, key: str) -> str:
    """Return the state of a KMS key, usable only if `Enabled`; `client` is a client of KMS."""
    answer = call(client, "describe_key", KeyId=key)
    return str(answer["KeyMetadata"]["KeyState"])


def _row(row: Mapping[str, Any]) -> Snapshot:
    return Snapshot(
        identifier=row["DBSnapshotIdentifier"],
        arn=row.get("DBSnapshotArn", ""),
        instance=row.get("DBInstanceIdentifier", ""),
        resource_id=row.get("DbiResourceId", ""),
        kind=row.get("SnapshotType", ""),
        status=row.get("Status", ""),
        # Of a copy, the other one is when it was copied.
        taken=row.get("OriginalSnapshotCreateTime") or row.get("SnapshotCreateTime"),
        encrypted=bool(row.get("Encrypted")),
        progress=int(row.get("PercentProgress") or 0),
        source_region=row.get("SourceRegion"),
        tags=tags_of(row.get("TagList", ())),
    )
