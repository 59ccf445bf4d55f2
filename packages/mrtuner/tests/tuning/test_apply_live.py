"""Apply and undo on real servers: the start or the target is in force."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest
from conftest import NewCluster

from machine import require
from mrtuner.change.journal import Journal, JournalError
from mrtuner.change.settings.apply import (
    NEVER,
    Outcome,
    Restart,
    SettingsPlan,
    Wanted,
    apply,
    plan,
    undo,
)
from mrtuner.errors import ApplyError, MissingPart, Refused, UsageError
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from mrtuner.postgres.read_server import read
from mrtuner.postgres.server_user import scratch_directory
from servers import binaries, pg_ctl

pytestmark = pytest.mark.timed

#: A setting that takes effect at a reload, one that needs a restart, and one set before.
WANTED = {"random_page_cost": "1.1", "shared_buffers": "64MB", "work_mem": "64MB"}
START = {"random_page_cost": "4", "shared_buffers": "16384", "work_mem": "8192"}
TARGET = {"random_page_cost": "1.1", "shared_buffers": "8192", "work_mem": "65536"}
BEFORE = ["work_mem = '8MB'"]
AFTER = ["random_page_cost = '1.1'", "shared_buffers = '64MB'", "work_mem = '64MB'"]


@dataclass(frozen=True)
class Bench:
    """A server whose owner has set work_mem by ALTER SYSTEM, and a journal."""

    cluster: Cluster
    journal: Journal

    @property
    def dsn(self) -> str:
        return self.cluster.dsn()

    @property
    def restart(self) -> Restart:
        return Restart(run=self.cluster.restart)

    def plan(self, wanted: dict[str, str] = WANTED) -> SettingsPlan:
        with connect(self.dsn) as conn:
            server = read(conn)
        return plan(server, [Wanted(name=name, value=value) for name, value in wanted.items()])

    def apply(self, wanted: dict[str, str] = WANTED, restart: Restart = NEVER) -> Outcome:
        return apply(self.dsn, self.plan(wanted), self.journal, restart=restart)

    def sql(self, *statements: str) -> None:
        with connect(self.dsn) as conn:
            for statement in statements:
                conn.execute(statement.encode())

    def in_force(self, *names: str) -> dict[str, str]:
        with connect(self.dsn) as conn:
            rows = conn.execute(
                "SELECT name, setting FROM pg_settings WHERE name = ANY(%s)",
                (list(names or WANTED),),
            ).fetchall()
        return dict(rows)

    def reset(self) -> None:
        """Bring the server to START."""
        self.sql(
            "ALTER SYSTEM RESET ALL", "ALTER SYSTEM SET work_mem = '8MB'",
            "ALTER ROLE postgres RESET ALL", "DROP ROLE IF EXISTS reader",
            "DROP DATABASE IF EXISTS shop", "SELECT pg_reload_conf()",
        )  # fmt: skip
        if self.in_force("shared_buffers") != {"shared_buffers": "16384"}:
            self.cluster.restart()
        deadline = time.monotonic() + 10
        while self.in_force("work_mem", "random_page_cost") != {
            "work_mem": "8192", "random_page_cost": "4"
        }:  # fmt: skip
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def entries(self) -> list[str]:
        """The lines of postgresql.auto.conf that are not comments, sorted."""
        text = (self.cluster.data / "postgresql.auto.conf").read_text()
        return sorted(line for line in text.splitlines() if not line.startswith("#"))


class Make(Protocol):
    """Make a bench of a major version, with a server of its own."""

    def __call__(self, major: int = 18) -> Bench: ...


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path / "state") as journal:
        yield journal


@pytest.fixture
def make(new_cluster: NewCluster, journal: Journal) -> Make:
    def made(major: int = 18) -> Bench:
        bench = Bench(new_cluster(major), journal)
        bench.reset()
        return bench

    return made


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    cluster = Cluster.create(binaries(18), scratch_directory(), {"fsync": "off"})
    yield cluster
    cluster.remove()


@pytest.fixture
def bench(shared: Cluster, journal: Journal) -> Bench:
    """The shared server, reset to START, whatever the previous test left."""
    if not shared.running():
        (shared.data / "postgresql.auto.conf").write_text("")
        shared.start()
    bench = Bench(shared, journal)
    bench.reset()
    return bench


def assert_at_start(bench: Bench) -> None:
    assert (bench.in_force(), bench.entries()) == (START, BEFORE)


# Apply and undo.


@pytest.mark.parametrize("major", [13, pytest.param(15, marks=pytest.mark.slow), 18])
def test_a_change_with_a_restart_reaches_its_target_and_undo_its_start(
    make: Make, major: int
) -> None:
    bench = make(major)
    start = bench.in_force()
    outcome = bench.apply(restart=bench.restart)
    assert (outcome.result, outcome.waiting) == ("applied", ())
    assert (bench.in_force(), bench.entries()) == (TARGET, AFTER)
    outcome = undo(bench.dsn, bench.journal, restart=bench.restart)
    assert (outcome.result, outcome.waiting) == ("undone", ())
    assert (bench.in_force(), bench.entries()) == (start, BEFORE)


def test_without_a_restart_what_needs_one_waits_and_is_named(bench: Bench) -> None:
    outcome = bench.apply()
    assert outcome.waiting == ("shared_buffers",)
    assert bench.in_force() == {**TARGET, "shared_buffers": "16384"}
    bench.cluster.restart()
    assert bench.in_force() == TARGET


def test_undo_of_what_still_waits_needs_no_restart(bench: Bench) -> None:
    bench.apply()
    assert undo(bench.dsn, bench.journal).waiting == ()
    assert_at_start(bench)


def test_undo_without_a_restart_names_what_stays_until_then(bench: Bench) -> None:
    bench.apply(restart=bench.restart)
    assert undo(bench.dsn, bench.journal).waiting == ("shared_buffers",)
    assert bench.entries() == BEFORE
    bench.cluster.restart()
    assert_at_start(bench)


def test_undo_goes_back_one_change_at_a_time(bench: Bench) -> None:
    bench.apply({"work_mem": "16MB"})
    bench.apply({"work_mem": "32MB"})
    undo(bench.dsn, bench.journal)
    assert bench.entries() == ["work_mem = '16MB'"]
    undo(bench.dsn, bench.journal)
    assert bench.entries() == BEFORE
    with pytest.raises(UsageError, match="nothing to undo"):
        undo(bench.dsn, bench.journal)


def test_undo_reverts_only_the_change_that_was_agreed_to(bench: Bench) -> None:
    first = bench.apply({"work_mem": "16MB"}).change
    bench.apply({"work_mem": "32MB"})
    for agreed in (first, 0):  # 0: there was none
        with pytest.raises(Refused, match="another change was made or undone since"):
            undo(bench.dsn, bench.journal, only=agreed)
    assert bench.entries() == ["work_mem = '32MB'"]


def test_lists_values_with_quotes_and_automatic_values_go_there_and_back(bench: Bench) -> None:
    wanted = {
        "shared_preload_libraries": "auto_explain,pg_stat_statements",
        "log_line_prefix": "it's %m \\ %p ",
        "wal_buffers": "-1",
    }
    bench.apply(wanted, restart=bench.restart)
    assert bench.in_force(*wanted) == {
        "shared_preload_libraries": "auto_explain, pg_stat_statements",
        "log_line_prefix": "it's %m \\ %p ",
        "wal_buffers": "512",  # 1/32 of shared_buffers = 128 MB, in pages of 8 kB
    }
    undo(bench.dsn, bench.journal, restart=bench.restart)
    assert bench.entries() == BEFORE


def test_no_file_of_the_journal_holds_the_password_of_primary_conninfo(bench: Bench) -> None:
    """ALTER SYSTEM rewrites all of postgresql.auto.conf, which may contain a standby's password."""
    conninfo = "host=primary password=hunter2"
    bench.sql(f"ALTER SYSTEM SET primary_conninfo = '{conninfo}'", "SELECT pg_reload_conf()")
    bench.apply()
    undo(bench.dsn, bench.journal)
    kept = f"primary_conninfo = '{conninfo}'"
    assert bench.entries() == [kept, *BEFORE]
    files = [path for path in bench.journal.directory.rglob("*") if path.is_file()]
    assert bench.journal.path in files
    assert [path for path in files if b"hunter2" in path.read_bytes()] == []


