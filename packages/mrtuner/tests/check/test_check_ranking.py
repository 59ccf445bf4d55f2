"""The order of findings, worked out by hand: severity, time to the harm, share of what is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mrtuner.checks.document import check_document
from mrtuner.checks.report import CheckReport, headline
from mrtuner.checks.text import follows, lines
from mrtuner.documents import as_builtins, convert
from mrtuner.facts import Missing
from mrtuner.findings import Command, Finding, Severity
from mrtuner.present.text import Look

DAY = 86_400.0


def finding(name: str, severity: Severity = Severity.DANGER, **more: float | None) -> Finding:
    return Finding(id=name, severity=severity, text=name, consequence="", **more)  # type: ignore[arg-type]


def test_the_most_urgent_first() -> None:
    """A slot that fills the disk in an hour is before fsync = off; one with a month is after."""
    in_order = [
        finding("lock-queue", harm_in=0.0, cost=0.1),
        finding("slot, an hour", harm_in=3600.0, cost=0.01),
        finding("durability-off", cost=1.0),
        finding("overcommitted", cost=0.6),
        finding("not known"),
        finding("slot, small", cost=0.1),
        finding("slot, a month", harm_in=30 * DAY, cost=0.9),
        finding("connections", Severity.TO_DO, cost=0.85),
        finding("incident", Severity.TO_DO, since=1.8e9),
        finding("incident", Severity.TO_DO, since=1.7e9),
        finding("invalid-index", Severity.TO_DO, cost=0.002),
        finding("version", Severity.TO_KNOW, harm_in=100 * DAY),
    ]
    backwards = in_order[::-1]
    assert sorted(backwards, key=lambda one: one.urgency) == in_order


def test_a_command_is_told_from_a_sentence_by_its_type_and_not_by_its_end() -> None:
    one = Finding(
        id="x", severity=Severity.DANGER, text="", consequence="",
        remedy=("Ask x; DROP TABLE t;", Command("ALTER SYSTEM SET a = 1; -- then restart")),
    )  # fmt: skip
    assert one.commands == ("ALTER SYSTEM SET a = 1; -- then restart",)
    assert replace(one, harm_in=1.0).commands == one.commands
    assert as_builtins(one)["remedy"] == [
        "Ask x; DROP TABLE t;", "ALTER SYSTEM SET a = 1; -- then restart",
    ]  # fmt: skip
    assert convert(as_builtins(one), Finding) == one


def test_a_sentence_with_a_name_that_was_not_read_whole_says_so_once() -> None:
    one = Finding(
        id="x", severity=Severity.DANGER, text="", consequence="",
        remedy=("Copy n\ufffd.", "Ask n."),
    )  # fmt: skip
    explained = "Copy n\ufffd. (\ufffd stands for what is no text here)"
    assert one.remedy == (explained, "Ask n.")
    assert replace(one, harm_in=1.0).remedy == one.remedy


def report(*unjudged: Missing, passed: tuple[str, ...] = ("version-support",)) -> CheckReport:
    return CheckReport(
        target="db", version="18.6", database="shop", at=None, findings=(), passed=passed,
        skipped=(), unjudged=unjudged,
    )  # fmt: skip


MONITOR = "GRANT pg_monitor TO app."


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (report(), "nothing found; 1 check passed"),
        (report(Missing("a", "hidden", hint=MONITOR)),
         "nothing found; 1 check passed; 1 could not be judged: GRANT pg_monitor TO app"),
        (report(Missing("a", "hidden", hint=MONITOR), Missing("b", "hidden", hint=MONITOR),
                Missing("c", "unknown", option="--disk"), Missing("d", "never measured")),
         "nothing found; 1 check passed; 4 could not be judged, 2 of which need: "
         "GRANT pg_monitor TO app"),
        (report(Missing("a", "hidden", hint=MONITOR), Missing("b", "unknown", option="--disk"),
                Missing("c", "unknown", option="--cpus")),
         "nothing found; 1 check passed; 3 could not be judged"),
        (report(Missing("a", "no session"), passed=()),
         "nothing was judged; 0 checks passed; 1 could not be judged"),
    ],
)  # fmt: skip
def test_the_headline_names_what_helps_most(told: CheckReport, text: str) -> None:
    assert headline([told]) == text


def test_checks_that_lack_the_same_share_a_line() -> None:
    told = report(
        Missing("idle-in-transaction", "hidden", hint=MONITOR), Missing("free-space", "elsewhere"),
        Missing("lock-queue", "hidden", hint=MONITOR),
    )  # fmt: skip
    assert [text for text in lines(check_document([told]), Look()) if "judged: " in text][1:] == [
        "not judged: idle-in-transaction and lock-queue: hidden. GRANT pg_monitor TO app.",
        "not judged: free-space: elsewhere",
    ]


@pytest.mark.parametrize(
    ("harm_in", "text"),
    [(None, "it stops"), (0.0, "now: it stops"), (7200.0, "it stops, in 2 h")],
)
def test_the_time_to_the_harm_is_told(harm_in: float | None, text: str) -> None:
    assert follows(replace(finding("x"), consequence="it stops", harm_in=harm_in)) == text
