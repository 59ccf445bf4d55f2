"""What a history says of caches, JIT, temporary files and archiving, worked out by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from history_data import MIDNIGHT, SECOND, batch, sample
from history_story import of_source

from mrtuner.history.analysis.period import HistoryPeriod
from mrtuner.history.reading import History, open_history
from mrtuner.history.recorded.server import recorded
from mrtuner.history.recording.source import built_in
from mrtuner.history.store.writer import Writer
from mrtuner.postgres.model import JitWork, RoleSpills, Server, Slru
from mrtuner.units import Bytes
from mrtuner.web.recorded_advice import recorded_answer

NIGHT = datetime.fromtimestamp(MIDNIGHT // SECOND, UTC)
SETTINGS = {
    "server_version_num": "170002", "archive_mode": "on", "subtransaction_buffers": "64",
    "jit": "on", "block_size": "8192",
}  # fmt: skip


TEXTS = {3: "SELECT text FROM t ORDER BY 1", 4: "-- nightly\ncreate unique index on t (a)"}


def settings(values: dict[str, str]) -> Any:
    rows = [
        of_source("settings", name=name, value=value, origin="default", pending=False)
        for name, value in values.items()
    ]
    return sample(built_in()["settings"], 0, *rows)


@contextmanager
def written(directory: Path, *samples: Any, **more: str) -> Iterator[History]:
    with Writer(directory, built_in().values()) as writer:
        for one in (settings(SETTINGS | more), *samples):
            writer.commit([batch(one, texts=TEXTS)])
    with open_history(directory) as history:
        yield history


def server(history: History) -> Server:
    about = HistoryPeriod(instance="db:5432", begin=NIGHT, end=NIGHT + timedelta(hours=1))
    found = recorded(history, about).server
    assert found is not None
    return found


def of(source: str, at: float, *rows: dict[str, Any]) -> Any:
    return sample(built_in()[source], at, *(of_source(source, **row) for row in rows))


def cache(hits: int, reads: int) -> dict[str, Any]:
    return {"name": "subtransaction", "hits": hits, "reads": reads, "written": 0}


def caches() -> Iterator[Any]:
    """Quiet for five minutes, then 20 reads a second in 400 requests, then quiet again."""
    totals = [(0, 0), (300, 3), (300 + 114_000, 3 + 6000), (600 + 114_000, 6 + 6000)]
    for number, (hits, reads) in enumerate(totals):
        yield of("slru", 300 * number, cache(hits, reads))


def statement(query: int, role: str, **counted: float) -> dict[str, Any]:
    return {"database": "app", "role": role, "query_id": query, "toplevel": True, **counted}


def statements() -> Iterator[Any]:
    """One spends 0.3 s of its second compiling; two of `report` write 200 and 60 blocks, and the
    build of an index 9,000, which work_mem would not save.
    """
    ran = [
        statement(1, "web", calls=10, exec_ms=1000.0, jit_ms=300.0),
        statement(2, "report", calls=2, exec_ms=9000.0, jit_ms=0.0, temp_blocks_written=200),
        statement(3, "report", calls=1, exec_ms=9000.0, jit_ms=0.0, temp_blocks_written=60),
        statement(4, "report", calls=1, exec_ms=9000.0, jit_ms=0.0, temp_blocks_written=9000),
    ]
    yield of("statements", 0)
    yield of("statements", 60, *ran)
    yield of("connections", 60, {"clients": 7, "active": 1, "maximum": 100, "ordinary": 100})


def test_a_cache_is_judged_by_the_five_minutes_in_which_it_read_most(tmp_path: Path) -> None:
    with written(tmp_path, *caches()) as history:
        (found,) = server(history).slrus
    assert found == Slru(name="subtransaction", hits=114_000, reads=6000, seconds=300.0)


def test_compiling_is_that_of_the_statements_that_were_compiled(tmp_path: Path) -> None:
    with written(tmp_path, *statements()) as history:
        assert server(history).jit == JitWork(calls=10, running=1.0, compiling=0.3)


def test_temporary_files_are_added_up_by_role(tmp_path: Path) -> None:
    """Sessions are not recorded by role, so all seven open ones count."""
    with written(tmp_path, *statements()) as history:
        (found,) = server(history).role_spills
    assert found == RoleSpills(
        role="report", statements=2, calls=3, size=Bytes(260 * 8192), largest=Bytes(100 * 8192),
        sessions=7,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("totals", "failing"),
    [
        ([(0, 0), (5, 0), (5, 3)], True),
        ([(0, 0), (5, 3), (9, 3)], False),
        ([(0, 0), (0, 2), (0, 2)], True),
        ([(0, 0), (5, 0), (9, 0)], False),
    ],
)
def test_archiving_fails_if_it_failed_since_it_last_succeeded(
    totals: list[tuple[int, int]], failing: bool, tmp_path: Path
) -> None:
    minutes = [
        of("archiver", 60 * number, {"archived": archived, "failed": failed})
        for number, (archived, failed) in enumerate(totals)
    ]
    with written(tmp_path, *minutes) as history:
        found = server(history).archiver
    assert found is not None
    assert (found.archived, found.failed, found.failing) == (*totals[-1], failing)
    assert found.behind is None


def test_where_nothing_is_archived_there_is_nothing_to_say(tmp_path: Path) -> None:
    with written(tmp_path, archive_mode="off") as history:
        found = server(history)
    assert found.archiver is None
    assert "archiver" not in {one.name for one in found.missing}


def test_what_was_not_sampled_is_named(tmp_path: Path) -> None:
    with written(tmp_path) as history:
        found = server(history)
    assert (found.slrus, found.jit, found.role_spills, found.archiver) == ((), None, (), None)
    missing = {one.name for one in found.missing}
    assert {"slrus", "jit", "role_spills", "archiver"} <= missing


def test_the_advice_is_built_on_it(tmp_path: Path) -> None:
    """Twice the 64 blocks of 8 kB; compiling took 30 % of the time; archiving fails."""
    failures = (
        of("archiver", 60 * number, {"archived": 0, "failed": number}) for number in range(2)
    )
    with written(tmp_path, *caches(), *statements(), *failures) as history:
        given = {"instance": "db:5432", "memory": "16GB", "cpus": "4", "workload": "olap"}
        told = recorded_answer(history, given)
    advised = {one["name"]: one for one in told["settings"]}
    assert advised["subtransaction_buffers"]["value"] == "1MB"
    assert "20 pages a second" in advised["subtransaction_buffers"]["reason"]
    assert advised["jit"]["value"] == "off"
    assert (
        advised["jit"]["reason"]
        == "compiling took 30% of the time of 10 compiled calls in the recorded history"
    )
    assert any("archiving fails (1 time so far" in text for text in told["notices"])
    assert not {"slrus", "jit", "role_spills", "archiver"} & {
        one["name"] for one in told["missing"]
    }
