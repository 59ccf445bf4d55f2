"""From a picture of a database to findings about it: server, blockers, wraparound, TOAST."""

from __future__ import annotations

from typing import Any

import pytest
from vacuum_tables import SETTINGS, picture, rates, sample, table, toast

from mrtuner.vacuum import TableKind, Vacuum, judge
from mrtuner.vacuum.document import vacuum_document
from mrtuner.vacuum.horizon_blockers import Look, Thresholds, blockers
from mrtuner.vacuum.model import HorizonBlocker, ServerSetting
from mrtuner.vacuum.text import lines
from mrtuner.vacuum.toast import amplification
from mrtuner.vacuum.wraparound import wraparound

HOUR = 3_600.0


def busy(updates: int, **given: Any) -> Vacuum:
    """A table of a million rows with this many updates in 1,000 s."""
    samples = sample(0.0, table()), sample(1_000.0, table(updated=updates))
    return judge(picture(*samples, **given))


def setting(found: Vacuum, name: str) -> ServerSetting | None:
    return next((one for one in found.settings if one.name == name), None)


def test_the_limit_is_left_alone_while_half_of_it_is_free() -> None:
    found = busy(100_000)
    assert found.capacity.keeps_up
    assert setting(found, "autovacuum_vacuum_cost_limit") is None


def test_a_limit_that_is_too_low_is_raised_until_half_of_it_is_free() -> None:
    slow = {**SETTINGS, "vacuum_cost_limit": "1"}
    found = busy(1_000_000, settings=slow)
    raised = setting(found, "autovacuum_vacuum_cost_limit")
    assert raised is not None
    assert (raised.now, raised.restart) == ("1", False)
    assert found.capacity.used_then is not None
    assert found.capacity.used_then <= 0.5


def test_a_partition_younger_than_the_counters_is_unknown_without_a_watch() -> None:
    """A million rows came in 40 of 100,000 transactions, and 100 s is the time of all of them:
    10,000 a second at least, but 25 million if the partition is as young as it may be."""
    old = table(oid=1, made=100_000, inserted=1_000_000, parent="public.event")
    young = table(oid=2, name="today", made=40, inserted=1_000_000, parent="public.event")
    still = table(oid=3, name="still", made=40)
    found = judge(picture(sample(100.0, old, young, still, transactions=100_000)))
    reports = {one.table.oid: one for one in found.tables}
    assert [reports[oid].kind for oid in (1, 2, 3)] == [
        TableKind.APPEND_ONLY, TableKind.UNKNOWN, TableKind.STATIC,
    ]  # fmt: skip
    assert reports[2].because.startswith("it may have been made long after")
    assert reports[2].advice == ()
    assert "use --watch" in reports[2].hints[-1]
    assert (reports[1].hints, reports[3].hints) == ((), ())


def test_the_next_partition_needs_its_parameters_too() -> None:
    samples = (
        sample(at, table(parent="public.event", updated=updated))
        for at, updated in ((0.0, 0), (1_000.0, 100_000))
    )
    (one,) = judge(picture(*samples)).tables
    assert one.hints[-1].startswith("the next partition of public.event does not inherit this")


def test_a_huge_table_is_not_static_because_most_of_it_is() -> None:
    """A billion rows in 8 TB, 0.9 % of which are updated in a day, 104.2 a second. By default 200
    million of them die before a vacuum, in 22.2 days; a hundredth is 10 million, in 26.7 hours."""
    huge = {"rows": 10**9, "live": 10**9, "pages": 10**9, "index_pages": 10**7}
    samples = sample(0.0, table(**huge)), sample(86_400.0, table(**huge, updated=9_000_000))
    (one,) = judge(picture(*samples)).tables
    assert one.kind is TableKind.LONG_LIVED
    assert [(item.name, item.value) for item in one.advice] == [
        ("autovacuum_vacuum_scale_factor", "0.01"),
        ("autovacuum_vacuum_threshold", "50"),
    ]
    assert one.now.produce == pytest.approx(22.2 * 86_400, rel=0.01)
    assert one.then.produce == pytest.approx(26.7 * 3_600, rel=0.01)


