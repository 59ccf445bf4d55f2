"""Bloat by TOAST: large values that are written again although they did not change.

An UPDATE that does not name a TOASTed column copies its pointer: no chunk is written. One that
sends the value, the same or another, writes every chunk again and leaves the old ones dead.
PostgreSQL does not compare them. So chunks that die with updates show that values are written;
only comparing the rows can show that they were the same.
"""

from __future__ import annotations

from typing import Final

from mrtuner.vacuum.model import Rates, Table, ToastAmplification

#: With fewer updates, nothing is reported.
_FEW: Final = 100
#: From this share of updates on, rewriting large values deserves a look.
_MUCH: Final = 0.5
#: TOAST chunks written per dead one, within which values keep their size.
_SAME_SIZE: Final = (0.9, 1.1)


def amplification(table: Table, rates: Rates) -> ToastAmplification | None:
    """What updates do to the TOAST table; None if it has none, or too little was seen.

    Deleted rows take their chunks with them, so the average row's chunks are subtracted for each.
    """
    toast = table.toast
    updates = rates.updates * rates.seconds
    if toast is None or updates < _FEW or not table.live:
        return None
    per_row = toast.live / table.live
    dead = max(0.0, rates.toast_deletes - rates.deletes * per_row)
    per_update = dead / rates.updates
    rewritten = min(1.0, per_update / per_row) if per_row else (1.0 if per_update else 0.0)
    return ToastAmplification(
        per_update=per_update,
        per_row=per_row,
        rewritten=rewritten,
        chunks_an_hour=dead * 3600,
        suspicion=_suspicion(rates, rewritten, per_update),
        certainty=_CERTAINTY,
    )


_CERTAINTY: Final = (
    "statistics show that large values are written again, not whether they changed: compare rows "
    "with --sample, or check the UPDATE statements for columns that did not change"
)


def _suspicion(rates: Rates, rewritten: float, per_update: float) -> str | None:
    """Why the values written may be unchanged ones; None if there is no reason to think so."""
    if rewritten < _MUCH:
        return None
    said = (
        f"{rewritten:.0%} of its updates write the large values again: {per_update:.3g} dead "
        "TOAST chunks per updated row"
    )
    low, high = _SAME_SIZE
    born = rates.toast_inserts / rates.toast_deletes
    if rates.inserts < rates.updates / 10 and low <= born <= high:
        return f"{said}, and as many chunks are inserted as die: values keep their size"
    return said
