"""Answers about a target: a running server, a recorded history, or a described machine.

Each joins what several capabilities know. The command line, the viewer and Python ask here for the
same answers:

    from mrtuner.answers import tune, vacuum, limits, history, failover, prove
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mrtuner.answers.advice import tune
    from mrtuner.answers.autovacuum import vacuum
    from mrtuner.answers.hanging import failover
    from mrtuner.answers.happened import history
    from mrtuner.answers.hard_limits import limits
    from mrtuner.answers.proof import prove

__all__ = ["failover", "history", "limits", "prove", "tune", "vacuum"]

_MODULES: Final = {
    "failover": "hanging",
    "history": "happened",
    "limits": "hard_limits",
    "prove": "proof",
    "tune": "advice",
    "vacuum": "autovacuum",
}


def __getattr__(name: str) -> Any:
    """Load an answer when it is first asked for: each needs other capabilities."""
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