def test_a_table_with_a_cost_delay_of_its_own_takes_nothing_of_the_limit() -> None:
    """A limit of 1 gives 500 units a second. A vacuum every 60 s dirties nearly all of 10,000
    pages, some 250,000 units: eight times what the server allows, but without a delay a moment."""
    slow = {**SETTINGS, "vacuum_cost_limit": "1"}
    own = {"autovacuum_vacuum_cost_delay": "0"}
    found = judge(
        picture(
            sample(0.0, table(options=own)),
            sample(1_000.0, table(options=own, updated=1_000_000)),
            settings=slow,
        )
    )
    assert (found.capacity.used, found.settings) == (0, ())
    assert found.capacity.words.startswith("no table that shares the cost limit")
    assert (found.tables[0].now.shared, busy(1_000_000).tables[0].now.shared) == (False, True)


def test_a_table_with_a_cost_limit_of_its_own_takes_its_own_time() -> None:
    """25,000 pages a vacuum, 23 units each and 22 for 1,000 of the index, at 500 units a second:
    1,194 s. All four of them are long, whatever the server's own limit."""
    own = {"autovacuum_vacuum_cost_limit": "1"}
    first, last = (
        [table(oid=oid, pages=25_000, options=own, updated=updated) for oid in range(1, 5)]
        for updated in (0, 10**9)
    )
    fast = {**SETTINGS, "vacuum_cost_limit": "10000"}
    found = judge(picture(sample(0.0, *first), sample(1_000.0, *last), settings=fast))
    workers = setting(found, "autovacuum_max_workers")
    assert workers is not None
    assert workers.because.startswith("4 vacuums take longer than 10 min")


def test_with_more_workers_the_limit_grows_so_that_none_slows_down() -> None:
    """Four tables, each with a vacuum measured at 1,000 s, keep four workers and one free: five
    instead of three share the limit, 200 * 5 / 3 = 333.3.
    """
    tables = [table(oid=oid, vacuum_seconds=0.0) for oid in range(1, 5)]
    later = [
        table(oid=oid, updated=1_000, vacuums=1, vacuum_seconds=1_000.0) for oid in range(1, 5)
    ]
    found = judge(picture(sample(0.0, *tables), sample(1_000.0, *later)))
    workers, limit = (
        setting(found, name) for name in ("autovacuum_max_workers", "autovacuum_vacuum_cost_limit")
    )
    assert workers is not None
    assert limit is not None
    assert (workers.now, workers.value) == ("3", "5")
    assert (limit.now, limit.value) == ("200", "334")
    for few, slots in (("4", "5"), ("5", None)):  # since 18, no more run than there are slots
        settings = {**SETTINGS, "autovacuum_worker_slots": few}
        found = judge(picture(sample(0.0, *tables), sample(1_000.0, *later), settings=settings))
        advised = setting(found, "autovacuum_worker_slots")
        assert (advised and (advised.value, advised.restart)) == (slots and (slots, True))
        workers = setting(found, "autovacuum_max_workers")
        assert workers is not None
        assert workers.restart is (slots is not None)


def test_where_no_limit_is_enough_it_is_said() -> None:
    hopeless = {**SETTINGS, "autovacuum_vacuum_cost_delay": "100"}
    samples = [
        sample(at, table(pages=10**8, index_pages=10**9, indexes=9, updated=updated))
        for at, updated in ((0.0, 0), (1_000.0, 10**8))
    ]
    found = judge(picture(*samples, settings=hopeless))
    assert not found.capacity.keeps_up
    assert "lower autovacuum_vacuum_cost_delay" in found.capacity.words


def test_without_a_throttle_there_is_no_limit_to_speak_of() -> None:
    found = busy(100_000, settings={**SETTINGS, "autovacuum_vacuum_cost_delay": "0"})
    assert (found.capacity.used, found.capacity.keeps_up) == (None, True)


