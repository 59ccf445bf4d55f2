"""What is wrong with a server, or worth knowing about it: one record for every capability."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Annotated

from mrtuner.described import Doc


class Severity(StrEnum):
    """How much a finding matters.

    Danger: data or service is lost, or will be. To do: it costs or risks something that can be
    measured. To know: nothing is lost yet, or nothing has to be done.
    """

    DANGER = "danger"
    TO_DO = "to do"
    TO_KNOW = "to know"

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing about a server. Names and texts in it are the server's: escape them when shown."""

    id: Annotated[str, Doc("of the check that found it, as in `mrtuner explain ID`")]
    severity: Annotated[Severity, Doc("how much it matters")]
    text: Annotated[str, Doc("what is the case, with its number")]
    consequence: Annotated[str, Doc("what happens if nothing is done")]
    harm_in: Annotated[float | None, Doc("seconds until then; 0: now; null: not known")] = None
    cost: Annotated[float, Doc("rank among others as urgent, larger first")] = 0.0
    since: Annotated[float | None, Doc("when it began [s since 1970]; null: not known")] = None
    evidence: Annotated[tuple[str, ...], Doc("rows that show it, a line each")] = ()
    basis: Annotated[str, Doc("where the figures come from, and how sure they are")] = ""
    remedy: Annotated[tuple[str, ...], Doc("commands for a person, or a sentence")] = ()

    @property
    def urgency(self) -> tuple[int, float, float, str, str]:
        """Sort key: by severity, then by the time to the harm, then by cost."""
        harm = inf if self.harm_in is None else self.harm_in
        return self.severity.rank, harm, -self.cost, self.id, self.text

    @property
    def sentence(self) -> str:
        """All of it in one paragraph: what, what follows, the evidence and the remedy."""
        parts = [f"{self.text}: {self.consequence}", *self.evidence, *self.remedy]
        return ". ".join(parts)
