"""What screens make of rows that anybody can check by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from history_data import MIDNIGHT, SECOND, batch, sample
from history_story import INSTANCE, of_source

from mrtuner.history.reading import open_history
from mrtuner.history.recording.sampler import SourceSample
from mrtuner.history.recording.source import Source, built_in
from mrtuner.history.store.writer import HistoryEvent, Writer
from mrtuner.web.answers import fleet_answer, screen_answer
from mrtuner.web.document import ScreenAnswer

#: Seconds after midnight.
TWO = 2 * 3600
HOUR = {"from": "2026-11-23T02:00", "to": "2026-11-23T03:00"}


def read(name: str, at: float, *rows: dict[str, Any]) -> SourceSample:
    """What a recorder read so many seconds after midnight."""
    return sample(built_in()[name], at, *(of_source(name, **row) for row in rows))


def written(
    directory: Path, samples: Iterable[SourceSample], sources: Sequence[Source] | None = None
) -> Path:
    """A store with these samples, and with one of sessions each minute."""
    with Writer(directory, sources or tuple(built_in().values())) as writer:
        beats = (sample(built_in()["sessions"], TWO + 60 * minute) for minute in range(60))
        writer.commit([batch(*beats, *samples, instance=INSTANCE)])
    return directory


def screen(directory: Path, name: str, **given: str) -> ScreenAnswer:
    with open_history(directory) as history:
        return screen_answer(history, name, HOUR | given)


def rows(of: ScreenAnswer, name: str) -> list[dict[str, Any]]:
    (table,) = [one for one in of.tables if one.name == name]
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows]


def lines(of: ScreenAnswer, name: str) -> dict[str, list[float | None]]:
    (chart,) = [one for one in of.charts if one.name == name]
    return {one.name: list(one.values) for one in chart.series}


def table(name: str, **more: Any) -> dict[str, Any]:
    known = {"database": "shop", "schema": "public", "relation": 16_000 + len(name)}
    return known | {"name": name} | more


def test_a_table_is_listed_with_its_bloat_and_the_vacuums_that_were_seen(tmp_path: Path) -> None:
    """Half of `order` is bloat; that of `wide_one` is unknown; a vacuum took two minutes."""
    there = [table("order", live=900, dead=100, pages=100), table("wide_one", live=9, dead=500)]
    counters = {"vacuums": 0, "autovacuums": 3, "updated": 0, "hot_updated": 0, "deleted": 0}
    bloat = [
        table("order", kind="table", bytes=819_200, bloat=409_600, toast_bytes=0, toast_bloat=0),
        table("wide_one", kind="table", bytes=8_192_000),
        table("order_pkey", kind="index", bytes=81_920, bloat=16_384, table_name="order"),
    ]
    at_work = {"command": "VACUUM", "database": "shop", "relation": 16_005, "total": 100}
    directory = written(tmp_path, [
        read("bloat", TWO - 3000, *bloat), read("bloat", TWO + 600, *bloat),
        read("tables", TWO - 300, *(one | counters for one in there)),
        read("tables", TWO + 900, there[0] | counters | {"autovacuums": 4}, there[1] | counters),
        *(read("progress", TWO + 600 + 10 * n,
               at_work | {"pid": 77, "phase": "scanning heap", "done": 4 * n})
          for n in range(13)),
        read("progress", TWO + 730),
    ])  # fmt: skip
    found = screen(directory, "vacuum")
    order, wide = sorted(rows(found, "tables"), key=lambda row: str(row["table"]))
    assert (order["table"], wide["table"]) == ("public.order", "public.wide_one")
    assert (order["bloat"], order["bloat_share"]) == (409_600, 0.5)
    assert (wide["bloat"], wide["bloat_share"]) == (None, None)
    assert order["autovacuums"] == 1
    assert order["vacuumed"] == pytest.approx(found.begin + 900)
    assert wide["vacuumed"] is None
    assert {name: set(of) for name, of in lines(found, "bloat").items()} == {
        "public.order": {409_600}, "public.wide_one": {None},
    }  # fmt: skip
    assert set(lines(found, "index_bloat")["public.order_pkey"]) == {16_384}
    (index,) = rows(found, "indexes")
    assert (index["name"], index["table"], index["share"]) == (
        "public.order_pkey", "public.order", 0.2,
    )  # fmt: skip
    (work,) = rows(found, "work")
    assert work["table"] == "public.order"
    assert (work["first"], work["seconds"], work["done"]) == (found.begin + 600, 120, 0.48)


def test_each_run_of_a_process_is_listed_and_one_from_before_has_no_beginning(
    tmp_path: Path,
) -> None:
    """Process 77 vacuums one table at 02:10 and 02:30, each for 20 s, and then at once another.

    Process 78 was at work before 02:00, and was last seen at 02:00:10.
    """
    one = {"pid": 77, "command": "VACUUM", "database": "shop", "relation": 1, "total": 100}
    old = {"pid": 78, "command": "ANALYZE", "database": "shop", "relation": 2, "total": 100}

    def at(second: int, done: int, of: dict[str, Any]) -> SourceSample:
        return read("progress", TWO + second, of | {"phase": "scanning heap", "done": done})

    directory = written(tmp_path, [
        at(-10, 10, old), at(0, 20, old), at(10, 30, old), read("progress", TWO + 20),
        at(600, 10, one), at(610, 20, one), at(620, 30, one), read("progress", TWO + 630),
        at(1800, 10, one), at(1820, 30, one), at(1830, 10, one | {"relation": 3}),
        at(1840, 20, one | {"relation": 3}), read("progress", TWO + 1850),
    ])  # fmt: skip
    found = screen(directory, "vacuum")
    begin = found.begin
    work = rows(found, "work")
    assert [(row["pid"], row["first"], row["seconds"], row["done"]) for row in work] == [
        ("77", begin + 1830, 10, 0.2), ("77", begin + 1800, 20, 0.3),
        ("77", begin + 600, 20, 0.3), ("78", None, 10, 0.3),
    ]  # fmt: skip
    (table,) = [one for one in found.tables if one.name == "work"]
    assert "those without a beginning began before this period" in table.title


def test_a_bloated_table_is_listed_though_many_others_have_more_dead_rows(tmp_path: Path) -> None:
    """A table that autovacuum has cleaned has no dead rows, but still all of its bloat."""
    many = [
        table(f"t{number}", relation=number, live=1000, dead=10 + number) for number in range(300)
    ]
    quiet = table("quiet", live=1000, dead=0)
    directory = written(tmp_path, [
        read("tables", TWO + 60, quiet, *many),
        read("bloat", TWO + 60, table("quiet", kind="table", bytes=8_192_000, bloat=8_000_000)),
    ])  # fmt: skip
    listed = rows(screen(directory, "vacuum"), "tables")
    assert len(listed) == 200
    assert listed[0]["table"] == "public.t299"
    assert "public.quiet" in {row["table"] for row in listed}


def test_without_bloat_the_chart_says_what_it_takes(tmp_path: Path) -> None:
    directory = written(tmp_path, [read("tables", TWO, table("order", live=9, dead=1))])
    (chart,) = [one for one in screen(directory, "vacuum").charts if one.name == "bloat"]
    assert "GRANT pg_read_all_data" in (chart.missing or "")


@pytest.mark.parametrize(
    ("first", "before"),
    [
        (TWO - 7 * 86_400, "2026-11-16 02:00 to 2026-11-16 02:50"),
        (TWO - 86_400, "2026-11-22 02:00 to 2026-11-22 02:50"),
        (TWO - 3600, "2026-11-23 01:00 to 2026-11-23 01:50"),
    ],
)
def test_a_period_is_compared_with_that_of_a_week_before_if_it_was_recorded(
    tmp_path: Path, first: int, before: str
) -> None:
    old = [read("connections", first + 600 * n, {"clients": 1}) for n in range(6)]
    directory = written(tmp_path, old)
    (found,) = screen(directory, "compare").tables
    assert f"before is {before} UTC, after 2026-11-23 02:00 to 2026-11-23 02:59" in found.title


def test_a_period_of_which_nothing_was_recorded_is_not_compared_with(tmp_path: Path) -> None:
    """A week before, the recorder was off; a day before, it ran for ten minutes."""
    day = [read("connections", TWO - 86_400 + 60 * n, {"clients": 1}) for n in range(30, 41)]
    directory = written(tmp_path, [read("connections", TWO - 8 * 86_400, {"clients": 1}), *day])
    (found,) = screen(directory, "compare").tables
    assert "before is 2026-11-22 02:30 to 2026-11-22 02:40 UTC" in found.title
    refused = screen(directory, "compare", compare="2d")
    assert refused.charts == []
    assert refused.tables[0].missing == (
        "nothing was recorded from 2026-11-21 02:00 to 2026-11-21 03:00 UTC: choose another period"
    )


def test_statements_that_were_recorded_in_one_period_only_are_not_compared(tmp_path: Path) -> None:
    """All would seem new: pg_stat_statements was installed at 02:30."""
    work = {"database": "shop", "role": "web", "query_id": 1, "toplevel": True}
    directory = written(tmp_path, [
        read("statements", TWO + 60 * n, work | {"calls": n, "exec_ms": 1000.0 * n})
        for n in range(30, 60)
    ])  # fmt: skip
    half = {"from": "2026-11-23T02:30", "to": "2026-11-23T03:00", "compare": "30min"}
    (found,) = screen(directory, "compare", **half).tables
    assert found.rows == []
    assert found.missing == "pg_stat_statements was recorded in one period only, not before"


def test_averages_cover_what_was_recorded(tmp_path: Path) -> None:
    """From 02:50 on, one statement kept half a session busy; nothing older was recorded of it."""
    work = {"database": "shop", "role": "web", "query_id": 1, "toplevel": True}
    directory = written(tmp_path, [
        read("statements", TWO + 3000 + 60 * n, work | {"calls": n, "exec_ms": 30_000.0 * n})
        for n in range(10)
    ])  # fmt: skip
    (row,) = rows(screen(directory, "statements"), "statements")
    assert row["load"] == 0.5


def test_a_statement_that_is_not_among_the_largest_is_shown_with_its_numbers(
    tmp_path: Path,
) -> None:
    """Of 51 statements the first took 1 ms in its one call, the others longer. The list has 50."""
    works = [
        {"database": "shop", "role": "web", "query_id": n, "toplevel": True,
         "calls": 1, "exec_ms": float(n)}
        for n in range(1, 52)
    ]  # fmt: skip
    before = [work | {"calls": 0, "exec_ms": 0.0} for work in works]
    directory = written(
        tmp_path, [read("statements", TWO, *before), read("statements", TWO + 60, *works)]
    )
    assert len(rows(screen(directory, "statements"), "statements")) == 50
    (one,) = rows(screen(directory, "statements", statement="1"), "statements")
    assert (one["query_id"], one["calls"], one["seconds"]) == ("1", 1, 0.001)


def test_a_statement_that_did_not_run_is_no_missing_extension(tmp_path: Path) -> None:
    """Number 7 was counted at 02:00 and at 02:01 with the same calls; 8 is unknown to the server.
    An hour later nothing was recorded.
    """
    work = {"database": "shop", "role": "web", "query_id": 7, "toplevel": True, "calls": 3}
    directory = written(tmp_path, [read("statements", TWO + 60 * n, work) for n in range(2)])
    for number in ("7", "8"):
        told = missing(screen(directory, "statements", statement=number))
        assert told["calls"] == told["mean"] == "it did not end in this period"
    assert missing(screen(directory, "statements"))["statements"] == (
        "no statement ended in this period"
    )
    gap = {"from": "2026-11-23T05:00", "to": "2026-11-23T06:00"}
    for asked in (gap, gap | {"statement": "7"}):
        assert set(missing(screen(directory, "statements", **asked)).values()) == {
            "pg_stat_statements was not recorded in this period"
        }


def missing(of: ScreenAnswer) -> dict[str, str]:
    """What is said of each chart and table that is empty."""
    charts = {one.name: one.missing for one in of.charts if one.missing}
    return charts | {one.name: one.missing for one in of.tables if one.missing}


def test_in_a_gap_no_other_reason_is_told_than_that_nothing_was_recorded(tmp_path: Path) -> None:
    directory = written(tmp_path, [])
    gap = {"from": "2026-11-23T05:00", "to": "2026-11-23T06:00"}
    for name in ("io", "connections", "replication", "moment"):
        told = missing(screen(directory, name, **gap))
        assert set(told.values()) == {"not recorded in this period"}, name
    assert missing(screen(directory, "io"))["reads"] == "PostgreSQL counts this since version 16"
    assert missing(screen(directory, "moment"))["sessions"] == "no session was active"
    told = missing(screen(directory, "connections"))
    assert told["blocked"] == "no session was seen waiting for a lock"


def test_samples_of_sessions_that_are_gone_are_unknown(tmp_path: Path) -> None:
    """The last sample is eight days later; those of sessions are kept for seven."""
    directory = written(tmp_path, [read("connections", TWO + 8 * 86_400, {"clients": 1})])
    gone = "unknown: each sample of sessions is kept for 7 days"
    told = missing(screen(directory, "connections"))
    assert (told["blocked"], told["oldest"]) == (gone, gone)
    assert missing(screen(directory, "moment", process="77"))["sessions"] == gone


def test_where_nothing_is_older_there_is_nothing_to_compare_with(tmp_path: Path) -> None:
    """The screen says so, instead of calling every statement new."""
    directory = written(tmp_path, [])
    for begin, end in (("01:30", "02:30"), ("02:00", "02:10")):
        period = {"from": f"2026-11-23T{begin}", "to": f"2026-11-23T{end}"}
        found = screen(directory, "compare", **period)
        assert found.charts == []
        (table,) = found.tables
        assert table.missing == "nothing was recorded before this period: choose a later one"


def test_the_pace_of_the_recorder_is_no_change(tmp_path: Path) -> None:
    """It is told among the changes, but neither drawn nor counted."""
    directory = written(tmp_path, [])
    with Writer(directory, built_in().values()) as writer:
        at = MIDNIGHT + (TWO + 600) * SECOND
        writer.commit([
            batch(events=(
                HistoryEvent(at=at, instance=INSTANCE, kind="pace", detail="tables every 2 min"),
                HistoryEvent(at=at, instance=INSTANCE, kind="reset", detail="a reset"),
            ), instance=INSTANCE)
        ])  # fmt: skip
    found = screen(directory, "changes")
    assert [one.what for one in found.changes] == ["reset"]
    assert {row["what"] for row in rows(found, "changes")} >= {"pace", "reset"}
    with open_history(directory) as history:
        (member,) = fleet_answer(history).instances
    assert member.changes == 1


def test_receivers_and_slots_are_those_at_the_end(tmp_path: Path) -> None:
    """`old` was dropped within the hour, and a standby went away."""
    near = {"name": "near", "kind": "physical", "active": False, "status": "extended",
            "retained": 700, "safe": 300, "used": 0.7}  # fmt: skip
    old = {"name": "old", "kind": "logical", "active": True, "retained": 5}
    standby = {"application": "one", "client": "10.0.0.1", "pid": 1, "state": "streaming",
               "sync_state": "sync", "replay_behind": 10, "replay_lag": 0.5}  # fmt: skip
    directory = written(tmp_path, [
        read("slots", TWO, near, old), read("slots", TWO + 60, near),
        read("replication", TWO, standby, standby | {"application": "two", "pid": 2}),
        read("replication", TWO + 60, standby),
    ])  # fmt: skip
    found = screen(directory, "replication")
    (slot,) = rows(found, "slots")
    assert (slot["name"], slot["in_use"], slot["status"]) == ("near", "no", "extended")
    (receiver,) = rows(found, "receivers")
    assert (receiver["application"], receiver["sync_state"]) == ("one", "sync")
    assert max(v for v in lines(screen(directory, "headroom"), "shares")["WAL kept for a slot"]
               if v is not None) == 0.7  # fmt: skip


def test_a_sequence_near_its_end_is_the_tightest_limit(tmp_path: Path) -> None:
    used = [
        {"database": "shop", "schema": "public", "name": name, "used": share, "maximum": 2**31 - 1,
         "used_by": f"public.{name}.id"}
        for name, share in (("orders", 0.93), ("items", 0.2), ("unused", None))
    ]  # fmt: skip
    directory = written(tmp_path, [
        read("sequences", TWO, *used),
        read("connections", TWO, {"clients": 1, "maximum": 100, "ordinary": 100}),
    ])  # fmt: skip
    found = screen(directory, "headroom")
    assert [row["sequence"] for row in rows(found, "sequences")] == [
        "public.orders", "public.items",
    ]  # fmt: skip
    first = rows(found, "headroom")[0]
    assert (first["resource"], first["highest"]) == ("sequences", 0.93)
    with open_history(directory) as history:
        (member,) = fleet_answer(history).instances
    assert (member.tightest, member.used) == ("sequences", 0.93)


def test_a_history_of_an_earlier_recorder_is_shown_without_what_it_lacks(tmp_path: Path) -> None:
    """It recorded no share of slots, and neither bloat nor sequences."""
    new = built_in()["slots"]
    columns = tuple(column for column in new.columns if column.name != "used")
    told = [line for line in new.declaration.split("\n") if not line.startswith("used = ")]
    slots = replace(new, columns=columns, declaration="\n".join(told))
    left_out = {"slots", "bloat", "sequences"}
    others = [source for name, source in built_in().items() if name not in left_out]
    row = of_source("slots", name="standby", kind="physical", active=True, retained=100)
    values = tuple(
        value
        for value, column in zip(row.values, new.columns, strict=True)
        if column.name != "used"
    )
    found = sample(slots, TWO, replace(row, values=values))
    directory = written(tmp_path, [found], [*others, slots])
    for name in ("headroom", "replication", "vacuum"):
        screen(directory, name)
    assert "WAL kept for a slot" not in lines(screen(directory, "headroom"), "shares")
    with open_history(directory) as history:
        assert len(fleet_answer(history).instances) == 1


def test_time_of_sessions_is_how_many_were_at_it(tmp_path: Path) -> None:
    """In a minute, 30 s of statements and 120 s idle in transactions."""
    directory = written(tmp_path, [
        read("databases", TWO + 60 * n, {
            "database": "shop", "active_ms": 30_000.0 * n, "idle_in_transaction_ms": 120_000.0 * n,
        })
        for n in range(3)
    ])  # fmt: skip
    found = lines(screen(directory, "connections"), "time")
    assert found["running statements"][1] == 0.5
    assert found["idle in a transaction"][1] == 2.0


def chart(of: ScreenAnswer, name: str) -> Any:
    (found,) = [one for one in of.charts if one.name == name]
    return found


def test_time_that_is_counted_when_a_checkpoint_ends_is_drawn_as_it_was_spent(
    tmp_path: Path,
) -> None:
    """A checkpoint of three and a half minutes ends in the sixth: 210 of its 60 seconds.

    After it, none is counted in two minutes, and then nobody recorded. Another one may run.
    """
    directory = written(tmp_path, [
        read("checkpoints", TWO + 60 * n, {
            "timed": n // 6, "requested": 0, "write_ms": 210_000.0 * (n // 6), "sync_ms": 0.0,
        })
        for n in range(9)
    ])  # fmt: skip
    found = screen(directory, "wal")
    assert lines(found, "writing")["writing"][1:9] == [0, 0, 0.5, 1, 1, 1, None, None]
    early = screen(directory, "wal", to="2026-11-23T02:05")
    assert set(lines(early, "writing")["writing"]) == {None}
    assert chart(early, "writing").missing == "no checkpoint ended in this period"
    assert "Counted when a checkpoint ends" in chart(found, "writing").help
    assert chart(found, "checkpoints").unit == "/min"
    assert lines(found, "checkpoints")["timed"][6] == 1.0
    day = screen(directory, "wal", to="2026-11-23T14:00")
    assert chart(day, "checkpoints").unit == "/h"


def test_a_checkpoint_that_a_crash_ended_was_not_counted(tmp_path: Path) -> None:
    """One of 30 s ends at 02:02, the crash is at 02:04:30, and one of 120 s ends at 02:07.

    Before the crash one may have run that is not counted: of 02:03 and 02:04 nothing is known. The
    sample of 02:05 is the first after the crash; the next checkpoint ran from then on.
    """
    written_ms = [0.0, 0.0, 30e3, 30e3, 30e3, 30e3, 30e3, 150e3]
    directory = written(tmp_path, [
        read("checkpoints", TWO + 60 * n, {"timed": 0, "write_ms": total, "sync_ms": 0.0})
        for n, total in enumerate(written_ms)
    ])  # fmt: skip
    with Writer(directory, built_in().values()) as writer:
        at = MIDNIGHT + (TWO + 270) * SECOND
        crash = HistoryEvent(at=at, instance=INSTANCE, kind="crash", detail="a process crashed")
        writer.commit([batch(events=(crash,), instance=INSTANCE)])
    found = lines(screen(directory, "wal"), "writing")["writing"]
    assert found[1:9] == [0, 0.5, None, None, 0, 1, 1, None], found


@pytest.mark.parametrize(
    ("timing", "drawn"), [("off", ["time"]), ("on", ["time", "of it reading"])]
)
def test_reads_that_nobody_timed_are_no_time(tmp_path: Path, timing: str, drawn: list[str]) -> None:
    work = {"database": "shop", "role": "web", "query_id": 7, "toplevel": True}
    directory = written(tmp_path, [
        read("settings", TWO, {"name": "track_io_timing", "value": timing}),
        *(read("statements", TWO + 60 * n, work | {"calls": n, "exec_ms": 5.0 * n, "read_ms": 0.0})
          for n in range(4)),
    ])  # fmt: skip
    found = chart(screen(directory, "statements", statement="7"), "mean")
    assert [one.name for one in found.series] == drawn
    said = "How much of it was reading is unknown: track_io_timing is off."
    assert found.help == (said if timing == "off" else "")


def test_after_a_crash_live_rows_are_unknown_until_a_table_is_analyzed(tmp_path: Path) -> None:
    """It was at 02:10. `busy` was analyzed at 02:15, `quiet` at 02:05 alone, which is forgotten;
    `new` was made after it. `first` is there in the first sample after it, so it may be older.
    """
    counters = dict.fromkeys(("vacuums", "autovacuums", "updated", "hot_updated", "deleted"), 0)

    def seen(
        at: float, live: int, quiet: int | None, busy: int | None, *more: dict[str, Any]
    ) -> SourceSample:
        known = {"live": live, "dead": 5, "analyzes": 0, **counters}
        after = [
            None if minute is None else MIDNIGHT // SECOND + TWO + 60 * minute
            for minute in (quiet, busy)
        ]
        return read("tables", at, table("quiet", last_analyze=after[0], **known),
                    table("busy", relation=1, last_analyze=after[1], **known), *more)  # fmt: skip

    new, first = (
        table(name, relation=2, live=95, dead=5, analyzes=0, **counters)
        for name in ("new", "first")
    )
    directory = written(tmp_path, [
        seen(TWO, 95, -9, -9), seen(TWO + 300, 95, 5, -9), seen(TWO + 800, 0, None, None, first),
        seen(TWO + 1200, 95, None, 15, first, new),
    ])  # fmt: skip
    before = screen(directory, "vacuum", to="2026-11-23T02:08")
    with Writer(directory, built_in().values()) as writer:
        at = MIDNIGHT + (TWO + 600) * SECOND
        crash = HistoryEvent(at=at, instance=INSTANCE, kind="crash", detail="a process crashed")
        writer.commit([batch(events=(crash,), instance=INSTANCE)])
    after = screen(directory, "vacuum")
    for found, title, quiet in (
        (before, "Tables", (95, 0.05)),
        (after, "Tables: statistics began anew at 2026-11-23 02:10:00 UTC; live rows without a "
         "number are unknown until the next vacuum or analyze", (None, None)),
    ):  # fmt: skip
        (told,) = [one for one in found.tables if one.name == "tables"]
        assert told.title == title
        live = {row["table"]: (row["live"], row["dead_share"]) for row in rows(found, "tables")}
        later = {"public.new": (95, 0.05), "public.first": (None, None)} if found is after else {}
        assert live == {"public.quiet": quiet, "public.busy": (95, 0.05)} | later


def test_what_is_0_says_what_it_means(tmp_path: Path) -> None:
    """Ages are recorded in steps of 100,000; an index was looked at, and had no bloat."""
    directory = written(tmp_path, [
        read("ages", TWO, {"database": "shop", "age": 0}),
        read("bloat", TWO, table("order_pkey", kind="index", bytes=81_920, bloat=0)),
    ])  # fmt: skip
    found = screen(directory, "vacuum")
    assert chart(found, "ages").missing == "less than 100,000 all the time"
    assert chart(screen(directory, "headroom"), "transaction_ids").missing == (
        "less than 100,000 all the time"
    )
    (indexes,) = [one for one in found.tables if one.name == "indexes"]
    assert indexes.missing == "no index has bloat"


def test_what_is_of_no_database_is_of_shared_objects(tmp_path: Path) -> None:
    directory = written(tmp_path, [
        read("databases", TWO + 60 * n, {"database": None, "sessions": 60 * n}) for n in range(3)
    ])  # fmt: skip
    assert lines(screen(directory, "connections"), "churn")["shared objects"][1] == 60.0


def test_of_two_transactions_as_old_the_holder_comes_first(tmp_path: Path) -> None:
    """Both are 30 s old at 02:00:05. At 02:00:50, 9 runs statement 7 in a younger transaction.

    The row is of the first moment, though query_id was NULL then.
    """
    directory = written(tmp_path, [
        read("sessions", TWO + 5, {"pid": 4, "state": "active", "transaction_seconds": 30,
                                   "blocked_by": "9"},
             {"pid": 9, "state": "idle in transaction", "transaction_seconds": 30}),
        read("sessions", TWO + 50, {"pid": 9, "state": "active", "transaction_seconds": 1,
                                    "query_id": 7}),
    ])  # fmt: skip
    found = screen(directory, "connections")
    assert [
        (row["pid"], row["state"], row["query_id"], row["time"] - found.begin)
        for row in rows(found, "oldest")
    ] == [("9", "idle in transaction", None, 5.0), ("4", "active", None, 5.0)]


def test_the_last_hour_begins_with_the_first_sample(tmp_path: Path) -> None:
    """Sampled from 02:40:20 to 02:59:20: in the last hour, and in the last quarter of one."""
    with Writer(tmp_path, tuple(built_in().values())) as writer:
        beats = (sample(built_in()["sessions"], TWO + 60 * n + 20) for n in range(40, 60))
        writer.commit([batch(*beats, instance=INSTANCE)])
    with open_history(tmp_path) as history:
        hour, quarter = (
            screen_answer(history, "load", {"since": since}) for since in ("1h", "15min")
        )
    first = (MIDNIGHT / SECOND) + TWO + 40 * 60 + 20
    assert (hour.begin, hour.end - hour.begin) == (first, 19 * 60)
    assert quarter.end - quarter.begin == 900
