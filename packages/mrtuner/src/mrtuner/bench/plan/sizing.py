"""Default scale, sessions and length of a proof.

They follow the machine and the size of its server's data, so that the bottleneck is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mrtuner.units import Bytes, MiB, pretty_bytes

#: Of pgbench's tables and their indexes.
BYTES_PER_SCALE: Final = 15 * MiB
#: Smaller data fit into any buffers; larger data take longer to fill than to measure.
_SMALLEST_SCALE: Final = 50
_LARGEST_SCALE: Final = 1000
#: The disk must hold a template, a copy that is written to, and WAL: data get a quarter of it.
_SHARE_OF_DISK: Final = 4
_SHARE_OF_MEMORY: Final = 8
_SESSIONS_PER_CPU: Final = 4
_MOST_SESSIONS: Final = 64
#: Reads are steady soon; writes have to meet the checkpoints that their WAL starts.
_READING_S: Final = 20
_WRITING_S: Final = 60


@dataclass(frozen=True, slots=True)
class Size:
    """What was chosen, and the reason for each by its name: scale, clients, seconds."""

    scale: int
    clients: int
    seconds: int
    why: Mapping[str, str]


def size_for(
    *,
    memory: int | None,
    cpus: int | None,
    data: int | None,
    disk_free: int | None,
    reads_only: bool,
) -> Size:
    """Choose a size from memory, data and free disk [bytes], each None if unknown.

    The data are as large as the server's own, else an eighth of memory: whether they fit into
    memory, and into shared_buffers, decides what the bottleneck is.

    >>> from mrtuner.units import GiB
    >>> size_for(memory=16 * GiB, cpus=4, data=3 * GiB, disk_free=None, reads_only=False).scale
    204
    """
    if data is not None and data > _SMALLEST_SCALE * BYTES_PER_SCALE:
        wanted, why = data, f"as much data as the server has ({pretty_bytes(Bytes(data))})"
    elif memory is not None:
        wanted = memory // _SHARE_OF_MEMORY
        why = f"an eighth of memory ({pretty_bytes(Bytes(memory))})"
    else:
        wanted, why = 0, "the smallest useful size"
    scale = max(_SMALLEST_SCALE, min(_LARGEST_SCALE, wanted // BYTES_PER_SCALE))
    most = None if disk_free is None else max(1, disk_free // _SHARE_OF_DISK // BYTES_PER_SCALE)
    if most is not None and most < scale:
        scale, why = most, f"a quarter of the free disk ({pretty_bytes(Bytes(disk_free or 0))})"
    clients = min(_MOST_SESSIONS, _SESSIONS_PER_CPU * (cpus or 2))
    seconds = _READING_S if reads_only else _WRITING_S
    return Size(
        scale, clients, seconds,
        {
            "scale": f"scale {scale}: {why}",
            "clients": f"{clients} sessions: four per CPU",
            "seconds": f"{seconds} s per run: " + ("it only reads" if reads_only else "it writes"),
        },
    )  # fmt: skip
