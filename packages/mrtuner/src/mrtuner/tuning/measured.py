"""The rows of docs/measured-results.md that rules rely on, each with the range it was measured in.

A value counts as measured only on a machine within that range; elsewhere it is convention. A test
compares this table with the page.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mrtuner.inputs import Workload
from mrtuner.units import GiB

if TYPE_CHECKING:
    from mrtuner.tuning.situation import Situation


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One row: its anchor on the page, and the machines that it speaks of."""

    row: str
    memory: tuple[int, int]  # bytes, both ends included
    iops: tuple[int, int] | None = None  # of the data volume; None: storage was not the limit
    workload: Workload | None = None  # None: any
    larger_data: bool = False  # only where the data are known to be larger than memory
    says: str = ""  # the result, where it is told and not only pointed to

    def covers(self, situation: Situation) -> bool:
        """Whether the machine is known to lie within the range; an unknown fact does not."""
        memory, volume = situation.memory, situation.throughput
        if memory is None or not self.memory[0] <= memory.size <= self.memory[1]:
            return False
        if self.workload not in {None, situation.workload}:
            return False
        data = situation.data
        if self.larger_data and (data is None or data.size <= memory.size):
            return False
        if self.iops is None:
            return True
        known = volume.iops if volume else None
        return known is not None and self.iops[0] <= known <= self.iops[1]


#: shared_buffers of two fifths of memory, data three times memory, TPC-B.
TWO_FIFTHS: Final = Measurement(row="row-two-fifths", memory=(GiB, 2 * GiB), iops=(3000, 3000))
#: shared_buffers of five eighths of memory, the same load.
FIVE_EIGHTHS: Final = Measurement(
    row="row-five-eighths", memory=(2 * GiB, 2 * GiB), iops=(3000, 3000)
)
#: commit_delay of half a millisecond: the same load, and streams of inserts.
SHARED_FLUSHES: Final = Measurement(
    row="row-commit-delay", memory=(GiB, 2 * GiB), iops=(3000, 3000), workload=Workload.OLTP
)
#: backend_flush_after of 256 kB on the same volume.
FLUSH_AFTER: Final = Measurement(row="row-flush-after", memory=(GiB, 2 * GiB), iops=(3000, 3000))
#: All of the advice against all of PgTune's values, for the same load.
AGAINST_PGTUNE: Final = Measurement(
    row="row-against-pgtune",
    memory=(2 * GiB, 2 * GiB),
    iops=(3000, 3000),
    workload=Workload.OLTP,
    larger_data=True,
    says=(
        "measured on such a machine, TPC-B, 16 sessions, nine pairs of runs of a minute: 0.90 to "
        "1.60 times PgTune's throughput, 1.35 in the middle, 0.73 to 1.61 times its p99, and a "
        "longest wait of 0.1 to 0.7 s instead of 4 to 20 s"
    ),
)
#: A work_mem with which a sort takes one merge pass.
ONE_MERGE_PASS: Final = Measurement(row="row-one-merge-pass", memory=(GiB, 24 * GiB))
#: A work_mem of 64 MB where hash aggregates would spill to a small volume.
SPILLED_GROUPS: Final = Measurement(
    row="row-spilled-groups", memory=(GiB, GiB), iops=(3000, 3000), workload=Workload.OLAP,
    larger_data=True,
)  # fmt: skip
#: wal_compression = pglz, where the CPU binds.
PGLZ: Final = Measurement(row="row-pglz", memory=(16 * GiB, 24 * GiB))

MEASUREMENTS: Final = (
    TWO_FIFTHS, FIVE_EIGHTHS, SHARED_FLUSHES, FLUSH_AFTER, AGAINST_PGTUNE, ONE_MERGE_PASS,
    SPILLED_GROUPS, PGLZ,
)  # fmt: skip