def test_autovacuum_switched_off_is_told_first() -> None:
    found = busy(0, settings={**SETTINGS, "autovacuum": "off"})
    assert (found.settings[0].name, found.settings[0].value) == ("autovacuum", "on")


def test_a_queue_that_is_all_dead_rows_by_the_next_look_gets_a_shorter_nap() -> None:
    """1,000 deletes a second for 60 s leave 60,000 dead rows beside 500 live ones."""
    queue = {"rows": 500, "live": 500, "pages": 10, "index_pages": 5}
    samples = [
        sample(0.0, table(**queue)),
        sample(100.0, table(**queue, inserted=100_000, deleted=100_000)),
    ]
    nap = setting(judge(picture(*samples)), "autovacuum_naptime")
    assert nap is not None
    assert (nap.now, nap.value, nap.remedy) == (
        "60", "15", "ALTER SYSTEM SET autovacuum_naptime = 15; SELECT pg_reload_conf();",
    )  # fmt: skip
    assert "60,000 rows" in nap.because


def test_the_distance_to_wraparound_is_a_time() -> None:
    """1,000 IDs a second; 100 million to the forced vacuum, 2,044,483,648 to the stop."""
    samples = sample(0.0, next_xid=0), sample(10.0, next_xid=10_000)
    found, multixacts = wraparound(picture(*samples, databases=(("app", 100_000_000, 7),)))
    assert (found.pace, found.certainty) == (1_000, "measured")
    assert found.to_forced == 100_000
    assert found.to_stop == pytest.approx((2**31 - 3_000_000 - 100_000_000) / 1_000)
    assert (multixacts.age, multixacts.pace, multixacts.to_stop) == (7, 0, None)
    (_, newer) = wraparound(picture(*samples, version_num=190000))
    assert (multixacts.certainty, newer.certainty) == (
        "measured, without members, whose space may run out before", "measured",
    )  # fmt: skip


def test_a_table_whose_size_nobody_has_read_is_not_judged_to_be_free() -> None:
    """As after a load without ANALYZE: 10 dead rows a second, in no pages that are known."""
    new = {"pages": 0, "index_pages": 0, "rows": 1_000_000}
    found = judge(picture(sample(0.0, table(**new)), sample(100.0, table(**new, deleted=1_000))))
    (missing,) = found.unjudged
    assert missing.name == "public.t"
    assert missing.why.startswith("not vacuumed or analyzed since it was made")


def test_multixacts_have_no_pace_if_the_oldest_changed_during_the_watch() -> None:
    samples = sample(0.0, oldest_multixact="1"), sample(10.0, oldest_multixact="5")
    (_, multixacts) = wraparound(picture(*samples))
    assert multixacts.pace is None
    assert "changed during the watch" in multixacts.certainty


def test_postgresql_13_stops_a_million_before_the_end() -> None:
    (found, _) = wraparound(picture(sample(0.0), version_num=130023))
    assert found.stops_at == 2**31 - 1_000_000


def test_without_a_watch_the_pace_is_bounded_by_the_transactions_counted() -> None:
    """In all databases, since they share the counter: this one is quiet."""
    counted = sample(1_000.0, transactions=50_000, pace_elsewhere=950.0)
    (found, multixacts) = wraparound(picture(counted))
    assert found.pace == 1_000
    assert "also those that only read" in found.certainty
    assert (multixacts.pace, multixacts.to_forced) == (None, None)
    (unknown, _) = wraparound(picture(sample(1_000.0, transactions=50_000)))
    assert (unknown.pace, unknown.to_stop) == (None, None)


def test_chunks_of_deleted_rows_are_not_the_updates_doing() -> None:
    """Ten rows a second are deleted with ten chunks each; five are updated, one chunk each."""
    one = table(live=20_000, toast=toast())
    seen = rates(updates=5, deletes=10, toast_deletes=105, toast_inserts=105)
    found = amplification(one, seen)
    assert found is not None
    assert (found.per_row, found.per_update) == (10, 1)
    assert found.rewritten == pytest.approx(0.1)
    assert found.suspicion is None


