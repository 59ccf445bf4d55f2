"""What can be ordered (classes by engine and version), and the tags of resources.

DescribeOrderableDBInstanceOptions is answered from our catalogue of classes. It does not know
which minor version supports which class, storage ranges by class, or regional gaps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mrtuner.catalog.classes import instance_classes
from rdstune.lab.operations import versions
from rdstune.lab.pages import Row, listed
from rdstune.lab.refusals import Fault, invalid_value
from rdstune.lab.world import Region, tag_list, tags

#: GiB and IOPS of RDS for PostgreSQL. Source: RDS User Guide, storage (our reference, 3.3).
_STORAGE: Final[Mapping[str, Row]] = {
    "gp2": {"MinStorageSize": 20, "MaxStorageSize": 65536},
    "gp3": {
        "MinStorageSize": 20, "MaxStorageSize": 65536,
        "MinIopsPerDbInstance": 3000, "MaxIopsPerDbInstance": 64000,
        "MinStorageThroughputPerDbInstance": 125, "MaxStorageThroughputPerDbInstance": 4000,
    },
    "io1": {
        "MinStorageSize": 100, "MaxStorageSize": 65536,
        "MinIopsPerDbInstance": 1000, "MaxIopsPerDbInstance": 256000,
        "MinIopsPerGib": 0.5, "MaxIopsPerGib": 50.0,
    },
}  # fmt: skip
_MOST: Final = 1000


def orderable(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    """DescribeOrderableDBInstanceOptions for an engine."""
    engine = params["Engine"]
    if engine not in versions.offered():
        raise invalid_value(f"Invalid DB engine: {engine}")
    asked, only = params.get("EngineVersion"), params.get("DBInstanceClass")
    wanted = [
        version
        for version in versions.offered()[engine]
        if asked in (None, version, version.split(".")[0])
    ]
    rows = [
        _row(region, engine, version, name, storage)
        for version in wanted
        for name in instance_classes(engine)
        if only in (None, name)
        for storage in (_STORAGE if engine == "postgres" else ("aurora",))
    ]
    return listed("OrderableDBInstanceOptions", rows, params, most=_MOST)


def _row(region: Region, engine: str, version: str, name: str, storage: str) -> Row:
    return {
        "Engine": engine,
        "EngineVersion": version,
        "DBInstanceClass": name,
        "LicenseModel": "postgresql-license",
        "AvailabilityZones": [{"Name": f"{region.name}{letter}"} for letter in "abc"],
        "MultiAZCapable": engine == "postgres",
        "ReadReplicaCapable": engine == "postgres",
        "Vpc": True,
        "StorageType": storage,
        "SupportsIops": storage in ("io1", "gp3"),
        "SupportsStorageThroughput": storage == "gp3",
        **_STORAGE.get(storage, {}),
    }


def list_tags(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    return {"TagList": tag_list(_tags(region, params["ResourceName"]))}


def add_tags(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    _tags(region, params["ResourceName"]).update(tags(params))
    return {}


def remove_tags(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    own = _tags(region, params["ResourceName"])
    for key in params.get("TagKeys", ()):
        own.pop(key, None)
    return {}


def source_regions(region: Region, params: Mapping[str, Any]) -> dict[str, Any]:
    """DescribeSourceRegions: every other region of the partition."""
    import botocore.session

    names = botocore.session.get_session().get_available_regions("rds")
    rows = [
        {"RegionName": name, "Status": "available", "Endpoint": f"https://rds.{name}.amazonaws.com"}
        for name in sorted(names)
        if name != region.name and params.get("RegionName") in (None, name)
    ]
    return listed("SourceRegions", rows, params)


def _tags(region: Region, arn: str) -> dict[str, str]:
    """Return the tags of the resource with an ARN; callers change them in place."""
    _, _, named = arn.partition(f":rds:{region.name}:")
    kind, _, name = named.partition(":")[2].partition(":")
    shelves: dict[str, tuple[Mapping[str, Any], str]] = {
        "db": (region.instances, "DBInstanceNotFound"),
        "cluster": (region.clusters, "DBClusterNotFoundFault"),
        "pg": (region.groups, "DBParameterGroupNotFound"),
        "cluster-pg": (region.cluster_groups, "DBParameterGroupNotFound"),
        "snapshot": (region.snapshots, "DBSnapshotNotFound"),
    }
    if kind not in shelves:
        raise invalid_value(f"Invalid resource name: {arn}")
    shelf, missing = shelves[kind]
    if name not in shelf:
        raise Fault(missing, f"{arn} not found.")
    own: dict[str, str] = shelf[name].tags
    return own


OPERATIONS: Final = {
    "DescribeOrderableDBInstanceOptions": orderable,
    "DescribeSourceRegions": source_regions,
    "ListTagsForResource": list_tags,
    "AddTagsToResource": add_tags,
    "RemoveTagsFromResource": remove_tags,
}
