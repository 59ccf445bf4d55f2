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
    from mrtuner.answers.apply_and_undo import apply, undo
    from mrtuner.answers.autovacuum import vacuum
    from mrtuner.answers.failover_prediction import audit, failover
    from mrtuner.answers.failover_rehearsal import rehearse
    from mrtuner.answers.hard_limits import limits
    from mrtuner.answers.proof.prove import prove
    from mrtuner.answers.server_check import check
    from mrtuner.answers.settings_search.own_server import search
    from mrtuner.answers.what_happened import compare_periods, history, history_views, query
    from mrtuner.failover.settings.advice import settings as failover_settings
    from mrtuner.rotate.answer import rotate

__all__ = [
    "apply", "audit", "check", "compare_periods", "failover", "failover_settings", "history",
    "history_views", "limits", "prove", "query", "rehearse", "rotate", "search", "tune", "undo",
    "vacuum",
]  # fmt: skip

#: Where each answer is, as MODULE:NAME.
_PLACES: Final = {
    "apply": "mrtuner.answers.apply_and_undo:apply",
    "audit": "mrtuner.answers.failover_prediction:audit",
    "check": "mrtuner.answers.server_check:check",
    "compare_periods": "mrtuner.answers.what_happened:compare_periods",
    "failover": "mrtuner.answers.failover_prediction:failover",
    "failover_settings": "mrtuner.failover.settings.advice:settings",
    "history": "mrtuner.answers.what_happened:history",
    "history_views": "mrtuner.answers.what_happened:history_views",
    "limits": "mrtuner.answers.hard_limits:limits",
    "prove": "mrtuner.answers.proof.prove:prove",
    "query": "mrtuner.answers.what_happened:query",
    "rehearse": "mrtuner.answers.failover_rehearsal:rehearse",
    "rotate": "mrtuner.rotate.answer:rotate",
    "search": "mrtuner.answers.settings_search.own_server:search",
    "tune": "mrtuner.answers.advice:tune",
    "undo": "mrtuner.answers.apply_and_undo:undo",
    "vacuum": "mrtuner.answers.autovacuum:vacuum",
}


def __getattr__(name: str) -> Any:
    """Load an answer when it is first asked for: each needs other capabilities."""
    if place := _PLACES.get(name):
        module, _, called = place.partition(":")
        return getattr(import_module(module), called)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
