"""The samples of a run as one Parquet table, a row a run, for notebooks and query engines."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from mrtuner.bench.grid.record import GridRecord, Taken
from mrtuner.errors import MrTunerError
from mrtuner.extras import without


def write_parquet(record: GridRecord, file: Path) -> None:
    """Every sample, rejected ones too; histograms and series as lists.

    Raises MissingPart without pyarrow, MrTunerError when the file cannot be written.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise without("pyarrow") from None
    table = pyarrow.Table.from_pylist([_row(taken) for taken in record.taken])
    try:
        parquet.write_table(table, file)
    except OSError as error:
        raise MrTunerError(
            f"cannot write {file}: {error.strerror}", "Name another file."
        ) from error


def _row(taken: Taken) -> dict[str, Any]:
    """Flat but for lists; names that one run has and another lacks make no columns."""
    sample = asdict(taken.sample)
    run = sample.pop("run")
    latency = run.pop("latency") or {}
    return {
        **asdict(taken.cell),
        **sample,
        **run,
        **{f"latency_{name}": value for name, value in latency.items()},
        "charged_tps": taken.sample.charged_tps,
        "skipped": taken.skipped,
        "asked_tps": taken.rate,
        "warmup": taken.warmup,
        "settled": taken.settled,
        "canary": taken.canary,
        "collector_cpu": taken.collector_cpu,
        "slowest": list(taken.slowest),
        "times": [{"us": value, "count": count} for value, count in taken.times.counts],
        "series": [{"name": name, "values": list(seen)} for name, seen in taken.series.items()],
        "waits": [{"event": name, "seen": count} for name, count in taken.waits.items()],
    }
