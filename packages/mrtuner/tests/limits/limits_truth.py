"""Cases whose truth is known, made by two simulators, to judge detection.

`generate` grew up with the detector and shares its view of the world: a detector that is right
there may be right only there. `lab` was written without knowledge of the detector and of
`generate`, with other physics, so that an error of one is not an error of both. They are kept apart
on purpose: they share only these types and the limits that AWS publishes.
"""

from __future__ import annotations

from dataclasses import dataclass

from mrtuner.catalog.classes import InstanceClass
from mrtuner.catalog.volumes import Volume
from mrtuner.limits.examples.simulate import Limiter
from mrtuner.limits.metrics.series import MetricSeries


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One instance over some days, and the truth about it."""

    seed: int
    kind: str  # one of the simulator's KINDS
    instance: InstanceClass
    volume: Volume
    series: MetricSeries
    truths: tuple[Limiter, ...]  # should be found
    hints: tuple[Limiter, ...]  # too short to be required; no mistake if reported
