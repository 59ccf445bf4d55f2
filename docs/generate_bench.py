"""The page of measured containers, and pictures of containers, pods and vCPUs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mrtuner import documents
from mrtuner.bench.report import charts as bench_charts
from mrtuner.bench.report.text import said_once
from mrtuner.cpu import report as cpu_report
from mrtuner.cpu.document import CpuDocument
from mrtuner_pods.planning import page as pods_plan_page
from mrtuner_pods.planning.document import PodsPlanDocument

DOCS: Final = Path(__file__).resolve().parent
#: What `mrtuner bench report --json` says of the plan of 2014.
CONTAINERS: Final = DOCS / "containers.json"
#: What `mrtuner cpu --json` said on a quiet machine, and in the emulated guest with siblings.
CPU: Final = {"cpu": DOCS / "cpu.json", "cpu-guest": DOCS / "cpu-guest.json"}

_ABOUT: Final = """\
# Containers: measured

What `mrtuner bench report` says of [the plan of 2014](../how-to/benchmark.md#in-containers) on one
small machine: {cpus} CPUs, Linux {release}, PostgreSQL {version}, cell `{cell}`, {pairs} blocks.
{rejected} runs were rejected; the machine was {quiet}. The interval is 95 % of the cell alone, p is
by Holm over all comparisons.

![Throughput of every variant against bare, with intervals; filled where a verdict was
reached](../images/containers.svg)

| Variant | tps | With the CHECKPOINT | p99, ms | Longest, ms | Against `{first}` | Verdict |
|:--|--:|--:|--:|--:|:--|:--|"""


def read(path: Path) -> dict[str, Any]:
    """A record: the JSON that a command printed."""
    told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return told


def containers_page() -> Iterator[str]:
    """Every variant with its verdict, and the cautions."""
    told = read(CONTAINERS)
    (cell,) = told["cells"]
    verdicts = {one["variant"]: one for one in cell["verdicts"]}
    any_verdict = cell["verdicts"][0]
    yield from _ABOUT.format(
        cpus=told["host"]["cpus"]["value"], release=told["kernel"].split()[1].partition("-")[0],
        version=told["variants"][0]["server_version"], cell=cell["cell"],
        pairs=any_verdict["pairs"], rejected=told["rejected"] or "No", first=any_verdict["first"],
        quiet="busy (`--force`)" if told["forced"] else "quiet",
    ).splitlines()  # fmt: skip
    for side in cell["sides"]:
        yield "| " + " | ".join(_row(side, verdicts.get(side["variant"]))) + " |"
    yield from _reservations(cell["verdicts"])


def _row(side: Mapping[str, Any], verdict: Mapping[str, Any] | None) -> tuple[str, ...]:
    name, against, said = f"`{side['variant']}`", "", ""
    if verdict is not None:
        name += " (bound)" * verdict["bound"]
        low, high = verdict["interval"]
        against = f"{verdict['ratio']:.3f} ({low:.3f} to {high:.3f}), p {verdict['p_holm']:.2g}"
        said = verdict["verdict"]
    return (
        name, f"{side['tps']:,.0f}", f"{side['charged_tps']:,.0f}",
        f"{side['latency_ms']['p99']:.2f}", f"{side['longest_ms']:.1f}", against, said,
    )  # fmt: skip


def _reservations(verdicts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The cautions that several variants share, once; then those of each variant alone."""
    shared, alone = said_once([(*one["refused"], *one["cautions"]) for one in verdicts])
    yield "\n## What to bear in mind\n"
    yield "Of several of them:\n"
    yield from (f"- {text}" for text in shared)
    for one, own in zip(verdicts, alone, strict=True):
        yield f"\nOf `{one['variant']}`:\n"
        yield from (f"- {text}" for text in own)


def containers_picture() -> str:
    """The forest of the plan of 2014."""
    told = read(CONTAINERS)
    effects = [
        bench_charts.Effect(
            name=one["variant"] + " (bound)" * one["bound"], ratio=one["ratio"],
            low=one["interval"][0], high=one["interval"][1],
            decided=one["verdict"] != "undecided",
        )
        for one in told["cells"][0]["verdicts"]
    ]  # fmt: skip
    return bench_charts.forest(effects, delta=told["delta"], key="containers")


def plan_picture() -> str:
    """Density and routing; docs/pods-plan.json is the plan of concepts/waiting.md, as JSON."""
    return pods_plan_page.picture(
        documents.read(read(DOCS / "pods-plan.json"), PodsPlanDocument), key="pods-plan"
    )


def cpu_pictures() -> dict[str, str]:
    """Workers over time, on a quiet machine and in the guest."""
    return {
        name: cpu_report.picture(documents.read(path.read_bytes(), CpuDocument), key=name)
        for name, path in CPU.items()
    }
