"""Before anything is written, the server is known to start with it; on real servers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from conftest import NewCluster

from mrtuner.change.journal import Journal
from mrtuner.change.settings.apply import Restart, Wanted, apply, checked, plan, undo
from mrtuner.change.settings.next_start import next_start
from mrtuner.change.settings.start_check import StartCheck, check_start
from mrtuner.errors import Refused
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from mrtuner.postgres.read_server import read
from servers import running, sql
from waiting import until

pytestmark = pytest.mark.timed

AUTO = "postgresql.auto.conf"


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    """One running server, on which nothing is written."""
    with running(settings={"wal_level": "logical"}) as cluster:
        yield cluster


def check(cluster: Cluster, draft: dict[str, str], user: str = "postgres") -> StartCheck:
    with closing(connect(cluster.dsn(user=user))) as conn:
        return check_start(conn, next_start(conn, draft, AUTO, restarts=True))


def why(cluster: Cluster, draft: dict[str, str]) -> list[str]:
    return [one.why for one in check(cluster, draft).problems]


@pytest.mark.parametrize(
    "name", ["shared_preload_libraries", "session_preload_libraries", "local_preload_libraries"]
)
def test_a_library_that_is_not_there_is_refused(server: Cluster, name: str) -> None:
    place = "$libdir/plugins/" if name.startswith("local") else "$libdir/"
    assert why(server, {name: "no_such_library"}) == [
        f"{name} names no_such_library, but the server has no file {place}no_such_library.so"
    ]


def test_a_library_is_found_by_its_name_and_by_its_path(server: Cluster) -> None:
    for library in ("pg_stat_statements", "$libdir/pg_stat_statements", "auto_explain.so"):
        assert check(server, {"shared_preload_libraries": library}) == StartCheck()


def test_a_library_that_cannot_be_loaded_is_found_by_a_trial_start(
    server: Cluster, tmp_path: Path
) -> None:
    tmp_path.chmod(0o755)
    broken = tmp_path / "broken.so"
    broken.write_text("this is no library")
    (said,) = why(server, {"shared_preload_libraries": f"{tmp_path}/broken"})
    assert said.startswith("the server would not start with the new settings: FATAL: ")
    assert "broken" in said


def test_more_memory_than_there_is_is_refused(server: Cluster) -> None:
    (said,) = why(server, {"shared_buffers": "8000GB"})
    assert "shared_buffers are more than the memory here" in said


def test_huge_pages_that_are_not_there_are_refused(server: Cluster) -> None:
    """8 GB of buffers need more than 4096 pages of 2 MB; the tests' machine reserves fewer."""
    info = Path("/proc/meminfo").read_text()
    if "Hugepagesize:       2048 kB" not in info or "HugePages_Total:       0" not in info:
        pytest.skip("this machine has huge pages reserved, or none of 2 MB")
    (said,) = why(server, {"huge_pages": "on", "shared_buffers": "8GB"})
    assert said.startswith("huge_pages = on needs 4")
    assert said.endswith(" huge pages, and 0 will be free")


def test_huge_pages_of_the_size_asked_for_are_counted(server: Cluster) -> None:
    """1 GB of buffers and the rest need two pages of 1 GB, and none are reserved here."""
    gigantic = Path("/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages")
    if not gigantic.exists() or int(gigantic.read_text()):
        pytest.skip("this machine has pages of 1 GB reserved, or knows none")
    asked = {"huge_pages": "on", "huge_page_size": "1GB", "shared_buffers": "1GB"}
    (said,) = why(server, asked)
    assert said == "huge_pages = on needs 2 huge pages of 1 GB, and 0 will be free"


def test_fewer_connections_than_sessions_are_refused(server: Cluster) -> None:
    """Three connections are reserved for superusers by default: 7 + 3 > 9, but not > 10."""
    sessions = [connect(server.dsn()) for _ in range(7)]
    try:
        others = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
        until(lambda: sql(server.dsn(), others) == [(7 + 1,)], "earlier sessions to end")
        assert why(server, {"max_connections": "9"}) == [
            "max_connections = 9 is too low for the 7 sessions that the server has, and 3 reserved"
        ]
        until(lambda: sql(server.dsn(), others) == [(7 + 1,)], "the session before to end")
        assert why(server, {"max_connections": "10"}) == []
    finally:
        for session in sessions:
            session.close()


@pytest.mark.parametrize(
    ("draft", "said"),
    [
        ({"max_connections": "3"}, "leaves none besides the 3 that are reserved"),
        ({"wal_level": "minimal"}, "wal_level = minimal is not enough for max_wal_senders"),
        ({"wal_level": "minimal", "max_wal_senders": "0", "archive_mode": "on"},
         "wal_level = minimal is not enough for archive_mode"),
        ({"max_worker_processes": "0"}, "max_worker_processes = 0 is too low for 1 background"),
    ],
)  # fmt: skip
def test_settings_that_contradict_each_other_are_refused(
    server: Cluster, draft: dict[str, str], said: str
) -> None:
    (found,) = why(server, draft)
    assert said in found