def test_a_password_in_the_include_file_is_refused_before_the_journal_sees_it(
    bench: Bench, conf_dir: Path
) -> None:
    (conf_dir / "mrtuner.conf").write_text(
        "primary_conninfo = 'password=hunter2'\nanon.salt = 'hunter2'\n"
    )
    with pytest.raises(Refused, match=r"sets anon\.salt, primary_conninfo, which may hold a pass"):
        apply(bench.dsn, bench.plan(), bench.journal, conf_dir=conf_dir)
    assert b"hunter2" not in bench.journal.path.read_bytes()


def test_a_plan_with_nothing_to_do_does_nothing(bench: Bench) -> None:
    assert bench.apply({"work_mem": "8MB"}).result == "nothing"
    assert bench.journal.changes() == ()


def test_an_override_of_our_own_role_does_not_stop_a_change(bench: Bench) -> None:
    bench.sql("ALTER ROLE postgres SET work_mem = '1MB'")
    made = bench.plan({"work_mem": "64MB"})
    assert "ALTER ROLE postgres SET work_mem" in made.steps[0].notes[0]
    apply(bench.dsn, made, bench.journal)
    assert bench.entries() == ["work_mem = '64MB'"]
    assert bench.in_force("work_mem") == {"work_mem": "1024"}


