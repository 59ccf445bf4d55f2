"""Errors of the log, counted by hand on real servers that log in each form."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from threading import Barrier, Thread
from typing import Any

import psycopg
import pytest
from conftest import NewCluster

from mrtuner.history.recording.log.errors import LOG_ERRORS
from mrtuner.history.recording.log.following import Log
from mrtuner.history.recording.log.plans import PLANS
from mrtuner.history.recording.program import Place, Rows
from mrtuner.postgres.cluster import Cluster
from servers import sql
from waiting import until

pytestmark = pytest.mark.timed

FORMS = {
    "stderr": {},
    "collected": {"logging_collector": "on"},
    "csvlog": {"logging_collector": "on", "log_destination": "csvlog"},
    "jsonlog": {"logging_collector": "on", "log_destination": "jsonlog,stderr"},
}  # fmt: skip


def opened(cluster: Cluster) -> Rows:
    found = LOG_ERRORS.open(Place(postmaster=cluster.pid, data_directory=str(cluster.data)))
    assert found is not None
    return found


def counted(rows: Rows) -> Mapping[str, Any]:
    (row,) = rows()
    return {name: value for name, value in row.items() if name != "scope"}


def failing(cluster: Cluster, *statements: str) -> None:
    with psycopg.connect(cluster.dsn(), autocommit=True) as conn:
        for statement in statements:
            with pytest.raises(psycopg.Error):
                conn.execute(statement.encode())


def deadlock(cluster: Cluster) -> None:
    """Two sessions lock two advisory keys in opposite order; one of them is cancelled."""
    both = Barrier(2)

    def one(first: int, second: int) -> None:
        with psycopg.connect(cluster.dsn(), autocommit=True) as conn:
            conn.execute("BEGIN")
            conn.execute("SELECT pg_advisory_xact_lock(%s)", (first,))
            both.wait()
            with suppress(psycopg.errors.DeadlockDetected):
                conn.execute("SELECT pg_advisory_xact_lock(%s)", (second,))

    threads = [Thread(target=one, args=pair) for pair in ((1, 2), (2, 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def written(cluster: Cluster) -> str:
    """All that is in the log: the collector writes a moment later."""
    files = (cluster.data / "log").glob("*")
    return cluster.log() + "".join(one.read_text() for one in files)


@pytest.mark.parametrize("form", FORMS)
def test_errors_are_counted_by_severity_and_kind_in_every_form(
    form: str, new_cluster: NewCluster
) -> None:
    cluster = new_cluster(18, FORMS[form])
    sql(cluster.dsn(), "CREATE ROLE app LOGIN CONNECTION LIMIT 0")
    failing(cluster, "SELECT 1/0")  # before the recorder came
    until(lambda: "division by zero" in written(cluster))
    rows = opened(cluster)
    none = dict.fromkeys(counted(rows), 0)
    assert set(none) == {
        "panics", "fatals", "errors", "warnings", "deadlocks", "refused", "cancelled",
    }  # fmt: skip
    assert counted(rows) == none
    failing(
        cluster, "SELECT 'ERROR:  of mine\nFATAL:  too' || 1/0", "SELECT nothing",
        "SET statement_timeout = 10; SELECT pg_sleep(9)",
    )  # fmt: skip
    with pytest.raises(psycopg.OperationalError), psycopg.connect(cluster.dsn(user="app")):
        pass
    sql(cluster.dsn(), "DO $$ BEGIN RAISE WARNING 'FATAL:  not really'; END $$")
    deadlock(cluster)
    expected = none | {
        "fatals": 1, "errors": 4, "warnings": 1, "deadlocks": 1, "refused": 1, "cancelled": 1,
    }  # fmt: skip
    until(lambda: counted(rows) == expected)
    assert counted(rows) == expected


def test_a_new_file_is_followed_and_an_emptied_one_is_read_again(new_cluster: NewCluster) -> None:
    cluster = new_cluster(18, {"logging_collector": "on", "log_filename": "%H%M%S.log",
                               "log_rotation_age": "0"})  # fmt: skip
    rows = opened(cluster)
    failing(cluster, "SELECT 1/0")
    until(lambda: counted(rows)["errors"] == 1)
    ((first,),) = sql(cluster.dsn(), "SELECT pg_current_logfile()")
    failing(cluster, "SELECT 1/0")
    until(lambda: rotated(cluster, str(first)))
    failing(cluster, "SELECT 1/0")
    until(lambda: counted(rows)["errors"] == 3)
    ((now,),) = sql(cluster.dsn(), "SELECT pg_current_logfile()")
    os.truncate(cluster.data / str(now), 0)
    assert counted(rows)["errors"] == 3
    failing(cluster, "SELECT 1/0")
    until(lambda: counted(rows)["errors"] == 4)


def test_files_between_two_samples_are_all_read_and_not_what_they_had_before(
    new_cluster: NewCluster,
) -> None:
    """An error in each of three files; the name of a fourth was used before, with two errors."""
    cluster = new_cluster(18, {"logging_collector": "on", "log_filename": "%H%M%S.log",
                               "log_rotation_age": "0"})  # fmt: skip
    again = cluster.data / "log" / "again.log"
    again.write_text("2026-11-28 09:00:00 UTC [7] ERROR:  division by zero\n" * 2)
    again.chmod(0o666)
    rows = opened(cluster)
    scope = scope_of(rows)
    for _ in range(2):
        ((name,),) = sql(cluster.dsn(), "SELECT pg_current_logfile()")
        failing(cluster, "SELECT 1/0")
        until(lambda: rotated(cluster, str(name)))  # noqa: B023  # it is called at once
    failing(cluster, "SELECT 1/0")
    until(lambda: counted(rows)["errors"] == 3)
    sql(cluster.dsn(), "ALTER SYSTEM SET log_filename = 'again.log'", "SELECT pg_reload_conf()")
    until(lambda: sql(cluster.dsn(), "SELECT pg_current_logfile()") == [("log/again.log",)])
    failing(cluster, "SELECT 1/0")
    until(lambda: counted(rows)["errors"] == 4)
    assert scope_of(rows) == scope


def scope_of(rows: Rows) -> str:
    (row,) = rows()
    return str(row["scope"])


def rotated(cluster: Cluster, first: str) -> bool:
    sql(cluster.dsn(), "SELECT pg_rotate_logfile()")
    return sql(cluster.dsn(), "SELECT pg_current_logfile()") != [(first,)]


@pytest.mark.parametrize("form", FORMS)
def test_what_a_server_logs_last_is_read_when_it_is_gone_and_its_log_goes_on_when_it_is_back(
    form: str, new_cluster: NewCluster
) -> None:
    cluster = new_cluster(18, FORMS[form])
    place = Place(postmaster=cluster.pid, data_directory=str(cluster.data))
    rows = LOG_ERRORS.open(place)
    assert rows is not None
    first, scope = rows, scope_of(rows)
    failing(cluster, "SELECT 1/0")
    cluster.stop()
    until(lambda: counted(first)["errors"] == 1)
    cluster.start()
    failing(cluster, "SELECT 1/0")
    back = Place(postmaster=cluster.pid, data_directory=str(cluster.data)).after(place)
    again = LOG_ERRORS.open(back)
    assert again is not None
    until(lambda: counted(again)["errors"] == 2)
    failing(cluster, "SELECT 1/0")
    until(lambda: counted(again)["errors"] == 3)
    assert scope_of(again) == scope


def test_another_server_has_another_log(new_cluster: NewCluster) -> None:
    """The first one's errors are not the second one's."""
    first, second = new_cluster(), new_cluster()
    place = Place(postmaster=first.pid, data_directory=str(first.data))
    rows = LOG_ERRORS.open(place)
    assert rows is not None
    failing(first, "SELECT 1/0")
    assert counted(rows)["errors"] == 1
    other = LOG_ERRORS.open(
        Place(postmaster=second.pid, data_directory=str(second.data)).after(place)
    )
    assert other is not None
    assert counted(other)["errors"] == 0


def divisions(log: Log, begin: int) -> int:
    """How many divisions by zero were written to the log from there on."""
    with log.path.open("rb") as file:
        file.seek(begin)
        return file.read().count(b"division by zero")


@pytest.mark.parametrize("form", ["stderr", "csvlog", "jsonlog"])
def test_too_much_for_a_sample_makes_its_counts_unknown_and_the_end_is_read(
    form: str, new_cluster: NewCluster
) -> None:
    """An error, then 80 MiB, and two more errors; a third is in the next sample."""
    cluster = new_cluster(18, FORMS[form] | {"log_rotation_size": "0"})
    place = Place(postmaster=cluster.pid, data_directory=str(cluster.data))
    rows, log = LOG_ERRORS.open(place), place.log
    assert rows is not None
    assert log is not None
    scope = scope_of(rows)
    failing(cluster, "SELECT 1/0")
    until(lambda: divisions(log, 0) == 1)
    long = "x" * 1000
    line = {
        "stderr": f"2026-11-28 09:00:00.000 UTC [7] LOG:  {long}\n",
        "csvlog": f'2026-11-28 09:00:00.000 UTC,"a","b",7,,6,1,"c",,,0,LOG,00000,"{long}"\n',
        "jsonlog": f'{{"error_severity":"LOG","message":"{long}"}}\n',
    }[form]
    with log.path.open("a") as file:
        file.write(line * (80 * 2**20 // len(line)))
    end = log.path.stat().st_size
    failing(cluster, "SELECT 1/0", "SELECT 1/0")
    until(lambda: divisions(log, end) == 2)
    assert counted(rows)["errors"] == 2
    skipped = scope_of(rows)
    assert skipped != scope
    failing(cluster, "SELECT 1/0")
    until(lambda: counted(rows)["errors"] == 3)
    assert scope_of(rows) == skipped


@pytest.mark.parametrize("form", ["csvlog", "jsonlog"])
def test_torn_records_cost_only_those_that_follow_them_in_their_line(
    form: str, new_cluster: NewCluster
) -> None:
    """Twice, a record is cut in a quoted text, and three errors follow: the first of them is lost.

    A text in two lines, the second of which looks like a record, is one error.
    """
    cluster = new_cluster(18, FORMS[form])
    place = Place(postmaster=cluster.pid, data_directory=str(cluster.data))
    rows, log = LOG_ERRORS.open(place), place.log
    assert rows is not None
    assert log is not None
    for number in (1, 2):
        with log.path.open("a") as file:
            file.write(
                {
                    "csvlog": '2026-11-28 09:00:00.000 UTC,"postg',
                    "jsonlog": '{"timestamp":"2026-11-28 09:00:00.000 UTC","user":"po',
                }[form]
            )
        end = log.path.stat().st_size
        failing(cluster, *["SELECT 1/0"] * 3)
        until(lambda: divisions(log, end) == 3)  # noqa: B023  # it is called at once
        assert counted(rows)["errors"] == 2 * number
    inside = '2026-11-28 09:00:00.000 UTC,"a","b",7,,6,1,"c",,,0,ERROR,22012,"d"'
    failing(cluster, f"SELECT '\n{inside}\n' || 1/0")
    until(lambda: counted(rows)["errors"] == 5)
    failing(cluster, "SELECT 1/0")
    until(lambda: counted(rows)["errors"] == 6)


def test_a_log_that_cannot_be_understood_is_not_counted_as_free_of_errors(
    new_cluster: NewCluster,
) -> None:
    """What a server writes in German: its messages have other names, and no SQLSTATE."""
    cluster = new_cluster(18, {"logging_collector": "on"})
    rows = opened(cluster)
    ((name,),) = sql(cluster.dsn(), "SELECT pg_current_logfile()")
    with (cluster.data / str(name)).open("a") as file:
        file.write("2026-11-28 09:00:00 UTC [7] FEHLER:  Division durch Null\n")
    with pytest.raises(Exception, match="not in English"):
        counted(rows)


def test_an_error_is_in_the_next_sample_whichever_source_asked_first(
    new_cluster: NewCluster,
) -> None:
    """Errors are sampled before plans are opened, then each in turn: whoever asks reads for both,
    and has all that is written.
    """
    cluster = new_cluster(18, FORMS["jsonlog"])
    place = Place(postmaster=cluster.pid, data_directory=str(cluster.data))
    errors, log = LOG_ERRORS.open(place), place.log
    assert errors is not None
    assert log is not None
    assert counted(errors)["errors"] == 0
    plans = PLANS.open(place)
    assert plans is not None
    assert list(plans()) == []

    def fail() -> int:
        """Fail once more; return where the log then ends."""
        end = log.path.stat().st_size
        failing(cluster, "SELECT 1/0")
        until(lambda: b"division by zero" in log.path.read_bytes()[end:])
        return log.path.stat().st_size

    for number in (1, 2):
        end = fail()
        assert counted(errors)["errors"] == number
        assert log.offset == end
        assert list(plans()) == []
    end = fail()
    assert list(plans()) == []
    assert log.offset == end
    assert counted(errors)["errors"] == 3


def test_on_another_machine_there_is_no_log() -> None:
    assert LOG_ERRORS.open(Place(postmaster=None, data_directory="/data")) is None
