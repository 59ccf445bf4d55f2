"""A series of loads, ``mrtuner.series/1``, as JSON."""

from __future__ import annotations

from typing import Annotated

from mrtuner.bench.record.document import AnyLine, RunDocument
from mrtuner.documents import Doc, Document, Struct, field


class LoadRecord(Struct):
    """A load that was measured."""

    title: Annotated[str, Doc("its name")]
    why: Annotated[str, Doc("where such a load occurs")]
    head: Annotated[RunDocument, Doc("the head of its record")]
    lines: Annotated[list[AnyLine], Doc("the lines of its record, in the order they were written")]


class LoadLeftOut(Struct):
    """A load that could not be measured."""

    title: Annotated[str, Doc("its name")]
    why: Annotated[str, Doc("the reason")]
    remedy: Annotated[str, Doc("what would make it possible")]


class SeriesDocument(Document, tag="mrtuner.series/1"):
    """The records of a series of loads, without verdicts: a report is computed from it.

    Written as `proof` of [`mrtuner.report/2`](#mrtunerreport2).
    """

    measured: Annotated[list[LoadRecord], Doc("what was measured")] = field(name="loads")
    left_out: Annotated[list[LoadLeftOut], Doc("what could not be measured")]
    conditions: Annotated[list[str], Doc("what holds for all loads: limits, huge pages")]
    busy: Annotated[str | None, Doc("what used the machine before the first run; null: nothing")]
