"""Optuna's TPE, asked for settings and told what they were worth. Only this module knows Optuna."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mrtuner.extras import without
from mrtuner.search.model import Settings
from mrtuner.search.space import Dimension

#: Trials before its model is used; the advice is one of them.
_FIRST: Final = 5


@dataclass(frozen=True, slots=True)
class Proposal:
    """Settings to try; `place` and `handle` go back to the optimiser."""

    place: dict[str, float]
    settings: dict[str, str]
    handle: Any


class Optimiser:
    """Proposes settings inside the box; the advice is its first trial, with the score 0."""

    def __init__(
        self, box: Sequence[Dimension], seed: int, advice: Settings, *, at_random: bool = False
    ) -> None:
        """`at_random` proposes without a model: what a search has to beat.

        Raises MissingPart without optuna.
        """
        try:
            import optuna
        except ImportError as missing:
            raise without("optuna") from missing
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.optuna = optuna
        self.box = {one.name: one for one in box}
        spread = optuna.distributions
        self.spread = {one.name: _distribution(one, spread) for one in box}
        samplers = optuna.samplers
        sampler = (
            samplers.RandomSampler(seed=seed)
            if at_random
            else samplers.TPESampler(seed=seed, multivariate=True, n_startup_trials=_FIRST)
        )
        self.study = optuna.create_study(direction="maximize", sampler=sampler)
        first = {one.name: one.place(advice.get(one.name, one.setting.advice)) for one in box}
        known = {name: at for name, at in first.items() if at is not None}
        if len(known) == len(first):
            self.add(known, 0.0)

    def ask(self, held: Settings | None = None) -> Proposal:
        """Propose a place and the settings there; those `held` have these values if they can."""
        fixed = {
            name: self._native(name, at)
            for name, text in (held or {}).items()
            if (at := self.box[name].place(text)) is not None
        }
        if fixed:
            self.study.enqueue_trial(fixed)
        trial = self.study.ask(fixed_distributions=self.spread)
        place = {name: float(at) for name, at in trial.params.items()}
        return Proposal(place, {name: self.box[name].text(at) for name, at in place.items()}, trial)

    def tell(self, proposal: Proposal, score: float | None) -> None:
        """Say what a proposal was worth; None if it may not be tried."""
        if score is None:
            self.study.tell(proposal.handle, state=self.optuna.trial.TrialState.FAIL)
        else:
            self.study.tell(proposal.handle, score)

    def add(self, place: Mapping[str, float], score: float) -> None:
        """Add a trial that ran before the search was interrupted."""
        self.study.add_trial(
            self.optuna.trial.create_trial(
                params={name: self._native(name, at) for name, at in place.items()},
                distributions=self.spread,
                value=score,
            )
        )

    def _native(self, name: str, at: float) -> float:
        """Return a place as Optuna has it: a whole number for one of several values."""
        return int(at) if self.box[name].setting.values else at


def _distribution(one: Dimension, spread: Any) -> Any:
    values = one.setting.values
    if not values:
        return spread.FloatDistribution(0.0, 1.0)
    if one.ordered:
        return spread.IntDistribution(0, len(values) - 1)
    return spread.CategoricalDistribution(range(len(values)))
