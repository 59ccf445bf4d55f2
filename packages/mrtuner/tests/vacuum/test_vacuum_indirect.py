"""Indirect causes: what a temporary table and a blocker do to the verdict and to the advice."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
from conftest import NewCluster
from vacuum_tables import picture, sample, table

from command_line import run
from mrtuner.postgres.cluster import Cluster
from mrtuner.vacuum import Vacuum, judge
from mrtuner.vacuum.document import vacuum_document
from mrtuner.vacuum.horizon_blockers import Look, blockers
from mrtuner.vacuum.model import HorizonBlocker
from mrtuner.vacuum.text import lines
from servers import sql
from waiting import until

#: The least that the server accepts for autovacuum_freeze_max_age.
FORCED = 100_000
#: A million rows, of which 300,000 are updated in 1,000 s, none of them in its page.
UPDATES = 300_000


def use_up(cluster: Cluster, number: int) -> None:
    """Assign this many transaction IDs."""
    with psycopg.connect(cluster.dsn(), autocommit=True) as conn:
        conn.execute("SET synchronous_commit = off")
        conn.execute(
            f"DO $$BEGIN FOR n IN 1..{number} LOOP PERFORM txid_current(); COMMIT; END LOOP; END$$"
        )


def report(cluster: Cluster) -> tuple[int, str, dict[str, Any]]:
    """Exit code of a check, its text, and the document."""
    done = run("vacuum", cluster.dsn(), "--check")
    document = json.loads(run("vacuum", cluster.dsn(), "--json").stdout)
    return done.exit_code, done.stdout, document


@pytest.mark.timed
def test_a_temporary_table_that_holds_the_counter_back_is_named(
    new_cluster: NewCluster, each_major: int
) -> None:
    """A forced vacuum of all that others may vacuum proves that only its session can help."""
    cluster = new_cluster(
        each_major,
        {"autovacuum_naptime": "1s", "autovacuum_freeze_max_age": FORCED, "fsync": "off"},
    )
    age = "SELECT age(datfrozenxid) FROM pg_database WHERE datname = 'postgres'"
    others = "SELECT max(age(datfrozenxid)) FROM pg_database WHERE datname <> 'postgres'"
    with psycopg.connect(cluster.dsn(), autocommit=True) as holder:
        holder.execute('CREATE TEMP TABLE "a cart" (n int)')
        (schema,) = holder.execute(
            "SELECT nspname FROM pg_namespace WHERE oid = pg_my_temp_schema()"
        ).fetchone() or ("",)
        use_up(cluster, FORCED + 10)
        until(lambda: sql(cluster.dsn(), others)[0][0] < FORCED, "forced vacuums elsewhere")
        sql(cluster.dsn(), "VACUUM (FREEZE)")
        assert sql(cluster.dsn(), age)[0][0] > FORCED
        code, text, document = report(cluster)
        assert code == 3
        assert "Vacuum cannot prevent wraparound" in text
        assert "keeps up" not in text
        assert "begin in 0 s" not in text
        assert f"the oldest in {schema}.a cart" in text
        (found,) = document["blockers"]
        assert (found["what"], found["keeps"]) == ("temporary table", "transaction IDs")
        if each_major >= 16:
            pid = holder.info.backend_pid
            assert found["name"] == f"{schema}.a cart of process {pid}"
            assert found["sql"] == f"SELECT pg_terminate_backend({pid});"
        else:
            assert (found["name"], found["sql"]) == (f"{schema}.a cart", None)
        holder.execute('VACUUM (FREEZE) "a cart"')
    sql(cluster.dsn(), "VACUUM (FREEZE)")
    assert sql(cluster.dsn(), age)[0][0] < 100
    assert report(cluster)[2]["blockers"] == []


def test_a_young_temporary_table_is_nothing_to_do(embedded: Cluster) -> None:
    with psycopg.connect(embedded.dsn(), autocommit=True) as holder:
        holder.execute("CREATE TEMP TABLE young (n int)")
        document = json.loads(run("vacuum", embedded.dsn(), "--json").stdout)
    assert document["blockers"] == []


def slot(**given: Any) -> dict[str, Any]:
    """An active slot whose horizon is far back."""
    return {
        "name": "follower", "type": "physical", "active": True, "database": None,
        "standby": "replica1", "age": 1_000_000, "catalog_age": None, "key": "follower",
        "xmin": "700", "xid": None, "idle": None, **given,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "remedy", "keeps"),
    [
        ({}, "long query on the standby", "dead rows"),
        ({"age": None, "catalog_age": 1_000_000}, "logical slot on the standby",
         "dead rows of catalogs"),
        ({"type": "logical", "standby": None, "age": None, "catalog_age": 1_000_000},
         "consumer lags", "dead rows of catalogs"),
    ],
)  # fmt: skip
def test_what_holds_an_active_slot_depends_on_who_reports_its_horizon(
    given: dict[str, Any], remedy: str, keeps: str
) -> None:
    (one,) = blockers([Look(slots=[slot(**given)])])
    assert remedy in one.remedy
    assert one.keeps == keeps
    assert one.sql is None


def blocker(**given: Any) -> HorizonBlocker:
    plain: dict[str, Any] = {
        "what": "long transaction", "name": "process 1 (app)", "age": 500, "seconds": 900.0,
        "remedy": "End it.", "sql": None, "serious": True,
    }  # fmt: skip
    return HorizonBlocker(**{**plain, **given})


def updated(*found: HorizonBlocker) -> Vacuum:
    """Measured over 1,000 s, with a HOT share of 10 % and three quarters of updates moving."""
    counters = {"updated": UPDATES, "hot_updated": 30_000, "newpage_updated": 225_000}
    samples = (
        sample(0.0, table(newpage_updated=0), next_xid=0),
        sample(1_000.0, table(**counters), next_xid=10_000),
    )
    return judge(picture(*samples, blockers=found))


def test_pace_and_fillfactor_are_advised_without_a_blocker() -> None:
    (one,) = updated().tables
    assert any("fillfactor" in hint for hint in one.hints)
    assert one.advice
    assert updated().unjudged == ()


@pytest.mark.parametrize(
    "given",
    [
        {"seconds": 100.0},
        {"seconds": None, "age": 1_000},
        {"seconds": 1.0, "age": 1, "serious": False, "throughout": True},
    ],
)
def test_a_blocker_for_a_tenth_of_the_time_leaves_them_not_judged(given: dict[str, Any]) -> None:
    """A tenth of 1,000 s, and of 10,000 transaction IDs."""
    found = updated(blocker(**given))
    (one,) = found.tables
    assert one.hints == ()
    assert one.advice == ()
    assert found.settings == ()
    assert [each.name for each in found.unjudged] == ["pace and fillfactor"]


@pytest.mark.parametrize(
    "given",
    [
        {"seconds": 99.0},
        {"seconds": None, "age": 999},
        {"keeps": "dead rows of catalogs", "throughout": True},
        {"keeps": "transaction IDs", "seconds": None, "age": 10**9},
    ],
)
def test_what_was_there_for_less_or_keeps_other_things_distorts_nothing(
    given: dict[str, Any],
) -> None:
    found = updated(blocker(**given))
    assert found.tables[0].advice
    assert found.unjudged == ()


def said(found: Vacuum) -> str:
    return "\n".join(lines(vacuum_document(found)))


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        ({"serious": False, "throughout": True}, "Vacuum is held back"),
        ({"keeps": "dead rows of catalogs"}, "Vacuum of catalogs is held back"),
        ({"keeps": "transaction IDs"}, "Vacuum cannot prevent wraparound"),
    ],
)
def test_the_headline_follows_from_what_holds_vacuum_back(
    given: dict[str, Any], verdict: str
) -> None:
    text = said(updated(blocker(**given)))
    assert verdict in text.splitlines()
    assert "keeps up" not in text


def test_the_headline_follows_from_a_table_that_is_not_vacuumed() -> None:
    off = judge(picture(sample(1_000.0, table(options={"autovacuum_enabled": "false"}))))
    assert "Autovacuum is switched off for 1 table" in said(off)


def test_the_headline_follows_from_a_table_that_vacuum_cannot_keep_up_with() -> None:
    """A vacuum of 5,000 s, as the server measured it, for rows that die within 1,000 s."""
    samples = (
        sample(0.0, table(vacuum_seconds=0.0)),
        sample(1_000.0, table(updated=UPDATES, vacuums=1, vacuum_seconds=5_000.0)),
    )
    text = said(judge(picture(*samples)))
    assert "IT CANNOT KEEP UP" in text
    assert "Vacuum cannot keep up with 1 table" in text.splitlines()
