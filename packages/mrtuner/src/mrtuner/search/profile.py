"""What holds the load back under the advice: the evidence that chooses the settings to search."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from mrtuner.search.model import BindingEvidence
from mrtuner.units import MiB

if TYPE_CHECKING:
    from mrtuner.bench.record.document import MeasuredRun

_TABLE: Final = Path(__file__).with_name("knobs.json")
#: Waits that say nothing about the length of a statement itself.
_OF_OTHERS: Final = ("io:wal", "lwlock:wal", "lock:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism:
    """Something that may hold a load back: seen in wait events, or in a counter."""

    name: str
    meaning: str
    least: float
    waits: tuple[str, ...] = ()
    counter: str | None = None


@cache
def table() -> Mapping[str, Any]:
    """Return knobs.json: mechanisms, the settings that act on them, and those never touched."""
    found: Mapping[str, Any] = json.loads(_TABLE.read_text(encoding="utf-8"))
    return found


def mechanisms() -> list[Mechanism]:
    """Return what may hold a load back."""
    return [
        Mechanism(**{**one, "waits": tuple(one.get("waits", ()))}) for one in table()["mechanisms"]
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was counted while the load ran for a while."""

    transactions: float
    mean_ms: float | None  # of a transaction
    requested: float  # checkpoints that WAL volume started
    waits: Mapping[str, int]  # active sessions seen in each event
    deltas: Mapping[str, Mapping[str, float]]  # of pg_stat_* views
    series: Mapping[str, Sequence[float]]  # rates of this machine, each second


def of_run(sample: MeasuredRun) -> Seen:
    """Return what was counted in a run of `mrtuner.bench`."""
    return Seen(
        transactions=sample.run.transactions,
        mean_ms=sample.times.mean / 1000 if sample.times.counts else None,
        requested=sample.checkpoints_requested, waits=sample.waits, deltas=sample.deltas,
        series=sample.series,
    )  # fmt: skip


def most_images(
    runs: Sequence[MeasuredRun], settings: Mapping[str, str], size: int
) -> float | None:
    """Return the most full-page images per transaction in a whole checkpoint cycle, if known.

    A run begins right after a checkpoint, so that almost each page that it changes has an image. In
    a cycle, each page has one at most. `size` [bytes] is that of the data, and `settings` are as
    `pg_settings` shows them.
    """
    transactions = sum(one.run.transactions for one in runs)
    images = sum(one.deltas.get("pg_stat_wal", {}).get("wal_fpi", 0.0) for one in runs)
    if not transactions:
        return None
    pace = transactions / sum(one.run.elapsed for one in runs)
    cycle = pace * float(settings["checkpoint_timeout"])
    # Or it ends by WAL volume: images of all pages, then what transactions write besides.
    page = int(settings["block_size"])
    share = 1 + float(settings["checkpoint_completion_target"])
    room = float(settings["max_wal_size"]) * MiB / share - size
    if room <= 0:
        return None
    written = sum(one.wal_bytes for one in runs)
    besides = written - images * page  # images are smaller if they are compressed
    cycle = min(cycle, transactions * room / (besides if besides > 0 else max(written, 1)))
    return size / page / cycle


def evidence(
    samples: Sequence[Seen], cpus: int, images: float | None = None
) -> tuple[BindingEvidence, ...]:
    """Return what was seen of each mechanism in the runs of one side, on this many CPUs.

    No transaction counts for more full-page images than `images`, if given.
    """
    return tuple(
        BindingEvidence(
            mechanism=one.name, meaning=one.meaning,
            value=_rounded(_seen(one, samples, cpus, images)),
            least=one.least,
        )
        for one in mechanisms()
    )  # fmt: skip


def _seen(one: Mechanism, samples: Sequence[Seen], cpus: int, images: float | None) -> float | None:
    if one.waits:
        return _waiting(samples, one.waits)
    if one.counter == "checkpoints requested":
        return fmean(sample.requested for sample in samples) if samples else None
    if one.counter == "cpu":
        return _busy(samples, cpus)
    if one.counter == "latency":
        return _latency(samples)
    view, _, column = (one.counter or "").partition(".")
    found = _per_transaction(samples, view, column)
    if column == "wal_fpi" and found is not None and images is not None:
        return min(found, images)
    return found


def _waiting(samples: Sequence[Seen], events: Sequence[str]) -> float | None:
    """Return the share of the active sessions seen in these events; None if none was seen."""
    seen: Counter[str] = Counter()
    for sample in samples:
        seen.update({name.casefold(): count for name, count in sample.waits.items()})
    if not seen:
        return None
    begins = tuple(event.casefold() for event in events)
    return sum(count for name, count in seen.items() if name.startswith(begins)) / seen.total()


def _busy(samples: Sequence[Seen], cpus: int) -> float | None:
    shares = [
        fmean(map(sum, zip(sample.series["cpu user"], sample.series["cpu system"], strict=False)))
        for sample in samples
        if sample.series.get("cpu user") and sample.series.get("cpu system")
    ]
    return fmean(shares) / cpus if shares else None


def _latency(samples: Sequence[Seen]) -> float | None:
    """Return the mean time of a transaction [ms], less the share spent waiting for WAL or locks."""
    means = [sample.mean_ms for sample in samples if sample.mean_ms is not None]
    if not means:
        return None
    waiting = _waiting(samples, _OF_OTHERS) or 0.0
    return fmean(means) * (1 - waiting)


def _per_transaction(samples: Sequence[Seen], view: str, column: str) -> float | None:
    known = [sample for sample in samples if view in sample.deltas and sample.transactions]
    if not known:
        return None
    return fmean(sample.deltas[view].get(column, 0.0) / sample.transactions for sample in known)


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.3g}")
