"""Read parameter groups from files and from AWS.

A file may be the output of ``aws rds describe-db-parameters``, a CloudFormation template in JSON
or YAML, a Terraform configuration, or one of our documents. A file can hold several groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mrtuner.errors import BadValue
from mrtuner.files import read_file
from rdstune.group import read_documents, read_terraform
from rdstune.group.source import GroupEntry, WrittenGroup
from rdstune.group.terraform_files import files_beside, files_of_module

if TYPE_CHECKING:
    from mrtuner.aws.rows import GroupParameter

__all__ = ["SUFFIXES", "GroupEntry", "WrittenGroup", "is_file", "read", "read_live", "read_text"]

_HINT: Final = "Give a file, or the name of a parameter group in AWS."
Reader = Callable[[str, str], tuple[WrittenGroup, ...]]

_READERS: Final[Mapping[str, Reader]] = {
    ".tf": read_terraform.read,
    ".tofu": read_terraform.read,
    ".json": read_documents.read_json,
    ".yaml": read_documents.read_yaml,
    ".yml": read_documents.read_yaml,
    ".template": read_documents.read_yaml,
}
#: Suffixes of the files that can be read.
SUFFIXES: Final = tuple(_READERS)


def is_file(target: str) -> bool:
    """Whether the target is a file and not a group: only default groups have a dot in the name."""
    return Path(target).suffix in _READERS or Path(target).exists()


def read(path: Path, *, may_be_empty: bool = False) -> tuple[WrittenGroup, ...]:
    """Return every parameter group in a file; BadValue for none or an unknown kind of file.

    `may_be_empty`: a Terraform configuration without a group is none, and not an error.
    """
    text, reader = read_file(path, hint=_HINT), _READERS.get(path.suffix)
    if reader is read_terraform.read:
        reader = partial(
            read_terraform.read,
            beside=files_beside(path),
            modules=partial(files_of_module, path),
        )
        if may_be_empty:
            return reader(text, str(path))
    return _read(text, reader, source=str(path))


def read_text(text: str, *, suffix: str, source: str) -> tuple[WrittenGroup, ...]:
    """Return every parameter group in a text; the suffix names its format."""
    return _read(text, _READERS.get(suffix), source=source)


def _read(text: str, reader: Reader | None, *, source: str) -> tuple[WrittenGroup, ...]:
    if reader is None:
        raise BadValue(
            f"unknown file format: {source}", f"Known extensions: {', '.join(SUFFIXES)}."
        )
    groups = reader(text, source)
    if not groups:
        raise BadValue(
            f"no parameter group in {source}",
            "Supported are AWS::RDS::DBParameterGroup, aws_db_parameter_group and the output of "
            "aws rds describe-db-parameters.",
        )
    return groups


def read_live(client: Any, name: str, *, cluster: bool = False) -> WrittenGroup:
    """Return a group's user-set values from AWS; AwsError with `not_found` if it does not exist."""
    from mrtuner.aws import rds
    from mrtuner.aws.rows import Scope

    scope = Scope.CLUSTER if cluster else Scope.INSTANCE
    group = rds.group(client, name, scope)
    rows = rds.parameters(client, name, scope, source="user")
    return WrittenGroup(
        entries=tuple(_live_entry(row) for row in rows),
        source=f"group {group.name}",
        name=group.name,
        family=group.family,
        cluster=cluster,
    )


def _live_entry(row: GroupParameter) -> GroupEntry:
    return GroupEntry(
        name=row.name,
        value=row.value,
        unknown="" if row.value is not None else "no value",
        method=row.apply_method,
        apply_type=row.apply_type,
        allowed=row.allowed,
        modifiable=row.modifiable,
    )
