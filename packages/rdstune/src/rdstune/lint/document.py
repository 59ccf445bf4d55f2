"""What lint finds as JSON: ``mrtuner.rds.lint/1``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from mrtuner.documents import Doc, Document, Struct, field
from rdstune.lint.findings import Severity

if TYPE_CHECKING:
    from rdstune.group.source import WrittenGroup
    from rdstune.lint.findings import Finding


class LintFinding(Struct):
    """A problem of a parameter, or of the group."""

    check: Annotated[str, Doc("a stable word, such as wrong-unit")]
    severity: Annotated[Severity, Doc("how certain it is that the group must be changed")]
    parameter: Annotated[str | None, Doc("its name; null: it is about the group")]
    what: Annotated[str, Doc("the problem, a sentence")]
    why: Annotated[str | None, Doc("a sentence; null where there is nothing to add")]
    remedy: Annotated[str | None, Doc("a sentence; null where there is nothing to add")]
    source: Annotated[str, Doc("the file, or the group in AWS")] = field(name="file")
    line: Annotated[int | None, Doc("in the file")]
    judged: Annotated[bool, Doc("false: it says what was not checked")] = True


class LintedGroup(Struct):
    """One parameter group."""

    name: Annotated[str | None, Doc("null when the file does not give it")]
    family: Annotated[str | None, Doc("such as postgres17; null when the file does not give it")]
    source: Annotated[str, Doc("the file, or the group in AWS")] = field(name="file")
    line: Annotated[int | None, Doc("in the file; null for a group in AWS")]
    parameters: Annotated[int, Doc("how many it sets")]
    findings: Annotated[list[LintFinding], Doc("by line, the worst first")]


class LintDocument(Document, tag="mrtuner.rds.lint/1"):
    """Written by `rdstune lint --json`."""

    groups: Annotated[list[LintedGroup], Doc("those that were checked")]


def lint_document(found: Sequence[tuple[WrittenGroup, Sequence[Finding]]]) -> LintDocument:
    return LintDocument(groups=[_group(group, findings) for group, findings in found])


def _group(group: WrittenGroup, findings: Sequence[Finding]) -> LintedGroup:
    return LintedGroup(
        name=group.name,
        family=group.family,
        source=group.source,
        line=group.line,
        parameters=len(group.entries),
        findings=[_finding(one) for one in findings],
    )


def _finding(finding: Finding) -> LintFinding:
    return LintFinding(
        check=finding.check,
        severity=finding.severity,
        parameter=finding.parameter,
        what=finding.what,
        why=finding.why or None,
        remedy=finding.remedy or None,
        source=finding.source,
        line=finding.line,
        judged=finding.judged,
    )
