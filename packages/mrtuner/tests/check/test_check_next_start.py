"""What keeps a running server from starting again is found before anything restarts it."""

from __future__ import annotations

import os

import psycopg
import pytest
from conftest import NewCluster

from mrtuner.answers import check
from mrtuner.checks.report import CheckReport
from mrtuner.errors import ConnectError
from mrtuner.postgres.cluster import Cluster
from servers import sql

pytestmark = pytest.mark.timed


def checked(cluster: Cluster, user: str = "postgres", memory: str | None = "8GB") -> CheckReport:
    return check(
        cluster.dsn(user=user), skip=["free-space"], memory=memory, cpus=4, storage="ssd"
    )  # fmt: skip


def found(report: CheckReport) -> list[str]:
    return [one.sentence for one in report.findings if one.id == "next-start"]


def fails(cluster: Cluster) -> None:
    """The proof: the server does not come up again."""
    cluster.stop()
    with pytest.raises(ConnectError):
        cluster.start()


def written(cluster: Cluster, *lines: str) -> None:
    with (cluster.data / "postgresql.conf").open("a") as file:
        file.write("\n".join(("", *lines, "")))


def test_behind_patroni_files_are_judged_and_settings_that_wait_are_not(
    new_cluster: NewCluster,
) -> None:
    """Patroni writes the settings before it starts the server, but not the other files."""
    cluster = new_cluster(settings={"logging_collector": "on", "log_directory": "logs"})
    with psycopg.connect(cluster.dsn(), application_name="Patroni heartbeat"):
        report = checked(cluster)
        assert not report.findings
        assert not report.unjudged
        written(cluster, "shared_buffers = '30GB'", "listen_addresses = '10.99.99.99'", "ssl = on")
        report = checked(cluster)
        assert not found(report)
        assert not report.unjudged
        (waits,) = [one for one in report.findings if one.id == "pending-restart"]
        assert waits.text == "waiting for a restart: shared_buffers, listen_addresses"
        assert waits.remedy[-1].endswith("is not judged, since Patroni writes the settings of a "
                                         "start itself: patronictl show-config")  # fmt: skip
        with (cluster.data / "pg_hba.conf").open("a") as file:
            file.write("nonsense\n")
        (cluster.data / "logs").chmod(0o500)
        report = checked(cluster)
        assert not report.unjudged
        hba, log = found(report)
    assert 'invalid connection type "nonsense"' in hba
    assert "the server cannot write to log_directory, logs" in log
    assert len(found(checked(cluster))) > 2
    (cluster.data / "logs").chmod(0o700)


@pytest.mark.parametrize("major", [13, 18])
def test_a_line_of_pg_hba_conf(major: int, new_cluster: NewCluster) -> None:
    cluster = new_cluster(major)
    with (cluster.data / "pg_hba.conf").open("a") as file:
        file.write("host all all 10.0.0.0/33 md5\n")
    sql(cluster.dsn(), "SELECT pg_reload_conf()")
    (said,) = found(checked(cluster))
    assert "pg_hba.conf line" in said
    assert 'invalid CIDR mask in address "10.0.0.0/33"' in said
    assert "will not start again" in said
    fails(cluster)


@pytest.mark.parametrize("major", [13, 18])
def test_a_line_for_tls_alone_is_only_a_warning(major: int, new_cluster: NewCluster) -> None:
    """The server notes an error of it, and starts with it all the same."""
    cluster = new_cluster(major)
    with (cluster.data / "pg_hba.conf").open("a") as file:
        file.write("hostssl all all 0.0.0.0/0 scram-sha-256\n")
    sql(cluster.dsn(), "SELECT pg_reload_conf()")
    ((error,),) = sql(cluster.dsn(), "SELECT error FROM pg_hba_file_rules WHERE error <> ''")
    assert "SSL" in error
    assert "next-start" in checked(cluster).passed
    cluster.restart()


def test_ssl_without_a_certificate(new_cluster: NewCluster) -> None:
    """Neither the line that nobody has reloaded, nor the reload, is noticed by the server."""
    cluster = new_cluster(18)
    written(cluster, "ssl = on")
    (before,) = found(checked(cluster))
    assert "the server cannot read server.crt (ssl_cert_file) and server.key (ssl_key" in before
    sql(cluster.dsn(), "SELECT pg_reload_conf()")
    assert found(checked(cluster)) == [before]
    fails(cluster)


