"""The samples of a run as one Parquet table, a row for each, for notebooks and query engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from mrtuner.bench.record.document import MeasuredRun
from mrtuner.bench.record.model import Record
from mrtuner.documents import as_builtins
from mrtuner.errors import MrTunerError
from mrtuner.extras import without


def write_parquet(record: Record, file: Path) -> None:
    """Write every sample, including rejected ones, with histograms and series as lists.

    Raises MissingPart without pyarrow, MrTunerError when the file cannot be written.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise without("pyarrow") from None
    table = pyarrow.Table.from_pylist([_row(sample) for sample in record.samples])
    try:
        parquet.write_table(table, file)
    except OSError as error:
        raise MrTunerError(
            f"cannot write {file}: {error.strerror}", "Name another file."
        ) from error


#: Lists of their own below, or too different from run to run for columns.
_NOT_FLAT: Final = (
    "kind", "cell", "run", "rate", "times", "slowest", "series", "waits", "deltas", "backends",
    "commands",
)  # fmt: skip


def _row(sample: MeasuredRun) -> dict[str, Any]:
    """A flat row, except for lists: names that not every run has do not become columns."""
    known = as_builtins(sample)
    run = known["run"]
    latency = run.pop("latency") or {}
    return {
        **known["cell"],
        **{name: value for name, value in known.items() if name not in _NOT_FLAT},
        **run,
        **{f"latency_{name}": value for name, value in latency.items()},
        "tps_with_checkpoint": sample.tps_with_checkpoint,
        "asked_tps": sample.rate,
        "slowest": list(sample.slowest),
        "times": [{"us": value, "count": count} for value, count in sample.times.counts],
        "series": [{"name": name, "values": list(seen)} for name, seen in sample.series.items()],
        "waits": [{"event": name, "seen": count} for name, count in sample.waits.items()],
    }
