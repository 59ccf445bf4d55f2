"""DB snapshots: create, describe, copy within and across regions, delete.

Source: botocore's RDS model; the RDS User Guide, "Copying a DB snapshot": at most 20 copies under
way to one destination region, an encrypted copy needs a key of the destination, tags are not
copied unless asked for. How long a copy takes is not documented (it may queue for hours).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from rdstune.lab.operations.events import tell
from rdstune.lab.pages import Row, filters, listed, selected
from rdstune.lab.refusals import Fault, invalid_combination, invalid_value
from rdstune.lab.world import ACCOUNT, Instance, Region, Snapshot, tag_list, tags

_NAME: Final = re.compile(r"[A-Za-z](?:-?[A-Za-z0-9]){0,254}")
_MOST_COPIES: Final = 20
_FILTERS: Final = (
    "db-instance-id", "db-snapshot-id", "dbi-resource-id", "snapshot-type", "engine",
)  # fmt: skip


def create(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    instance = region.instance(params["DBInstanceIdentifier"])
    if instance.status != "available":
        raise Fault(
            "InvalidDBInstanceState", f"Instance {instance.identifier} is not in available state"
        )
    snapshot = take(region, instance, params["DBSnapshotIdentifier"])
    snapshot.tags = tags(params)
    return {"DBSnapshot": row(region, snapshot)}


def take(region: Region, instance: Instance, identifier: str, kind: str = "manual") -> Snapshot:
    """Start a snapshot and return it; it becomes available after `delays.snapshot`."""
    name = identifier if kind == "automated" else _new_name(region, identifier)
    now = region.clock.now()
    snapshot = Snapshot(
        identifier=name,
        arn=region.arn("snapshot", name),
        instance=replace(instance),
        kind=kind,
        begun=now,
        done=now + timedelta(seconds=region.world.delays.snapshot),
        original=now,
        encrypted=instance.encrypted,
        key=instance.key,
    )
    region.snapshots[name] = snapshot
    tell(region, 40, snapshot)
    region.clock.at(snapshot.done, partial(_finish, region, snapshot, 42))
    return snapshot


def copy(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    """CopyDBSnapshot: called in the destination; the source is a name, or an ARN elsewhere."""
    given = params["SourceDBSnapshotIdentifier"]
    source = _named(region.home_of(given), given)
    name = _new_name(region, params["TargetDBSnapshotIdentifier"])
    _demand_available(source)
    across = _home(source) != region.name
    key = _key(region, source, across, params.get("KmsKeyId"))
    _room(region)
    snapshot = _copied(region, source, name, key)
    snapshot.tags = dict(source.tags) if params.get("CopyTags") else tags(params)
    tell(region, 59 if across else 196, snapshot, source=source.identifier)
    region.clock.at(snapshot.done, partial(_finish, region, snapshot, 60 if across else 197))
    return {"DBSnapshot": row(region, snapshot)}


def describe(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    """DescribeDBSnapshots: automated and manual ones of this account."""
    found = [region.snapshots[name] for name in sorted(region.snapshots)]
    if "DBSnapshotIdentifier" in params:
        found = [_named(region, params["DBSnapshotIdentifier"])]
    asked = filters(params, _FILTERS)
    for name, key in (("DBInstanceIdentifier", "db-instance-id"), ("SnapshotType", "snapshot-type"),
                      ("DbiResourceId", "dbi-resource-id")):  # fmt: skip
        if name in params:
            asked[key] = {params[name].lower() if key != "dbi-resource-id" else params[name]}
    rows = [row(region, each) for each in found if _matches(each, asked)]
    return listed("DBSnapshots", rows, params)


def delete(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    """DeleteDBSnapshot, for an available manual one, even while it is being copied elsewhere."""
    snapshot = _named(region, params["DBSnapshotIdentifier"])
    if snapshot.kind == "automated":
        raise invalid_value("Automated snapshots cannot be deleted")
    _demand_available(snapshot)
    del region.snapshots[snapshot.identifier]
    tell(region, 41, snapshot)
    snapshot.status = "deleted"
    return {"DBSnapshot": row(region, snapshot)}


def _demand_available(snapshot: Snapshot) -> None:
    if snapshot.status != "available":
        raise Fault(
            "InvalidDBSnapshotState", f"Snapshot {snapshot.identifier} is not in available state"
        )


def row(region: Region, snapshot: Snapshot) -> Row:
    """Return the snapshot as DescribeDBSnapshots shows it."""
    instance = snapshot.instance
    return {
        "DBSnapshotIdentifier": snapshot.identifier,
        "DBSnapshotArn": snapshot.arn,
        "DBInstanceIdentifier": instance.identifier,
        "DbiResourceId": instance.resource,
        "SnapshotType": snapshot.kind,
        "Status": snapshot.status,
        "PercentProgress": _progress(region.clock.now(), snapshot),
        "SnapshotCreateTime": snapshot.done if snapshot.status != "creating" else None,
        "OriginalSnapshotCreateTime": snapshot.original,
        "SnapshotDatabaseTime": snapshot.original,
        "InstanceCreateTime": instance.created,
        "Engine": instance.engine,
        "EngineVersion": instance.version,
        "AllocatedStorage": instance.storage,
        "StorageType": instance.storage_type,
        "Iops": instance.iops,
        "MasterUsername": instance.username,
        "Port": instance.port,
        "AvailabilityZone": instance.zone,
        "LicenseModel": "postgresql-license",
        "Encrypted": snapshot.encrypted,
        "KmsKeyId": snapshot.key,
        "SourceDBSnapshotIdentifier": snapshot.source_arn,
        "SourceRegion": snapshot.source_region,
        "TagList": tag_list(snapshot.tags),
    }


def _copied(region: Region, source: Snapshot, name: str, key: str | None) -> Snapshot:
    now = region.clock.now()
    return region.snapshots.setdefault(
        name,
        Snapshot(
            identifier=name,
            arn=region.arn("snapshot", name),
            instance=source.instance,
            kind="manual",
            begun=now,
            done=now + timedelta(seconds=region.world.delays.copy),
            original=source.original,
            source_arn=source.arn,
            source_region=_home(source),
            encrypted=source.encrypted or key is not None,
            key=key,
        ),
    )


def _key(region: Region, source: Snapshot, across: bool, asked: str | None) -> str | None:
    """Return the key of the copy: a key is valid in one region only."""
    if asked is None:
        if source.encrypted and across:
            raise invalid_combination(
                "The source snapshot is encrypted; a KmsKeyId of the destination region is needed"
            )
        return source.key
    if asked.startswith("arn:") and asked.split(":")[3] != region.name:
        raise Fault("KMSKeyNotAccessibleFault", f"The key {asked} is not in {region.name}")
    if asked.startswith("arn:"):
        return asked
    return f"arn:aws:kms:{region.name}:{ACCOUNT}:{asked if '/' in asked else 'key/' + asked}"


def _room(region: Region) -> None:
    under_way = sum(
        each.source_region not in (None, region.name) and each.status == "creating"
        for each in region.snapshots.values()
    )
    if under_way >= _MOST_COPIES:
        raise Fault(
            "SnapshotQuotaExceeded",
            f"Cannot have more than {_MOST_COPIES} cross region snapshot copies in progress",
        )


def _named(region: Region, name: str) -> Snapshot:
    identifier = name.partition(":snapshot:")[2].lower() or name.lower()
    if identifier not in region.snapshots:
        raise Fault("DBSnapshotNotFound", f"DBSnapshot {identifier} not found.")
    return region.snapshots[identifier]


def _new_name(region: Region, text: str) -> str:
    if not _NAME.fullmatch(text):
        raise invalid_value(f"Invalid snapshot identifier: {text}")
    if text.lower() in region.snapshots:
        raise Fault(
            "DBSnapshotAlreadyExists",
            f"Cannot create the snapshot because a snapshot with the identifier {text.lower()}"
            f" already exists.",
        )
    return text.lower()


def _home(snapshot: Snapshot) -> str:
    return snapshot.arn.split(":")[3]


def _progress(now: datetime, snapshot: Snapshot) -> int:
    if snapshot.status != "creating":
        return 100
    share = (now - snapshot.begun) / (snapshot.done - snapshot.begun)
    return min(99, int(100 * share))


def _finish(region: Region, snapshot: Snapshot, event: int) -> None:
    if region.snapshots.get(snapshot.identifier) is not snapshot:
        return
    snapshot.status = "available"
    words = {"source": (snapshot.source_arn or "").rpartition(":")[2]}
    tell(region, event, snapshot, **words)


def _matches(snapshot: Snapshot, asked: Mapping[str, set[str]]) -> bool:
    instance = snapshot.instance
    own = {
        "db-instance-id": {instance.identifier, instance.arn},
        "db-snapshot-id": {snapshot.identifier, snapshot.arn},
        "dbi-resource-id": {instance.resource},
        "snapshot-type": {snapshot.kind},
        "engine": {instance.engine},
    }
    return selected(own, asked)


OPERATIONS: Final = {
    "CreateDBSnapshot": create,
    "CopyDBSnapshot": copy,
    "DescribeDBSnapshots": describe,
    "DeleteDBSnapshot": delete,
}
