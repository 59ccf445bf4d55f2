"""From a load to pods, workers, connections, CPU and memory.

    from mrtuner_pods.planning import plan

    found = plan(rate="400/s", service_time="27ms", wait_p95="20ms")
    found.layout.pods, found.waiting.p95

`inputs` declares what can be asked, `search` finds the pods, `plan` puts the answer together.
"""

from __future__ import annotations

from mrtuner_pods.planning.model import Plan
from mrtuner_pods.planning.plan import plan

__all__ = ["Plan", "plan"]
