"""A check as JSON: ``mrtuner.check/1``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from mrtuner.checks.catalogue import checks
from mrtuner.checks.report import CheckReport, headline
from mrtuner.documents import Doc, Document, Struct, convert


class CheckDocument(Document, tag="mrtuner.check/1"):
    """Written by `mrtuner check --json`."""

    headline: Annotated[str, Doc("how many findings, by severity, and what was not judged")]
    servers: Annotated[list[CheckReport], Doc("one for each target, in the order given")]


def check_document(reports: Sequence[CheckReport]) -> CheckDocument:
    """Return the answer for one or more servers."""
    return CheckDocument(headline=headline(reports), servers=list(reports))


class ExplainedCheck(Struct):
    """One trouble that `mrtuner check` looks for."""

    id: Annotated[str, Doc("its name")]
    area: Annotated[str, Doc("what it belongs to")]
    meaning: Annotated[str, Doc("what it means if it is found")]
    judged: Annotated[str, Doc("by what, with the threshold")]
    source: Annotated[str, Doc("of the threshold")]
    remedy: Annotated[str, Doc("what helps in general; a finding has its own commands")]


class ChecksDocument(Document, tag="mrtuner.checks/1"):
    """Written by `mrtuner explain ID --json` with the name of a check."""

    checks: Annotated[list[ExplainedCheck], Doc("those that were asked for")]


def checks_document(*names: str) -> ChecksDocument:
    """Return what is known about checks."""
    return ChecksDocument(checks=[convert(checks()[name], ExplainedCheck) for name in names])
