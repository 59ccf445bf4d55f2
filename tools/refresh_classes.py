"""Rewrite classes.json from two packages, or from AWS itself.

``python tools/refresh_classes.py``
    the EC2 types that moto carries and the RDS classes by region that cfn-lint carries.

``python tools/refresh_classes.py --live [--region REGION …] [--profile NAME]``
    adds the classes and replaces the figures that AWS gives today, in the given regions. Classes
    that these regions do not offer are kept: no region offers all of them.

The file is always written; without --live, the same packages give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mrtuner.catalog.classes import AURORA, COLUMNS, MULTI_AZ_CLUSTER, POSTGRES, size_order
from mrtuner.catalog.ec2 import Row, ec2_type, row
from mrtuner.catalog.load import table
from mrtuner.errors import MissingPart

if TYPE_CHECKING:
    from mrtuner.aws.session import Account

CATALOG: Final = (
    Path(__file__).parent.parent / "packages" / "mrtuner" / "src" / "mrtuner" / "catalog"
)

#: No machine behind it: its memory follows its capacity.
_SERVERLESS: Final = "db.serverless"


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python tools/refresh_classes.py")
    parser.add_argument("--live", action="store_true", help="ask AWS; needs credentials")
    parser.add_argument("--region", metavar="REGION", action="append")
    parser.add_argument("--profile", metavar="NAME")
    options = parser.parse_args(arguments)
    place = CATALOG / "classes.json"
    if options.live:
        text = from_aws(table(place.name), options.region or [None], options.profile)
    else:
        text = from_packages()
    place.write_text(text, encoding="utf-8")
    sys.stdout.write(f"wrote {place.name}\n")


def from_packages() -> str:
    """Return the text of classes.json from moto and cfn-lint; MissingPart without them."""
    offered, described = _offered_by_cfnlint(), _described_by_moto()
    rows = {name: row(described[ec2_type(name)], engines) for name, engines in offered.items()}
    sources = {
        "figures": f"EC2 DescribeInstanceTypes, as moto {_version('moto')} carries it (Apache-2.0)",
        "engines": "CloudFormation's RDS classes of all regions, as cfn-lint "
        f"{_version('cfn-lint')} carries them (MIT-0)",
        "names": "RDS calls x2g what EC2 calls x2gd",
    }
    return written(sources, rows)


def from_aws(old: Mapping[str, Any], regions: Iterable[str | None], profile: str | None) -> str:
    """Return the text of classes.json from AWS's answers per region (None: the account's own)."""
    from mrtuner.aws.session import Account

    rows = {name: dict(zip(COLUMNS, of, strict=True)) for name, of in old["classes"].items()}
    asked = []
    for region in regions:
        account = Account(region=region, profile=profile)
        offered = _offered_by_rds(account)
        described = _described_by_ec2(account, map(ec2_type, offered))
        rows |= _merged(rows, offered, described)
        asked.append(region or "the account's region")
    today = datetime.now(UTC).date().isoformat()
    seen = f"DescribeOrderableDBInstanceOptions and DescribeInstanceTypes, {', '.join(asked)}"
    return written({**old["sources"], "live": f"{seen}, {today}"}, rows)


def written(sources: Mapping[str, str], rows: Mapping[str, Row]) -> str:
    """Return the text of the file: one class per line, families by name, smallest size first."""
    lines = [
        f'  "{name}": {json.dumps([rows[name][column] for column in COLUMNS])}'
        for name in sorted(rows, key=size_order)
    ]
    said = json.dumps(dict(sources), indent=2).replace("\n", "\n ")
    classes = ",\n".join(lines)
    return (
        f'{{\n "sources": {said},\n "columns": {json.dumps(COLUMNS)},\n'
        f' "classes": {{\n{classes}\n }}\n}}\n'
    )


def _merged(
    rows: Mapping[str, Row],
    offered: Mapping[str, set[str]],
    described: Mapping[str, Mapping[str, Any]],
) -> dict[str, Row]:
    """Return new rows for what a region offers; engines that other regions have are kept."""
    found = {}
    for name, engines in offered.items():
        type_ = described.get(ec2_type(name))
        if type_ is not None:
            before = set(rows[name]["engines"].split()) if name in rows else set()
            found[name] = row(type_, engines | before)
    return found


def _offered_by_cfnlint() -> dict[str, set[str]]:
    instances = _classes_by_engine(
        "aws_rds_dbinstance/dbinstanceclass_enum.json", "DBInstanceClass"
    )
    clusters = _classes_by_engine(
        "aws_rds_dbcluster/dbclusterinstanceclass_enum.json", "DBClusterInstanceClass"
    )
    lists = {
        POSTGRES: instances[POSTGRES],
        AURORA: instances[AURORA],
        MULTI_AZ_CLUSTER: clusters[POSTGRES],
    }
    return _engines_by_class(lists)


def _engines_by_class(lists: Mapping[str, Iterable[str]]) -> dict[str, set[str]]:
    offered: dict[str, set[str]] = {}
    for engine, names in lists.items():
        for name in names:
            if name != _SERVERLESS:
                offered.setdefault(name, set()).add(engine)
    return offered


def _classes_by_engine(file: str, key: str) -> dict[str, set[str]]:
    """Combine all regions: a rule there reads "if Engine is E, then the class is one of"."""
    found: dict[str, set[str]] = {}
    for region in json.loads(_packaged("cfnlint", f"data/schemas/extensions/{file}")).values():
        for rule in region["allOf"]:
            engine = rule["if"]["properties"]["Engine"]["const"]
            found.setdefault(engine, set()).update(rule["then"]["properties"][key]["enum"])
    return found


def _described_by_moto() -> dict[str, Any]:
    import gzip

    packed = _packaged("moto", "ec2/resources/instance_types.json.gz")
    described: dict[str, Any] = json.loads(gzip.decompress(packed))
    return described


def _packaged(package: str, file: str) -> bytes:
    """Return a data file of an installed package, without importing the package."""
    try:
        return resources.files(package).joinpath(file).read_bytes()
    except (ModuleNotFoundError, FileNotFoundError):
        raise MissingPart(
            f"the data of {package} is not there: {file}",
            "Install moto and cfn-lint, or ask AWS with --live.",
        ) from None


def _version(distribution: str) -> str:
    return metadata.version(distribution)


def _offered_by_rds(account: Account) -> dict[str, set[str]]:
    """Return what RDS offers in a region for both engines."""
    offered: dict[str, set[str]] = {}
    for engine in (POSTGRES, AURORA):
        for option in _orderable(account, engine):
            found = offered.setdefault(option["DBInstanceClass"], set())
            found.add(engine)
            if engine == POSTGRES and option.get("SupportsClusters"):
                found.add(MULTI_AZ_CLUSTER)
    offered.pop(_SERVERLESS, None)
    return offered


def _orderable(account: Account, engine: str) -> Iterator[Mapping[str, Any]]:
    from mrtuner.aws.calls import pages
    from mrtuner.aws.session import client

    rds = client("rds", account)
    key = "OrderableDBInstanceOptions"
    return pages(rds, "describe_orderable_db_instance_options", key, Engine=engine)


def _described_by_ec2(account: Account, types: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    """Return EC2's descriptions. It reads all: naming a type that a region lacks is an error."""
    from mrtuner.aws.calls import pages
    from mrtuner.aws.session import client

    wanted, ec2 = set(types), client("ec2", account)
    found = pages(ec2, "describe_instance_types", "InstanceTypes")
    return {of["InstanceType"]: of for of in found if of["InstanceType"] in wanted}


if __name__ == "__main__":
    main()
