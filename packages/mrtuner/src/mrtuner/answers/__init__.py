"""Answers about a target: a running server, a recorded history, or a described machine.

Each joins what several capabilities know. The command line, the viewer and Python ask here for the
same answers:

    from mrtuner.answers import tune, apply, undo, prove, vacuum, limits, history, failover, …
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mrtuner.answers.advice import tune
    from mrtuner.answers.autovacuum import vacuum
    from mrtuner.answers.change import apply, undo
    from mrtuner.answers.checking import check
    from mrtuner.answers.hanging import audit, failover
    from mrtuner.answers.happened import compare_periods, history, query
    from mrtuner.answers.hard_limits import limits
    from mrtuner.answers.proof.prove import prove
    from mrtuner.answers.rehearsed import rehearse
    from mrtuner.answers.searched.own_server import search
    from mrtuner.failover.settings.advice import settings as failover_settings
    from mrtuner.rotate.answer import rotate

__all__ = [
    "apply", "audit", "check", "compare_periods", "failover", "failover_settings", "history",
    "limits", "prove", "query", "rehearse", "rotate", "search", "tune", "undo", "vacuum",
]  # fmt: skip

#: Where each answer is, as MODULE:NAME.
_PLACES: Final = {
    "apply": "mrtuner.answers.change:apply",
    "audit": "mrtuner.answers.hanging:audit",
    "check": "mrtuner.answers.checking:check",
    "compare_periods": "mrtuner.answers.happened:compare_periods",
    "failover": "mrtuner.answers.hanging:failover",
    "failover_settings": "mrtuner.failover.settings.advice:settings",
    "history": "mrtuner.answers.happened:history",
    "limits": "mrtuner.answers.hard_limits:limits",
    "prove": "mrtuner.answers.proof.prove:prove",
    "query": "mrtuner.answers.happened:query",
    "rehearse": "mrtuner.answers.rehearsed:rehearse",
    "rotate": "mrtuner.rotate.answer:rotate",
    "search": "mrtuner.answers.searched.own_server:search",
    "tune": "mrtuner.answers.advice:tune",
    "undo": "mrtuner.answers.change:undo",
    "vacuum": "mrtuner.answers.autovacuum:vacuum",
}


def __getattr__(name: str) -> Any:
    """Load an answer when it is first asked for: each needs other capabilities."""
    if place := _PLACES.get(name):
        module, _, called = place.partition(":")
        return getattr(import_module(module), called)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
