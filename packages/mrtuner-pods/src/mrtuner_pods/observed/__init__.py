"""What monitoring saw of a load: the inputs of a plan, each with where it was read.

    from mrtuner_pods.observed import of_texts

    seen = of_texts([text], "metrics.txt")
    found = plan(rate="400/s", observed=seen)

`prometheus` reads what applications expose, `prometheus_server` asks for the busiest minutes,
`request_start` reads a log of the header X-Request-Start, `activity` watches pg_stat_activity and
`console` a running PgBouncer. `used` decides which of these figures a plan takes.
"""

from __future__ import annotations

from mrtuner_pods.observed.model import Observed, PodsMeasuredWaiting, together
from mrtuner_pods.observed.prometheus import of_texts
from mrtuner_pods.observed.request_start import waited

__all__ = ["Observed", "PodsMeasuredWaiting", "of_texts", "together", "waited"]