def test_a_handful_of_updates_says_nothing_about_toast() -> None:
    assert amplification(table(toast=toast()), rates(updates=0.05)) is None
    assert amplification(table(), rates(updates=100)) is None


def session(**given: Any) -> dict[str, Any]:
    """A session of this database with a snapshot of its own, young by any measure."""
    plain = {
        "pid": 42, "role": "web", "application": "shop", "state": "active", "here": True,
        "elsewhere": None, "backend_type": "client backend", "seconds": 10.0, "age": 5,
        "xid_age": None, "xmin": "1000", "xid": None, "key": "42",
    }  # fmt: skip
    return {**plain, **given}


def seen(*rows: dict[str, Any]) -> tuple[HorizonBlocker, ...]:
    """The blockers when there is nothing but these sessions."""
    return blockers([Look(sessions=rows)])


def test_a_session_is_in_the_way_when_it_is_old_by_time_or_by_transactions() -> None:
    assert not seen(session())
    (late,) = seen(session(seconds=HOUR))
    assert (late.what, late.name) == ("long transaction", "process 42 (shop)")
    assert (late.sql, late.serious) == ("SELECT pg_terminate_backend(42);", True)
    (idle,) = seen(session(state="idle in transaction", age=10**6))
    assert idle.what == "session idle in transaction"


@pytest.mark.parametrize(
    ("state", "seconds", "age", "serious"),
    [
        ("active", 3_599, 10**6, False),  # a dump of an hour, beside any load
        ("active", 3_600, 5, True),
        ("idle in transaction", 59, 10**6, False),
        ("idle in transaction", 60, 10**6, True),
        ("idle in transaction", 299, 99_999, False),
        ("idle in transaction", 300, 5, True),
        ("active", None, 10**6, True),  # its age is not known
    ],
)
def test_work_gets_an_hour_and_idleness_five_minutes(
    state: str, seconds: float | None, age: int, serious: bool
) -> None:
    found = seen(session(state=state, seconds=seconds, age=age))
    assert [one.serious for one in found if one.serious] == [True] * serious
    assert all(bool(one.sql) is one.serious for one in found)


def test_a_session_that_reaches_back_to_a_writer_is_not_the_one_to_end() -> None:
    """Both have a horizon a million transactions back, but that is the writer's transaction ID."""
    writer = session(pid=7, xid="1000", xid_age=10**6, age=10**6, seconds=60.0, key="7")
    reader = session(pid=8, seconds=0.01, age=10**6, key="8")
    assert [one.name for one in seen(writer, reader)] == ["process 7 (shop)"]
    assert [one.name for one in seen(reader)] == ["process 8 (shop)"]  # nobody else is left


def test_readers_of_another_database_keep_nothing_but_shared_catalogs() -> None:
    elsewhere = session(here=False, elsewhere="x", seconds=HOUR)
    assert not seen(elsewhere)
    (near,) = blockers([Look(sessions=[{**elsewhere, "age": 10**6, "seconds": 9.0}])])
    assert near.name == "process 42 (shop) in database x (shared catalogs only)"
    assert (near.serious, near.sql) == (False, None)
    (far,) = seen({**elsewhere, "age": 10**6})
    assert far.name == "process 42 (shop) in database x (its database and shared catalogs)"
    assert (far.serious, far.keeps) == (True, "dead rows of another database")


def test_a_writer_of_another_database_counts_from_when_a_snapshot_here_reaches_back_to_it() -> None:
    writer = session(
        pid=7, here=False, elsewhere="x", seconds=HOUR, xid="1000", xid_age=5, xmin=None, key="7"
    )
    (alone,) = seen(writer)
    assert alone.name == "process 7 (shop) in database x (shared catalogs only)"
    assert (alone.serious, alone.sql) == (False, None)
    (held,) = seen(writer, session(pid=8, seconds=0.01, key="8"))
    assert held.name == "process 7 (shop) in database x (holds back snapshots here)"
    assert (held.serious, held.sql) == (True, "SELECT pg_terminate_backend(7);")


