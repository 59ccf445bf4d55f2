"""Who runs a server, judging by what SQL shows. Pure: takes clues, returns a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mrtuner.postgres.model import Platform, PlatformName, Setting
from mrtuner.postgres.secret_settings import shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Clues:
    """What reveals a platform. A less privileged role sees fewer of these."""

    settings: Mapping[str, Setting]
    roles: frozenset[str] = frozenset()
    schemas: frozenset[str] = frozenset()
    applications: frozenset[str] = frozenset()  # application names of sessions
    aurora: bool = False  # there is a function aurora_version()

    def value(self, name: str) -> str:
        """A setting's text; empty if it is missing or hidden."""
        return self.settings[name].setting if name in self.settings else ""


#: How a setting is changed where ALTER SYSTEM is not used.
HOW: Final[dict[PlatformName, str]] = {
    "rds": "Change it in the instance's DB parameter group; static parameters need a reboot.",
    "aurora": "Change it in the DB cluster or DB parameter group; static parameters need a reboot.",
    "cloud-sql": "Set it as a database flag: gcloud sql instances patch --database-flags; "
    "mrtuner tune writes the call with --format cloudsql.",
    "alloydb": "Set it as a database flag: gcloud alloydb instances update --database-flags.",
    "azure": "Set it as a server parameter: az postgres flexible-server parameter set; "
    "mrtuner tune writes the calls with --format azure.",
    "cloudnativepg": "Set it under spec.postgresql.parameters of the Cluster resource.",
    "crunchy": "Set it under spec.config.parameters of the PostgresCluster resource "
    "(before 5.8: spec.patroni.dynamicConfiguration.postgresql.parameters).",
    "zalando": "Set it under spec.postgresql.parameters of the postgresql resource.",
    "patroni": "Change the cluster's dynamic configuration: patronictl edit-config.",
    "supabase": "Set it with: supabase postgres-config update; not every parameter can be set.",
    "neon": "Neon sets it by the size of the compute; only session and role settings can be "
    "changed.",
    "aiven": "Set it in the service's advanced configuration: avn service update -c pg.NAME=VALUE.",
    "heroku": "The plan sets it; heroku pg:settings changes a few logging parameters.",
}

#: Prefixes of settings and names of roles that a platform adds, most specific first.
_MARKS: Final[tuple[tuple[PlatformName, str, tuple[str, ...]], ...]] = (
    ("rds", "rds.", ("rds_superuser", "rdsadmin")),
    ("alloydb", "alloydb.", ("alloydbsuperuser", "alloydbadmin")),
    ("cloud-sql", "cloudsql.", ("cloudsqlsuperuser", "cloudsqladmin")),
    ("azure", "azure.", ("azure_pg_admin",)),
    ("neon", "neon.", ("neon_superuser",)),
    ("supabase", "supautils.", ("supabase_admin",)),
    ("aiven", "aiven.", ("avnadmin",)),
)

#: Settings that Patroni always passes on the command line, whatever its configuration.
_PATRONI_FLAGS: Final = ("cluster_name", "max_locks_per_transaction", "track_commit_timestamp")


def platform(clues: Clues) -> Platform:
    """Return the platform and what revealed it; self-managed if nothing did."""
    found = _aurora(clues) or _service(clues) or _heroku(clues) or _operator(clues)
    return _self_managed(clues) if found is None else managed(*found)


def managed(name: PlatformName, evidence: str) -> Platform:
    """A platform where somebody else than ALTER SYSTEM keeps the settings."""
    return Platform(name=name, evidence=evidence, alter_system=False, how=HOW[name])


_Found = tuple[PlatformName, str] | None


def _aurora(clues: Clues) -> _Found:
    return ("aurora", "function aurora_version()") if clues.aurora else None


def _service(clues: Clues) -> _Found:
    for name, prefix, roles in _MARKS:
        setting = next((each for each in clues.settings if each.startswith(prefix)), None)
        if setting is not None:
            return name, f"setting {setting}"
        role = next((each for each in roles if each in clues.roles), None)
        if role is not None:
            return name, f"role {role}"
    return None


def _heroku(clues: Clues) -> _Found:
    return ("heroku", "schema heroku_ext") if "heroku_ext" in clues.schemas else None


def _operator(clues: Clues) -> _Found:
    """Kubernetes operators, by the paths in their images; then anything else Patroni runs."""
    return (
        _by_path(clues, "cloudnativepg", "/controller/")
        or _by_path(clues, "crunchy", "/pgconf/tls/")
        or _by_path(clues, "zalando", "/home/postgres/pgdata/pgroot/")
        or _by_role(clues, "crunchy", "_crunchyrepl")
        or _by_role(clues, "zalando", "robot_zmon")
        or _patroni(clues)
    )


_PATHS: Final = (
    "unix_socket_directories", "archive_command", "restore_command", "ssl_cert_file",
    "ssl_ca_file", "data_directory", "config_file", "hba_file",
)  # fmt: skip


def _by_path(clues: Clues, name: PlatformName, path: str) -> _Found:
    for setting in _PATHS:
        if path in f"{clues.value(setting)}/":
            return name, f"{setting} = {shown(setting, clues.value(setting))}"
    return None


def _by_role(clues: Clues, name: PlatformName, role: str) -> _Found:
    return (name, f"role {role}") if role in clues.roles else None


def _patroni(clues: Clues) -> _Found:
    session = next((each for each in clues.applications if each.startswith("Patroni")), None)
    if session is not None:
        return "patroni", f"a session of {session}"
    flags = [clues.settings[name] for name in _PATRONI_FLAGS if name in clues.settings]
    if len(flags) == len(_PATRONI_FLAGS) and all(each.origin == "command line" for each in flags):
        return "patroni", f"{', '.join(_PATRONI_FLAGS)} given on the command line"
    return None


def _self_managed(clues: Clues) -> Platform:
    forbidden = clues.value("allow_alter_system") == "off"
    return Platform(
        name="self-managed",
        evidence="no sign of a managed service or an operator",
        alter_system=not forbidden,
        how="ALTER SYSTEM is forbidden here (allow_alter_system): change its configuration files."
        if forbidden
        else "ALTER SYSTEM, then a reload or a restart.",
    )
