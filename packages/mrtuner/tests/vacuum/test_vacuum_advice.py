"""Settings by table, with the reason for each."""

from __future__ import annotations

from dataclasses import replace

import pytest
from vacuum_tables import SETTINGS, rates, table, toast

from mrtuner.vacuum.model import Rates, StorageParameter, Table, TableKind
from mrtuner.vacuum.pace import insert_trigger, unfrozen_rows
from mrtuner.vacuum.storage_parameters import advise, options_after, toast_options_after

SCALE, THRESHOLD = "autovacuum_vacuum_scale_factor", "autovacuum_vacuum_threshold"
INSERT_SCALE = "autovacuum_vacuum_insert_scale_factor"
INSERT_THRESHOLD = "autovacuum_vacuum_insert_threshold"


def values(one: Table, seen: Rates, kind: TableKind) -> dict[str, str]:
    return {item.name: item.value for item in advise(one, seen, kind, SETTINGS)}


def test_long_lived_rows_get_a_hundredth() -> None:
    found = advise(table(), rates(updates=100), TableKind.LONG_LIVED, SETTINGS)
    assert [(item.name, item.now, item.value) for item in found] == [
        (SCALE, None, "0.01"),
        (THRESHOLD, None, "50"),
    ]
    assert found[0].because == (
        "100 dead rows per second in 1,000,000 rows, so a vacuum every 100 s"
    )  # 50 and a hundredth of a million are 10,050 rows: 100.5 s, shown in three figures


def test_short_lived_rows_get_a_number_not_a_share() -> None:
    seen = rates(inserts=10, deletes=10)
    assert values(table(), seen, TableKind.SHORT_LIVED) == {SCALE: "0", THRESHOLD: "5000"}


def test_where_vacuum_would_not_keep_up_it_comes_less_often() -> None:
    """At 0.01 ten million rows are dead after 10,000 s. To remove them 6.3 of 10 million pages are
    cleaned (23 each) and 130 million of the index read (2), 9.6 of them dirtied (20): 600 million
    units, 6,000 s. At 0.1 it is 19 % of the time."""
    huge = table(pages=10_000_000, index_pages=130_000_000, rows=10**9, live=10**9)
    found = values(huge, rates(updates=1_000), TableKind.LONG_LIVED)
    assert found[SCALE] == "0.1"


def test_a_small_queue_is_vacuumed_without_sleeps() -> None:
    small = table(rows=10_000, live=10_000, pages=200, index_pages=50)
    found = values(small, rates(inserts=100, deletes=100), TableKind.QUEUE)
    assert found == {SCALE: "0", THRESHOLD: "1000", "autovacuum_vacuum_cost_delay": "0"}


def test_a_table_that_is_vacuumed_soon_enough_is_left_alone() -> None:
    """50 and a fifth of 4,000 are 850 dead rows."""
    assert values(table(rows=4_000, live=4_000), rates(updates=100), TableKind.LONG_LIVED) == {}


def test_a_table_that_only_grows_is_vacuumed_after_an_hours_inserts_and_frozen_at_once() -> None:
    found = values(table(), rates(inserts=20), TableKind.APPEND_ONLY)
    assert found == {
        "autovacuum_vacuum_insert_scale_factor": "0",
        "autovacuum_vacuum_insert_threshold": "72000",
        "autovacuum_freeze_min_age": "0",
    }


@pytest.mark.parametrize(
    ("own", "inserts", "wanted"),
    [
        ("72000", 20.2, None),  # 72,720 are wanted now: an hour's, as they were
        ("72000", 10.0, None),  # twice as many as wanted
        ("72000", 9.9, "35640"),
        ("20000", 20.0, None),  # somebody wants it sooner
        ("-1", 20.0, "72000"),  # never
    ],
)
def test_an_insert_threshold_of_the_tables_own_stays_if_it_is_about_right(
    own: str, inserts: float, wanted: str | None
) -> None:
    one = table(options={INSERT_SCALE: "0", INSERT_THRESHOLD: own})
    found = values(one, rates(inserts=inserts), TableKind.APPEND_ONLY)
    assert found.get(INSERT_THRESHOLD) == wanted


