"""What is wrong with a server, or worth knowing about it: one record for every capability."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Annotated, Final

from mrtuner.described import Doc
from mrtuner.escape import damaged


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


class Command(str):
    """A remedy that can be pasted as it is: SQL for psql. Any other remedy is a sentence.

    ALTER SYSTEM and others refuse to share a message with a second statement: each is one text.
    """

    statements: tuple[str, ...]

    def __new__(cls, *statements: str) -> Command:
        made = super().__new__(cls, " ".join(statements))
        made.statements = statements
        return made


_NO_TEXT: Final = "\ufffd stands for what is no text here"


def by_hand(sql: str) -> str:
    """Words in place of a command with a `damaged` name, which might be run on another object."""
    return (
        f"Complete by hand, since {_NO_TEXT} (in psql: "
        rf"\encoding SQL_ASCII, then format('%I', …) over the catalog and \gexec): {sql}"
    )


def _explained(remedy: str) -> str:
    """Return a remedy that says so if a name in it was not read whole."""
    if not damaged(remedy) or _NO_TEXT in remedy:
        return remedy
    return by_hand(remedy) if isinstance(remedy, Command) else f"{remedy} ({_NO_TEXT})"


#: The cost of what has none that can be measured: as much as half of what can be lost.
UNKNOWN: Final = 0.5
#: Of what makes everything a little worse and breaks nothing by itself.
SLIGHT: Final = 0.05
#: A time to the harm that is not known comes after one within this time, and before later ones [s].
_SOON: Final = 7 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing about a server. Names and texts in it are the server's: escape them when shown.

    `cost` is a share, so that findings of all kinds compare: 1 is all of the memory, the volume,
    the connections, the load, the rows or the numbers that are there. Findings of one severity are
    in the order of the time to their harm, and then of their cost.
    """

    id: Annotated[str, Doc("of the check that found it, as in `mrtuner explain ID`")]
    severity: Annotated[Severity, Doc("how much it matters")]
    text: Annotated[str, Doc("what is the case, with its number")]
    consequence: Annotated[str, Doc("what happens if nothing is done")]
    harm_in: Annotated[float | None, Doc("seconds until then; 0: now; null: not known")] = None
    cost: Annotated[
        float, Doc("share of what can be lost, 0 to 1: rank among others as urgent; not known: 0.5")
    ] = UNKNOWN
    since: Annotated[float | None, Doc("when it began [s since 1970]; null: not known")] = None
    evidence: Annotated[tuple[str, ...], Doc("rows that show it, a line each")] = ()
    basis: Annotated[str, Doc("where the figures come from, and how sure they are")] = ""
    remedy: Annotated[tuple[str, ...], Doc("commands for a person, or a sentence")] = ()
    commands: Annotated[tuple[str, ...], Doc("those of `remedy` that psql runs as they are")] = ()

    def __post_init__(self) -> None:
        """Take note of the commands, and make plain texts of them, as JSON needs them."""
        object.__setattr__(self, "remedy", tuple(map(_explained, self.remedy)))
        typed = [one for one in self.remedy if isinstance(one, Command)]
        if typed:
            object.__setattr__(self, "commands", tuple(chain(*(one.statements for one in typed))))
            texts = (one.statements if isinstance(one, Command) else (one,) for one in self.remedy)
            object.__setattr__(self, "remedy", tuple(chain(*texts)))

    @property
    def urgency(self) -> tuple[int, float, float, str, float, str]:
        """Sort key: severity, time to the harm, cost; then kind, and what began last."""
        harm = _SOON if self.harm_in is None else self.harm_in
        return self.severity.rank, harm, -self.cost, self.id, -(self.since or 0), self.text

    @property
    def sentence(self) -> str:
        """All of it in one paragraph: what, what follows, the evidence and the remedy."""
        parts = [f"{self.text}: {self.consequence}", *self.evidence, *self.remedy]
        *others, last = (one if one.endswith((";", ":", ".")) else f"{one}." for one in parts)
        return " ".join([*others, last.removesuffix(".")])
