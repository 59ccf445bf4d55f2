"""Crunchy's operator (PGO): a merge patch for a ``PostgresCluster``.

Operators since 2025 have ``spec.config.parameters``, which this writes; earlier ones have the
same mapping at ``spec.patroni.dynamicConfiguration.postgresql.parameters``, which is also read.
Source: postgres-operator, pkg/apis/postgres-operator.crunchydata.com/v1beta1,
PostgresConfigSpec: the validation rules on Parameters; internal/postgres/parameters.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mrtuner.errors import BadValue, Refused
from mrtuner.formats import manifest, patroni
from mrtuner.formats.line import Format, Line

OWNED: Final = frozenset({
    "archive_command", "archive_mode", "cluster_name", "config_file", "data_directory",
    "external_pid_file", "hba_file", "hot_standby", "ident_file", "listen_addresses",
    "log_file_mode", "logging_collector", "port", "primary_conninfo", "primary_slot_name",
    "recovery_min_apply_delay", "recovery_target", "restore_command", "ssl",
    "synchronous_standby_names", "wal_level", "wal_log_hints",
})  # fmt: skip
OWNED_FAMILIES: Final = ("recovery_target_", "ssl_", "unix_socket_")
MOST: Final = 50  # MaxProperties of the schema

_PATH = ("spec", "config", "parameters")
_OLD_PATH = ("spec", "patroni", "dynamicConfiguration", "postgresql", "parameters")


def owned(name: str) -> bool:
    """Whether the operator refuses this parameter."""
    return name in OWNED or name.startswith(OWNED_FAMILIES)


def write(lines: Sequence[Line], title: str = "") -> str:
    """Return ``spec.config.parameters``; Refused above the schema's limit of fifty parameters."""
    ours, said = patroni.accepted([line for line in lines if not owned(line.name)])
    if len(ours) > MOST:
        raise Refused(
            f"the operator takes at most {MOST} parameters, but there are {len(ours)}",
            "Use another format, or leave some parameters at their default.",
        )
    notes = [
        title,
        "Apply: kubectl patch postgrescluster NAME --type merge --patch-file FILE",
        "For operators whose PostgresCluster has spec.config.parameters (2025 and later). "
        "For older ones, move the parameters to "
        "spec.patroni.dynamicConfiguration.postgresql.parameters.",
        *said,
        *manifest.left_out([line for line in lines if owned(line.name)], "the operator"),
    ]
    document = {
        "apiVersion": "postgres-operator.crunchydata.com/v1beta1",
        "kind": "PostgresCluster",
        "spec": {"config": {"parameters": manifest.parameters(ours)}},
    }
    return manifest.manifest(document, ours, notes)


def read(text: str) -> dict[str, str]:
    """Return the parameters, from their current or earlier place."""
    try:
        found = manifest.load(text, _PATH)
    except BadValue:
        found = manifest.load(text, _OLD_PATH)
    return manifest.values(found)


FORMAT = Format(
    name="crunchy",
    summary="Crunchy's operator: patch for a PostgresCluster (v1beta1, 2025 and later)",
    write=write,
    read=read,
    container=True,
    orders_standbys=True,
)
