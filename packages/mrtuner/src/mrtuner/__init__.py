"""MrTuner: PostgreSQL settings with their reasons, their proof, and how to undo them.

import mrtuner

advice = mrtuner.tune(memory="16GB", cpus=4, storage="ssd", workload="oltp",
                      connections=200, postgres=17)
advice["shared_buffers"].value        # '4GB'
print(advice.as_conf())
found = mrtuner.check("postgresql://monitor@db/shop")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mrtuner.answers.advice import tune
    from mrtuner.answers.server_check import check
    from mrtuner.tuning.advice import Tuning

__all__ = ["Tuning", "__version__", "check", "tune"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Load these on first use, so that `mrtuner --help` does not; `mrtuner.answers` has more."""
    if name in {"tune", "Tuning"}:
        import mrtuner.answers.advice

        return getattr(mrtuner.answers.advice, name)
    if name == "check":
        import mrtuner.answers.server_check

        return mrtuner.answers.server_check.check
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
