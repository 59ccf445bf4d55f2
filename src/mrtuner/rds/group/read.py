"""Parameter groups out of files and out of AWS.

A file may be what ``aws rds describe-db-parameters`` printed, a CloudFormation template in JSON
or YAML, a Terraform configuration, or a document of ours. A file can hold several groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mrtuner.errors import BadValue
from mrtuner.files import read_file
from mrtuner.rds.group import documents, terraform
from mrtuner.rds.group.source import Entry, WrittenGroup

if TYPE_CHECKING:
    from mrtuner.aws.rds import GroupParameter

__all__ = ["SUFFIXES", "Entry", "WrittenGroup", "is_file", "read", "read_live", "read_text"]

Reader = Callable[[str, str], tuple[WrittenGroup, ...]]

_READERS: Final[Mapping[str, Reader]] = {
    ".tf": terraform.read,
    ".tofu": terraform.read,
    ".json": documents.read_json,
    ".yaml": documents.read_yaml,
    ".yml": documents.read_yaml,
    ".template": documents.read_yaml,
}
#: Endings of the files that can be read.
SUFFIXES: Final = tuple(_READERS)


def is_file(target: str) -> bool:
    """Whether a file is meant rather than a group: group names have no dot but the default ones."""
    return Path(target).suffix in _READERS or Path(target).exists()


def read(path: Path) -> tuple[WrittenGroup, ...]:
    """Every parameter group in a file; BadValue where there is none or the file is no such."""
    return read_text(read_file(path), suffix=path.suffix, source=str(path))


def read_text(text: str, *, suffix: str, source: str) -> tuple[WrittenGroup, ...]:
    """The same from text; the suffix says in what it is written."""
    reader = _READERS.get(suffix)
    if reader is None:
        raise BadValue(
            f"cannot tell what {source} is written in", f"Known endings: {', '.join(SUFFIXES)}."
        )
    groups = reader(text, source)
    if not groups:
        raise BadValue(
            f"no parameter group in {source}",
            "It may hold AWS::RDS::DBParameterGroup, aws_db_parameter_group or the output of "
            "aws rds describe-db-parameters.",
        )
    return groups


def read_live(client: Any, name: str, *, cluster: bool = False) -> WrittenGroup:
    """What somebody has set in a group in AWS; AwsError with `not_found` where there is none."""
    from mrtuner.aws import rds

    scope = rds.Scope.CLUSTER if cluster else rds.Scope.INSTANCE
    group = rds.group(client, name, scope)
    rows = rds.parameters(client, name, scope, source="user")
    return WrittenGroup(
        entries=tuple(_live_entry(row) for row in rows),
        source=f"group {group.name}",
        name=group.name,
        family=group.family,
        cluster=cluster,
    )


def _live_entry(row: GroupParameter) -> Entry:
    return Entry(
        name=row.name,
        value=row.value,
        unknown="" if row.value is not None else "without a value",
        method=row.apply_method,
        apply_type=row.apply_type,
        allowed=row.allowed,
        modifiable=row.modifiable,
    )
