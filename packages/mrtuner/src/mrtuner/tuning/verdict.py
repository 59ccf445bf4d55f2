"""What a rule may answer, and how to write a rule.

A rule is a function of facts. Its signature lists the facts it needs by type; the engine supplies
them from the `Situation`, and answers `Unknown` itself if one is missing (unless the type allows
None). Memory and CPUs are used through the expressions MEMORY and CPUS.
The docstring says how the value is chosen; `mrtuner explain` prints all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mrtuner.formula.expression import Expr
from mrtuner.tuning.measured import Measurement
from mrtuner.wording import enumerated

Value = int | float | bool | str


class Basis(StrEnum):
    """Why a value can be trusted."""

    OBSERVED = "observed"  # from this server's own counters, over a window that is long enough
    MEASURED = "measured"  # a row of docs/measured-results.md shows it for such a machine
    ARITHMETIC = "arithmetic"  # follows from the machine or from PostgreSQL's source
    CONVENTION = "convention"  # common practice; we could show no effect


class OwnValue(StrEnum):
    """What may become of a value that a person chose, without evidence from their server."""

    RAISED = "raised"  # a larger number than one above 0, or on, is never worse for the server
    LOWERED = "lowered"  # a smaller number does more: a scale factor, a delay
    LEFT = "left"  # neither: it stays


@dataclass(frozen=True, slots=True)
class Change:
    """Set the parameter. Sizes are in bytes, other numbers in the parameter's base unit."""

    to: Expr | Value
    because: str
    basis: Basis | None = None  # when it differs from the rule's own
    formula: str | None = None  # a readable form, where the expression itself is hard to read
    measured: Measurement | None = None  # the row that shows it; counts only within its range
    asked: bool = False  # the user asked for it with an option, even over their own value
    calls_for_less: bool = False  # what was observed does; else it lowers no value of a person's


@dataclass(frozen=True, slots=True)
class Offer:
    """A value that applies under a condition that could not be checked."""

    value: str
    condition: str  # a sentence that says how to check it


#: The condition for lz4: a server built without it does not start.
LZ4: Final = (
    "Only if the build has lz4: SELECT enumvals FROM pg_settings WHERE name = "
    "'default_toast_compression'"
)


@dataclass(frozen=True, slots=True)
class Keep:
    """Leave the parameter unchanged, and why that is right."""

    because: str
    offer: Offer | None = None
    measured: Measurement | None = None  # as in `Change`


@dataclass(frozen=True, slots=True)
class Unknown:
    """Undecided; `missing` names the missing facts, as the flags that would supply them."""

    missing: tuple[str, ...]

    @property
    def because(self) -> str:
        return f"needs {enumerated(self.missing)}"


Verdict = Change | Keep | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One parameter's rule and where it comes from."""

    name: str
    area: str
    decide: Callable[..., Verdict]
    source: str
    risk: str
    basis: Basis
    suggestion: bool  # advice for people: shown, but never emitted or applied
    always: bool  # written for a described machine even if it equals the default
    own: OwnValue  # what may become of a value that a person chose

    @property
    def method(self) -> str:
        """How the value is chosen, in one or a few sentences."""
        return " ".join((self.decide.__doc__ or "").split())


#: In order of decision: later rules may build on earlier choices.
RULES: dict[str, Rule] = {}


def rule(
    name: str,
    *,
    source: str,
    risk: str,
    basis: Basis = Basis.CONVENTION,
    suggestion: bool = False,
    always: bool = False,
    own: OwnValue = OwnValue.RAISED,
) -> Callable[[Callable[..., Verdict]], Callable[..., Verdict]]:
    """Register the function below as the rule for parameter `name`."""

    def register(decide: Callable[..., Verdict]) -> Callable[..., Verdict]:
        RULES[name] = Rule(
            name=name,
            area=decide.__module__.rpartition(".")[2],
            decide=decide,
            source=source,
            risk=risk,
            basis=basis,
            suggestion=suggestion,
            always=always,
            own=own,
        )
        return decide

    return register
