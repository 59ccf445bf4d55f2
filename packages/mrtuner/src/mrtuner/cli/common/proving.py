"""The documents, pages and lines of a proof, for prove and demo."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mrtuner.cli.common import terminal
from mrtuner.wording import plural

if TYPE_CHECKING:
    from mrtuner.answers.proof.prove import Proof
    from mrtuner.cli.common.document import ReportDocument
    from mrtuner.tuning.document import AppliedSide


def document(proof: Proof) -> ReportDocument:
    from mrtuner.bench.document import SeriesDocument
    from mrtuner.bench.report.gains import answer
    from mrtuner.cli.common.document import ReportDocument, load_result
    from mrtuner.documents import convert
    from mrtuner.tuning.document import tune_document

    said = answer(proof.series)
    return ReportDocument(
        verdict=proof.series.verdict,
        loads=[load_result(one) for one in proof.series.findings],
        proof=convert(proof.series, SeriesDocument),
        tuning=tune_document(proof.tuning),
        applied=_applied(proof),
        headline=said.headline,
        warnings=list(said.warnings),
        left_out=list(said.left_out),
    )


def page(proof: Proof, commands: Sequence[tuple[str, str]]) -> str:
    """Return a proof as one HTML file."""
    from mrtuner.tuning.document import tune_document
    from mrtuner.tuning.report.page import page as of_series

    return of_series(
        tune_document(proof.tuning), proof.series, commands=commands, applied=_applied(proof)
    )


def lines(proof: Proof) -> Iterator[str]:
    from mrtuner.bench.report.gains import screen

    return screen(proof.series, terminal.look(sys.stdout))


def _applied(proof: Proof) -> AppliedSide | None:
    from msgspec import structs

    from mrtuner.change.document import ChangePlan
    from mrtuner.documents import convert
    from mrtuner.tuning.document import AppliedSide

    if proof.applied is None:
        return None
    plan = structs.asdict(convert(proof.applied, ChangePlan))
    return AppliedSide(**plan, method="ALTER SYSTEM", put_back=True, restarted=proof.restarted)


def minutes(seconds: float) -> str:
    """A length of time in words, rounded up to whole minutes."""
    whole = -(-round(seconds) // 60)
    return plural(whole, "minute")
