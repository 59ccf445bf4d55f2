"""What ALTER ROLE and ALTER DATABASE set is judged like the server's own settings."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from types import MappingProxyType

import psycopg
import pytest
from conftest import NewCluster

from mrtuner.answers import check
from mrtuner.checks.read import read as read_state
from mrtuner.checks.report import CheckReport, judged
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from mrtuner.postgres.model import Origin
from mrtuner.tuning import gather
from mrtuner.vacuum.assess import judge
from mrtuner.vacuum.read import read
from servers import sql
from waiting import until

pytestmark = pytest.mark.timed


def checked(cluster: Cluster, user: str = "postgres", dbname: str = "postgres") -> CheckReport:
    dsn = cluster.dsn(dbname, user=user)
    return check(dsn, skip=["free-space"], memory="4GB", cpus=2, storage="ssd")


def found(report: CheckReport, name: str) -> list[tuple[str, str]]:
    return [(one.severity.value, one.text) for one in report.findings if one.id == name]


def healed(cluster: Cluster, report: CheckReport, name: str) -> None:
    """Its commands, run as they are, make the finding disappear."""
    for one in report.findings:
        if one.id == name:
            each = [command.partition("  --")[0].split(";") for command in one.commands]
            sql(cluster.dsn(), *filter(None, map(str.strip, chain(*each))))
    assert not found(checked(cluster), name)


def test_work_mem_of_all_roles_is_the_servers(new_cluster: NewCluster) -> None:
    """By hand: 100 sessions and 8 parallel workers, 8 GB * hash_mem_multiplier 2 each: 1728 GB."""
    cluster = new_cluster(18)
    sql(cluster.dsn(), "CREATE ROLE plain LOGIN", "ALTER ROLE ALL SET work_mem = '8GB'")
    for user in ("postgres", "plain"):
        report = checked(cluster, user)
        ((severity, text),) = found(report, "memory-overcommitted")
        assert severity == "danger"
        assert "settings in force can ask for 1.69 TB, 432.2 times the 4 GB" in text
        assert not found(report, "override-undoes-advice")
    healed(cluster, checked(cluster), "memory-overcommitted")


@pytest.mark.parametrize(
    ("statement", "asked"),
    [
        ("ALTER ROLE report SET work_mem = '100GB'", "role report can ask for 100 GB"),
        ("ALTER ROLE report SET work_mem = '4GB'", "role report can ask for 4 GB"),
        ("ALTER ROLE report IN DATABASE \"x 'y\" SET work_mem = '4GB'",
         "role report in database \"x 'y\" can ask for 4 GB"),
        ("ALTER DATABASE \"x 'y\" SET work_mem = '4GB'", "database \"x 'y\" can ask for 4 GB"),
    ],
)  # fmt: skip
def test_one_session_with_more_than_there_is(
    statement: str, asked: str, new_cluster: NewCluster
) -> None:
    """Of 4 GB, 128 MB are shared buffers: 3.88 GB are left. No session is there yet."""
    cluster = new_cluster(18)
    sql(cluster.dsn(), "CREATE ROLE report LOGIN")
    sql(cluster.dsn(), 'CREATE DATABASE "x \'y"')
    sql(cluster.dsn(), statement)
    report = checked(cluster)
    assert found(report, "memory-overcommitted") == [
        ("to do", f"work_mem of {asked}, and there are 3.88 GB besides shared buffers")
    ]
    assert not found(report, "override-undoes-advice")
    healed(cluster, report, "memory-overcommitted")


def test_a_nightly_report_may_have_much(new_cluster: NewCluster) -> None:
    """Two sessions with 512 MB * 2 are 2 GB; four would be 4 GB, more than the 3.88 GB."""
    cluster = new_cluster(18)
    sql(cluster.dsn(), "CREATE ROLE report LOGIN", "ALTER ROLE report SET work_mem = '512MB'")
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(psycopg.connect(cluster.dsn(user="report")))
        assert not found(checked(cluster), "memory-overcommitted")
        for _ in range(2):
            stack.enter_context(psycopg.connect(cluster.dsn(user="report")))
        ((severity, text),) = found(checked(cluster), "memory-overcommitted")
        assert severity == "danger"
        assert text.startswith("work_mem of role report can ask for 4 GB")
    assert "memory-overcommitted" in checked(cluster).passed


def test_a_role_whose_own_value_hides_the_servers_is_not_passed(new_cluster: NewCluster) -> None:
    cluster = new_cluster(18)
    sql(cluster.dsn(), "CREATE ROLE plain LOGIN", "ALTER ROLE plain SET work_mem = '16MB'")
    (said,) = [one for one in checked(cluster, "plain").unjudged if one.name == MEMORY]
    assert "hide the server's own" in said.why
    assert MEMORY in checked(cluster).passed


def test_hash_tables_of_others_are_not_as_large_as_ours(new_cluster: NewCluster) -> None:
    """Four sessions with 512 MB * 2 are 4 GB, more than the 3.88 GB; with ours they were 2 GB."""
    cluster = new_cluster(18)
    sql(cluster.dsn(), "CREATE ROLE report LOGIN", "ALTER ROLE report SET work_mem = '512MB'",
        "CREATE ROLE monitor LOGIN", "GRANT pg_monitor TO monitor",
        "ALTER ROLE monitor SET hash_mem_multiplier = 1")  # fmt: skip
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(psycopg.connect(cluster.dsn(user="report")))
        ((_, text),) = found(checked(cluster, "monitor"), MEMORY)
    assert text.startswith("work_mem of role report can ask for 4 GB")


@pytest.mark.parametrize(("origin", "severity"), [("file", "danger"), ("role", "to do")])
def test_autovacuum_fails_safe_at_the_servers_age(
    origin: Origin, severity: str, embedded: Cluster
) -> None:
    """At a billion: above 900 million, if that is the server's, and below the default of 1.6."""
    state = read_state(embedded.dsn(), gather.flags(memory="8GB"))
    vacuum = state.vacuum
    assert vacuum is not None
    aged = tuple(
        replace(one, age=10**9, forced_at=2 * 10**8, to_stop=None)
        for one in vacuum.wraparound if one.what == "transaction IDs"
    )  # fmt: skip
    age = replace(state.server.settings["vacuum_failsafe_age"], setting="900000000", origin=origin)
    settings = MappingProxyType({**state.server.settings, "vacuum_failsafe_age": age})
    server = replace(state.server, settings=settings)
    report = judged("", replace(state, server=server, vacuum=replace(vacuum, wraparound=aged)))
    assert [one.severity for one in report.findings if one.id == "wraparound"] == [severity]


