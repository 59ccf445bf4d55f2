"""The rows of docs/measured-results.md that rules rely on, each with the range it was measured in.

A value counts as measured only on a machine that is known to lie within all of that range;
elsewhere it is convention. A test compares this table with the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Any, Final

from mrtuner.inputs import Storage, Workload
from mrtuner.units import GiB, MiB

if TYPE_CHECKING:
    from mrtuner.tuning.advice import Advice
    from mrtuner.tuning.situation import Situation


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One row: its anchor on the page, and the machines that it speaks of. Ends are included."""

    row: str
    memory: tuple[int, int]  # bytes
    sessions: tuple[int, int]  # that run statements; where only connections are known, of these
    storage: frozenset[Storage]
    workload: Workload | None = None  # None: any
    data: tuple[float, float] | None = None  # as multiples of memory; None: any
    iops: tuple[int, int] | None = None  # of the data volume; None: storage was not the limit
    cpus: tuple[int, int] = (2, 2)
    major: int = 18
    values: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # what the servers had
    says: str = ""  # the result, where it is told and not only pointed to

    def covers(self, situation: Situation) -> bool:
        """Whether the machine is known to lie within the range; an unknown fact does not."""
        if situation.within_ceiling() is not situation:  # rules see another machine
            return False
        memory, cpus, data = situation.memory, situation.cpus, situation.data
        if memory is None or cpus is None or situation.major != self.major:
            return False
        if situation.storage not in self.storage:
            return False
        if self.workload not in {None, situation.workload}:
            return False
        if self.data is not None and (data is None or not _in(self.data, data.size / memory.size)):
            return False
        sized = _in(self.memory, memory.size) and _in(self.cpus, cpus.count)
        return sized and _in(self.sessions, _sessions(situation)) and self._has_volume(situation)

    def _has_volume(self, situation: Situation) -> bool:
        """Whether the volume is as small as the one measured, and holds WAL too."""
        if self.iops is None:
            return True
        volume = situation.throughput
        if volume is None or situation.wal_disk is not None:
            return False
        return _in(self.iops, volume.iops) and _in((BANDWIDTH, inf), volume.bandwidth)

    def shown_by(self, advice: Mapping[str, Advice]) -> bool:
        """Whether the advice is what the measured servers had."""
        found = ((advice[name], ends) for name, ends in self.values.items())
        return all(_in(tuple(map(one.parameter.parse, ends)), one.target) for one, ends in found)


def _in(ends: tuple[Any, ...], found: Any) -> bool:
    return found is not None and ends[0] <= found <= ends[1]


def _sessions(situation: Situation) -> int | None:
    known = situation.connections
    return known.active or known.wanted or known.seen_active


#: Bytes a second of the volume measured. Runs without this limit had the same result, so more is
#: covered too.
BANDWIDTH: Final = 125 * MiB
#: A solid-state disk with a limit of requests and bytes, which is what EBS sells.
_CLOUD: Final = frozenset({Storage.SSD, Storage.EBS})
_LOCAL: Final = frozenset({Storage.SSD, Storage.NVME})
#: pgbench's data were three times memory; a sixth less or more is taken as that.
_THREE_TIMES: Final = (2.5, 3.5)
#: Sixteen sessions worked, on servers made for 100 connections.
_SIXTEEN_OF_100: Final = (16, 100)

#: shared_buffers of two fifths of memory, TPC-B.
TWO_FIFTHS: Final = Measurement(
    row="row-two-fifths", memory=(GiB, 2 * GiB), sessions=_SIXTEEN_OF_100, storage=_CLOUD,
    workload=Workload.OLTP, data=_THREE_TIMES, iops=(3000, 3000),
)  # fmt: skip
#: shared_buffers of 1200 MB on 2 GB, the same load: up to 20 connections get that within a tenth.
FIVE_EIGHTHS: Final = replace(
    TWO_FIFTHS, row="row-five-eighths", memory=(2 * GiB, 2 * GiB), sessions=(16, 20)
)
#: commit_delay of half a millisecond: the same load, and streams of inserts.
SHARED_FLUSHES: Final = replace(TWO_FIFTHS, row="row-commit-delay", sessions=(8, 100))
#: backend_flush_after of 256 kB on the same volume.
FLUSH_AFTER: Final = replace(TWO_FIFTHS, row="row-flush-after")
#: All of the advice against all of PgTune's values, for the same load.
AGAINST_PGTUNE: Final = replace(
    TWO_FIFTHS,
    row="row-against-pgtune",
    memory=(2 * GiB, 2 * GiB),
    values={
        "shared_buffers": ("808MB", "1200MB"),
        "commit_delay": ("500", "500"),
        "backend_flush_after": ("256kB", "256kB"),
    },
    says=(
        "measured on such a machine, TPC-B, 16 sessions, nine pairs of runs of a minute: 0.90 to "
        "1.60 times PgTune's throughput, 1.35 in the middle, 0.73 to 1.61 times its p99, and a "
        "longest wait of 0.1 to 0.7 s instead of 4 to 20 s"
    ),
)
#: A work_mem with which a sort takes one merge pass.
ONE_MERGE_PASS: Final = Measurement(
    row="row-one-merge-pass", memory=(GiB, 24 * GiB), sessions=(1, 8),
    storage=_CLOUD | _LOCAL,
)  # fmt: skip
#: A work_mem of 64 MB where hash aggregates would spill to a small volume.
SPILLED_GROUPS: Final = Measurement(
    row="row-spilled-groups", memory=(GiB, GiB), sessions=(1, 1), storage=_CLOUD,
    workload=Workload.OLAP, data=(1.0, 1.4), iops=(3000, 3000),
)  # fmt: skip
#: wal_compression = pglz, where the CPU binds: all data in memory.
PGLZ: Final = Measurement(
    row="row-pglz", memory=(16 * GiB, 24 * GiB), sessions=(8, 8), storage=_LOCAL,
    workload=Workload.OLTP, data=(0.0, 0.1),
)  # fmt: skip

MEASUREMENTS: Final = (
    TWO_FIFTHS, FIVE_EIGHTHS, SHARED_FLUSHES, FLUSH_AFTER, AGAINST_PGTUNE, ONE_MERGE_PASS,
    SPILLED_GROUPS, PGLZ,
)  # fmt: skip