OVERRIDES = {
    "role": "ALTER ROLE postgres SET work_mem = '1MB'",
    "database": "ALTER DATABASE postgres SET work_mem = '1MB'",
    "role in database": "ALTER ROLE postgres IN DATABASE postgres SET work_mem = '1MB'",
    "all roles": "ALTER ROLE ALL SET work_mem = '1MB'",
}


@pytest.mark.parametrize("statement", OVERRIDES.values(), ids=OVERRIDES)
def test_what_an_override_hides_is_changed_once(statement: str, make: Make) -> None:
    """The sessions that apply opens never see the server's own value."""
    bench = make()
    bench.sql(statement)
    assert bench.apply({"work_mem": "64MB"}).changed == ("work_mem",)
    assert bench.in_force("work_mem") == {"work_mem": "1024"}
    again = bench.plan({"work_mem": "65536"})
    assert again.steps == ()
    (left,) = again.left_alone
    assert left.why == f"it is already 65536; {statement} overrides it in those sessions"
    assert bench.apply({"work_mem": "64MB"}).result == "nothing"
    assert bench.plan({"work_mem": "32MB"}).steps[0].before == "64MB"


def test_what_our_own_options_hide_is_changed_once(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make()
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=1MB")
    assert bench.apply({"work_mem": "64MB"}).changed == ("work_mem",)
    assert bench.plan({"work_mem": "64MB"}).steps == ()


def test_who_may_not_read_the_files_is_told_that_it_may_be_so_already(make: Make) -> None:
    bench = make()
    bench.sql("CREATE ROLE reader LOGIN", "ALTER ROLE reader SET work_mem = '1MB'")
    with connect(f"{bench.dsn} user=reader") as conn:
        (step,) = plan(read(conn), [Wanted(name="work_mem", value="64MB")]).steps
    assert "this role may not read them" in step.notes[-1]


def test_a_command_line_parameter_is_left_alone(make: Make) -> None:
    bench = make()
    bench.cluster.stop()
    done = bench.cluster.run(
        "pg_ctl", "start", "-w", "-D", bench.cluster.data, "-l", bench.cluster.directory / "log",
        "-o", "-c random_page_cost=2",
    )  # fmt: skip
    assert done.returncode == 0
    made = bench.plan({"random_page_cost": "1.1", "work_mem": "64MB"})
    assert [one.name for one in made.left_alone] == ["random_page_cost"]
    apply(bench.dsn, made, bench.journal)
    assert bench.entries() == ["work_mem = '64MB'"]


# Refused before anything is touched.


def test_a_role_without_the_privilege_is_refused_first(bench: Bench) -> None:
    bench.sql("CREATE ROLE reader LOGIN")
    with pytest.raises(MissingPart, match="role reader may not change") as refused:
        apply(bench.cluster.dsn(user="reader"), bench.plan(), bench.journal)
    assert "GRANT ALTER SYSTEM ON PARAMETER" in (refused.value.hint or "")
    assert_at_start(bench)
    assert bench.journal.changes() == ()


def test_on_14_and_before_the_hint_is_a_superuser(make: Make) -> None:
    bench = make(13)
    bench.sql("CREATE ROLE reader LOGIN")
    with pytest.raises(MissingPart, match="may not change") as refused:
        apply(bench.cluster.dsn(user="reader"), bench.plan(), bench.journal)
    assert refused.value.hint == "Connect as a superuser."


def test_a_role_with_just_the_grants_can_apply_and_undo(make: Make) -> None:
    bench = make()
    bench.sql(
        "CREATE ROLE tuner LOGIN IN ROLE pg_read_all_settings",
        "GRANT EXECUTE ON FUNCTION pg_reload_conf() TO tuner",
    )
    dsn, made = bench.cluster.dsn(user="tuner"), bench.plan()
    with pytest.raises(MissingPart, match="may not change random_page_cost, shared_buffers"):
        apply(dsn, bench.plan(WANTED | {"work_mem": "8MB"}), bench.journal)
    bench.sql(f"GRANT ALTER SYSTEM ON PARAMETER {', '.join(WANTED)} TO tuner")
    apply(dsn, made, bench.journal, restart=bench.restart)
    assert bench.in_force() == TARGET
    undo(dsn, bench.journal, restart=bench.restart)
    assert_at_start(bench)


def test_alter_system_switched_off_is_said(make: Make) -> None:
    bench = make()
    bench.cluster.configure({"allow_alter_system": "off"})
    bench.sql("SELECT pg_reload_conf()")
    with pytest.raises(Refused, match="ALTER SYSTEM is switched off") as refused:
        bench.apply()
    assert "--conf-dir" in (refused.value.hint or "")


def test_an_operators_server_is_refused_with_how_it_is_done_there(bench: Bench) -> None:
    from dataclasses import replace

    made = replace(bench.plan(), elsewhere="Use patronictl edit-config.")
    with pytest.raises(Refused) as refused:
        apply(bench.dsn, made, bench.journal)
    assert refused.value.hint == "Use patronictl edit-config."
    assert_at_start(bench)


def test_a_standby_takes_what_it_may_and_not_less_than_its_primary(make: Make) -> None:
    bench = make()
    bench.cluster.stop()
    (bench.cluster.data / "standby.signal").touch()
    bench.cluster.start()
    with pytest.raises(Refused, match="this is a standby, which stops if max_connections is lower"):
        bench.apply({"max_connections": "50", "work_mem": "64MB"})
    assert bench.entries() == BEFORE
    bench.apply({"work_mem": "64MB"})
    assert bench.in_force("work_mem") == {"work_mem": "65536"}


def test_a_mixture_that_does_not_fit_until_the_restart_is_refused(bench: Bench) -> None:
    asked: list[object] = []

    def fits(values: object) -> bool:
        asked.append(values)
        return False

    with pytest.raises(Refused, match="would not fit"):
        apply(bench.dsn, bench.plan(), bench.journal, fits=fits)
    assert asked == [{"shared_buffers": "128MB", "random_page_cost": "1.1", "work_mem": "64MB"}]
    assert_at_start(bench)


def test_undo_into_a_mixture_that_does_not_fit_is_refused(bench: Bench) -> None:
    bench.apply(restart=bench.restart)
    asked: list[object] = []

    def fits(values: object) -> bool:
        asked.append(values)
        return False

    with pytest.raises(Refused, match="would not fit"):
        undo(bench.dsn, bench.journal, fits=fits)
    assert asked == [{"shared_buffers": "64MB", "random_page_cost": "4", "work_mem": "8MB"}]
    assert (bench.in_force(), bench.entries()) == (TARGET, AFTER)


@pytest.mark.parametrize("restarts", [True, False])
def test_a_broken_configuration_file_is_not_built_upon(make: Make, restarts: bool) -> None:
    bench = make()
    with (bench.cluster.data / "postgresql.conf").open("a") as file:
        file.write("no_such_parameter = 1\n")
    with pytest.raises(Refused, match="no_such_parameter: unrecognized"):
        bench.apply(restart=bench.restart if restarts else NEVER)
    assert_at_start(bench)


def test_an_entry_that_could_not_be_put_back_is_not_replaced(bench: Bench) -> None:
    """ALTER SYSTEM takes no such value; a hand that edits the file does."""
    auto = bench.cluster.data / "postgresql.auto.conf"
    auto.write_text(auto.read_text().replace("'8MB'", "'8 Mb'"))
    with pytest.raises(Refused, match="sets work_mem to what could not be restored") as refused:
        bench.apply()
    assert refused.value.hint == "Remove it first: ALTER SYSTEM RESET work_mem."
    assert bench.journal.changes() == ()
    assert bench.entries() == ["work_mem = '8 Mb'"]
    bench.sql("ALTER SYSTEM RESET work_mem")
    assert bench.apply().result == "applied"
    assert undo(bench.dsn, bench.journal).result == "undone"
    assert bench.entries() == []


def test_what_has_changed_since_the_plan_is_noticed(bench: Bench) -> None:
    made = bench.plan()
    bench.sql("ALTER SYSTEM SET work_mem = '9MB'", "SELECT pg_reload_conf()")
    with pytest.raises(Refused, match="changed on the server since the plan was made: work_mem"):
        apply(bench.dsn, made, bench.journal)


def test_undo_does_not_overwrite_what_somebody_has_set_since(bench: Bench) -> None:
    bench.apply()
    bench.sql("ALTER SYSTEM SET work_mem = '9MB'")
    with pytest.raises(Refused, match=r"since: work_mem \(now 9MB, MrTuner set 64MB\)"):
        undo(bench.dsn, bench.journal)
    assert "work_mem = '9MB'" in bench.entries()
    undo(bench.dsn, bench.journal, force=True)
    assert_at_start(bench)


def test_two_applies_at_once_are_refused_whatever_journal_and_database(
    bench: Bench, tmp_path: Path
) -> None:
    bench.sql("CREATE DATABASE shop")
    made, said = bench.plan(), []

    def second(dsn: str, journal: Journal) -> None:
        with pytest.raises(Refused) as refused:
            apply(dsn, made, journal)
        said.append(refused.value.message)

    def at(step: str) -> None:
        if step == "check the files":
            second(bench.dsn, bench.journal)
            with Journal(tmp_path / "other") as other:
                second(bench.dsn, other)
                second(bench.cluster.dsn("shop"), other)

    apply(bench.dsn, made, bench.journal, restart=bench.restart, at=at)
    assert said == ["another mrtuner is changing this server now"] * 3
    assert bench.in_force() == TARGET


# Failures during a change.


def test_a_value_that_the_server_refuses_leaves_the_start(bench: Bench) -> None:
    made = bench.plan(WANTED | {"autovacuum_naptime": "0"})
    with pytest.raises(ApplyError, match=r"outside the valid range.*all settings are as they were"):
        apply(bench.dsn, made, bench.journal, restart=bench.restart)
    assert_at_start(bench)
    assert [one.state for one in bench.journal.changes()] == ["reverted"]


#: Without WAL senders the server starts with this, unless there is a replication slot.
MINIMAL = {"wal_level": "minimal", "max_wal_senders": "0"}


def a_slot_comes_between(bench: Bench) -> Callable[[str], None]:
    """Somebody creates a replication slot when everything has been checked."""

    def at(step: str) -> None:
        if step == "restart":
            bench.sql("SELECT pg_create_physical_replication_slot('late')")

    return at


@pytest.fixture
def no_slots(bench: Bench) -> Iterator[None]:
    yield
    bench.sql("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")


@pytest.mark.usefixtures("no_slots")
def test_a_server_that_does_not_start_is_brought_back(bench: Bench) -> None:
    text = (bench.cluster.data / "postgresql.auto.conf").read_bytes()
    status = (bench.cluster.data / "postgresql.auto.conf").stat()
    with pytest.raises(ApplyError, match=r"does not start: FATAL.*as they were before") as failed:
        apply(
            bench.dsn, bench.plan(WANTED | MINIMAL), bench.journal, restart=bench.restart,
            at=a_slot_comes_between(bench),
        )  # fmt: skip
    assert 'slot "late" exists, but' in failed.value.message
    assert_at_start(bench)
    after = (bench.cluster.data / "postgresql.auto.conf").stat()
    assert (bench.cluster.data / "postgresql.auto.conf").read_bytes() == text
    assert (after.st_uid, after.st_mode) == (status.st_uid, status.st_mode)


@pytest.mark.usefixtures("no_slots")
def test_an_owners_command_restarts_and_brings_back(bench: Bench) -> None:
    command = Restart(run=pg_ctl(bench.cluster, "restart"))
    bench.apply(restart=command)
    assert bench.in_force() == TARGET
    with pytest.raises(ApplyError, match=r"exit code 1.*as they were before") as failed:
        apply(
            bench.dsn, bench.plan(MINIMAL), bench.journal, restart=command,
            at=a_slot_comes_between(bench),
        )  # fmt: skip
    said = 'the server\'s log says: FATAL: physical replication slot "late" exists, but'
    assert said in failed.value.message
    assert (bench.in_force(), bench.entries()) == (TARGET, AFTER)


def test_the_limit_of_a_restart_follows_from_the_wal(bench: Bench) -> None:
    """By hand: a minute, and 80 MiB written and replayed at 40 MiB/s are 4 s more."""
    bench.sql("CHECKPOINT")
    with connect(bench.dsn) as conn:
        assert Restart().limit(conn) == pytest.approx(60, abs=0.2)
        for _ in range(8):
            conn.execute("SELECT pg_logical_emit_message(false, 'a', repeat('x', 10485760))")
        assert Restart().limit(conn) == pytest.approx(64, abs=0.5)
        assert Restart(patience=5).limit(conn) == 5


def test_a_command_that_does_not_restart_is_noticed(bench: Bench) -> None:
    with pytest.raises(ApplyError, match=r"not restarted in time; all settings are as they were"):
        bench.apply(restart=Restart(run="true", patience=1))
    assert_at_start(bench)


def test_a_command_that_fails_is_quoted(bench: Bench) -> None:
    with pytest.raises(ApplyError, match="exit code 3: no such unit; all settings are as they"):
        bench.apply(restart=Restart(run="echo no such unit >&2; exit 3", patience=1))
    assert_at_start(bench)


def test_a_session_lost_on_the_way_leaves_the_start(bench: Bench) -> None:
    def at(step: str) -> None:
        if step == "write work_mem":
            bench.sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'mrtuner' AND pid <> pg_backend_pid()"
            )

    with pytest.raises(ApplyError, match=r"connection was lost.*as they were before"):
        apply(bench.dsn, bench.plan(), bench.journal, at=at)
    assert_at_start(bench)


