"""The outage for each kind of client: the sum of its gaps, counted from the trigger."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from mrtuner.rehearsal.observation import Gap, Observation, ProbeKind


class _Ends(Protocol):
    @property
    def answer(self) -> float | None: ...


AnyGap = TypeVar("AnyGap", bound=_Ends)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOutages:
    """The outage for one kind of client, in seconds from the moment of the trigger.

    `least` and `most` bound the total time without an answer, over all gaps; `most` is None if
    there still was no answer at the end.
    """

    kind: ProbeKind
    last_success: float | None
    first_failure: float | None  # None: it only waited
    first_success: float | None
    least: float
    most: float | None
    gaps: int
    failed: int
    late: int
    errors: tuple[str, ...]

    @property
    def words(self) -> str:
        return self.kind.words


def outages_by_client(seen: Observation, asked: float) -> tuple[ClientOutages, ...]:
    """Return outages of the kinds that noticed any; `asked` is the moment of the trigger [s]."""
    found = (_outlook(gaps_since(seen.gaps(kind), asked), asked) for kind in seen.kinds)
    return tuple(one for one in found if one is not None)


def gaps_since(gaps: Iterable[AnyGap], asked: float) -> list[AnyGap]:
    """Return the gaps that had not ended when it was triggered: the others have other causes."""
    return [gap for gap in gaps if gap.answer is None or gap.answer >= asked]


def _outlook(gaps: Sequence[Gap], asked: float) -> ClientOutages | None:
    if not gaps:
        return None
    first, last = gaps[0], gaps[-1]
    most = [gap.most for gap in gaps]
    return ClientOutages(
        kind=first.kind,
        last_success=_since(first.last_answer, asked),
        first_failure=min((_at(gap, asked) for gap in gaps if gap.failed), default=None),
        first_success=_since(last.answer, asked),
        least=sum(gap.least for gap in gaps),
        most=None if None in most else sum(one for one in most if one is not None),
        gaps=len(gaps),
        failed=sum(gap.failed for gap in gaps),
        late=sum(gap.late for gap in gaps),
        errors=tuple(dict.fromkeys(error for gap in gaps for error in gap.errors)),
    )


def _at(gap: Gap, asked: float) -> float:
    return (gap.began if gap.first_failure is None else gap.first_failure) - asked


def _since(moment: float | None, asked: float) -> float | None:
    return None if moment is None else moment - asked
