"""A group's values as a configuration with which PostgreSQL starts on this machine.

Every value is set as it was evaluated, memory included: without huge pages PostgreSQL reserves
shared memory but does not touch it. What cannot be set here is set aside, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from mrtuner.catalog import parameters
from mrtuner.postgres.conf_file import entry

#: The lab decides where the server stores data, listens and logs.
_OURS: Final = frozenset({
    "archive_command", "config_file", "data_directory", "external_pid_file", "hba_file",
    "ident_file", "listen_addresses", "log_directory", "logging_collector", "ssl", "ssl_ca_file",
    "ssl_cert_file", "ssl_crl_dir", "ssl_crl_file", "ssl_key_file", "unix_socket_directories",
    "unix_socket_group", "unix_socket_permissions",
})  # fmt: skip
_PRELOAD: Final = "shared_preload_libraries"


@dataclass(slots=True)
class Arranged:
    """The server's settings, and those that differ from the group, with the reasons."""

    settings: dict[str, str]
    aside: dict[str, str] = field(default_factory=dict)

    def less_buffers(self, pages: int) -> None:
        """Use this many pages of 8 kB as shared buffers instead of the requested number."""
        asked = self.settings.get("shared_buffers")
        self.settings["shared_buffers"] = str(pages)
        self.aside["shared_buffers"] = f"{pages} here: this machine cannot reserve {asked} pages"

    def lacking(self, name: str) -> None:
        """Use the default instead of a word that this build does not support."""
        self.aside[name] = f"not {self.settings.pop(name)} here: this build does not support it"

    def text(self) -> str:
        lines = (f"{entry(name, value)}\n" for name, value in sorted(self.settings.items()))
        return "".join(lines)


def arranged(values: Mapping[str, str], major: int, libraries: Iterable[str]) -> Arranged:
    """Split a group's evaluated values into what this server can run and what it cannot.

    `libraries` are those that the installation can preload. `rds.logical_replication` sets
    wal_level as RDS does (RDS User Guide, logical replication).
    """
    known = {name.lower() for name in parameters(major)}
    result = Arranged({})
    for name, value in values.items():
        if name in _OURS:
            result.aside[name] = "set by the lab"
        elif "." not in name and name not in known:
            result.aside[name] = f"PostgreSQL {major} has no such parameter"
        else:
            result.settings[name] = value
    _preload(result, set(libraries))
    _huge_pages(result)
    _no_fsync(result)
    if values.get("rds.logical_replication") == "1":
        result.settings["wal_level"] = "logical"
    return result


def of_a_build(result: Arranged, major: int) -> tuple[tuple[str, str], ...]:
    """Return settings with a word that only some builds support: (name, word), lz4, zstd, …"""
    known = parameters(major)
    return tuple(
        (name, word)
        for name, word in result.settings.items()
        if name in known and word in known[name].build
    )


def _preload(result: Arranged, libraries: set[str]) -> None:
    asked = [name for name in result.settings.get(_PRELOAD, "").split(",") if name]
    missing = [name for name in asked if name.strip() not in libraries]
    if missing:
        result.aside[_PRELOAD] = f"without {', '.join(missing)}: not in this installation"
        result.settings[_PRELOAD] = ",".join(name for name in asked if name not in missing)


def _huge_pages(result: Arranged) -> None:
    """Never require huge pages: without enough of them the server would not start."""
    if result.settings.get("huge_pages") == "on":
        result.settings["huge_pages"] = "try"
        result.aside["huge_pages"] = "try here: huge pages are not set up on every machine"


def _no_fsync(result: Arranged) -> None:
    """Turn fsync off, unlike RDS: outages here must not depend on the disk's speed."""
    result.settings["fsync"] = "off"
    result.aside["fsync"] = "off here: no data outlives the lab"