def test_where_the_server_vacuums_after_no_number_of_inserts_it_is_said() -> None:
    """A scale factor of 0 and a threshold of -1 mean never, not at once."""
    never = {**SETTINGS, INSERT_SCALE: "0", INSERT_THRESHOLD: "-1"}
    found = advise(table(), rates(inserts=20), TableKind.APPEND_ONLY, never)
    assert [item.value for item in found] == ["0", "72000", "0"]
    assert found[0].because.startswith("no number of inserts starts a vacuum")


def test_frozen_pages_do_not_count_for_the_insert_trigger() -> None:
    """A fifth of the 50,000 rows in the 500 pages that are not frozen, and 1,000: 11,000."""
    frozen = table(frozen_pages=9_500)
    assert insert_trigger(unfrozen_rows(frozen), SETTINGS, {}) == pytest.approx(11_000)
    assert insert_trigger(unfrozen_rows(table()), SETTINGS, {}) == 201_000
    whole = table(frozen_pages=20_000)
    assert insert_trigger(unfrozen_rows(whole), SETTINGS, {}) == 1_000
    assert values(frozen, rates(inserts=20), TableKind.APPEND_ONLY) == {}


def test_a_toast_table_gets_its_rows_times_the_chunks_of_a_row() -> None:
    """40,000 rows with 400,000 chunks: ten each."""
    one = table(rows=100_000, live=40_000, toast=toast(live=400_000))
    seen = rates(inserts=10, deletes=10, toast_deletes=100)
    found = values(one, seen, TableKind.SHORT_LIVED)
    assert found[f"toast.{SCALE}"] == "0"
    assert found[f"toast.{THRESHOLD}"] == "50000"


@pytest.mark.parametrize(
    ("kind", "rows", "wanted"),
    [
        (TableKind.SHORT_LIVED, 24_750, {}),  # 50 and a fifth: 5,000, the first step
        (TableKind.SHORT_LIVED, 24_760, {SCALE: "0", THRESHOLD: "5000"}),
        (TableKind.QUEUE, 4_760, {SCALE: "0", THRESHOLD: "1000"}),
    ],
)
def test_no_vacuum_is_put_off(kind: TableKind, rows: int, wanted: dict[str, str]) -> None:
    one = table(rows=rows, live=rows)
    assert values(one, rates(inserts=10, deletes=10), kind) == wanted


def test_where_only_a_later_vacuum_would_leave_the_worker_time_nothing_is_advised() -> None:
    """3,000 rows die a second in 5 million of 250,000 pages, with 100,000 of indexes. From 640,000
    on, nearly every page is dirty: 7.5 million units, 75 s at least, and that is 35 % of 213 s; by
    default it is 333 s."""
    one = table(rows=5_000_000, live=5_000_000, pages=250_000, index_pages=100_000, indexes=3)
    assert values(one, rates(inserts=3_000, deletes=3_000), TableKind.SHORT_LIVED) == {}


def test_a_tighter_trigger_of_the_tables_own_stays() -> None:
    for own in ({SCALE: "0.005"}, {SCALE: "0", THRESHOLD: "5000"}):
        assert values(table(options=own), rates(updates=100), TableKind.LONG_LIVED) == {}
    found = values(table(options={SCALE: "0.4"}), rates(updates=100), TableKind.LONG_LIVED)
    assert found == {SCALE: "0.01", THRESHOLD: "50"}


def test_a_toast_threshold_stays_below_the_present_one_and_what_the_server_takes() -> None:
    """A thousand chunks for each of 10,000 rows: 2,000,050 of them start a vacuum, fewer than the
    first step. A million for each of 20,000: that step is beyond 2,147,483,647."""
    seen = rates(inserts=5, deletes=5, toast_deletes=1_000)
    few = table(rows=10_000, live=10_000, toast=toast(live=10_000_000))
    assert values(few, seen, TableKind.SHORT_LIVED) == {}
    many = table(rows=20_000, live=20_000, toast=toast(live=20_000_000_000))
    assert values(many, seen, TableKind.SHORT_LIVED) == {
        f"toast.{SCALE}": "0",
        f"toast.{THRESHOLD}": "2147483647",
    }


def test_a_small_toast_table_does_not_inherit_a_later_vacuum() -> None:
    """2,000 chunks: 450 dead ones start a vacuum. What its table gets would be 5,000."""
    one = table(toast=toast(live=2_000, pages=500))
    found = values(one, rates(inserts=10, deletes=10, toast_deletes=1), TableKind.SHORT_LIVED)
    assert found == {
        SCALE: "0",
        THRESHOLD: "5000",
        f"toast.{SCALE}": "0.2",
        f"toast.{THRESHOLD}": "50",
    }


