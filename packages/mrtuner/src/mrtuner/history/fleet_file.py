"""Which servers are recorded, and their names in the history."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from mrtuner.errors import BadValue, UsageError
from mrtuner.files import read_file
from mrtuner.history.recording.managed import ManagedInstance
from mrtuner.history.recording.recorder import Instance
from mrtuner.inputs import OF_A_CHECK, checked
from mrtuner.wording import enumerated

if TYPE_CHECKING:
    from mrtuner.inputs import MachineInputs

_NAME: Final = r"[\w.:@-]{1,200}"
_EXAMPLE: Final = 'Write [instances], and below it NAME = "postgresql://monitor@host/dbname".'


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The contents of a fleet file: servers to connect to, and RDS instances to ask AWS about."""

    instances: list[Instance]
    managed: list[ManagedInstance]


def instance_of(dsn: str, name: str | None = None) -> Instance:
    """Return the server at a connection string; its default name is the address libpq would use.

    Raises:
        UsageError: the connection string or the name cannot be used.
    """
    return Instance(name=_checked(name) if name is not None else _address(dsn), dsn=dsn)


def managed_of(identifier: str, name: str | None = None) -> ManagedInstance:
    """Return the RDS instance with this identifier, which is also its default name.

    Raises:
        BadValue: the name cannot be used.
    """
    return ManagedInstance(name=_checked(name or identifier), identifier=identifier)


def _checked(name: str) -> str:
    if not re.fullmatch(_NAME, name):
        raise BadValue(
            f"an instance cannot be called {name!r}", "Use letters, digits and . : @ _ -"
        )
    return name


def _address(dsn: str) -> str:
    from mrtuner.postgres.connect import address

    return address(dsn)


def read_fleet(path: Path) -> Fleet:
    """Return the servers that a TOML file names.

    Raises:
        UsageError: it cannot be read or is not understood. No message quotes a connection string.
    """
    try:
        found = tomllib.loads(read_file(path))
    except tomllib.TOMLDecodeError as error:
        raise BadValue(f"{path} is not TOML: {error}", _EXAMPLE) from None
    tables = {name: found.get(name, {}) for name in ("instances", "rds")}
    if not any(tables.values()) or not all(isinstance(one, dict) for one in tables.values()):
        raise UsageError(f"{path} has no table [instances]", _EXAMPLE)
    for name, value in tables["rds"].items():
        if not isinstance(value, str):
            raise BadValue(f"{path}: {name} is not an identifier", _EXAMPLE)
    return Fleet(
        instances=[_described(path, name, value) for name, value in tables["instances"].items()],
        managed=[managed_of(identifier, name) for name, identifier in tables["rds"].items()],
    )


def _described(path: Path, name: str, value: object) -> Instance:
    """The server of an entry: its connection string, or a table with that and its machine."""
    told = dict(value) if isinstance(value, dict) else {"dsn": value}
    dsn = told.pop("dsn", None)
    if not isinstance(dsn, str):
        raise BadValue(
            f"{path}: {name} is not a connection string, nor a table with one in dsn", _EXAMPLE
        )
    for unknown in sorted(told.keys() - set(OF_A_CHECK)):
        raise BadValue(
            f"{path}: {name} has {unknown!r}", f"Beside dsn it may have {enumerated(OF_A_CHECK)}."
        )
    try:
        checked(told)
    except BadValue as error:
        raise BadValue(f"{path}: {name}: {error.message}", error.hint) from None
    return replace(instance_of(dsn, name), machine=cast("MachineInputs", told))