def test_who_is_there_at_every_look_is_named_however_young() -> None:
    young = session()
    (named,) = blockers([Look(sessions=[young])] * 3, 20.0)
    assert (named.throughout, named.serious, named.sql) == (True, False, None)
    came = [Look(), Look(sessions=[young]), Look(sessions=[young])]
    assert not blockers(came, 20.0)


def test_a_transaction_that_takes_new_snapshots_is_not_long() -> None:
    first, last = (session(seconds=HOUR, xmin=xmin) for xmin in ("1000", "1100"))
    assert not blockers([Look(sessions=[first]), Look(sessions=[last])], 20.0)
    assert blockers([Look(sessions=[first]), Look(sessions=[first])], 20.0)


def test_a_writer_keeps_its_id_whatever_its_snapshots_do() -> None:
    """It runs a statement at the first look; at the last one it is idle, without a snapshot."""
    first = session(seconds=HOUR, xid="1050", xid_age=5)
    last = {**first, "xmin": None, "state": "idle in transaction"}
    (one,) = blockers([Look(sessions=[first]), Look(sessions=[last])], 20.0)
    assert (one.throughout, one.serious) == (True, True)


def slot(**given: Any) -> tuple[HorizonBlocker, ...]:
    plain = {"name": "old", "type": "logical", "active": False, "database": "app", "standby": None,
             "age": None, "catalog_age": 50, "key": "old", "xmin": None, "xid": None,
             "idle": 300.0}  # fmt: skip
    return blockers([Look(slots=[{**plain, **given}])])


def test_an_inactive_slot_is_named_before_it_does_harm() -> None:
    (found,) = slot()
    assert (found.what, found.serious) == ("logical replication slot, inactive", False)
    assert found.name == "old (system catalogs only)"
    assert found.sql == "SELECT pg_drop_replication_slot('old');"
    for restarts in (299.0, None):  # before 17, nobody knows
        (away,) = slot(idle=restarts)
        assert (away.what, away.sql) == (found.what, None)
    assert not slot(active=True)
    (behind,) = slot(active=True, age=10**6)
    assert (behind.serious, behind.sql) == (True, None)


def prepared(**given: Any) -> dict[str, Any]:
    plain = {"gid": "tx'1", "database": "app", "owner": "bank", "here": True, "age": 3,
             "seconds": HOUR, "xmin": None, "xid": "1000", "key": "tx"}  # fmt: skip
    return {**plain, **given}


def test_prepared_transactions_are_of_their_database() -> None:
    (waiting,) = blockers([Look(prepared=[prepared()])])
    assert waiting.sql == "ROLLBACK PREPARED 'tx''1';"
    elsewhere = prepared(here=False, database="x")
    (other,) = blockers([Look(prepared=[elsewhere])])
    assert other.name == "tx'1 of bank in x (shared catalogs only)"
    assert (other.serious, other.sql) == (False, None)
    (reached,) = blockers([Look(prepared=[elsewhere], sessions=[session()])])
    assert reached.name == "tx'1 of bank in x (holds back snapshots here)"
    assert (reached.serious, reached.sql) == (True, None)  # to be rolled back there, not here
    (unread,) = blockers([Look(prepared=[prepared(gid="caf\ufffd")])])  # it may be another's
    assert (unread.serious, unread.sql) == (True, None)
    assert unread.remedy.endswith(r"\gexec): ROLLBACK PREPARED 'caf" + "\ufffd';")


