"""How fast WAL is replayed after a crash, given what the volume can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mrtuner.inputs import Storage
from mrtuner.postgres.replay import SLOW_REPLAY
from mrtuner.tuning.situation import Situation
from mrtuner.units import PAGE, KiB, MiB, pretty_bytes

#: Bytes of WAL a second where the volume is not the limit: small records, page images. A run on
#: a fast disk replayed 118 MB/s (docs/measured-results.md, crash recovery).
UNBOUND: Final = (SLOW_REPLAY, 200 * MiB)
#: The largest write into which the kernel merges neighbouring pages.
MERGED: Final = 128 * KiB
#: Requests a second of a hard disk, unless --iops says more or less. Data sheets give the average
#: seek and the speed: 8.5 ms and half a turn at 7,200 a minute are 79, 3.4 ms and half a turn at
#: 15,000 are 185; a queue that the disk sorts gives the slower ones twice as many.
OF_A_DISK: Final = 150
#: Local solid-state storage, for which the speed of a fast disk was measured.
FAST: Final = frozenset({Storage.SSD, Storage.NVME})


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Bytes of WAL a second at worst and at best, and the evidence for both."""

    slow: float
    fast: float
    how: str
    assumed: bool = False  # whether the speeds rest on a number of requests that nobody gave


def replay(situation: Situation, *, assume: bool = True) -> Replay:
    """Return the speed of recovery: that of a fast disk, or less where the volume allows less.

    After the redo point, the first change of each page carries the whole page. WAL that consists
    of nothing else therefore makes one page to write out of every 8 kB: one operation each at
    worst, merged at best. Everything passes the volume twice, read as WAL and written as pages.
    Pages that leave shared_buffers and come back during recovery are not counted. `assume`: a hard
    disk does `OF_A_DISK` requests a second, if nobody said how many.
    """
    slow, fast = map(float, UNBOUND)
    storage, volume = situation.storage, situation.throughput
    iops, bandwidth = (volume.iops, volume.bandwidth) if volume else (None, None)
    assumed = iops is None and storage not in FAST
    if assume and iops is None and storage is Storage.HDD:
        iops = OF_A_DISK
    known = []
    if bandwidth is not None:
        slow, fast = min(slow, bandwidth / 2), min(fast, bandwidth / 2)
        known.append(f"{pretty_bytes(bandwidth)}/s")
    if iops is not None:
        slow, fast = min(slow, iops * PAGE), min(fast, iops * MERGED)
        known.append(f"{iops} IOPS")
    elif assumed and known:
        known.append("enough IOPS")
    how = f"on a volume of {' and '.join(known)}" if known else "on a fast disk"
    if assumed:
        how += " (assumed without --iops)"
    return Replay(slow=slow, fast=fast, how=how, assumed=assumed)
