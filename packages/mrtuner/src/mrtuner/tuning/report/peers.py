"""Where another tool's values differ from the advice, as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from mrtuner.present.text import Look, heading, paragraph
from mrtuner.tuning import Tuning
from mrtuner.tuning.pgtune import SOURCE, differences, machine_of, measured_against

_NOT_MEASURED = "not measured on such a machine: mrtuner bench compare measures both on yours"


def pgtune(tuning: Tuning, look: Look) -> Iterator[str]:
    """Yield each setting to which PgTune gives another value, with its rule and our reason."""
    machine = machine_of(tuning.situation)
    yield from heading(f"where {SOURCE}, differs", look)
    if machine is None:
        yield from paragraph("unknown: its rules need memory and CPUs", look)
        return
    yield from paragraph(measured_against(tuning) or _NOT_MEASURED, look)
    found = differences(tuning)
    for one in found:
        yield from paragraph(f"{one.name}: {one.ours or '-'} here, {one.theirs} by PgTune", look)
        yield from paragraph(f"  PgTune: {one.rule}", look, style="quiet")
        yield from paragraph(f"  MrTuner: {one.reason}", look, style="quiet")
    if not found:
        yield from paragraph("nowhere: all its values are the same", look)
    yield from paragraph(f"its rules for Linux, data of {machine.data}", look, style="quiet")
