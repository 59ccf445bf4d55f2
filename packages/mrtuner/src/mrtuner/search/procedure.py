"""The search itself: races, a confirmation in fresh pairs, and what each setting is worth.

It starts from the advice and ends with it unless something better is confirmed. Everything is kept
after each step, so that an interrupted search goes on where it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import isfinite, log
from typing import Final, Protocol

from mrtuner.errors import ConnectError, MrTunerError, NotPutBack, Refused, interrupted
from mrtuner.search import model, race
from mrtuner.search.conclusion import conclude, winner
from mrtuner.search.model import Costs, Measured, Origin, Search, Settings, Trial, Worth
from mrtuner.search.optimiser import Optimiser, Proposal
from mrtuner.search.race import Raced
from mrtuner.search.schedule import (
    BASELINE_PAIRS,
    LONG_PAIRS,
    LONG_RUN,
    PROFILE_PAIRS,
    TimedRace,
    fresh_pairs,
    pair_seconds,
    room,
)
from mrtuner.search.space import Server, choose, dimensions
from mrtuner.stats.comparison import FEWEST_PAIRS, Verdict, compare
from mrtuner.wording import plural

#: A trial that does not run counts like one with half the throughput.
_FAILED: Final = log(0.5)
#: Proposals that may not be tried, or were tried before, until the box counts as exhausted.
_PATIENCE: Final = 50
#: So many trials that do not run one after the other are no accident.
_FAILURES: Final = 3
#: While nothing has won, trials take this share of the time for the parts of a winner as well.
_WITHOUT_WINNER: Final = 0.8
_AGAIN: Final = "the confirmation was interrupted: its pairs are not counted, and it began again"
#: Every so many trials, settings that need a restart may change; in the others only the rest.
_RESTARTS: Final = 3

Enough = Callable[[Raced], bool]


#: The title of a race in long runs.
LONG_RUNS: Final = "long runs"


class Measuring(Protocol):
    """Runs the load under two sides in turn."""

    @property
    def postpones(self) -> bool:
        """Whether a side may leave work for later, which short runs do not show."""

    def race(
        self, first: Settings, second: Settings, pairs: int, enough: Enough, title: str
    ) -> Raced:
        """Measure pairs until there are so many, or enough; MrTunerError if a side does not run."""

    def restarts(self, first: Settings, second: Settings) -> bool:
        """Whether each run of a race between these begins with a restart."""


@dataclass(kw_only=True)
class Procedure:
    """A search that is carried out, or carried on."""

    search: Search
    measuring: Measuring
    server: Server
    fits: Callable[[Settings], bool]  # whether settings stay within the memory budget
    costs: Callable[[Settings], Costs]
    keep: Callable[[Search], None]  # writes the record
    tell: Callable[[str], None]
    at_random: bool = False  # for comparison only

    def run(self) -> Search:
        """Carry out what is not done yet, and return the search.

        Raises MrTunerError if several trials in a row do not run, or the advice does not.
        """
        found = self.search
        if found.result is not None:
            return found
        if found.candidate and found.confirmation is None and _AGAIN not in found.unknown:
            found.unknown.append(_AGAIN)
        if found.candidate is None:
            self._profile()
            self._baselines()
            self._earlier()
            self._trials()
            self._choose_candidate()
        if found.candidate and found.confirmation is None:
            self._confirm(found.candidate)
        if found.confirmation is not None and found.confirmation.verdict is Verdict.BETTER:
            self._if_it_runs(self._take_back, "what the settings are worth one by one")
            self._if_it_runs(self._reduce, "what is left without those worth little")
            self._in_long_runs()
        found.result = conclude(found, self.server, self.costs)
        self.keep(found)
        return found

    # Trials

    def _profile(self) -> None:
        """Run the advice against itself: its noise, and what holds it back; choose what to search.

        No side restarts meanwhile: a cold cache would look like a load that reads.
        """
        search = self.search
        if search.calibration is not None:
            return
        raced = self.measuring.race(
            search.advice, search.advice, PROFILE_PAIRS, _never, search.start
        )
        search.calibration = _measured(raced)
        if search.live and search.calibration is None:
            raise MrTunerError(
                f"no windows of the untouched server are alike: {'; '.join(raced.refused)}",
                "A longer --budget gives longer windows; search while the load is steady.",
            )
        search.evidence = list(raced.evidence)
        search.searched, search.left_out = choose(
            search.evidence, self.server, search.advice, search.keep
        )
        self.keep(search)
        for text in (*_chosen(search), self._forecast()):
            self.tell(text)

    def _baselines(self) -> None:
        """Race what else one might use, in half of the time for trials at most."""
        search = self.search
        tried = {one.origin for one in search.trials}
        origins: tuple[Origin, ...] = ("advice", "pgtune", "default")
        for origin in origins:
            side = search.baselines.get(origin)
            if side is None or origin in tried:
                continue
            takes = BASELINE_PAIRS * self._pair(side)
            if not self.fits(side):
                self.tell(f"not tried: {origin}, which is beyond the memory budget")
            elif self._spent() + takes > search.schedule.budget * search.schedule.search / 2:
                self.tell(f"not tried: {origin}, for which the budget has no room")
            else:
                self._try(origin, dict(side), {})

    def _pair(self, side: Settings) -> float:
        """Return what a pair of the advice and this side takes [s]."""
        search = self.search
        done = [
            TimedRace(
                len(one.pairs) + len(one.unknown), one.seconds,
                self.measuring.restarts(search.side(one.against), one.settings),
            )
            for one in search.trials if one.pairs
        ]  # fmt: skip
        if (first := search.calibration) is not None:
            done.append(TimedRace(first.pairs + len(first.unknown), first.seconds, False))
        restarts = self.measuring.restarts(search.advice, side)
        return pair_seconds(search.schedule, done, restarts=restarts)

    def _forecast(self) -> str:
        pair = self._pair(self.search.advice)
        trials, fresh = room(self.search.schedule, pair)
        return (
            f"a pair takes {pair:.0f} s: time for about {plural(trials, 'trial')}, and {fresh} "
            "fresh pairs"
        )

    def _earlier(self) -> None:
        """Race what earlier searches found, before anything is proposed."""
        box = dimensions(self.search.searched, self.server)
        for one in self.search.earlier:
            side = self._side(one.settings, self.search.advice)
            if side in self._tried():
                continue
            kept = [*self.search.keep, *self.server.fixed, *self.server.refuses(one.settings)]
            if set(one.settings).intersection(kept) or not self.fits(side):
                self.tell(f"not tried: what the search of {one.started} found is not possible now")
                continue
            places = {
                each.name: each.place(side.get(each.name, each.setting.advice)) for each in box
            }
            known = {name: at for name, at in places.items() if at is not None}
            self._try("earlier", side, known if len(known) == len(box) else {})

    def _trials(self) -> None:
        """Race what the optimiser proposes, until the share of the budget is spent.

        While nothing has won, that includes most of what the parts of a winner would take.
        """
        search, planned = self.search, self.search.schedule
        if not search.searched:
            return
        optimiser = self._optimiser()
        more = planned.search + (planned.ablation + planned.reduced) * _WITHOUT_WINNER
        while self._spent() < planned.budget * (planned.search if search.best else more):
            proposal = self._proposal(optimiser)
            if proposal is None:
                self.tell("nothing new was proposed: what is in the box was tried, or does not fit")
                return
            side = self._side(proposal.settings, search.side(self._base))
            done = self._try("proposed", side, proposal.place)
            optimiser.tell(proposal, self._known(done.number))

    def _optimiser(self) -> Optimiser:
        search = self.search
        done = [one for one in search.trials if one.place]
        box = dimensions(search.searched, self.server)
        seed = search.seed + len(done)
        made = Optimiser(box, seed, search.advice, at_random=self.at_random)
        for one in done:
            made.add(one.place, self._known(one.number))
        return made

    def _proposal(self, optimiser: Optimiser) -> Proposal | None:
        """Return the next settings that fit the memory budget and were not tried before."""
        tried, base = self._tried(), self.search.side(self._base)
        held = self._held(len(tried))
        for kept in (held, {}) if held else ({},):
            for _ in range(_PATIENCE):
                proposal = optimiser.ask(kept)
                side = self._side(proposal.settings, base)
                if side not in tried and self.fits(side):
                    return proposal
                optimiser.tell(proposal, self._known(tried.index(side)) if side in tried else None)
        return None

    def _known(self, number: int) -> float:
        """Return what the optimiser is told of a trial, or of the advice, at its number."""
        score = 0.0 if number == 0 else self.search.trials[number - 1].score
        return _FAILED if score is None else score

    def _tried(self) -> list[Settings]:
        """Return the settings of all trials, the advice first: each at its number."""
        return [dict(self.search.advice), *(one.settings for one in self.search.trials)]

    @property
    def _base(self) -> int:
        """The trial that the next one races; a live server is untouched between two windows."""
        return 0 if self.search.live else self.search.best

    def _held(self, number: int) -> Settings:
        """Return the settings that this trial takes from the best so far.

        A restart costs both sides their caches in every run, so most trials do without.
        """
        if number % _RESTARTS == 0:
            return {}
        best = self.search.side(self.search.best)
        return {
            one.name: best.get(one.name, self.server.default(one.name))
            for one in self.search.searched
            if one.restart
        }

    def _side(self, changed: Settings, base: Settings) -> dict[str, str]:
        """Return `base` with these values; one that is the default anyway is left out."""
        return dict(base) | {
            name: text
            for name, text in changed.items()
            if name in base or text != self.server.default(name)
        }

    def _spent(self) -> float:
        calibrated = self.search.calibration.seconds if self.search.calibration else 0.0
        return calibrated + sum(one.seconds for one in self.search.trials)

    def _try(self, origin: Origin, side: dict[str, str], place: Mapping[str, float]) -> Trial:
        """Race a side with the best so far, and record it."""
        search, number = self.search, len(self.search.trials) + 1
        best = self._base
        # Baselines restart the server in every run, and are there to be compared with.
        baseline = origin not in {"proposed", "earlier"}
        pairs = BASELINE_PAIRS if baseline else search.schedule.pairs
        what = f"trial {number}" if origin == "proposed" else f"trial {number} ({origin})"
        raced, began = Raced(pairs=()), time.monotonic()
        error: MrTunerError | None = None
        try:
            raced = self.measuring.race(
                search.side(best), side, min(pairs, search.schedule.pairs),
                lambda seen: race.stop(seen) is not None or race.lost(seen) is not None, what,
            )  # fmt: skip
        except MrTunerError as failure:
            if isinstance(failure, self._ends) or interrupted(failure):
                raise
            error = failure
            raced = replace(raced, seconds=time.monotonic() - began)
        ended, because = race.outcome(raced, pairs)
        if error is not None:
            ended, because = "failed", error.message
        score = search.score(best) + race.gain(raced.pairs) if raced.pairs else None
        done = Trial(
            number=number, origin=origin, settings=side, place=dict(place), against=best,
            pairs=tuple(raced.pairs), outcome=ended, because=because, score=score,
            seconds=round(raced.seconds, 1), unknown=raced.unknown,
        )  # fmt: skip
        search.trials.append(done)
        self.keep(search)
        self.tell(f"{what}: {_said(done, search.name(best))}")
        if error is not None and self._failing():
            raise error
        return done

    @property
    def _ends(self) -> tuple[type[MrTunerError], ...]:
        """Errors that end a search: a live server that does not answer says nothing of a trial."""
        return (Refused, ConnectError, NotPutBack) if self.search.live else (Refused,)

    def _failing(self) -> bool:
        last = self.search.trials[-_FAILURES:]
        return len(last) == _FAILURES and all(one.outcome == "failed" for one in last)

    # What comes after

    def _choose_candidate(self) -> None:
        """Choose the best so far; if nothing beat the advice, what came closest unharmed."""
        search = self.search
        best = search.best
        scored = {
            one.number: one.score
            for one in search.trials
            if one.score is not None and one.outcome != "stopped"
        }
        won = {one.number for one in search.trials if one.outcome == "better"}
        if search.live and won:  # all of them raced what is in force
            best = max(won, key=scored.__getitem__)
        elif best == 0 and scored:
            best = max(scored, key=scored.__getitem__)
        search.candidate = best
        self.keep(search)

    def _confirm(self, candidate: int) -> None:
        """Race the candidate with the advice again, in the time that is left for it.

        One setting alone is not taken apart, so its confirmation has that time as well.
        """
        search, planned = self.search, self.search.schedule
        side = search.side(candidate)
        apart = len(model.differences(search.advice, side, self.server.default)) > 1
        kept = planned.ablation + planned.reduced if apart else 0
        left = planned.budget * (1 - kept) - self._spent()
        pairs = fresh_pairs(max(left, planned.budget * planned.confirmation), self._pair(side))
        self.tell(f"trial {candidate} against {search.start}: {pairs} fresh pairs")
        raced = self.measuring.race(search.advice, side, pairs, _never, "confirmation")
        search.confirmation = _measured(raced)
        if search.confirmation is None:
            search.unknown += [f"the confirmation of trial {candidate}: {w}" for w in raced.refused]
        self.keep(search)

    def _in_long_runs(self) -> None:
        """Race what won with the advice in long runs, and record why it does not hold there.

        Writes that are put off are no gain, and the charge for a checkpoint does not catch them.
        """
        search, won = self.search, winner(self.search)
        if won is None or search.long_runs is not None or not self.measuring.postpones:
            return
        self.tell(f"it won; against {search.start} in {LONG_PAIRS} pairs of {LONG_RUN} s as well")
        why = f"{LONG_PAIRS} pairs of {LONG_RUN} s could not be compared"
        try:
            raced = self.measuring.race(search.advice, won[0], LONG_PAIRS, _never, LONG_RUNS)
        except MrTunerError as error:
            if isinstance(error, self._ends) or interrupted(error):
                raise
            raced, why = Raced(pairs=()), error.message
        if (seen := _measured(raced)) is not None and seen.pairs == LONG_PAIRS:
            search.long_runs = replace(seen, refused=race.put_off(raced))
        elif search.confirmation is not None:
            search.confirmation = replace(
                search.confirmation, verdict=Verdict.UNDECIDED, refused=(f"in long runs: {why}",)
            )
        self.keep(search)

    def _if_it_runs(self, step: Callable[[], None], what: str) -> None:
        """Carry out a step; if it fails, say so: the winner is confirmed all the same."""
        try:
            step()
        except MrTunerError as error:
            if isinstance(error, self._ends) or interrupted(error):
                raise
            self.search.unknown.append(f"{what}: {error.message}")

    def _take_back(self) -> None:
        """Measure the winner against itself with one setting as advised, for each setting."""
        search = self.search
        winner = search.side(search.candidate or 0)
        changed = model.differences(search.advice, winner, self.server.default)
        searched = {one.name for one in search.searched}
        first = sorted(changed, key=lambda name: name not in searched)  # with room for some only
        planned = search.schedule
        left = planned.budget * (planned.search + planned.ablation) - self._spent()
        seconds = min(planned.budget * planned.ablation, left)
        # On a live server both sides are tried, and a window more is untouched.
        runs = planned.runs
        possible = seconds / self._pair(winner) * (runs / (runs + 1) if search.live else 1)
        many = min(len(changed), int(possible / FEWEST_PAIRS)) if len(changed) > 1 else 0
        done = {one.name for one in search.ablation}
        for at, name in enumerate(first):
            if name in done:
                continue
            advised, value = changed[name]
            seen = self._worth(name, winner, int(possible / many)) if at < many else None
            search.ablation.append(Worth(name=name, advice=advised, value=value, measured=seen))
            self.keep(search)

    def _worth(self, name: str, winner: Settings, pairs: int) -> Measured | None:
        without = model.taken_back(winner, name, self.search.advice)
        if not self.fits(without):
            self._beyond(f"what {name} is worth")
            return None
        self.tell(f"what {name} is worth: {pairs} pairs")
        return _measured(self.measuring.race(without, winner, pairs, _never, f"without {name}"))

    def _beyond(self, what: str) -> None:
        why = f"{what}: the others without it are beyond the memory budget"
        if why not in self.search.unknown:
            self.search.unknown.append(why)
            self.tell(f"not measured: {why}")

    def _reduce(self) -> None:
        """Confirm what is left without the settings that are worth little, if anything is."""
        search = self.search
        little = [one.name for one in search.ablation if one.little]
        if search.reduced is not None or not 0 < len(little) < len(search.ablation):
            return
        side = search.reduced_side
        if not self.fits(side):
            self._beyond(f"what is left without {', '.join(little)}")
            return
        planned = search.schedule
        pairs = fresh_pairs(planned.budget * planned.reduced, self._pair(side))
        self.tell(f"without {', '.join(little)} against {search.start}: {pairs} fresh pairs")
        raced = self.measuring.race(search.advice, side, pairs, _never, "reduced")
        search.reduced = _measured(raced)
        self.keep(search)


def _said(trial: Trial, against: str) -> str:
    """Return how a trial ended, in words."""
    if not trial.pairs:
        return f"{trial.outcome}: {trial.because}"
    gain = compare(trial.pairs).gain
    return f"{gain:+.1%} on {against}, {trial.outcome}: {trial.because}"


def _never(_seen: Raced) -> bool:
    return False


def _measured(raced: Raced) -> Measured | None:
    """Return a race as it is recorded, without a verdict if it did harm; None without a pair."""
    if not raced.pairs:
        return None
    seen = compare(raced.pairs)
    inside = seen.pairs > 1  # with one pair, there is no interval
    harm = race.harm(raced)
    return Measured(
        verdict=Verdict.UNDECIDED if harm else raced.verdict, ratio=seen.ratio,
        low=seen.low if inside else None, high=seen.high if inside else None, pairs=seen.pairs,
        detectable=seen.mde if isfinite(seen.mde) else None, refused=(*harm, *raced.refused),
        cautions=raced.cautions, seconds=round(raced.seconds, 1), unknown=raced.unknown,
    )  # fmt: skip


def _chosen(search: Search) -> list[str]:
    binding = [one for one in search.evidence if one.binds]
    words = (
        ", ".join(f"{one.mechanism} ({one.value:g})" for one in binding) or "nothing in particular"
    )
    names = ", ".join(one.name for one in search.searched) or "none"
    return [f"what binds: {words}", f"settings searched: {names}"]
