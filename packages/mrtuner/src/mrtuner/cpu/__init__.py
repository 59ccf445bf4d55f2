"""Whether equal workers take equal time on these vCPUs: the consistency test.

    here, server ─ planned ─ measure ─▶ Record ─ diagnose ─▶ Diagnosis ─ advice
      topology    which CPUs, which cores        levels     one number of workers: V, chance, …
      trials      shuffled, on a quiet machine   diagnose   knees, and what grew there
      crew, burn  processes     sql  sessions    advice     what to do, by platform
      pairs       two CPUs at a time: siblings, also hidden ones
      gauges      other work, steal, throttling

Every worker keeps burning CPU until the last one is done: one that stopped would free its core for
the slow ones and hide the effect to be measured.
"""

from __future__ import annotations

from mrtuner.cpu.diagnose import CpuDiagnosis, diagnose
from mrtuner.cpu.model import CpuPlan, Mode, Record
from mrtuner.cpu.session import Setup, here, measure, planned, server
from mrtuner.cpu.trials import seconds_expected

__all__ = [
    "CpuDiagnosis",
    "CpuPlan",
    "Mode",
    "Record",
    "Setup",
    "diagnose",
    "here",
    "measure",
    "planned",
    "seconds_expected",
    "server",
]  # fmt: skip