def test_a_key_that_others_may_read(new_cluster: NewCluster) -> None:
    """Whether certificate and key are any good is not looked at."""
    cluster = new_cluster(18)
    written(cluster, "ssl = on")
    owner = (cluster.data / "PG_VERSION").stat()
    for name in ("server.crt", "server.key"):
        (cluster.data / name).touch(0o600)
        os.chown(cluster.data / name, owner.st_uid, owner.st_gid)
    assert not found(checked(cluster))
    (cluster.data / "server.key").chmod(0o640)
    (said,) = found(checked(cluster))
    assert f"chmod 600 {cluster.data}/server.key" in said
    if os.geteuid() == 0:
        os.chown(cluster.data / "server.key", 0, owner.st_gid)
        assert not found(checked(cluster))  # root's may be read by the group


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("shared_buffers = '30GB'", "need 30 GB of shared memory, and there are 8 GB"),
        ("listen_addresses = '10.99.99.99'", "the machine has no such address"),
        ("hba_file = '/nowhere/pg_hba.conf'", "which the server cannot read"),
        ("unix_socket_directories = '/nowhere'", "the server cannot write there"),
        ("logging_collector = on; log_directory = '/proc'", "cannot write to log_directory, /proc"),
        # Nobody has pages of this size by chance; a benchmark beside us may reserve others.
        ("huge_pages = 'on'; huge_page_size = '1GB'", "it will not start again"),
        ("recovery_target = 'immediate'; recovery_target_name = 'x'",
         "only one recovery target may be set"),
    ],
)  # fmt: skip
def test_a_setting_that_waits(setting: str, says: str, new_cluster: NewCluster) -> None:
    cluster = new_cluster(18)
    written(cluster, *setting.split("; "))
    said = found(checked(cluster))
    assert len(said) == 1, said
    assert says in said[0]
    if "30GB" not in setting:  # the tests' machine may have more
        fails(cluster)


@pytest.mark.parametrize("major", [13, 18])
def test_nobody_is_told_to_restart_a_server_that_would_not_start(
    major: int, new_cluster: NewCluster
) -> None:
    cluster = new_cluster(major)
    sql(cluster.dsn(), "ALTER SYSTEM SET max_connections = 3", "SELECT pg_reload_conf()")
    written(cluster, "listen_addresses = '10.99.99.99'")
    told = checked(cluster).findings
    starts = [one for one in told if one.id == "next-start"]
    assert len(starts) == 2
    (waits,) = [one for one in told if one.id == "pending-restart"]
    assert waits.consequence == "the next restart, planned or not, fails"
    assert waits.remedy[0].startswith("Do not restart")
    assert waits.commands == ("ALTER SYSTEM RESET max_connections;",)
    assert any("Write listen_addresses = '" in text for text in waits.remedy)
    assert {text for one in starts for text in one.commands} == {*waits.commands}
    sql(cluster.dsn(), *waits.commands)
    assert "max_connections" not in " ".join(found(checked(cluster)))


@pytest.mark.parametrize("major", [13, 18])
def test_what_waits_is_taken_back_to_what_is_in_force(major: int, new_cluster: NewCluster) -> None:
    """postgresql.conf says 20 and 64MB, and 30 and 32MB are in force: a RESET would leave those
    of the file to come. Of max_wal_senders, the default 10 is in force; of
    max_prepared_transactions 5, which no file says any more. Two libraries are a list of two.
    """
    cluster = new_cluster(major, {"max_connections": 20, "shared_buffers": "64MB"})
    sql(
        cluster.dsn(), "ALTER SYSTEM SET max_connections = 30",
        "ALTER SYSTEM SET shared_buffers = '32MB'",
        "ALTER SYSTEM SET max_prepared_transactions = 5",
        "ALTER SYSTEM SET shared_preload_libraries = auto_explain, pg_stat_statements",
    )  # fmt: skip
    cluster.restart()
    names = ("max_connections", "shared_buffers", "max_prepared_transactions", "max_wal_senders",
             "shared_preload_libraries")  # fmt: skip
    in_force = [sql(cluster.dsn(), f"SHOW {name}") for name in names]
    assert in_force[:4] == [[("30",)], [("32MB",)], [("5",)], [("10",)]]
    sql(
        cluster.dsn(), "ALTER SYSTEM SET max_connections = 40",
        "ALTER SYSTEM SET shared_buffers = '48MB'", "ALTER SYSTEM SET max_wal_senders = 7",
        "ALTER SYSTEM RESET max_prepared_transactions",
        "ALTER SYSTEM SET shared_preload_libraries = auto_explain",
    )  # fmt: skip
    (waits,) = [one for one in checked(cluster).findings if one.id == "pending-restart"]
    assert any("= 48MB (" in one and one.endswith("force is 32MB") for one in waits.evidence)
    assert waits.remedy[0] == "Restart at a time of your own, or take the change back:"
    assert set(waits.commands) == {
        "ALTER SYSTEM SET max_connections = 30;", "ALTER SYSTEM SET shared_buffers = '32MB';",
        "ALTER SYSTEM RESET max_wal_senders;", "ALTER SYSTEM SET max_prepared_transactions = 5;",
        "ALTER SYSTEM SET shared_preload_libraries = 'auto_explain', 'pg_stat_statements';",
    }  # fmt: skip
    sql(cluster.dsn(), *waits.commands)
    assert "pending-restart" in checked(cluster).passed
    cluster.restart()
    assert [sql(cluster.dsn(), f"SHOW {name}") for name in names] == in_force


def test_what_waits_and_does_no_harm(new_cluster: NewCluster) -> None:
    cluster = new_cluster(18)
    written(
        cluster, "shared_buffers = 256MB", "max_connections = 200", "logging_collector = on",
        "listen_addresses = '127.0.0.1, 10.99.99.99'", "huge_pages = off",
    )  # fmt: skip
    for memory in ("8GB", None):
        report = checked(cluster, memory=memory)
        assert not found(report)
        assert "next-start" in report.passed, report.unjudged
    cluster.restart()


