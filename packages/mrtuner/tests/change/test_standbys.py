"""What standbys must have first: a pause of replay reproduced, then avoided; on a real pair."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from conftest import NewCluster

from command_line import run
from mrtuner.change.journal import Journal
from mrtuner.change.settings.apply import (
    Restart,
    SettingsPlan,
    Standby,
    Wanted,
    apply,
    plan,
    undo,
)
from mrtuner.errors import Refused
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from mrtuner.postgres.read_server import read
from servers import GRID, pg_ctl, sql, standby_of
from waiting import until

pytestmark = pytest.mark.timed

PAUSED = "hot standby is not possible because of insufficient parameter settings"


@pytest.fixture
def pair(new_cluster: NewCluster) -> Iterator[tuple[Cluster, Cluster]]:
    """A primary and a standby that streams from it, both of 18."""
    primary = new_cluster(settings={"max_connections": 20})
    with standby_of(primary) as standby:
        until(lambda: attached(primary))
        yield primary, standby


def attached(primary: Cluster) -> bool:
    return sql(primary.dsn(), "SELECT count(*) FROM pg_stat_replication") == [(1,)]


def planned(cluster: Cluster, **values: str) -> SettingsPlan:
    with closing(connect(cluster.dsn())) as conn:
        return plan(read(conn), [Wanted(name=name, value=value) for name, value in values.items()])


def test_a_raised_value_pauses_replay_on_a_standby(pair: tuple[Cluster, Cluster]) -> None:
    """Without MrTuner: this is what the refusal prevents."""
    primary, standby = pair
    sql(primary.dsn(), "ALTER SYSTEM SET max_connections = 40")
    primary.restart()
    until(lambda: PAUSED in standby.log())
    paused = "SELECT pg_get_wal_replay_pause_state()"
    until(lambda: sql(standby.dsn(), paused) == [("paused",)])


def test_what_would_pause_a_standby_is_refused_and_nothing_is_written(
    pair: tuple[Cluster, Cluster], journal: Journal
) -> None:
    primary, standby = pair
    made = planned(primary, max_connections="40", max_wal_senders="12")
    with pytest.raises(Refused, match=r"1 standby .* would pause replay if") as refused:
        apply(primary.dsn(), made, journal, restart=Restart(run=primary.restart))
    assert "max_connections and max_wal_senders rose here first" in refused.value.message
    assert "--standby DSN COMMAND" in (refused.value.hint or "")
    with pytest.raises(Refused, match="must be in force there first") as refused:
        apply(primary.dsn(), made, journal, standbys=[Standby(dsn=standby.dsn())])
    assert "ALTER SYSTEM SET max_connections = 40" in (refused.value.hint or "")
    assert journal.changes() == ()


@pytest.mark.parametrize("major", GRID)
def test_what_a_standby_needs_is_found_on_each_version(
    new_cluster: NewCluster, journal: Journal, major: int
) -> None:
    """A server becomes a standby with what it had as a primary: 140, 11, 12, 3 and 265."""
    cluster = new_cluster(major)
    wanted = {
        "max_connections": "140", "max_worker_processes": "11", "max_wal_senders": "12",
        "max_prepared_transactions": "3", "max_locks_per_transaction": "265",
    }  # fmt: skip
    how = Restart(run=cluster.restart)
    apply(cluster.dsn(), planned(cluster, **wanted), journal, restart=how)
    cluster.stop()
    (cluster.data / "standby.signal").touch()
    cluster.start()
    with pytest.raises(Refused) as refused:
        undo(cluster.dsn(), journal, restart=how)
    for name, value in wanted.items():
        assert re.search(rf"{name} = \d+: its primary has {value}\b", refused.value.message)


def test_undo_never_takes_a_standby_below_its_primary(
    pair: tuple[Cluster, Cluster], journal: Journal
) -> None:
    """With less than the primary's 40 it would not start again, whatever it has in force."""
    primary, standby = pair
    how = Restart(run=standby.restart)
    apply(standby.dsn(), planned(standby, max_connections="40"), journal, restart=how)
    set_on_both(primary, standby, 40)
    for restart in (Restart(), how):
        with pytest.raises(Refused, match=r"not start with max_connections = 20: .* has 40"):
            undo(standby.dsn(), journal, restart=restart, force=True)
    standby.restart()
    assert sql(standby.dsn(), "SHOW max_connections") == [("40",)]

    set_on_both(primary, standby, 30)
    with pytest.raises(Refused, match="its primary has 30"):
        undo(standby.dsn(), journal, restart=how)
    set_on_both(primary, standby, 20)
    assert undo(standby.dsn(), journal, restart=how).waiting == ()
    assert sql(standby.dsn(), "SHOW max_connections") == [("20",)]


