"""Find which hard limit was reached: instance, volume, network or CPU ceilings vs the metrics.

from mrtuner.limits import limits

found = limits("metrics.csv", class_name="db.r5.2xlarge", storage="gp3:500GB")
print(found.verdict)
"""

from mrtuner.limits.assess import Limits, limits
from mrtuner.limits.ceilings import Ceiling, CeilingKind, Resource, ceilings
from mrtuner.limits.metrics.series import MetricSeries
from mrtuner.limits.reached import Findings, Pegged, reached_ceilings

__all__ = [
    "Ceiling",
    "CeilingKind",
    "Findings",
    "Limits",
    "MetricSeries",
    "Pegged",
    "Resource",
    "ceilings",
    "limits",
    "reached_ceilings",
]
