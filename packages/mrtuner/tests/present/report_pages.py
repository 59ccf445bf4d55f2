"""One page of each kind, from the documentation's data or from data made by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import report_data as data
from test_report_vacuum import table, told

from bench_grids import a_grid
from image_seed import seed
from mrtuner.bench.report import page as bench_page
from mrtuner.cpu import report as cpu
from mrtuner.cpu.document import CpuDocument
from mrtuner.documents import convert, read
from mrtuner.failover.lab import page as failover_lab_page
from mrtuner.failover.lab.document import PlayedScenario
from mrtuner.failover.rehearse import page as failover_rehearsal
from mrtuner.failover.rehearse.document import rehearsal_document
from mrtuner.failover.rehearse.paths import ClientPath
from mrtuner.failover.rehearse.report import rehearsed
from mrtuner.limits import limits
from mrtuner.limits import page as limits_page
from mrtuner.limits.examples.week import CLASS, STORAGE, simulated_week
from mrtuner.rehearsal.observation import Attempt, Observation, ProbeKind, ServerIdentity, balanced
from mrtuner.rehearsal.run import Run
from mrtuner.tuning.report import page as tuning_page
from mrtuner.vacuum import page as vacuum_page
from mrtuner_image.advice import page as image_advice_page
from mrtuner_image.advice.document import advice_document
from mrtuner_image.advice.ranking import advise
from mrtuner_pods.planning import page as pods_plan_page
from mrtuner_pods.planning.document import PodsPlanDocument
from rdstune.fleet import rehearsal_page
from rdstune.fleet.document import RehearsalDocument
from rdstune.group import page as parameter_group
from rdstune.group.derive import design
from rdstune.group.sizes import on_class, sizes
from servers import ROOT


def _document(name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((ROOT / "docs" / name).read_text(encoding="utf-8"))
    return read


def _proof() -> str:
    return tuning_page.page(
        data.tuning(),
        data.proof(),
        commands=[("undo it", "mrtuner undo postgresql://USER@HOST/" + "long" * 30)],
    )


def _group() -> str:
    made = design(family_name="postgres17", class_name="db.r6g.xlarge", workload="oltp")
    here = on_class(made.values, made.request, made.instance_class)
    return parameter_group.page(made, here, sizes(made.values, made.request))


def _limits() -> str:
    found = limits(simulated_week(), class_name=CLASS, storage=STORAGE)
    return limits_page.page(found)


def _vacuum() -> str:
    return vacuum_page.page(told(table(), table(name="queue", oid=2, kind="short-lived")))


def _failover() -> str:
    """Reads failed for three seconds, then another server answered."""
    old, new = (
        ServerIdentity(
            datetime(2026, 1, day, tzinfo=UTC), False, "10.0.0.9", f"10.0.0.{day}:5432", day, 7
        )
        for day in (1, 2)
    )
    attempts = [
        Attempt(kind=ProbeKind.READ, due=at, sent=at, asked=at, ended=at + 0.1, server=server)
        for at, server in ((1.0, old), (7.0, new))
    ]
    failed = Attempt(kind=ProbeKind.READ, due=3.0, sent=3.0, ended=6.0, error="refused")
    seen = Observation(
        began=datetime(2026, 1, 1, tzinfo=UTC), seconds=20, interval=1, timeout=30,
        kinds=tuple(ProbeKind), attempts=(attempts[0], failed, attempts[1]), skipped=0,
        ledger=balanced(3, {1, 2, 3}, [1, 2, 3]),
    )  # fmt: skip
    way = ClientPath(
        dsn="", place="db.example.com:5432/shop", parameters={}, between=None, standby=False,
        may_create=True, free=100, predictions=(),
    )  # fmt: skip
    run = Run(asked=2.0, accepted=2.1, settled=True, observation=seen, marks=())
    judged = rehearsed("direct", way, run)
    return failover_rehearsal.page(rehearsal_document([judged], trigger="run it", within=20.0))


def _image() -> str:
    """Advice for the application that the mission begins with, at a small scale."""
    with TemporaryDirectory() as place:
        found = advise(seed(Path(place)))
    return image_advice_page.page(advice_document(found))


#: Kind of page: what makes it.
PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "proof": _proof,
    "limits": _limits,
    "vacuum": _vacuum,
    "cpu": lambda: cpu.page(read(_document("cpu.json"), CpuDocument)),
    "pods": lambda: pods_plan_page.page(read(_document("pods-plan.json"), PodsPlanDocument)),
    "bench": lambda: bench_page.page(a_grid([1.3, 1.0, 0.8, 1.0])),
    "failover-lab": lambda: failover_lab_page.page(
        [
            convert(one, PlayedScenario)
            for one in _document("failover-measured.json")["scenarios"][:2]
        ]
    ),
    "failover": _failover,
    "rehearsal": lambda: rehearsal_page.page(read(_document("rehearsal.json"), RehearsalDocument)),
    "group": _group,
    "image": _image,
}
