"""What holds a load back, from samples written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from bench_grids import a_run, a_sample
from mrtuner.bench.plan.model import GridCell
from mrtuner.catalog import parameters
from mrtuner.inputs import MAJORS
from mrtuner.search.model import BindingEvidence
from mrtuner.search.profile import evidence, most_images, of_run, table
from mrtuner.stats.histogram import Histogram

CELL = GridCell("tpcb", 1, 2)


def seen(**of_sample: Any) -> dict[str, BindingEvidence]:
    """The evidence of one run with 60,000 transactions on two CPUs, by mechanism."""
    one = a_sample(CELL, 1, "a", 1000, **of_sample)
    return {found.mechanism: found for found in evidence([of_run(one)], 2)}


def test_waits_are_shares_of_the_active_sessions_whatever_the_case_of_their_names() -> None:
    """WALSync before 17, WalSync from then on: 30 + 10 of 100."""
    for event in ("IO:WALSync", "IO:WalSync"):
        found = seen(waits={event: 30, "LWLock:WALWrite": 10, "running": 60})
        assert found["WAL flushes"].value == 0.4
        assert found["WAL flushes"].binds
        assert found["locks"].value == 0
        assert not found["locks"].binds


def test_counters_are_per_transaction() -> None:
    """6,000 pages and 3,000 full-page images for 60,000 transactions."""
    found = seen(deltas={
        "pg_stat_database": {"blks_read": 6000.0},
        "pg_stat_wal": {"wal_fpi": 3000.0},
    })  # fmt: skip
    assert found["data reads"].value == 0.1
    assert found["data reads"].binds
    assert found["WAL volume"].value == 0.05
    assert not found["WAL volume"].binds
    assert found["temporary files"].value == 0, "an unchanged counter is left out of the deltas"


def test_a_run_after_a_checkpoint_shows_no_more_images_than_a_whole_cycle() -> None:
    """60,000 transactions at 1,000 a second: 6,000 images, and 100 bytes of WAL each besides."""
    deltas = {"pg_stat_wal": {"wal_fpi": 6000.0}}
    run = a_sample(CELL, 1, "a", 1000, deltas=deltas, wal_bytes=6000 * 8192 + 60_000 * 100)
    settings = {
        "block_size": "8192", "checkpoint_timeout": "900", "checkpoint_completion_target": "1",
        "max_wal_size": "65536",
    }  # fmt: skip
    # 9,000 pages in the 900,000 transactions of 900 s.
    assert most_images([run], settings, 9000 * 8192) == pytest.approx(0.01)
    # 256 MiB / 2 less 11,501 pages are 40,001,536 bytes: 400,015 transactions of 100 bytes.
    small = settings | {"max_wal_size": "256"}
    assert most_images([run], small, 11_501 * 8192) == pytest.approx(11_501 / 400_015, rel=1e-5)
    # 128 MiB / 2 are less than these pages: a checkpoint may come before each has its image.
    assert most_images([run], settings | {"max_wal_size": "128"}, 9000 * 8192) is None
    seen = {
        bound: next(
            one for one in evidence([of_run(run)], 2, bound) if one.mechanism == "WAL volume"
        )
        for bound in (None, 0.01, 0.2)
    }
    assert [one.value for one in seen.values()] == [0.1, 0.01, 0.1]
    assert [one.binds for one in seen.values()] == [True, False, True]


def test_what_was_not_seen_is_unknown_and_not_zero() -> None:
    found = seen()
    unknown = {name for name, one in found.items() if one.value is None}
    assert unknown == {
        "WAL flushes", "WAL insertion", "WAL volume", "data reads", "data writes",
        "temporary files", "locks", "CPU",
    }  # fmt: skip
    assert not any(found[name].binds for name in unknown)


def test_the_cpu_is_a_share_of_all_cpus() -> None:
    found = seen(series={"cpu user": (1.0, 1.4), "cpu system": (0.4, 0.8)})
    assert found["CPU"].value == 0.9  # (1.4 + 2.2) / 2 of 2
    assert found["CPU"].binds


def test_a_transaction_that_waits_for_wal_is_not_long() -> None:
    """50 ms each; 80 % of it waits for WAL, so 10 ms are its own."""
    slow = {"times": Histogram(((50_000, 1000),)), "run": a_run(20)}
    assert seen(**slow)["long transactions"].value == 50
    waits = {"IO:WalSync": 80, "running": 20}
    assert seen(**slow, waits=waits)["long transactions"].value == 10


@pytest.mark.parametrize("major", MAJORS)
def test_the_table_names_parameters_and_mechanisms_that_exist(major: int) -> None:
    known = parameters(major)
    names = {one["name"] for one in table()["mechanisms"]}
    some = {"io_workers": (18,), "io_max_workers": (19,)}
    for knob in table()["knobs"]:
        assert set(knob["mechanisms"]) <= names
        if major in some.get(knob["name"], MAJORS):
            parameter = known[knob["name"]]
            for text in (*knob.get("special", ()), *filter(None, [knob.get("centre")])):
                parameter.parse(text)
    assert set(table()["never"]) <= known.keys() | {"data_checksums"}
    assert not {one["name"] for one in table()["knobs"]} & table()["never"].keys()