def test_a_standby_is_named_when_its_horizon_is_far_or_stands_still() -> None:
    near = {"application": "replica", "pid": 7, "age": 10, "key": "7", "xmin": "1000", "xid": None}
    (far,) = blockers([Look(feedback=[{**near, "age": 10**6}])])
    assert (far.name, far.serious) == ("replica", True)
    assert not blockers([Look(feedback=[near])])
    looks = [Look(feedback=[near])] * 2
    assert not blockers(looks, 20.0)  # too short: it may have reported its horizon only twice
    (still,) = blockers(looks, 60.0)
    assert (still.throughout, still.serious) == (True, False)


def test_a_horizon_is_far_only_if_it_did_not_move_for_a_minute() -> None:
    """10,000 IDs a second are 600,000 in a minute; 1,000 are 60,000, fewer than always matter."""
    behind = Look(feedback=[{"application": "replica", "pid": 7, "age": 500_000, "key": "7",
                             "xmin": "1000", "xid": None}])  # fmt: skip
    assert not blockers([behind], thresholds=Thresholds().at(10_000.0))
    (one,) = blockers([behind], thresholds=Thresholds().at(1_000.0))
    assert one.serious


def test_a_truncated_table_is_not_append_only() -> None:
    """A million rows come and a million are there afterwards, as before: a million went. A table
    of two million gets a million: it grows."""
    full = table(inserted=5_000_000, live=1_000_000)
    loaded = table(inserted=6_000_000, live=1_000_000)
    (found,) = judge(picture(sample(0.0, full), sample(1_000.0, loaded))).tables
    assert (found.kind, found.advice) == (TableKind.RELOADED, ())
    assert "1,000,000 rows are gone" in found.because
    (first, last) = (table(inserted=live, live=live) for live in (2_000_000, 3_000_000))
    (grows,) = judge(picture(sample(0.0, first), sample(1_000.0, last))).tables
    assert grows.kind is TableKind.APPEND_ONLY


def test_what_an_estimate_errs_by_is_no_truncation() -> None:
    """40,000 rows come, and then ANALYZE finds as many as before: 4 % fewer than it should."""
    first = table(inserted=1_000_000, live=1_000_000)
    last = table(inserted=1_040_000, live=1_000_000)
    (found,) = judge(picture(sample(0.0, first), sample(1_000.0, last))).tables
    assert found.kind is TableKind.APPEND_ONLY


def test_names_are_quoted_and_reasons_are_comments() -> None:
    odd = {"schema": 'my "odd"', "name": "select"}
    samples = sample(0.0, table(**odd)), sample(1_000.0, table(**odd, updated=100_000))
    told = judge(picture(*samples)).as_sql().splitlines()
    assert told[-1] == (
        'ALTER TABLE "my ""odd"""."select" SET '
        "(autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 50);"
    )
    assert told[-2].startswith("-- 100 dead rows per second")


ODD = "q\nDROP TABLE x; --\x1b[2J"


def swamped(name: str) -> Vacuum:
    """A queue whose name appears in the reason for a server setting."""
    queue = {"name": name, "rows": 500, "live": 500, "pages": 10}
    last = table(**queue, inserted=100_000, deleted=100_000)
    return judge(picture(sample(0.0, table(**queue)), sample(100.0, last), database=name))


def test_a_name_with_a_line_break_does_not_get_out_of_its_comment() -> None:
    for told in (swamped(ODD).as_sql(), swamped(ODD).as_conf()):
        assert "rows of q DROP TABLE x; --\\x1b[2J die" in told
        assert not any(line.startswith("DROP") for line in told.splitlines())
        assert "\x1b" not in told


def test_text_tells_the_pace_before_and_after() -> None:
    told = "\n".join(lines(vacuum_document(busy(100_000))))
    assert "vacuum at 200,050 dead rows, then at 10,050: produced in 100 s" in told


def test_more_tables_than_asked_for_are_counted() -> None:
    def many(at: float, updated: int) -> Any:
        return sample(at, *(table(oid=oid, updated=updated) for oid in range(30)))

    told = list(lines(vacuum_document(judge(picture(many(0.0, 0), many(1_000.0, 100_000)))), 20))
    assert "10 more tables have findings: use --top, --json or --format sql" in told