def test_what_cannot_be_tried_is_said(new_cluster: NewCluster) -> None:
    cluster = new_cluster(18)
    written(cluster, "listen_addresses = 'no-such-name'", "port = 1", "shared_buffers = 256MB")
    (said,) = [one for one in checked(cluster).unjudged if one.name == "next-start"]
    assert said.why == "not checked: whether it starts with listen_addresses, port"


def test_a_lesser_role_does_not_pass_what_it_cannot_read(new_cluster: NewCluster) -> None:
    cluster = new_cluster(18)
    sql(cluster.dsn(), "CREATE ROLE plain LOGIN")
    with (cluster.data / "pg_hba.conf").open("a") as file:
        file.write("nonsense\n")
    report = checked(cluster, "plain")
    assert "next-start" in {one.name for one in report.unjudged}


@pytest.mark.parametrize("major", [13, 18])
def test_a_setting_that_the_role_may_not_see_is_neither_wrong_nor_fine(
    major: int, new_cluster: NewCluster
) -> None:
    """The files it may see, shared_preload_libraries not: that waits, and the next start is well.

    Then the line is gone, which the server says by name; a wrong value of another setting is told
    beside.
    """
    cluster = new_cluster(major)
    sql(
        cluster.dsn(), "CREATE ROLE plain LOGIN IN ROLE pg_read_all_stats",
        "GRANT SELECT ON pg_file_settings TO plain",
        "GRANT EXECUTE ON FUNCTION pg_show_all_file_settings() TO plain",
        "ALTER SYSTEM SET shared_preload_libraries = auto_explain", "SELECT pg_reload_conf()",
    )  # fmt: skip
    report = checked(cluster, "plain")
    names = {"configuration-errors", "pending-restart", "next-start"}
    assert not names & {one.id for one in report.findings}
    unjudged = [one for one in report.unjudged if one.name in names]
    assert len(unjudged) == 3
    for one in unjudged:
        assert "see whether shared_preload_libraries waits for a restart" in one.why
        assert "GRANT pg_read_all_settings TO" in str(one.supply) or one.name == "next-start"
    cluster.restart()
    sql(cluster.dsn(), "ALTER SYSTEM RESET shared_preload_libraries", "SELECT pg_reload_conf()")
    written(cluster, "work_mem = plenty")
    report = checked(cluster, "plain")
    wrong, waits = [one for one in report.findings if one.id in names]
    assert wrong.text == "1 line of the configuration files cannot be used"
    assert waits.evidence == (
        "shared_preload_libraries: its line is gone, so the default comes; in force is hidden",
    )
    assert waits.remedy[1] == (
        "Set shared_preload_libraries back to the value in force in the configuration files"
    )
    assert not waits.commands


def test_a_list_that_is_quoted_as_one_name(new_cluster: NewCluster) -> None:
    cluster = new_cluster(18)
    sql(cluster.dsn(), "ALTER SYSTEM SET shared_preload_libraries = 'auto_explain, it''s'")
    (said,) = found(checked(cluster))
    assert "names auto_explain, it's, but the server has no file" in said
    hint = said.partition("It is quoted as one name. As a list: ")[2]
    assert hint == (
        "ALTER SYSTEM SET shared_preload_libraries = 'auto_explain', 'it''s'; "
        "Or take it back: ALTER SYSTEM RESET shared_preload_libraries;"
    )
    fails(cluster)


def test_a_value_that_no_reload_takes(new_cluster: NewCluster) -> None:
    """One unknown name, and the server looks at no value: which are wrong, it does not say."""
    cluster = new_cluster(18)
    bad = ("work_mem = '12 bananas'", "wal_level = everything", "jit = perhaps")
    good = ("checkpoint_timeout = 7min", "wal_compression = on", "log_min_messages = debug")
    written(cluster, "no_such_setting = 1", *bad, *good)
    report = checked(cluster)
    (errors,) = [one for one in report.findings if one.id == "configuration-errors"]
    assert errors.text == "4 lines of the configuration files cannot be used"
    assert {one.partition(": ")[2].partition(":")[0] for one in errors.evidence} == {
        "no_such_setting", "work_mem", "wal_level", "jit",
    }  # fmt: skip
    (edited,) = [one for one in report.findings if one.id == "not-reloaded"]
    assert edited.text == "not in force: checkpoint_timeout, log_min_messages, wal_compression"


def test_numbers_are_read_with_all_their_digits(new_cluster: NewCluster) -> None:
    """The clock as a float, rounded to one digit, would be in the year 2033: 2e+09 seconds."""
    cluster = new_cluster(18)
    sql(cluster.dsn(), "ALTER ROLE postgres SET extra_float_digits = -15")
    report = checked(cluster)
    ((now,),) = sql(cluster.dsn(), "SELECT extract(epoch FROM now())::bigint")
    assert report.at is not None
    assert abs(report.at - int(str(now))) < 60
    assert "version-support" in report.passed
