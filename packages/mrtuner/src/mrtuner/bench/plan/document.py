"""A plan of a benchmark as JSON: ``mrtuner.bench.plan/1``, and how long it would take."""

from __future__ import annotations

from typing import Annotated

from mrtuner.bench.plan.model import Plan
from mrtuner.documents import Doc, Document, field


class PlanDocument(Document, tag="mrtuner.bench.plan/1"):
    """Written by `mrtuner bench init --json`."""

    plan: Annotated[Plan, Doc("the plan, with the defaults filled in")]


class ForecastDocument(Document, tag="mrtuner.bench.forecast/1"):
    """Written by `mrtuner bench run --forecast --json`."""

    cells: Annotated[int, Doc("number of cells")]
    runs: Annotated[int, Doc("number of runs, those of calibration included")]
    seconds: Annotated[int, Doc("how long all of it takes, a guess")]
    size: Annotated[int, Doc("bytes of disk for each server")] = field(name="bytes")
