"""What lint finds as SARIF 2.1.0, which code review tools show beside the lines of a change.

Source: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from mrtuner import __version__
from rdstune.group.source import WrittenGroup
from rdstune.lint.findings import Finding, Severity

_SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_LEVELS: Final = {
    Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note",
}  # fmt: skip


def sarif(found: Sequence[tuple[WrittenGroup, Sequence[Finding]]]) -> dict[str, Any]:
    """Return one run with a result for each finding.

    What was not checked is a result of the kind `open` (3.27.9), whose level has to be `none`.
    """
    findings = [one for _, each in found for one in each]
    rules = sorted({one.check for one in findings})
    driver = {
        "name": "rdstune lint",
        "version": __version__,
        "rules": [{"id": check} for check in rules],
    }
    results = [_result(one, rules.index(one.check)) for one in findings]
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _result(one: Finding, rule: int) -> dict[str, Any]:
    text = one.told
    text += f"; why: {one.why}" if one.why else ""
    text += f"; remedy: {one.remedy}" if one.remedy else ""
    found: dict[str, Any] = {
        "ruleId": one.check,
        "ruleIndex": rule,
        "kind": "fail" if one.judged else "open",
        "level": _LEVELS[one.severity] if one.judged else "none",
        "message": {"text": text},
    }
    if one.line is not None:
        place = {
            "artifactLocation": {"uri": quote(Path(one.source).as_posix())},
            "region": {"startLine": one.line},
        }
        found["locations"] = [{"physicalLocation": place}]
    return found
