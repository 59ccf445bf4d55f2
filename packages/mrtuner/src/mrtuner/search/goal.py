"""The goal of a search: throughput, or the p99 latency at a fixed rate of transactions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mrtuner.errors import UsageError

if TYPE_CHECKING:
    from mrtuner.bench.record.document import MeasuredRun
    from mrtuner.bench.verdict.pairs import Measure

NO_P99: Final = "too few transactions ended in a run for a p99"
NO_TAIL: Final = "too few transactions ended for a p99: the slowest may have become slower"


def rate_of(goal: str) -> float | None:
    """Return the rate of ``p99@RATE`` [1/s]; None for ``throughput``. UsageError for others."""
    if goal == "throughput":
        return None
    found = re.fullmatch(r"p99@(\d+(?:\.\d+)?)", goal)
    if found is None or float(found[1]) <= 0:
        raise UsageError(f"unknown goal {goal!r}", "Give throughput, or p99@200 for example.")
    return float(found[1])


def measure_of(rate: str, *, reads_only: bool) -> Measure:
    """Return what is compared, more being better; `rate` is that of a cell, "" at full speed.

    A load that writes is charged with the checkpoint that it leaves behind.
    """
    from mrtuner.bench.verdict.pairs import throughput, throughput_with_checkpoint

    if rate:
        return _inverse_p99
    return throughput if reads_only else throughput_with_checkpoint


def _inverse_p99(sample: MeasuredRun) -> float | None:
    """1 / p99 latency [1/s]; None where too few transactions were logged."""
    from mrtuner.bench.verdict.pairs import latency

    slow = latency(0.99)(sample)
    return 1e6 / slow if slow else None