def set_on_both(primary: Cluster, standby: Cluster, connections: int) -> None:
    """Set it on the primary, and wait until the standby has replayed that."""
    sql(primary.dsn(), f"ALTER SYSTEM SET max_connections = {connections}")
    primary.restart()
    sql(primary.dsn(), f"CREATE TABLE replayed_{connections} ()")
    there = f"SELECT to_regclass('replayed_{connections}') IS NOT NULL"
    until(lambda: sql(standby.dsn(), there) == [(True,)])


def test_who_cannot_see_what_the_primary_has_may_not_lower_it(
    pair: tuple[Cluster, Cluster], journal: Journal
) -> None:
    primary, standby = pair
    sql(
        primary.dsn(), "CREATE ROLE ops LOGIN", "GRANT pg_monitor TO ops",
        "GRANT ALTER SYSTEM ON PARAMETER max_connections TO ops",
        "GRANT EXECUTE ON FUNCTION pg_reload_conf() TO ops",
    )  # fmt: skip
    set_on_both(primary, standby, 20)
    how, theirs = Restart(run=standby.restart), standby.dsn(user="ops")
    apply(theirs, planned(standby, max_connections="40"), journal, restart=how)
    with pytest.raises(Refused, match="this role cannot see whether it would be") as refused:
        undo(theirs, journal, restart=how)
    assert refused.value.hint == "Connect as a superuser."


def test_a_standby_that_forbids_alter_system_is_not_told_to_use_it(
    pair: tuple[Cluster, Cluster], journal: Journal
) -> None:
    """Nor does MrTuner try it there, even with a way to restart."""
    primary, standby = pair
    standby.configure({"allow_alter_system": "off"})
    sql(standby.dsn(), "SELECT pg_reload_conf()")
    until(lambda: sql(standby.dsn(), "SHOW allow_alter_system") == [("off",)])
    made = planned(primary, max_connections="40")
    ready = Standby(dsn=standby.dsn(), restart=Restart(run=standby.restart))
    with pytest.raises(Refused, match="must be in force there first") as refused:
        apply(primary.dsn(), made, journal, standbys=[ready])
    assert refused.value.hint == (
        "There: max_connections = 40. ALTER SYSTEM is forbidden here (allow_alter_system): change "
        "its configuration files. Then restart it."
    )
    assert journal.changes() == ()


def test_a_standby_that_is_away_counts_by_its_slot(
    new_cluster: NewCluster, journal: Journal
) -> None:
    primary = new_cluster(settings={"max_connections": 20})
    sql(primary.dsn(), "SELECT pg_create_physical_replication_slot('replica', true)")
    with pytest.raises(Refused, match="the one of the slot replica, away now"):
        apply(primary.dsn(), planned(primary, max_connections="40"), journal)
    apply(primary.dsn(), planned(primary, max_connections="15"), journal)


def test_a_server_that_is_no_standby_of_this_one_is_refused(
    pair: tuple[Cluster, Cluster], journal: Journal
) -> None:
    primary, standby = pair
    made = planned(primary, max_connections="40")
    for named in ([primary], [standby, standby]):
        with pytest.raises(Refused, match=r"not a standby of this server|is given twice"):
            apply(
                primary.dsn(), made, journal,
                standbys=[Standby(dsn=one.dsn(), restart=Restart(run="true")) for one in named],
            )  # fmt: skip
    assert journal.changes() == ()


def test_named_standbys_are_raised_first_and_replay_never_pauses(
    pair: tuple[Cluster, Cluster], tmp_path: Path
) -> None:
    primary, standby = pair
    (tmp_path / "wanted.conf").write_text("max_connections = 40\nwork_mem = 8MB\n")
    words = ["--from", str(tmp_path / "wanted.conf"), "--yes", "--journal", str(tmp_path / "j")]
    words += ["--restart", pg_ctl(primary, "restart")]
    words += ["--standby", standby.dsn(), pg_ctl(standby, "restart")]
    done = run("apply", primary.dsn(), *words)
    assert done.exit_code == 0, done.output
    for cluster in pair:
        assert sql(cluster.dsn(), "SHOW max_connections") == [("40",)]
    assert sql(standby.dsn(), "SHOW work_mem") == [("4MB",)]
    sql(primary.dsn(), "CREATE TABLE replayed ()")
    until(lambda: sql(standby.dsn(), "SELECT to_regclass('replayed') IS NOT NULL") == [(True,)])
    assert PAUSED not in standby.log(1000)

    back = run("undo", primary.dsn(), "--yes", "--journal", str(tmp_path / "j"),
               "--restart", pg_ctl(primary, "restart"))  # fmt: skip
    assert back.exit_code == 0, back.output
    assert sql(primary.dsn(), "SHOW max_connections") == [("20",)]
    assert f"mrtuner undo '{standby.dsn()}'" in done.stderr