def test_somebody_elses_reload_halfway_is_taken_back_too(bench: Bench) -> None:
    def at(step: str) -> None:
        if step == "check the files":
            bench.sql("SELECT pg_reload_conf()", "SELECT pg_sleep(0.2)")
            raise RuntimeError("stumbled")

    with pytest.raises(ApplyError, match="stumbled; all settings are as they were before"):
        apply(bench.dsn, bench.plan(), bench.journal, at=at)
    assert_at_start(bench)


def test_an_interrupt_takes_everything_back(bench: Bench) -> None:
    def at(step: str) -> None:
        if step == "reload: done":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        apply(bench.dsn, bench.plan(), bench.journal, at=at)
    assert_at_start(bench)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    require("root")
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("this machine does not let us mount a filesystem")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(disk: Path) -> None:
    with (disk / "ballast").open("wb", buffering=0) as file:
        free = shutil.disk_usage(disk).free
        file.write(bytes(free))


def test_a_full_disk_for_the_journal_is_said_before_anything_is_touched(
    bench: Bench, small_disk: Path
) -> None:
    with Journal(small_disk) as journal:
        fill(small_disk)
        with pytest.raises(JournalError, match="cannot use the journal"):
            apply(bench.dsn, bench.plan(), journal)
    assert_at_start(bench)


