"""What all checks of a server say together: findings ranked, what passed, what was not judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from mrtuner.checks.catalogue import HISTORY, CannotJudge, checks
from mrtuner.checks.state import Added, State
from mrtuner.described import Doc
from mrtuner.extensions import CHECKS, installed
from mrtuner.facts import Missing
from mrtuner.findings import Finding, Severity
from mrtuner.postgres.quoting import identifier
from mrtuner.wording import enumerated, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """The answer for one server."""

    target: Annotated[str, Doc("the server, without secrets")]
    version: Annotated[str | None, Doc("of PostgreSQL; null: the server could not be read")]
    database: Annotated[str | None, Doc("whose tables and indexes were looked at")]
    at: Annotated[float | None, Doc("the server's clock [s since 1970]")]
    findings: Annotated[tuple[Finding, ...], Doc("the most urgent first")]
    passed: Annotated[tuple[str, ...], Doc("ids of the checks that found nothing")]
    skipped: Annotated[
        tuple[str, ...],
        Doc("ids of the checks that were not asked for; on a standby also of the primary's own"),
    ]
    unjudged: Annotated[tuple[Missing, ...], Doc("checks that could not judge: id, why, remedy")]

    def as_bad_as(self, severity: Severity) -> bool:
        """Whether there is a finding of this severity or a worse one."""
        return any(one.severity.rank <= severity.rank for one in self.findings)


def headline(reports: Sequence[CheckReport]) -> str:
    """``1 danger, 3 to do, 2 to know; 41 checks passed; 3 could not be judged``, of all servers."""
    count = Counter(one.severity for report in reports for one in report.findings)
    passed = sum(len(one.passed) for one in reports)
    nothing = "nothing found" if passed else "nothing was judged"
    found = [f"{count[one]} {one}" for one in Severity if count[one]] or [nothing]
    unjudged = [one for report in reports for one in report.unjudged]
    told = f"{', '.join(found)}; {plural(passed, 'check')} passed"
    if not unjudged:
        return told
    told = f"{told}; {len(unjudged)} could not be judged"
    remedies = Counter(one.supply for one in unjudged if one.supply)
    for supply, number in remedies.most_common(1):
        if len(remedies) == 1 or 2 * number >= len(unjudged):  # else it would help few
            helps = "" if len(remedies) == 1 else f", {number} of which need"
            told += f"{helps}: {supply.removesuffix('.')}"
    return told


def judged(target: str, state: State, skip: frozenset[str] = frozenset()) -> CheckReport:
    """Run every check but those to skip; on a standby also but those of the primary alone."""
    if state.server.standby:
        skip |= {one.id for one in checks().values() if one.of_primary}
    return _report(
        target, state, skip, version=state.server.version, database=state.database, at=state.at,
        role=state.role, history=state.recorded is not None,
    )  # fmt: skip


def unread(
    target: str, why: Missing, added: Added, skip: frozenset[str] = frozenset(), *,
    findings: Sequence[Finding] = (),
) -> CheckReport:  # fmt: skip
    """The answer for a server that could not be read: only what needs nothing of it is judged."""
    return _report(target, added, skip, without=why, findings=findings)


def unreachable(target: str, why: Missing, added: Added, skip: frozenset[str]) -> CheckReport:
    """The answer for a server that should be there: that is a danger, and the rest unknown."""
    found = Finding(
        id="unreachable", severity=Severity.DANGER, text=f"the server cannot be reached: {why.why}",
        consequence="clients that connect in the same way have no session either", harm_in=0.0,
        basis="an attempt to connect, now", remedy=(why.supply,) if why.supply else (),
    )  # fmt: skip
    return unread(target, why, added, skip, findings=[found])


def _report(
    target: str, state: Added, skip: frozenset[str], *, version: str | None = None,
    database: str | None = None, at: float | None = None, role: str = "", history: bool = False,
    without: Missing | None = None, findings: Sequence[Finding] = (),
) -> CheckReport:  # fmt: skip
    known = checks()
    given = {*state.added, *state.missing, *([HISTORY] if history else [])}
    skip |= {
        one.id for one in known.values()
        if not {HISTORY, *installed(CHECKS)}.intersection(one.needs) <= given
    }  # fmt: skip
    found = list(findings)
    passed: list[str] = []
    unjudged: list[Missing] = []
    for check in known.values():
        if check.id in skip or any(one.id == check.id for one in findings):
            continue
        if without is not None and not check.alone:
            unjudged.append(replace(without, name=check.id))
            continue
        lacking = [state.missing[name] for name in check.needs if name in state.missing]
        before = len(found)
        try:
            for one in check.judge(state):
                found.append(one)
        except CannotJudge as refused:
            lacking.append(refused.missing)
        if lacking:
            why = enumerated(dict.fromkeys(one.why for one in lacking))
            supply = next((one for one in lacking if one.supply), lacking[0])
            hint = supply.hint and supply.hint.replace("TO the role", f"TO {identifier(role)}")
            unjudged.append(replace(supply, name=check.id, why=why, hint=hint))
        elif len(found) == before:
            passed.append(check.id)
    return CheckReport(
        target=target, version=version, database=database, at=at,
        findings=tuple(sorted(found, key=lambda one: one.urgency)), passed=tuple(passed),
        skipped=tuple(sorted(skip)), unjudged=tuple(unjudged),
    )  # fmt: skip
