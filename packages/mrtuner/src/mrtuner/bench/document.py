"""A series of loads, ``mrtuner.series/1``, as JSON."""

from __future__ import annotations

from typing import Annotated

from mrtuner.bench.series import LeftOut, Measured
from mrtuner.documents import Doc, Document, field


class SeriesDocument(Document, tag="mrtuner.series/1"):
    """The records of a series of loads, without verdicts: a report is computed from it.

    Written as `proof` of [`mrtuner.report/2`](#mrtunerreport2).
    """

    measured: Annotated[tuple[Measured, ...], Doc("what was measured")] = field(name="loads")
    left_out: Annotated[tuple[LeftOut, ...], Doc("what could not be measured")]
    conditions: Annotated[tuple[str, ...], Doc("what holds for all loads: limits, huge pages")]
    busy: Annotated[str | None, Doc("what used the machine before the first run; null: nothing")]
