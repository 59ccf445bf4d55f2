"""The page of predicted and measured hangs, for `docs.generate`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from mrtuner.documents import convert
from mrtuner.failover.lab import page as failover_lab_page
from mrtuner.failover.lab.document import PlayedScenario, ProbedKind
from mrtuner.failover.lab.text import cells, limits
from mrtuner.failover.predict.hang_times import SLACK
from mrtuner.present import figures

#: What `mrtuner failover self-test --whole` and `mrtuner failover lab` measured, and how.
RECORD: Final = Path(__file__).resolve().parent / "failover-measured.json"

_ABOUT: Final = """\
# Failover: predicted and measured

Every hang here was measured on Linux {release} at HZ {hz}, in network namespaces of one machine: a
client, a router that drops, a server. A hang fits when it lies in the band that
`mrtuner failover predict` gives for it, or beside it by at most 0.1 s. {verdict}
How it is worked out: [clients and a failover](../concepts/failover.md).

## The kernel's own limits

`mrtuner failover self-test --whole` does this on your kernel, without root, in two minutes; without
`--whole` a part of it in seconds. Plain sockets; four clients a row, each at another phase of the
kernel's timers. Case 1: a new connection. Case 2: a query on an idle connection. Case 3: a query in
flight.

![Every hang, seen from the middle of its predicted band; nearly all lie inside, and none more than
0.1 s beside it](../images/failover-grid.svg)
"""

_LAB: Final = """
## Real servers, real clients

`mrtuner failover lab --scenario NAME` does this on your machine:
[the lab](../how-to/survive-a-failover.md#break-a-primary-in-the-lab).
A primary and a streaming standby of PostgreSQL, three clients
a case with psycopg, set as `mrtuner failover settings --stack psycopg --within 10s` advises where
nothing else is said. The other machine takes over three seconds after the fault; Patroni takes its
own time, and behind PgBouncer it happens when nobody hangs any more. What lasts for ever is looked
at for as long as said.

![The hangs of every scenario with the bands predicted for them; a star: clients otherwise
set](../images/failover-lab.svg)
"""


def record() -> dict[str, Any]:
    """What was measured."""
    told: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    return told


def scenarios() -> list[PlayedScenario]:
    """What was measured in the lab."""
    return [convert(one, PlayedScenario) for one in record()["scenarios"]]


def measured_page() -> Iterator[str]:
    """Both tables, with their pictures."""
    test, outcomes = record()["selftest"], scenarios()
    fits = test["fits"] and all(one.fits for one in outcomes)
    verdict = "All of them do." if fits else "**Not all of them do.**"
    yield from _ABOUT.format(release=test["release"].partition("-")[0], hz=test["hz"],
                             verdict=verdict).splitlines()  # fmt: skip
    yield ""
    yield from _table(
        ("Case", "Setting", "Predicted (s)", "Measured (s)"), map(_trial, test["trials"])
    )
    yield from _LAB.splitlines()
    for one in outcomes:
        yield from _scenario(one)


def _trial(told: Mapping[str, Any]) -> tuple[str, ...]:
    band, hangs = told["predicted"], told["measured"]
    return (
        str(told["case"]),
        told["setting"],
        f"{band['low']:.2f} – {band['high']:.2f}",
        f"{min(hangs):.2f} – {max(hangs):.2f} ({len(hangs)})",
    )


def _scenario(told: PlayedScenario) -> Iterator[str]:
    yield ""
    usual = _usual(told)
    yield f"### {told.scenario}{'' if usual else ', otherwise set'}"
    yield ""
    yield f"{told.words[0].upper()}{told.words[1:]}.{'' if usual else f' `{limits(told)}`.'}"
    yield ""
    heads = ("Case", "Predicted", "Measured", "Verdict", "Decided by")
    yield from _table(heads, map(cells, told.cases))
    yield ""
    yield from _table(
        ("Probe", "Longest without an answer", "Failed", "Late", "Answered by the old primary"),
        map(_probe, told.probes),
    )
    yield ""
    writes = told.writes
    fenced = "" if told.fenced is None else (
        f"; the old primary was killed {told.fenced:.1f} s after the fault"
    )  # fmt: skip
    yield f"{writes.acknowledged} writes acknowledged, {writes.lost} of them lost{fenced}."


def _usual(told: PlayedScenario) -> bool:
    """Whether no sysctls were set: clients are as advised, or have no settings (PgBouncer)."""
    return not told.sysctls


def _probe(told: ProbedKind) -> tuple[str, ...]:
    outage = "to the end" if told.outage is None else f"{told.outage:.1f} s"
    return (told.kind, outage, str(told.failed), str(told.late), str(told.stale))


def _table(heads: Sequence[str], rows: Any) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{':--|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def measured_picture() -> str:
    """Every hang of the grid, seen from the middle of its band."""
    trials = record()["selftest"]["trials"]
    with figures.canvas(
        height=failover_lab_page.FRAME + failover_lab_page.ROW * len(trials)
    ) as figure:
        labels = [f"{each['case']} · {each['setting']}: {each['predicted']['mid']:.2f} s"
                  for each in trials]  # fmt: skip
        axes = figure.add_axes(failover_lab_page.place_of(labels))
        for place, trial in enumerate(trials):
            band = trial["predicted"]
            low, high = band["low"] - band["mid"], band["high"] - band["mid"]
            failover_lab_page.bar(axes, place, low, high, slack=SLACK)
            for hang in trial["measured"]:
                failover_lab_page.dot(axes, place, hang - band["mid"], "D")
        axes.set_xlabel("seconds from the middle of the band; gray: 0.1 s on either side")
        failover_lab_page.dress(axes, labels)
        return figures.finish(
            figure, "grid",
            title="Measured hangs, relative to the middle of their predicted bands",
            desc=f"{len(trials)} settings of three cases. The table shows every number.",
        )  # fmt: skip


def lab_picture() -> str:
    """Every hang of the scenarios, in one picture."""
    rows = [
        replace(row, case=f"{one.scenario}{'' if _usual(one) else '*'}: {row.case}")
        for one in scenarios()
        for row in one.cases
        if row.fits is not None
    ]
    return failover_lab_page.picture("all", rows, key="lab")