def test_a_disk_that_fills_up_halfway_leaves_the_start(bench: Bench, small_disk: Path) -> None:
    def at(step: str) -> None:
        if step == "write random_page_cost: done":
            fill(small_disk)

    with Journal(small_disk) as journal:
        with pytest.raises(ApplyError, match=r"cannot use the journal.*as they were before"):
            apply(bench.dsn, bench.plan(), journal, restart=bench.restart, at=at)
        assert_at_start(bench)
        (small_disk / "ballast").unlink()
        apply(bench.dsn, bench.plan(), journal, restart=bench.restart)
    assert bench.in_force() == TARGET


# An include file instead of ALTER SYSTEM.


@pytest.fixture
def conf_dir(bench: Bench) -> Iterator[Path]:
    """A directory that the server includes; nothing is set by ALTER SYSTEM."""
    directory = bench.cluster.data / "conf.d"
    directory.mkdir()
    conf = bench.cluster.data / "postgresql.conf"
    before = conf.read_text()
    bench.cluster.configure({"include_dir": "conf.d"})
    bench.sql("ALTER SYSTEM RESET work_mem", "SELECT pg_reload_conf()", "SELECT pg_sleep(0.2)")
    yield directory
    conf.write_text(before)
    shutil.rmtree(directory)


def test_an_include_file_is_written_read_and_removed_again(bench: Bench, conf_dir: Path) -> None:
    start = bench.in_force()
    apply(bench.dsn, bench.plan(), bench.journal, restart=bench.restart, conf_dir=conf_dir)
    assert (bench.in_force(), bench.entries()) == (TARGET, [])
    undo(bench.dsn, bench.journal, restart=bench.restart)
    assert bench.in_force() == start
    assert list(conf_dir.iterdir()) == []


