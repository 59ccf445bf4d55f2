"""A run as a Parquet table, tested where pyarrow is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench_grids import a_record, six_blocks, with_rejected
from mrtuner.bench.plan.model import GridCell
from mrtuner.bench.record.parquet import write_parquet
from mrtuner.errors import MrTunerError

parquet = pytest.importorskip("pyarrow.parquet")


def test_every_sample_is_a_row_rejected_ones_too(tmp_path: Path) -> None:
    """Six blocks of two and a rejected one; a's six runs and the rejected one at 1,000 tps."""
    record = with_rejected(a_record(six_blocks(GridCell("select", 10, 4), 1.0)), "busy")
    write_parquet(record, tmp_path / "run.parquet")
    rows = parquet.read_table(tmp_path / "run.parquet").to_pylist()
    assert len(rows) == 13
    assert [row["rejected"] for row in rows] == ["busy", *[None] * 12]
    assert [row["tps"] for row in rows if row["label"] == "a"] == [1000] * 7
    assert rows[1]["times"][0] == {"us": 1000, "count": 900}
    assert rows[1]["series"][0]["name"] == "checkpoints"
    assert (rows[1]["workload"], rows[1]["scale"], rows[1]["clients"]) == ("select", 10, 4)


def test_a_place_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(MrTunerError, match="cannot write"):
        write_parquet(a_record(six_blocks(GridCell("select", 10, 4), 1.0)), tmp_path / "no" / "x")
