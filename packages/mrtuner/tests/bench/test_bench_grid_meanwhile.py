"""What went on during the runs: collected, and reported for each variant."""

from __future__ import annotations

import pytest
from msgspec import structs

from bench_grids import SETTINGS, a_record, a_sample, six_blocks
from mrtuner.bench.engine import collect
from mrtuner.bench.engine.blocks import unbalanced
from mrtuner.bench.plan.model import GridCell
from mrtuner.bench.verdict.judge import verdicts
from mrtuner.bench.verdict.meanwhile import meanwhile

CELL = GridCell("select", 10, 4)


def test_what_the_collectors_saw_is_told_for_each_transaction() -> None:
    """a_run() has 60,000 transactions at 1,000 tps: 90,000 + 30,000 switches make 2 each."""
    one = a_sample(
        CELL, 1, "a", 1000,
        series={"cpu user": (1.0, 2.0), "cpu system": (0.5, 0.5), "pressure io": (0.25, 0.75)},
        waits={"running": 6, "IO:WalSync": 3, "Lock:tuple": 1},
        backends=(("checkpointer", 9, 9), ("client backend", 90_000, 600),
                  ("client backend", 30_000, 0)),
    )  # fmt: skip
    seen = meanwhile(a_record([one]), CELL)[0]
    assert (seen.cpus, seen.voluntary, seen.forced) == (2.0, 2.0, 0.01)
    assert seen.waiting == {"io": 0.5}
    assert [(each.event, each.share) for each in seen.events] == [
        ("running", 0.6), ("IO:WalSync", 0.3), ("Lock:tuple", 0.1)
    ]  # fmt: skip
    assert seen.throttled is None
    assert seen.wal == pytest.approx(1000 / 60_000)


def test_levels_are_no_rates() -> None:
    """Two seconds: 4 CPU seconds more are 2 a second; memory stays a level."""
    before, now = {"cgroup cpu": 1.0, "cgroup memory": 9.0}, {"cgroup cpu": 5.0, "cgroup memory": 7}
    assert collect._rates(before, now, 2.0) == {"cgroup cpu": 2.0, "cgroup memory": 7}


def test_a_block_is_uneven_where_equal_variants_met_unequal_checkpoints() -> None:
    """One and three differ by more than one; where max_wal_size differs, that is its effect."""
    block = [
        a_sample(CELL, 1, "a", 1000, checkpoints_timed=1),
        a_sample(CELL, 1, "b", 1000, checkpoints_timed=1, checkpoints_requested=2),
    ]
    alike = {"a": SETTINGS, "b": SETTINGS}
    assert unbalanced(block, alike) == ["its runs saw between 1 and 3 checkpoints"]
    assert unbalanced(block, alike | {"b": SETTINGS | {"max_wal_size": "64"}}) == []
    assert unbalanced([block[0], a_sample(CELL, 1, "b", 1000, checkpoints_timed=2)], alike) == []


def test_a_machine_that_changed_its_pace_within_a_block_is_told() -> None:
    """The canary took 30 ms, and 40 ms before one run: a third more."""
    runs = six_blocks(CELL, 1.0)
    assert not any("canary" in text for text in verdicts(a_record(runs))[0].cautions)
    slow = [structs.replace(runs[0], canary=0.04), *runs[1:]]
    cautions = verdicts(a_record(slow))[0].cautions
    assert any(text.startswith("in 1 block the machine's speed changed") for text in cautions)
