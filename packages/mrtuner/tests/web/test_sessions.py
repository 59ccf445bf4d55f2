"""The sessions of a moment, in groups and as a tree of who blocks whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from history_data import batch, sample
from history_incident import BEGIN, TEXTS, WAITING, incident
from history_story import INSTANCE, of_source

from mrtuner.errors import BadValue
from mrtuner.history.reading import open_history
from mrtuner.history.recording.source import built_in
from mrtuner.history.store.writer import Writer
from mrtuner.web.answers import screen_answer
from mrtuner.web.document import ScreenAnswer
from shared import made_once

HOUR = {"from": "2026-11-23T02:00", "to": "2026-11-23T03:00"}
MINUTE = {"from": "2026-11-23T02:20", "to": "2026-11-23T02:21"}


@pytest.fixture(scope="module")
def store() -> Path:
    return made_once("incident", incident)


def screen(directory: Path, name: str, **given: str) -> ScreenAnswer:
    with open_history(directory) as history:
        return screen_answer(history, name, given)


def rows(of: ScreenAnswer, name: str) -> list[dict[str, Any]]:
    (table,) = [one for one in of.tables if one.name == name]
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows]


def clock(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S}"


def test_sessions_of_a_minute_come_by_statement_and_application(store: Path) -> None:
    """In 41 of the 60 samples thirty waited; two always ran. The checkpointer is no session."""
    found = screen(store, "moment", **MINUTE)
    first, second, third = rows(found, "groups")
    assert (first["application"], first["text"], first["wait"]) == (
        "checkout", TEXTS[WAITING], "Lock: tuple",
    )  # fmt: skip
    assert (first["sessions"], first["processes"]) == (pytest.approx(30 * 41 / 60), 30)
    assert first["statement_seconds"] == 40
    assert (second["application"], second["sessions"]) == ("shop", 2.0)
    assert (second["wait"], second["pid"] in {"101", "102"}) == ("CPU", True)
    assert (third["application"], third["state"], third["wait"]) == (
        "psql", "idle in transaction", None,
    )  # fmt: skip
    (background,) = rows(found, "background")
    assert (background["backend_type"], background["sessions"]) == ("checkpointer", 1.0)
    # Each sample: those of clients first.
    assert {row["backend_type"] for row in rows(found, "sessions")} == {"client backend"}


@pytest.mark.parametrize("name", ["moment", "connections"])
def test_who_blocks_whom_is_a_tree_of_both_sides(store: Path, name: str) -> None:
    found = rows(screen(store, name, **MINUTE), "blocked")
    assert [(row["depth"], row["pid"], row["behind"]) for row in found[:3]] == [
        (0, "500", 30), (1, "600", 29), (2, "601", 0),
    ]  # fmt: skip
    assert len(found) == 31
    holder, waiter, _ = found[:3]
    assert (holder["application"], holder["state"]) == ("psql", "idle in transaction")
    assert (holder["transaction_seconds"], holder["wait"], holder["waited"]) == (100, None, None)
    assert holder["text"] == "UPDATE account SET balance = $1 WHERE id = $2"
    assert (waiter["application"], waiter["text"]) == ("checkout", TEXTS[WAITING])
    assert (waiter["wait"], waiter["waited"]) == ("Lock: transactionid", 41)


def blocked(directory: Path, *samples: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """The tree of samples of sessions, one a second from 02:20 on."""
    record(directory, *samples)
    told = rows(screen(directory, "moment", **MINUTE), "blocked")
    return [(row["depth"], row["pid"], row["state"]) for row in told]


def record(directory: Path, *samples: Sequence[Mapping[str, Any]]) -> None:
    source = built_in()["sessions"]
    with Writer(directory, [source]) as writer:
        for second, sessions in enumerate(samples):
            found = (of_source("sessions", state="active", **row) for row in sessions)
            writer.commit([
                batch(sample(source, BEGIN + 1200 + second, *found), instance=INSTANCE)
            ])  # fmt: skip


def test_samples_of_a_process_that_are_left_out_are_counted(tmp_path: Path) -> None:
    """A row a second for 501 seconds; 500 are listed."""
    record(tmp_path, *[[{"pid": 77}]] * 501)
    tenth = {"from": "2026-11-23T02:20", "to": "2026-11-23T02:30", "process": "77"}
    (table,) = screen(tmp_path, "moment", **tenth).tables
    assert len(table.rows) == 500
    assert table.title == "Process 77, each sample: the first 500 of 501"
    (table,) = screen(tmp_path, "moment", **MINUTE, process="77").tables
    assert table.title == "Process 77, each sample"


def test_those_that_wait_beyond_what_was_asked_are_counted(tmp_path: Path) -> None:
    """Three in one sample and one in another: three at once."""
    first: dict[str, Any] = {"pid": 1, "wait_type": "Lock", "blocked_by": "9"}
    more: list[dict[str, Any]] = [
        {"pid": pid, "wait_type": "Lock", "blocked_by": None} for pid in (2, 3, 4)
    ]
    record(tmp_path, [first, *more, {"pid": 5, "wait_type": "IO"}], [first, more[0]])
    (table,) = [one for one in screen(tmp_path, "moment", **MINUTE).tables if one.name == "blocked"]
    assert table.title == (
        "Who blocks whom, the longest queue first (for whom 3 more waited was not asked)"
    )


def test_a_holder_without_a_sample_and_a_prepared_transaction_are_said_to_be_so(
    tmp_path: Path,
) -> None:
    told = blocked(tmp_path, [{"pid": 1, "blocked_by": "9"}, {"pid": 2, "blocked_by": "0"}])
    assert told == [
        (0, "0", "prepared transaction"), (1, "2", "active"),
        (0, "9", "not seen in a sample"), (1, "1", "active"),
    ]  # fmt: skip


def test_of_several_that_block_one_the_nearest_is_its_place(tmp_path: Path) -> None:
    """3 waits for the holder 1 and for 2, which waits for 1 itself."""
    told = blocked(
        tmp_path, [{"pid": 1}, {"pid": 2, "blocked_by": "1"}, {"pid": 3, "blocked_by": "1,2"}]
    )
    assert [one[:2] for one in told] == [(0, "1"), (1, "2"), (2, "3")]


def test_a_deadlock_and_two_that_block_each_other_in_turn_end(tmp_path: Path) -> None:
    deadlock: list[dict[str, Any]] = [{"pid": 1, "blocked_by": "2"}, {"pid": 2, "blocked_by": "1"}]
    turn: list[dict[str, Any]] = [{"pid": 3, "blocked_by": "4"}, {"pid": 4}]
    other: list[dict[str, Any]] = [{"pid": 4, "blocked_by": "3"}, {"pid": 3}]
    told = blocked(tmp_path, deadlock + turn, other)
    # Neither of a deadlock is at its root: it is one tree. The others had a queue each.
    assert [one[:2] for one in told] == [
        (0, "1"), (1, "2"), (0, "4"), (1, "3"), (0, "3"), (1, "4"),
    ]  # fmt: skip


def test_each_queue_is_a_tree_of_what_was_so_in_it(tmp_path: Path) -> None:
    """2 waits for 1 in the first sample, and for 9 from the third to the eighth.

    While its UPDATE waits to be analyzed, it has a text and no query_id: the text of its COMMIT, in
    the ninth, is another moment's.
    """
    row: dict[str, Any] = {"pid": 2, "application": "shop", "wait_type": "Lock"}
    short = row | {"blocked_by": "1", "query_id": WAITING, "wait_event": "tuple"}
    long = row | {
        "blocked_by": "9",
        "wait_event": "relation",
        "statement": "UPDATE stock SET n = ?",
    }
    blocked(
        tmp_path, [{"pid": 1, "transaction_seconds": 7}, short], [{"pid": 2}],
        *([{"pid": 9}, long | {"transaction_seconds": second}] for second in range(6)),
        [{"pid": 2, "query_id": WAITING, "transaction_seconds": 90}],
    )  # fmt: skip
    told = rows(screen(tmp_path, "moment", **MINUTE), "blocked")
    assert [
        (row["depth"], row["pid"], clock(row["begin"]), clock(row["end"])) for row in told
    ] == [
        (0, "9", "02:20:02", "02:20:07"), (1, "2", "02:20:02", "02:20:07"),
        (0, "1", "02:20:00", "02:20:00"), (1, "2", "02:20:00", "02:20:00"),
    ]  # fmt: skip
    _, waiter, holder, other = told
    assert (waiter["query_id"], waiter["text"]) == (None, "UPDATE stock SET n = ?")
    assert (waiter["wait"], waiter["transaction_seconds"], waiter["waited"]) == (
        "Lock: relation", 5, 6,
    )  # fmt: skip
    assert (holder["transaction_seconds"], holder["waited"]) == (7, None)
    assert (other["query_id"], other["wait"]) == (str(WAITING), "Lock: tuple")


def test_a_queue_goes_on_while_whoever_waits_in_it_changes(tmp_path: Path) -> None:
    """Two, one and three wait for 1; then nobody for a second; then one."""
    holder: dict[str, Any] = {"pid": 1}
    waits = [[(2, "1"), (3, "1")], [(3, "1")], [(3, "1"), (4, "1"), (5, "4")], [], [(2, "1")]]
    blocked(
        tmp_path,
        *([holder, *({"pid": pid, "blocked_by": by} for pid, by in one)] for one in waits),
    )
    told = rows(screen(tmp_path, "moment", **MINUTE), "blocked")
    assert [
        (row["depth"], row["pid"], row["waited"], clock(row["begin"]), clock(row["end"]))
        for row in told
    ] == [
        (0, "1", None, "02:20:00", "02:20:02"),
        (1, "4", 1, "02:20:02", "02:20:02"), (2, "5", 1, "02:20:02", "02:20:02"),
        (1, "3", 3, "02:20:00", "02:20:02"), (1, "2", 1, "02:20:00", "02:20:00"),
        (0, "1", None, "02:20:04", "02:20:04"), (1, "2", 1, "02:20:04", "02:20:04"),
    ]  # fmt: skip


def test_a_process_has_a_list_of_its_own_samples(store: Path) -> None:
    found = screen(store, "moment", process="500", **HOUR)
    listed = rows(found, "sessions")
    assert {row["pid"] for row in listed} == {"500"}
    assert (len(listed), clock(listed[0]["time"]), clock(listed[-1]["time"])) == (
        41, "02:20:00", "02:20:40",
    )  # fmt: skip
    with pytest.raises(BadValue, match="process='x' is not the number of a process"):
        screen(store, "moment", process="x", **HOUR)
    (table,) = screen(store, "moment", process="501", **HOUR).tables
    assert table.missing == "process 501 is in no sample of this period"
