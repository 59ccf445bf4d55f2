"""What really holds an application server back: its CPUs, a quota, a lock, others, or nothing."""

from __future__ import annotations

from mrtuner.sizing.measure.reading import Measurement, measure
from mrtuner.sizing.measure.verdict import Cause, Verdict, held_back

__all__ = ["Cause", "Measurement", "Verdict", "held_back", "measure"]
