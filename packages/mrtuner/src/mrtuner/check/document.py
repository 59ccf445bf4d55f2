"""A check as JSON: ``mrtuner.check/1``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from mrtuner.check.report import CheckReport, headline
from mrtuner.documents import Doc, Document


class CheckDocument(Document, tag="mrtuner.check/1"):
    """Written by `mrtuner check --json`."""

    headline: Annotated[str, Doc("how many findings, by severity, and what was not judged")]
    servers: Annotated[list[CheckReport], Doc("one for each target, in the order given")]


def check_document(reports: Sequence[CheckReport]) -> CheckDocument:
    """Return the answer for one or more servers."""
    return CheckDocument(headline=headline(reports), servers=list(reports))
