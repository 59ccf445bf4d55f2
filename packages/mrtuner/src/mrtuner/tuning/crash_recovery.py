"""How fast WAL is replayed after a crash, given what the volume can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mrtuner.postgres.replay import SLOW_REPLAY
from mrtuner.tuning.situation import Throughput
from mrtuner.units import KiB, MiB, pretty_bytes

#: Bytes of WAL a second where the volume is not the limit: small records, page images. A run on
#: a fast disk replayed 118 MB/s (docs/measured-results.md, crash recovery).
UNBOUND: Final = (SLOW_REPLAY, 200 * MiB)
PAGE: Final = 8 * KiB
#: The largest write into which the kernel merges neighbouring pages.
MERGED: Final = 128 * KiB


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Bytes of WAL a second at worst and at best, and the evidence for both."""

    slow: float
    fast: float
    how: str


def replay(throughput: Throughput | None) -> Replay:
    """Return the speed of recovery: that of a fast disk, or less where the volume allows less.

    After the redo point, the first change of each page carries the whole page. WAL that consists
    of nothing else therefore makes one page to write out of every 8 kB: one operation each at
    worst, merged at best. Everything passes the volume twice, read as WAL and written as pages.
    Pages that leave shared_buffers and come back during recovery are not counted.
    """
    slow, fast = map(float, UNBOUND)
    if throughput is None:
        return Replay(slow=slow, fast=fast, how="on a fast disk")
    known = []
    if throughput.iops is not None:
        slow = min(slow, throughput.iops * PAGE)
        fast = min(fast, throughput.iops * MERGED)
        known.append(f"{throughput.iops} IOPS")
    if throughput.bandwidth is not None:
        slow, fast = min(slow, throughput.bandwidth / 2), min(fast, throughput.bandwidth / 2)
        known.append(f"{pretty_bytes(throughput.bandwidth)}/s")
    return Replay(slow=slow, fast=fast, how=f"on a volume of {' and '.join(known)}")
