"""The order of findings, worked out by hand: severity, time to the harm, share of what is lost."""

from __future__ import annotations

from dataclasses import replace

from mrtuner.documents import as_builtins, convert
from mrtuner.findings import Command, Finding, Severity

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
