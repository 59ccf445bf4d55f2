"""Who runs a server, from what each service and operator really shows."""

from __future__ import annotations

import pytest

from mrtuner.postgres.model import Origin, Platform, Setting
from mrtuner.postgres.platform import HOW, Clues, platform


def setting(name: str, value: str = "", origin: Origin = "file") -> Setting:
    return Setting(
        name=name,
        setting=value,
        unit=None,
        vartype="string",
        context="sighup",
        boot_val=None,
        reset_val=None,
        enumvals=(),
        pending_restart=False,
        origin=origin,
        sourcefile=None,
        sourceline=None,
    )


def clues(*shown: Setting, **others: object) -> Clues:
    by_name = {each.name: each for each in shown}
    return Clues(settings=by_name, **others)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shown", "name"),
    [
        (clues(setting("rds.extensions")), "rds"),
        (clues(roles=frozenset({"rds_superuser"})), "rds"),
        (clues(setting("rds.extensions"), aurora=True), "aurora"),
        (clues(setting("cloudsql.iam_authentication")), "cloud-sql"),
        (clues(roles=frozenset({"cloudsqlsuperuser"})), "cloud-sql"),
        (clues(setting("alloydb.iam_authentication")), "alloydb"),
        (clues(roles=frozenset({"alloydbsuperuser", "cloudsqladmin"})), "alloydb"),
        (clues(setting("azure.extensions")), "azure"),
        (clues(setting("supautils.privileged_role")), "supabase"),
        (clues(setting("neon.timeline_id")), "neon"),
        (clues(roles=frozenset({"avnadmin"})), "aiven"),
        (clues(schemas=frozenset({"heroku_ext"})), "heroku"),
        (clues(setting("unix_socket_directories", "/controller/run")), "cloudnativepg"),
        (clues(setting("archive_command", "/controller/manager wal-archive %p")), "cloudnativepg"),
        (clues(setting("ssl_cert_file", "/pgconf/tls/tls.crt")), "crunchy"),
        (clues(setting("config_file", "/home/postgres/pgdata/pgroot/data/postgresql.conf")),
         "zalando"),
        (clues(roles=frozenset({"robot_zmon"})), "zalando"),
        (clues(applications=frozenset({"psql", "Patroni heartbeat"})), "patroni"),
        (clues(setting("unix_socket_directories", "/var/run/postgresql")), "self-managed"),
    ],
)  # fmt: skip
def test_a_platform_is_known_by_its_marks(shown: Clues, name: str) -> None:
    assert platform(shown).name == name


def test_patroni_is_known_by_what_it_puts_on_the_command_line() -> None:
    flags = ("cluster_name", "max_locks_per_transaction", "track_commit_timestamp")
    by_patroni = clues(*(setting(name, "1", "command line") for name in flags))
    by_hand = clues(*(setting(name, "1", "file") for name in flags))
    assert platform(by_patroni).name == "patroni"
    assert platform(by_hand).name == "self-managed"


def test_only_a_self_managed_server_is_written_by_alter_system() -> None:
    assert platform(clues()).alter_system
    assert not platform(clues(setting("rds.extensions"))).alter_system
    assert not platform(clues(setting("allow_alter_system", "off"))).alter_system


def test_the_evidence_names_what_was_seen() -> None:
    assert platform(clues(setting("rds.extensions"))).evidence == "setting rds.extensions"


def test_every_platform_says_how_a_setting_is_changed() -> None:
    assert all(how.endswith(".") for how in HOW.values())
    assert len(HOW) == 13  # all but self-managed


def test_a_remedy_is_sql_only_where_sql_changes_settings() -> None:
    ours = Platform(name="self-managed", evidence="", alter_system=True, how="Use ALTER SYSTEM.")
    assert ours.remedy(autovacuum="on", wal_sender_timeout="'60s'") == (
        "ALTER SYSTEM SET autovacuum = on; ALTER SYSTEM SET wal_sender_timeout = '60s'; "
        "SELECT pg_reload_conf();"
    )
    assert ours.remedy(True, autovacuum_max_workers="'5'") == (
        "ALTER SYSTEM SET autovacuum_max_workers = '5'; -- then restart"
    )
    rds = Platform(name="rds", evidence="", alter_system=False, how="Change it in the group.")
    assert rds.remedy(autovacuum="on", wal_sender_timeout="'60s'") == (
        "autovacuum = on, wal_sender_timeout = '60s'. Change it in the group."
    )