MEMORY = "memory-overcommitted"


@pytest.mark.parametrize(
    ("statement", "name", "severity", "text"),
    [
        ("ALTER DATABASE shop SET zero_damaged_pages = yes", "durability-off", "danger",
         "zero_damaged_pages is yes for database shop"),
        ("ALTER ROLE app SET ignore_checksum_failure = on", "durability-off", "danger",
         "ignore_checksum_failure is on for role app"),
        ("ALTER ROLE ALL SET synchronous_commit = off", "durability-off", "to know",
         "synchronous_commit is off for all roles"),
        ("ALTER DATABASE shop SET track_counts = off", "autovacuum-off", "danger",
         "track_counts is off for database shop"),
        ("ALTER DATABASE shop SET session_replication_role = replica", "switched-off", "danger",
         "session_replication_role is replica for database shop"),
        ("ALTER ROLE app SET session_replication_role = replica", "switched-off", "to know",
         "session_replication_role is replica for role app"),
        ("ALTER ROLE ALL SET enable_indexscan = off", "switched-off", "to know",
         "off: enable_indexscan for all roles"),
        ("ALTER DATABASE shop SET default_transaction_read_only = on", "switched-off", "danger",
         "default_transaction_read_only is on for database shop"),
        ("ALTER ROLE app SET default_transaction_read_only = on", "switched-off", "to know",
         "default_transaction_read_only is on for role app"),
        ("ALTER SYSTEM SET session_replication_role = replica", "switched-off", "danger",
         "session_replication_role is replica"),
        ("ALTER SYSTEM SET enable_seqscan = off", "switched-off", "to know",
         "off: enable_seqscan"),
    ],
)  # fmt: skip
def test_a_switch(
    statement: str, name: str, severity: str, text: str, new_cluster: NewCluster
) -> None:
    cluster = new_cluster(18)
    sql(cluster.dsn(), "CREATE ROLE app LOGIN")
    sql(cluster.dsn(), "CREATE DATABASE shop")
    sql(cluster.dsn(), statement, "SELECT pg_reload_conf()")
    for user, dbname in (("postgres", "postgres"), ("postgres", "shop"), ("app", "shop")):
        report = checked(cluster, user, dbname)
        assert found(report, name) == [(severity, text)]
    healed(cluster, report, name)


