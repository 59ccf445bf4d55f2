"""A `mrtuner.check/1` document as lines: the headline, what was not judged, the findings."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from mrtuner.escape import printable
from mrtuner.findings import Finding, Severity
from mrtuner.present.text import Look, entries, paragraph
from mrtuner.units import pretty_duration
from mrtuner.wording import enumerated, not_judged, plural

if TYPE_CHECKING:
    from mrtuner.checks.document import CheckDocument
    from mrtuner.checks.report import CheckReport

_STYLES: Final = {Severity.DANGER: "warning", Severity.TO_DO: "heading", Severity.TO_KNOW: "quiet"}


def lines(told: CheckDocument, look: Look, *, everything: bool = False) -> Iterator[str]:
    """Yield the answer; of several servers one list, the most urgent finding first."""
    many = len(told.servers) > 1
    yield look.painted(told.headline, "heading")
    for server in told.servers:
        prefix = f"{server.target}: " if many else ""
        for names, why, supply in unjudged(server):
            yield not_judged(f"{prefix}{names}", why, supply)
    found = [(one, server.target) for server in told.servers for one in server.findings]
    for one, target in sorted(found, key=lambda pair: pair[0].urgency):
        yield ""
        yield from _finding(one, f"{target}: " if many else "", look)
    if everything:
        for server in told.servers:
            yield ""
            prefix = f"{server.target}: " if many else ""
            groups = (("passed", server.passed), ("skipped", server.skipped))
            yield from entries(
                [(prefix + what, ", ".join(ids) or "none") for what, ids in groups], look
            )


def unjudged(server: CheckReport) -> Iterator[tuple[str, str, str | None]]:
    """Checks that could not judge for the same reason, with the reason, and what would help."""
    alike: dict[tuple[str, str | None], list[str]] = {}
    for one in server.unjudged:
        alike.setdefault((one.why, one.supply), []).append(one.name)
    judged = bool(server.passed) or len(alike) > 1
    for (why, supply), names in alike.items():
        if server.version is not None:
            yield enumerated(names), why, supply
        else:
            yield plural(len(names), "check") if judged else "every check", why, supply


def _finding(one: Finding, prefix: str, look: Look) -> Iterator[str]:
    yield look.painted(f"{one.severity}  {prefix}{one.text}", _STYLES[one.severity])
    basis = f"; {one.basis}" if one.basis else ""
    yield from paragraph(f"{follows(one)}{since(one)} [{one.id}{basis}]", look)
    for line in one.evidence:
        yield from paragraph(printable(line), look, style="quiet")
    for text in one.remedy:
        if text in one.commands:
            yield f"    {text}"
        else:
            yield from paragraph(printable(f"→ {text}"), look)


def follows(one: Finding) -> str:
    """What happens if nothing is done, and when, if that is known."""
    if one.harm_in is None:
        return one.consequence
    if one.harm_in <= 0:
        return f"now: {one.consequence}"
    return f"{one.consequence}, in {pretty_duration(one.harm_in)}"


def since(one: Finding) -> str:
    """When it began, after a semicolon; empty if that is not known."""
    if one.since is None:
        return ""
    return f"; since {datetime.fromtimestamp(one.since, UTC):%Y-%m-%d %H:%M:%S} UTC"
