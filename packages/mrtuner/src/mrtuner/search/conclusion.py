"""What a search found: only what fresh pairs confirmed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from mrtuner.search.model import (
    WORTH,
    Costs,
    Difference,
    Measured,
    Search,
    SearchResult,
    Settings,
    differences,
)
from mrtuner.search.schedule import LONG_RUN
from mrtuner.search.space import Server
from mrtuner.stats.comparison import Verdict
from mrtuner.wording import enumerated, plural, plural_was

#: So many settings are named in the headline; more are counted.
_NAMED: Final = 3


def conclude(search: Search, server: Server, costs: Callable[[Settings], Costs]) -> SearchResult:
    """Return the result of a search whose measurements are done."""
    won = winner(search)
    if won is None or search.put_off:
        return SearchResult(
            found=False, headline=_nothing(search), settings={}, differences=(),
            measured=search.confirmation, before=costs(search.advice), after=None,
        )  # fmt: skip
    side, seen = won
    changed = differences(search.advice, side, server.default)
    return SearchResult(
        found=True,
        headline=f"{interval(seen)} against {search.start}, by {_named(changed)}",
        # What a live server has besides is its own. Where a default won, it is named.
        settings=(dict[str, str]() if search.live else dict(side))
        | {name: b for name, (_, b) in changed.items()},
        differences=tuple(
            Difference(name=name, advice=a, value=b, restart=server.parameters[name].restart)
            for name, (a, b) in changed.items()
        ),
        measured=seen, before=costs(search.advice), after=costs(side),
    )  # fmt: skip


def winner(search: Search) -> tuple[Settings, Measured] | None:
    """Return what is better than the advice by fresh pairs, and these; None if nothing is."""
    seen = search.confirmation
    if seen is None or seen.verdict is not Verdict.BETTER:
        return None
    if search.reduced is not None and _as_good(search.reduced, seen):
        return search.reduced_side, search.reduced
    return search.side(search.candidate or 0), seen


def _as_good(reduced: Measured, winner: Measured) -> bool:
    """Whether fewer settings are better than the advice, and measured as good as the winner.

    By the ratios alone: a wide interval is no reason to give up settings that won.
    """
    return reduced.verdict is Verdict.BETTER and reduced.ratio >= winner.ratio / (1 + WORTH)


def _named(changed: Mapping[str, tuple[str, str]]) -> str:
    if len(changed) > _NAMED:
        return plural(len(changed), "setting")
    return enumerated(f"{name} = {value}" for name, (_, value) in changed.items())


def interval(seen: Measured) -> str:
    """Return a gain with its 95 % interval: ``+8.1 % (+5.2 % to +11.0 %)``."""
    if seen.low is None or seen.high is None:
        return f"{percent(seen.ratio)} (one pair, so no interval)"
    return f"{percent(seen.ratio)} ({percent(seen.low)} to {percent(seen.high)})"


def long_runs(seen: Measured) -> str:
    """Return what long runs showed: ``2 pairs of 45 s it was -21.0 %: …``."""
    what = seen.refused[0] if seen.refused else f"it was {percent(seen.ratio)} as well"
    return f"{plural(seen.pairs, 'pair')} of {LONG_RUN} s {what}"


def percent(ratio: float) -> str:
    """Return a ratio as a gain: ``+8.1 %``."""
    return f"{(ratio - 1) * 100:+.1f} %"


def _unmeasured(search: Search) -> str:
    """Why nothing was measured in fresh pairs."""
    if search.candidate:
        return f"no fresh pair of trial {search.candidate} could be compared"
    if not search.trials:
        return "nothing else was tried"
    if all(one.outcome == "stopped" for one in search.trials):
        return f"{plural_was(len(search.trials), 'trial')} stopped"
    return f"{plural_was(len(search.trials), 'trial')} tried, and none could be compared"


def _nothing(search: Search) -> str:
    seen, tried = search.confirmation, plural(len(search.trials), "trial")
    if seen is None:
        return f"nothing better than {search.start} was found: {_unmeasured(search)}"
    if search.long_runs is not None and search.put_off:
        return (
            f"nothing better than {search.start} is confirmed: {interval(seen)} in fresh "
            f"pairs, but in {long_runs(search.long_runs)}"
        )
    if seen.refused:
        return (
            f"nothing better than {search.start} is confirmed: {interval(seen)} in fresh "
            f"pairs, but {seen.refused[0]}"
        )
    text = (
        f"nothing better than {search.start} was found in {tried}; the closest, in fresh pairs: "
        f"{interval(seen)}"
    )
    if seen.low is not None and seen.low > 1:
        return f"{text}, which is less than counts"
    if seen.detectable is None:
        return text
    return f"{text}; of it, a gain from {seen.detectable * 100:.1f} % on would have been seen"