@pytest.mark.parametrize("word", ["OFF", "f", "No", "0"])
def test_a_switch_is_off_however_it_is_written(server: Cluster, word: str) -> None:
    """ssl is on without a certificate; logs go to a directory that nobody may write."""
    assert why(server, {"ssl": word, "ssl_cert_file": "none.crt", "ssl_key_file": "none.key"}) == []
    assert why(server, {"logging_collector": word, "log_directory": "/proc/none"}) == []


@pytest.mark.parametrize("word", ["ON", "true", "yes", "1"])
def test_huge_pages_are_required_however_it_is_written(server: Cluster, word: str) -> None:
    if "HugePages_Total:       0" not in Path("/proc/meminfo").read_text():
        pytest.skip("this machine has huge pages reserved, or knows none")
    (said,) = why(server, {"huge_pages": word, "shared_buffers": "1GB"})
    assert said.endswith(" huge pages, and 0 will be free")


def test_slots_that_exist_bind_their_settings(server: Cluster) -> None:
    sql(
        server.dsn(),
        "SELECT pg_create_physical_replication_slot('a')",
        "SELECT pg_create_logical_replication_slot('b', 'pgoutput')",
    )
    try:
        assert why(server, {"max_replication_slots": "1"}) == [
            "max_replication_slots = 1 is too low for 2 replication slots"
        ]
        (said,) = why(server, {"wal_level": "replica"})
        assert said == "wal_level = replica is not enough for 1 logical replication slot"
        assert why(server, {"max_replication_slots": "2"}) == []
    finally:
        sql(server.dsn(), "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")


def test_what_a_role_may_not_see_is_listed_as_not_checked(server: Cluster) -> None:
    sql(server.dsn(), "CREATE ROLE reader LOGIN IN ROLE pg_read_all_settings")
    found = check(server, {"shared_preload_libraries": "no_such_library"}, user="reader")
    assert "whether there is a file for no_such_library (shared_preload_libraries)" in (
        found.unchecked
    )


def test_no_command_line_of_a_trial_start_has_a_secret(new_cluster: NewCluster) -> None:
    """In 13, restore_command is read at the start, and so part of a trial."""
    cluster = new_cluster(13, {"restore_command": "KEY=hunter2 fetch %f %p"})
    seen, ended = list[str](), threading.Event()
    watching = threading.Thread(target=_watch, args=(ended, seen))
    watching.start()
    try:
        assert why(cluster, {"max_connections": "120"}) == []
    finally:
        ended.set()
        watching.join()
    assert any("max_connections=120" in line for line in seen)
    assert [line for line in seen if "hunter2" in line] == []


def _watch(ended: threading.Event, seen: list[str]) -> None:
    """Collect the command lines of trial starts, as every user of the machine can."""
    while not ended.wait(0.02):
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                line = process.read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if "--single" in line:
                    seen.append(line)


@pytest.mark.parametrize("major", [13, 18])
def test_what_somebody_else_has_written_counts_if_we_restart(
    new_cluster: NewCluster, journal: Journal, major: int
) -> None:
    cluster = new_cluster(major)
    sql(cluster.dsn(), "ALTER SYSTEM SET shared_preload_libraries = 'no_such_library'")
    restart = Restart(run=cluster.restart)
    with closing(connect(cluster.dsn())) as conn:
        made = plan(read(conn), [Wanted(name="max_connections", value="120")])
    shown = checked(cluster.dsn(), made, restarts=True)
    assert [one.name for one in shown.refused] == ["shared_preload_libraries"]
    with pytest.raises(Refused, match="names no_such_library"):
        apply(cluster.dsn(), made, journal, restart=restart)
    assert apply(cluster.dsn(), made, journal).waiting == ("max_connections",)
    assert cluster.running()


def test_an_undo_is_not_refused_for_those_who_are_connected_now(
    new_cluster: NewCluster, journal: Journal
) -> None:
    cluster = new_cluster(settings={"max_connections": 10})
    restart = Restart(run=cluster.restart)
    with closing(connect(cluster.dsn())) as conn:
        made = plan(read(conn), [Wanted(name="max_connections", value="20")])
    apply(cluster.dsn(), made, journal, restart=restart)
    sessions = [connect(cluster.dsn()) for _ in range(8)]
    assert undo(cluster.dsn(), journal, restart=restart).result == "undone"
    assert sql(cluster.dsn(), "SHOW max_connections") == [("10",)]
    for session in sessions:
        session.close()
