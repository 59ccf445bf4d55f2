"""Deployments before and after a plan, for `docs.generate`: a page with tables and pictures.

docs/pods-django.json and docs/pods-rails.json are what `bench/pods_before_after.py --write docs`
measured.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mrtuner import documents
from mrtuner.present import figures
from mrtuner_pods.planning import page as pods_plan_page
from mrtuner_pods.planning.document import PodsPlanDocument

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DOCS: Final = Path(__file__).resolve().parent
APPLICATIONS: Final = ("django", "rails")
COMMAND: Final = "python bench/pods_before_after.py --write docs"
_ABOUT: Final = f"""\
# Two deployments, measured

The deployments of
[the how-to](../how-to/plan-pods.md#two-deployments-before-and-after) under load, as they are, with
another routing, and as `mrtuner pods plan` has them, without and with its PgBouncer
(`{COMMAND}`). The servers and PostgreSQL are real; their
requests spend their time as the load says, in the small applications of the how-to (*a stand-in*
where no framework is named). Waiting is counted from the intended start of a request; *simulated*
are the same requests. Everything shares the CPUs named below, of which the simulation does not
know."""
#: By state: colour and name of the line.
_STYLES: Final = {
    "before": "a",
    "other routing": "soft",
    "as planned": "b",
}
_TALL: Final = 300
#: The percentiles that are drawn [%]: in every state, fewer than half of the requests wait.
_FROM, _TO = 50, 99


def pods_page() -> Iterator[str]:
    """Both applications, as far as they were measured."""
    yield from _ABOUT.splitlines()
    for name in APPLICATIONS:
        yield ""
        yield f"## {name.title()}"
        yield ""
        if not _file(name).exists():
            yield f"Not measured yet: `{COMMAND}` does, on an idle machine."
            continue
        told = _read(name)
        yield from section(told)
        yield ""
        yield f"![{_words(told)}](../images/pods-{name}.svg)"


def section(told: Mapping[str, Any]) -> Iterator[str]:
    """The load, and a table with a row for each state."""
    serving = told.get("framework") or "A stand-in"
    yield (
        f"{serving} under {told['server']}: {told['rate']:g} requests a second of "
        f"{told['service_ms']:g} ms ({told['cpu_ms']:g} ms on CPU, {told['database_ms']:g} ms in "
        "the database), for "
        f"{told['seconds']:g} s in each state. One that meets nobody takes "
        f"{told['states'][0]['overhead_ms']:.1f} ms more, and under load a request uses "
        f"{told['states'][0]['cpu_ms']:.1f} ms of CPU. "
        f"{told['cpus']} CPUs, Linux {told['linux']}; the "
        f"client sent 95 % of them within {told['late_ms']:.1f} ms of their time."
    )
    yield ""
    yield (
        "| | pods x workers x threads | routing | p95 wait, simulated | measured | p99 | "
        "p95 of the whole answer | connections |"
    )
    yield "|:--|:--|:--|--:|--:|--:|--:|--:|"
    for one in told["states"]:
        waited = one["waited_ms"]
        yield (
            f"| {one['state']} | {one['pods']} x {one['workers']} x {one['threads']} | "
            f"{one['routing'].replace('-', ' ')} | {one['simulated_ms'][95]:.1f} ms | "
            f"**{waited[95]:.1f} ms** | {waited[99]:.1f} ms | {one['took_ms'][95]:.0f} ms | "
            f"{one['connections']} |"
        )


def before_after_pictures() -> dict[str, str]:
    """A picture for each application that was measured, and the how-to's plan of the catalogue.

    docs/pods-catalog.json is the output of the how-to's `mrtuner pods plan`, as JSON.
    """
    measured = [name for name in APPLICATIONS if _file(name).exists()]
    planned = pods_plan_page.picture(
        documents.read(_read("catalog"), PodsPlanDocument), key="pods-catalog"
    )
    return {"pods-catalog": planned} | {f"pods-{name}": picture(_read(name)) for name in measured}


def _file(name: str) -> Path:
    return DOCS / f"pods-{name}.json"


def _read(name: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(_file(name).read_text(encoding="utf-8"))
    return told


def _words(told: Mapping[str, Any]) -> str:
    states = {one["state"]: one for one in told["states"]}
    return "; ".join(
        f"{state}: p95 wait {states[state]['waited_ms'][95]:.0f} ms measured, "
        f"{states[state]['simulated_ms'][95]:.0f} ms simulated"
        for state in _STYLES
    )


def picture(told: Mapping[str, Any]) -> str:
    """The distribution of waiting times in each state, measured and simulated."""
    states = {one["state"]: one for one in told["states"]}
    with figures.canvas(height=_TALL) as figure:
        axes = figure.add_axes((0.09, 0.17, 0.88, 0.68))
        for state, colour in _STYLES.items():
            _line(axes, states[state], state, figures.PALETTE[colour].light)
        _dress(axes)
        return figures.finish(
            figure, f"pods-{told['name']}", title=f"Waiting before and after, {told['server']}",
            desc=f"{_words(told)}. The table has every figure.",
        )  # fmt: skip


def _line(axes: Axes, one: Mapping[str, Any], state: str, colour: str) -> None:
    shares = range(_FROM, _TO + 1)
    for key, style, label in (
        ("waited_ms", "solid", state),
        ("simulated_ms", (0, (2, 2)), "_"),
    ):
        values: Sequence[float] = one[key]
        axes.plot(
            [values[share] for share in shares], shares, color=colour, linestyle=style, label=label
        )


def _dress(axes: Axes) -> None:
    axes.axhline(95, color=figures.PALETTE["line"].light, linewidth=1)
    axes.set_xlabel("waiting, ms; dashed: simulated")
    axes.set_ylabel("share of the requests, %")
    axes.set_xlim(left=0)
    axes.set_ylim(_FROM, 100)
    axes.tick_params(labelcolor=figures.PALETTE["soft"].light)
    axes.annotate(
        "95 %", (1, 95), xycoords=("axes fraction", "data"), xytext=(-2, -3),
        textcoords="offset points", ha="right", va="top", color=figures.PALETTE["soft"].light,
    )  # fmt: skip
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=3, frameon=False)
