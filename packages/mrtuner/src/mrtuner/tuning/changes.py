"""The advised changes as settings to write, and whether they fit the server's memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from mrtuner.change.settings.apply import Wanted
from mrtuner.tuning.advice import Tuning
from mrtuner.tuning.budget import Budget
from mrtuner.tuning.feasibility import in_force


def wanted(tuning: Tuning) -> list[Wanted]:
    return [
        Wanted(name=item.name, value=item.value, restart=item.parameter.restart)
        for item in tuning.changes
    ]


def fits(
    tuning: Tuning, start: Mapping[str, str] = MappingProxyType({})
) -> Callable[[Mapping[str, str]], bool]:
    """Return a check: may these values be in force together with the server's other settings?

    They may if the worst case stays below the ceiling, or needs no more memory than now, with
    `start` in force.
    """
    situation = tuning.situation

    def worst(values: Mapping[str, str]) -> Budget | None:
        return in_force(replace(situation, running={**situation.running, **values}))

    def check(values: Mapping[str, str]) -> bool:
        now, then = worst(start), worst(values)
        return then is None or now is None or then.fits or then.total <= now.total

    return check
