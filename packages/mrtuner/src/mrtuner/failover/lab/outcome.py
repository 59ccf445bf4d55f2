"""What a scenario showed: each case as predicted and measured, and what the probes saw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from mrtuner.described import Doc
from mrtuner.failover.predict.hang_times import SLACK, pretty_span
from mrtuner.failover.predict.timer_wheel import Band


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """One case: the predicted band [s] (None: forever), and each hang (None: it did not end)."""

    label: str
    predicted: Band | None
    decided_by: str
    measured: tuple[float | None, ...]
    slack: float = SLACK
    watched: float = 0.0  # s, how long hangs that did not end were watched

    @property
    def fits(self) -> bool | None:
        """Whether all hangs are within `slack` of the band; None if not watched long enough."""
        if self.predicted is None:
            return all(hang is None for hang in self.measured)
        ended = [hang for hang in self.measured if hang is not None]
        if len(ended) < len(self.measured):
            return None if self.predicted.low > self.watched else False
        return all(self.predicted.covers(hang, slack=self.slack) for hang in ended)


def union(spans: Sequence[Band | None]) -> Band | None:
    """Return the band that contains them all; None if any is endless."""
    known = [span for span in spans if span is not None]
    if len(known) < len(spans):
        return None
    return Band.over(known)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedKind:
    """What one kind of probe saw."""

    kind: Annotated[str, Doc("what the probe does")]
    outage: Annotated[
        float | None, Doc("the longest time without a good answer; null: it did not end")
    ]
    failed: Annotated[int, Doc("attempts that ended with an error")]
    late: Annotated[int, Doc("attempts answered after more than a second")]
    stale: Annotated[int, Doc("attempts answered by the old primary after the new one was there")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioResult:
    """One scenario."""

    scenario: str
    words: str
    release: str
    hz: int
    parameters: Mapping[str, str]  # of every client (libpq)
    sysctls: Mapping[str, int]  # of the clients' namespace
    rows: tuple[CaseResult, ...]
    seen: tuple[ProbedKind, ...]
    acknowledged: int  # writes
    lost: int  # acknowledged, but missing at the end
    fenced: float | None = None  # s from the fault until the old primary was killed

    @property
    def fits(self) -> bool:
        """Whether nothing measured is outside its band."""
        return all(row.fits is not False for row in self.rows)


_VERDICTS: Final = {True: "fits", False: "DOES NOT FIT", None: "not waited for"}


def lines(told: Mapping[str, Any]) -> Iterator[str]:
    """Yield an outcome's document as readable lines."""
    from mrtuner.tables import aligned

    yield f"{told['scenario']}: {told['words']}"
    yield f"Linux {told['release']}, HZ {told['hz']}; {limits(told)}"
    yield ""
    head = ("case", "predicted", "measured", "", "decided by")
    yield from aligned([head, *map(cells, told["cases"])])
    yield ""
    yield from aligned([_HEAD, *map(_seen_cells, told["probes"])])
    writes = told["writes"]
    yield ""
    if told["fenced"] is not None:
        yield f"the old primary was killed {told['fenced']:.1f} s after the fault"
    yield f"{writes['acknowledged']} acknowledged writes, {writes['lost']} of them lost"


def limits(told: Mapping[str, Any]) -> str:
    """The clients' settings."""
    given = (f"{name}={value}" for part in ("parameters", "sysctls")
             for name, value in told[part].items())  # fmt: skip
    return " ".join(given) or "nothing set"


_HEAD: Final = ("probes", "without an answer", "failed", "late", "answered by the old primary")


def cells(told: Mapping[str, Any]) -> tuple[str, str, str, str, str]:
    """A case's row in the table: case, predicted, measured, verdict, what decides."""
    return (
        told["case"],
        pretty_span(Band.told(told["predicted"])),
        measured(told["measured"], told["watched"]),
        _VERDICTS[told["fits"]],
        told["decided_by"],
    )


def measured(hangs: Sequence[float | None], watched: float) -> str:
    """Format as ``9.03 to 9.21 s (3)``, ``over 20 s (3)``."""
    ended = [hang for hang in hangs if hang is not None]
    if not ended:
        return f"over {watched:.0f} s ({len(hangs)})"
    on = f", {len(hangs) - len(ended)} over {watched:.0f} s" if len(ended) < len(hangs) else ""
    return f"{min(ended):.2f} to {max(ended):.2f} s ({len(ended)}){on}"


def _seen_cells(told: Mapping[str, Any]) -> tuple[str, ...]:
    outage = "to the end" if told["outage"] is None else f"{told['outage']:.1f} s"
    return (told["kind"], outage, *(str(told[name]) for name in ("failed", "late", "stale")))