@pytest.mark.parametrize("major", [13, 18])
def test_a_server_that_refuses_to_write(major: int, new_cluster: NewCluster) -> None:
    """Our own session is read-only, too; a plain role needs no right to know what was before.

    Where its client has asked for it, what holds for all is hidden.
    """
    cluster = new_cluster(major)
    sql(cluster.dsn(), "CREATE ROLE app LOGIN", "CREATE DATABASE shop")
    assert not found(checked(cluster, "postgres", "shop"), "switched-off")
    assert not found(checked(cluster, "app", "shop"), "switched-off")
    on = "ALTER SYSTEM SET default_transaction_read_only = on"
    sql(cluster.dsn(), on, "SELECT pg_reload_conf()")
    until(lambda: sql(cluster.dsn(), "SHOW default_transaction_read_only") == [("on",)])
    report = checked(cluster, "postgres", "shop")
    assert found(report, "switched-off") == [("danger", "default_transaction_read_only is on")]
    plain = checked(cluster, "app", "shop")
    assert found(plain, "switched-off") == [("danger", "default_transaction_read_only is on")]
    (told,) = [one for one in plain.findings if one.id == "switched-off"]
    assert told.consequence == "each statement that writes fails, unless its session turns it off"
    asked = " options='-c default_transaction_read_only=on'"
    unsure = check(cluster.dsn("shop", user="app") + asked, skip=["free-space"], memory="4GB")
    assert "switched-off" in {one.name for one in unsure.unjudged}
    healed(cluster, report, "switched-off")


@pytest.mark.parametrize("major", [13, 18])
def test_counters_that_a_database_switches_off_are_switched_on_there(
    major: int, new_cluster: NewCluster
) -> None:
    """ALTER SYSTEM would not reach it."""
    cluster = new_cluster(major)
    sql(cluster.dsn(), "CREATE DATABASE shop")
    sql(cluster.dsn(), "ALTER DATABASE shop SET track_counts = off")
    report = checked(cluster, "postgres", "shop")
    (unjudged,) = [one for one in report.unjudged if one.name == "vacuum-behind"]
    assert unjudged.supply == 'ALTER DATABASE "shop" RESET track_counts;'
    with connect(cluster.dsn("shop")) as conn:
        advice = judge(read(conn))
    assert not [one for one in advice.settings if one.name == "track_counts"]
    healed(cluster, report, "autovacuum-off")
    assert "vacuum-behind" in checked(cluster, "postgres", "shop").passed


def test_what_the_command_line_sets_is_changed_there(new_cluster: NewCluster) -> None:
    cluster = new_cluster(18)
    cluster.stop()
    switches = "-c fsync=off -c autovacuum=off -c synchronous_commit=off"
    options = ["-o", f"{switches} -c default_transaction_read_only=on"]
    log = str(cluster.directory / "log")
    cluster.run("pg_ctl", "start", "-D", cluster.data, "-w", "-l", log, *options)
    found = [
        one
        for one in checked(cluster).findings
        if one.id in {"durability-off", "autovacuum-off", "switched-off"}
    ]
    assert len(found) == 4
    for one in found:
        name = one.text.partition(" ")[0]
        said = f"The command line that starts the server sets {name}, so ALTER SYSTEM has no effect"
        assert said in one.sentence
        assert f"take -c {name} out of it" in one.sentence
        assert not one.commands
