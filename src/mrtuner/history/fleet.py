"""Which servers are recorded, and what they are called in the history."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Final

from mrtuner.errors import BadValue, UsageError
from mrtuner.files import read_file
from mrtuner.history.recorder import Instance

_NAME: Final = r"[\w.:@-]{1,200}"
_EXAMPLE: Final = 'Write [instances], and below it NAME = "postgresql://monitor@host/dbname".'


def instance_of(dsn: str, name: str | None = None) -> Instance:
    """The server at a connection string; by default it is called as libpq addresses it.

    Raises:
        UsageError: the connection string or the name cannot be used.
    """
    if name is not None and not re.fullmatch(_NAME, name):
        raise BadValue(
            f"an instance cannot be called {name!r}", "Use letters, digits and . : @ _ -"
        )
    return Instance(name=name or _address(dsn), dsn=dsn)


def _address(dsn: str) -> str:
    from mrtuner.postgres.connect import address

    return address(dsn)


def read_fleet(path: Path) -> list[Instance]:
    """The servers that a file in TOML names.

    Raises:
        UsageError: it cannot be read or is not understood. No message quotes a connection string.
    """
    try:
        found = tomllib.loads(read_file(path)).get("instances")
    except tomllib.TOMLDecodeError as error:
        raise BadValue(f"{path} is not TOML: {error}", _EXAMPLE) from None
    if not isinstance(found, dict) or not found:
        raise UsageError(f"{path} has no table [instances]", _EXAMPLE)
    for name, dsn in found.items():
        if not isinstance(dsn, str):
            raise BadValue(f"{path}: {name} is not a connection string", _EXAMPLE)
    return [instance_of(dsn, name) for name, dsn in found.items()]
