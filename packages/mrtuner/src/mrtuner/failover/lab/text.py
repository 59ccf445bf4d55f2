"""A scenario of the lab as lines for a terminal, and the cells that its page shows too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from mrtuner.failover.predict.hang_times import pretty_span
from mrtuner.text_tables import aligned

if TYPE_CHECKING:
    from mrtuner.failover.lab.document import PlayedCase, PlayedScenario, ProbedKind

_VERDICTS: Final = {True: "fits", False: "DOES NOT FIT", None: "not waited for"}


def lines(told: PlayedScenario) -> Iterator[str]:
    yield f"{told.scenario}: {told.words}"
    yield f"Linux {told.release}, HZ {told.hz}; {limits(told)}"
    yield ""
    head = ("case", "predicted", "measured", "", "decided by")
    yield from aligned([head, *map(cells, told.cases)])
    yield ""
    yield from aligned([_HEAD, *map(_seen_cells, told.probes)])
    writes = told.writes
    yield ""
    if told.fenced is not None:
        yield f"the old primary was killed {told.fenced:.1f} s after the fault"
    yield f"{writes.acknowledged} acknowledged writes, {writes.lost} of them lost"


def limits(told: PlayedScenario) -> str:
    given = {**told.parameters, **told.sysctls}
    return " ".join(f"{name}={value}" for name, value in given.items()) or "nothing set"


_HEAD: Final = ("probes", "without an answer", "failed", "late", "answered by the old primary")


def cells(told: PlayedCase) -> tuple[str, str, str, str, str]:
    """A case's row in the table: case, predicted, measured, verdict, what decides."""
    return (
        told.case,
        pretty_span(told.predicted),
        measured(told.measured, told.watched),
        _VERDICTS[told.fits],
        told.decided_by,
    )


def measured(hangs: Sequence[float | None], watched: float) -> str:
    """Format as ``9.03 to 9.21 s (3)``, ``over 20 s (3)``."""
    ended = [hang for hang in hangs if hang is not None]
    if not ended:
        return f"over {watched:.0f} s ({len(hangs)})"
    on = f", {len(hangs) - len(ended)} over {watched:.0f} s" if len(ended) < len(hangs) else ""
    return f"{min(ended):.2f} to {max(ended):.2f} s ({len(ended)}){on}"


def _seen_cells(told: ProbedKind) -> tuple[str, ...]:
    outage = "to the end" if told.outage is None else f"{told.outage:.1f} s"
    return (told.kind, outage, str(told.failed), str(told.late), str(told.stale))