def test_what_a_toast_table_inherits_is_written_along_with_its_first_parameter() -> None:
    own = {
        "fillfactor": "90",
        "autovacuum_analyze_threshold": "7",
        "autovacuum_vacuum_cost_delay": "0",
        "autovacuum_freeze_max_age": "100000000",
    }
    one = table(rows=100_000, live=40_000, toast=toast(live=400_000), options=own)
    seen = rates(inserts=10, deletes=10, toast_deletes=100)
    assert values(one, seen, TableKind.SHORT_LIVED) == {
        SCALE: "0",
        THRESHOLD: "5000",
        f"toast.{SCALE}": "0",
        f"toast.{THRESHOLD}": "50000",
        "toast.autovacuum_vacuum_cost_delay": "0",
        "toast.autovacuum_freeze_max_age": "100000000",
    }


def test_a_toast_table_does_not_inherit_a_number_of_rows_as_one_of_chunks() -> None:
    """Three rows of 100 chunks a second: 10,800 rows an hour, and 1,080,000 chunks."""
    one = table(rows=10_000_000, live=10_000, toast=toast(live=6_000_000))
    found = values(one, rates(inserts=3, toast_inserts=300), TableKind.APPEND_ONLY)
    assert (found[INSERT_THRESHOLD], found[f"toast.{INSERT_THRESHOLD}"]) == ("10800", "1080000")
    assert found["toast.autovacuum_freeze_min_age"] == "0"


def test_where_few_rows_are_toasted_their_vacuum_is_not_put_off() -> None:
    """1,000 + 0.2 x 1,000,000 chunks now, not the 4,320,000 rows that its table gets in an hour."""
    one = table(rows=1_000_000_000, live=1_000_000_000, toast=toast(live=1_000_000))
    for chunks, wanted in ((1.2, "10000"), (500.0, "201000")):
        seen = rates(inserts=1_200, toast_inserts=chunks)
        found = values(one, seen, TableKind.APPEND_ONLY)
        assert (found[INSERT_THRESHOLD], found[f"toast.{INSERT_THRESHOLD}"]) == ("4320000", wanted)


def test_what_is_set_already_is_not_advised_again() -> None:
    one = table(options={SCALE: "0.010", THRESHOLD: "50"})
    assert values(one, rates(updates=100), TableKind.LONG_LIVED) == {}


@pytest.mark.parametrize("off", ["false", "off", "0", "no", "F", "fal"])
def test_autovacuum_switched_off_is_a_line_of_its_own_with_its_reason(off: str) -> None:
    """In each notation that the server takes, and keeps."""
    one = table(options={"autovacuum_enabled": off})
    (line,) = advise(one, rates(updates=100), TableKind.LONG_LIVED, SETTINGS)
    assert (line.name, line.now, line.value) == ("autovacuum_enabled", off, "true")
    assert line.because.startswith("autovacuum is switched off for this table")


def test_a_toast_table_may_be_switched_off_alone() -> None:
    one = table(rows=100_000, live=20_000, toast=toast(options={"autovacuum_enabled": "off"}))
    seen = rates(inserts=10, deletes=10, toast_deletes=100)
    found = values(one, seen, TableKind.SHORT_LIVED)
    assert found == {"toast.autovacuum_enabled": "true", SCALE: "0", THRESHOLD: "5000"}


def test_static_and_unknown_tables_get_nothing() -> None:
    for kind in (TableKind.STATIC, TableKind.UNKNOWN):
        assert values(table(), rates(updates=100), kind) == {}


def test_options_afterwards_keep_what_was_there_and_pass_it_on_to_a_toast_table_with_none() -> None:
    one = table(options={"fillfactor": "90"}, toast=toast(options={THRESHOLD: "7"}))
    advice = [
        StorageParameter(name=name, now=None, value=value, because="", source="")
        for name, value in ((SCALE, "0.01"), (f"toast.{SCALE}", "0.02"))
    ]
    assert options_after(one, advice) == {"fillfactor": "90", SCALE: "0.01"}
    assert toast_options_after(one, advice) == {SCALE: "0.02", THRESHOLD: "7"}
    inherits = replace(one, toast=toast())
    assert toast_options_after(inherits, advice[:1]) == options_after(one, advice)
    assert toast_options_after(inherits, advice) == {SCALE: "0.02"}
