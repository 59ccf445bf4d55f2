"""How fast a server replays WAL after a crash."""

from __future__ import annotations

from typing import Final

from mrtuner.units import MiB

#: At worst, where the volume is not the limit [bytes/s]: docs/measured-results.md, crash recovery.
SLOW_REPLAY: Final = 40 * MiB
