"""CloudNativePG: a merge patch for a ``Cluster`` of postgresql.cnpg.io/v1.

Source: cloudnative-pg 1.27, pkg/postgres/configuration.go, FixedConfigurationParameters (the
webhook refuses a manifest that sets one) and the documentation's page "PostgreSQL
Configuration".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mrtuner.formats import manifest
from mrtuner.formats.line import Format, Line, divide, items, listing

OWNED: Final = frozenset({
    "allow_system_table_mods", "archive_cleanup_command", "archive_command", "archive_mode",
    "bonjour", "bonjour_name", "cluster_name", "config_file", "data_directory",
    "data_sync_retry", "event_source", "external_pid_file", "hba_file", "hot_standby",
    "ident_file", "jit_provider", "listen_addresses", "log_destination", "log_directory",
    "log_file_mode", "log_filename", "log_rotation_age", "log_rotation_size",
    "log_truncate_on_rotation", "logging_collector", "pg_failover_slots.primary_dsn",
    "pg_failover_slots.standby_slot_names", "port", "primary_conninfo", "primary_slot_name",
    "promote_trigger_file", "recovery_end_command", "recovery_min_apply_delay",
    "recovery_target", "recovery_target_action", "recovery_target_inclusive",
    "recovery_target_lsn", "recovery_target_name", "recovery_target_time",
    "recovery_target_timeline", "recovery_target_xid", "restart_after_crash",
    "restore_command", "shared_preload_libraries", "ssl", "ssl_ca_file", "ssl_cert_file",
    "ssl_crl_file", "ssl_dh_params_file", "ssl_ecdh_curve", "ssl_key_file",
    "ssl_passphrase_command", "ssl_passphrase_command_supports_reload",
    "ssl_prefer_server_ciphers", "stats_temp_directory", "synchronized_standby_slots",
    "synchronous_standby_names", "syslog_facility", "syslog_ident",
    "syslog_sequence_numbers", "syslog_split_messages", "temp_tablespaces",
    "unix_socket_directories", "unix_socket_group", "unix_socket_permissions",
})  # fmt: skip

_LIBRARIES = "shared_preload_libraries"  # fixed as a parameter, but with its own field


def write(lines: Sequence[Line], title: str = "") -> str:
    """Return ``spec.postgresql`` of a Cluster."""
    ours, theirs = divide(lines, OWNED - {_LIBRARIES})
    plain = [line for line in ours if line.name != _LIBRARIES]
    notes = [
        title,
        "Apply: kubectl patch cluster NAME --type merge --patch-file FILE",
        "The operator restarts the instances itself where a setting needs it.",
        *manifest.left_out(theirs, "the operator"),
    ]
    postgresql: dict[str, object] = {"parameters": manifest.parameters(plain)}
    for line in (line for line in ours if line.name == _LIBRARIES):
        notes.append(f"{_LIBRARIES}: {line.reason}. The list replaces the one you have.")
        postgresql[_LIBRARIES] = [manifest.Text(item) for item in items(line.value)]
    document = {
        "apiVersion": "postgresql.cnpg.io/v1",
        "kind": "Cluster",
        "spec": {"postgresql": postgresql},
    }
    return manifest.manifest(document, plain, notes)


def read(text: str) -> dict[str, str]:
    """Return ``spec.postgresql``, with the libraries as a parameter again."""
    postgresql = manifest.load(text, ("spec", "postgresql"))
    found = manifest.values(postgresql.get("parameters") or {})
    libraries = postgresql.get(_LIBRARIES)
    return found if libraries is None else found | {_LIBRARIES: listing(libraries)}


FORMAT = Format(
    name="cloudnativepg",
    summary="CloudNativePG: patch for a Cluster (postgresql.cnpg.io/v1)",
    write=write,
    read=read,
    container=True,
    orders_standbys=True,
)
