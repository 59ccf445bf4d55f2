"""The searches that are measured: their A/A search, and what they show together."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from mrtuner.bench.load.pgbench import find_pgbench
from mrtuner.bench.plan.model import GridCell, Workload
from mrtuner.search.model import Schedule
from mrtuner.search.race import Raced
from mrtuner.search.server import own_server
from servers import binaries, sql

TINY = Schedule(
    budget=20, window=1, warmup=0, pairs=1, search=0.5, confirmation=0.25, ablation=0.15,
    reduced=0.1,
)  # fmt: skip


@pytest.fixture(scope="module")
def searches() -> ModuleType:
    path = Path(__file__).parents[4] / "bench" / "searches.py"
    spec = importlib.util.spec_from_file_location("searches", path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules["searches"] = found  # its dataclasses look themselves up
    spec.loader.exec_module(found)
    return found


@pytest.mark.timed
def test_both_sides_have_the_advice_and_restart_as_those_wanted_would(
    searches: ModuleType, tmp_path: Path
) -> None:
    program = find_pgbench(binaries(18))
    seen = list[tuple[str, str, int | None]]()
    with own_server(binaries(18).directory, memory=None, iops=None) as own:
        own.fill(1, program)
        measuring = searches.AdviceTwice(
            own=(own,), known=own.known(), workload=Workload(name="select", builtin="select"),
            cell=GridCell("select", 1, 2), threads=1, schedule=TINY, seed=1, program=program,
            host=None, kept=tmp_path, progress=lambda _event: None,
        )  # fmt: skip
        measuring.warm_up({"work_mem": "6MB"})

        def look(_raced: Raced) -> bool:
            shown = [
                str(sql(own.dsn, f"SHOW {one}")[0][0]) for one in ("shared_buffers", "work_mem")
            ]
            seen.append((*shown, own.site.cluster.pid))  # type: ignore[arg-type]
            return False

        look(Raced(pairs=()))
        measuring.race({"work_mem": "6MB"}, {"work_mem": "7MB"}, 1, look, "trial 1")
        measuring.race({"work_mem": "6MB"}, {"shared_buffers": "32MB"}, 2, look, "trial 2")
    assert {one[:2] for one in seen} == {("128MB", "6MB")}
    pids = [one[2] for one in seen]
    assert pids[0] == pids[1], "a reload would do for those"
    assert len(set(pids[1:])) == 3, "each run restarts"


def test_a_search_without_a_verdict_is_not_one_that_found_nothing(searches: ModuleType) -> None:
    def row(load: str, proposed: int, ended: str) -> dict[str, object]:
        return {
            "load": load, "seed": 1, "proposals": "TPE", "proposed": proposed, "found": False,
            "held": False, "once more": None, "differences": [], "ended": ended,
        }  # fmt: skip

    rows = [
        row("same", 1, "Nothing found"), row("same", 2, "No verdict"),
        row("tpcb", 3, "Nothing found"), row("x", 4, "No verdict"),
    ]  # fmt: skip
    said = list(searches.summary(rows))
    assert "unknown: 2 of 4 searches ended without a verdict" in said
    assert "same: 0 of 1 with a verdict found something" in said
    assert any(
        one.startswith("2 searches with a verdict, and 4 proposals in all: ") for one in said
    )
