"""A tuning and its proof as a page to keep: one self-contained HTML file.

All content comes from the document of a tuning (``mrtuner.tune/1``) and from a series of loads
(``mrtuner.series/1``), so it can be recreated from the JSON alone, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mrtuner.bench import series
from mrtuner.bench.record.model import Record
from mrtuner.bench.report.charts import Effect, forest
from mrtuner.bench.report.gains import GainRow, answer
from mrtuner.bench.report.proof import ProofEvidence, evidence
from mrtuner.present import charts, figures
from mrtuner.present.html import rendered
from mrtuner.stats.comparison import Verdict

if TYPE_CHECKING:
    from mrtuner.tuning.document import AppliedSide, Entry, MemoryBudget, TuneDocument


@dataclass(frozen=True, slots=True)
class Load:
    """One load of a series, ready for the page."""

    finding: series.LoadFinding
    row: GainRow
    evidence: ProofEvidence
    picture: str


@figures.for_every_screen()
def page(
    tuning: TuneDocument,
    proof: series.Series,
    *,
    commands: Sequence[tuple[str, str]] = (),
    applied: AppliedSide | None = None,
) -> str:
    """Return the whole report as one HTML document; the same input gives the same text.

    `commands` are (purpose, command) to do the same on one's own server and to undo it. `applied`
    says how the advice was written, if it was. Passwords in any text are masked.

    Raises MissingPart without jinja2 or matplotlib.
    """
    said = answer(proof)
    found = zip(proof.findings, said.rows, strict=True)
    loads = [_load(one, row, number) for number, (one, row) in enumerate(found, 1)]
    record = loads[0].finding.record if loads else None
    return rendered(
        Path(__file__).with_suffix(".html"),
        tuning=tuning,
        advice=_sorted_out(tuning.advice),
        budget_picture=_budget_picture(tuning.budget),
        commands=commands,
        applied=applied,
        said=said,
        loads=loads,
        forest=_forest(proof) if loads else "",
        conditions=proof.conditions,
        record=record,
        one_server=record is not None and _is_one_server(record),
        limits=list(_limits(tuning, record)),
    )


def _load(one: series.LoadFinding, row: GainRow, number: int) -> Load:
    seen = evidence(one.record, one.verdict.cell, one.a.variant, one.b.variant)
    return Load(one, row, seen, _pairs_picture(one, seen, number))


def _pairs_picture(one: series.LoadFinding, seen: ProofEvidence, number: int) -> str:
    """Draw the throughput of every block; empty where there is no ratio."""
    found = one.throughput
    if found is None:
        return ""
    duel = charts.Duel(
        name_a=seen.a,
        name_b=seen.b,
        blocks=[(block.number, block.a.run.tps, block.b.run.tps) for block in seen.blocks],
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        delta=one.record.plan.delta,
        unit="transactions per second",
    )
    return charts.pairs(duel, key=f"pairs-{number}")


def _forest(measured: series.Series) -> str:
    """Draw the throughput of all loads; one judged by another measure is drawn as undecided."""
    effects = [
        Effect(
            name=one.title, ratio=seen.ratio, low=seen.low, high=seen.high,
            decided=one.verdict.measure == "throughput"
            and one.verdict.verdict is not Verdict.UNDECIDED,
        )
        for one in measured.findings
        if not one.rated and (seen := one.throughput) is not None
    ]  # fmt: skip
    delta = measured.findings[0].record.plan.delta
    return forest(effects, delta=delta, key="loads")


# The advice


@dataclass(frozen=True, slots=True)
class Sorted:
    """The advice sorted by what to do with it; changes and suggestions by area."""

    changes: tuple[Entry, ...]
    suggestions: tuple[Entry, ...]
    kept: tuple[Entry, ...]
    unknown: tuple[Entry, ...]

    @property
    def restarts(self) -> int:
        return sum(1 for item in self.changes if item.restart)


def _sorted_out(items: Sequence[Entry]) -> Sorted:
    changes = [item for item in items if item.verdict == "change"]
    return Sorted(
        changes=tuple(item for item in changes if not item.suggestion),
        suggestions=tuple(item for item in changes if item.suggestion),
        kept=tuple(item for item in items if item.verdict == "keep"),
        unknown=tuple(item for item in items if item.verdict == "unknown"),
    )


def _budget_picture(budget: MemoryBudget | None) -> str:
    if budget is None:
        return ""
    parts = [(part.name, part.size) for part in budget.parts]
    return charts.budget(parts, ceiling=budget.ceiling, memory=budget.memory, key="budget")


# Wording.


def _is_one_server(record: Record) -> bool:
    """Whether all variants ran on the data of one server, as far as its settings tell."""
    known = [record.settings.get(name, {}) for name in record.plan.names]
    return len({(one.get("data_directory"), one.get("port")) for one in known}) == 1


def _limits(tuning: TuneDocument, record: Record | None) -> Iterator[str]:
    """Yield what must not be concluded from this page."""
    yield (
        "The memory budget is computed, not measured. It does not include temporary tables, "
        "memory of extensions and the kernel's page tables."
    )
    if not tuning.live:
        yield "The advice is for a machine as described, not for a server that was examined."
    yield (
        "Each load compares all the settings together. It does not show what each of them "
        "contributes."
    )
    yield "The loads are not your application: other queries and data may gain more, or nothing."
    if record is not None and record.local:
        yield "Server and load generator shared one machine, so each took CPU time from the other."