def test_an_include_file_with_crlf_comes_back_byte_for_byte(bench: Bench, conf_dir: Path) -> None:
    file = conf_dir / "mrtuner.conf"
    file.write_bytes(b"jit = off\r\n# ours\r\n")
    apply(bench.dsn, bench.plan({"random_page_cost": "1.1"}), bench.journal, conf_dir=conf_dir)
    assert file.read_bytes() == b"jit = off\r\n# ours\r\nrandom_page_cost = '1.1'\n"
    undo(bench.dsn, bench.journal)
    assert file.read_bytes() == b"jit = off\r\n# ours\r\n"


def test_a_second_change_keeps_the_first_in_the_include_file(bench: Bench, conf_dir: Path) -> None:
    apply(bench.dsn, bench.plan({"work_mem": "64MB"}), bench.journal, conf_dir=conf_dir)
    first = (conf_dir / "mrtuner.conf").read_bytes()
    apply(bench.dsn, bench.plan({"random_page_cost": "1.1"}), bench.journal, conf_dir=conf_dir)
    assert bench.in_force() == {**TARGET, "shared_buffers": "16384"}
    undo(bench.dsn, bench.journal)
    assert (conf_dir / "mrtuner.conf").read_bytes() == first


def test_a_file_that_the_server_does_not_include_is_taken_back(
    bench: Bench, tmp_path: Path
) -> None:
    with pytest.raises(ApplyError, match="does not read random_page_cost from") as failed:
        apply(bench.dsn, bench.plan(), bench.journal, conf_dir=tmp_path)
    assert failed.value.hint == f"The server must include it: include_dir = '{tmp_path}'."
    assert not (tmp_path / "mrtuner.conf").exists()
    assert_at_start(bench)


def test_an_entry_of_alter_system_overshadows_an_include_file(bench: Bench, conf_dir: Path) -> None:
    bench.sql("ALTER SYSTEM SET work_mem = '8MB'", "SELECT pg_reload_conf()")
    with pytest.raises(ApplyError, match=r"work_mem is overridden by .*postgresql\.auto\.conf"):
        apply(bench.dsn, bench.plan(), bench.journal, conf_dir=conf_dir)
    assert_at_start(bench)
    assert list(conf_dir.iterdir()) == []


def test_a_directory_that_is_not_there_is_said(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(ApplyError, match=r"cannot write .*No such file.*as they were before"):
        apply(bench.dsn, bench.plan(), bench.journal, conf_dir=tmp_path / "nowhere")
    assert_at_start(bench)
