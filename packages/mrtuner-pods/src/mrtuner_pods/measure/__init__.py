"""What really holds an application server back: its CPUs, a quota, a lock, others, or nothing."""

from __future__ import annotations

from mrtuner_pods.measure.bottleneck import Bottleneck, Cause, held_back
from mrtuner_pods.measure.reading import Measurement, measure

__all__ = ["Bottleneck", "Cause", "Measurement", "held_back", "measure"]
