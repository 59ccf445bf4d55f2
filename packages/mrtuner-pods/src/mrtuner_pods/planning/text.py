"""A plan of pods as text: the answer, its reason, then the rest.

Uses only the document ``mrtuner.pods.plan/1``, so it can be recreated from the JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from textwrap import wrap
from typing import Final

from mrtuner.documents import NotJudged
from mrtuner.text_tables import aligned, bulleted
from mrtuner.units import pretty_bytes, pretty_duration
from mrtuner.wording import enumerated, plural
from mrtuner_pods.connections.text import who_connects
from mrtuner_pods.formats.kubernetes import millicores
from mrtuner_pods.observed.model import PodsMeasuredWaiting
from mrtuner_pods.observed.used import PodsFigure
from mrtuner_pods.planning.document import (
    PodsLayout,
    PodsLoad,
    PodsNow,
    PodsNumber,
    PodsPlanDocument,
    PodsPoint,
)
from mrtuner_pods.planning.intervals import PodsInterval
from mrtuner_pods.planning.storm import PodsStorm
from mrtuner_pods.waiting.erlang import PodsScreen
from mrtuner_pods.wording import milliseconds

WIDE: Final = 100


def lines(told: PodsPlanDocument) -> Iterator[str]:
    """Yield the plan for a terminal, one line at a time."""
    yield from wrap(answer(told), WIDE)
    yield from wrap(reason(told), WIDE)
    yield ""
    for name, text in facts(told):
        yield from wrap(text, WIDE, initial_indent=f"{name:<17}", subsequent_indent=" " * 17)
    if told.present is not None:
        yield ""
        yield from aligned(before_and_after(told), right={1, 2})
    yield ""
    yield "where requests wait"
    yield from aligned([_STAGE_HEADS, *stage_rows(told)], right=range(1, len(_STAGE_HEADS)))
    yield ""
    yield "other sizes of pod"
    yield from aligned([other_heads(told), *alternative_rows(told)], right=range(5))
    yield ""
    unit = unit_of(told)
    yield f"the same number of {unit} in all: p95 wait by {unit} per pod"
    heads, rows = curve_rows(told)
    yield from aligned([heads, *rows], right=range(1, len(heads)))
    yield from who_connects(told.sessions, told.pools)
    yield from bulleted("what to do", told.advice)
    yield from bulleted("warnings", told.warnings)
    yield from bulleted("assumptions", told.notes)
    yield from bulleted("sources of the figures", list(read_where(told)))


def answer(told: PodsPlanDocument) -> str:
    """Return what to run, and how long requests wait then."""
    load, target = told.load, milliseconds(told.load.target)
    kept = f"target {target}" if told.met else f"more than the {target} allowed"
    verb = "Run" if told.met else "Not enough:"
    p95 = told.waiting.p95
    wait = f"wait at most {milliseconds(p95)}" if p95 else "do not wait at all"
    return (
        f"{verb} {size(told.layout, load.server)}: at {load.rate:,.6g}/s, "
        f"95 % of the requests {wait} ({kept})."
    )


def reason(told: PodsPlanDocument) -> str:
    """Return which stage is the bottleneck, and how busy the others are."""
    known = sorted(
        ((stage.busy, stage) for stage in told.stages if stage.busy is not None),
        key=lambda one: -one[0],
    )
    (busy, first), *others = known
    then = enumerated(f"the {stage.stage} {percent(share)}" for share, stage in others)
    after = f"; then {then}" if others else ""
    return (
        f"The binding stage is the {first.stage}: it can handle at most {first.capacity:,.0f}/s "
        f"and is {percent(busy)} busy{after}."
    )


def facts(told: PodsPlanDocument) -> Iterator[tuple[str, str]]:
    """Yield the parts of the plan: name and text."""
    load, connections = told.load, told.connections
    yield "load", _load(load, cpu_known=not _lacks_cpu(told))
    missing = {one.name: one for one in told.unknown}
    yield from _cpu(told, missing.get("CPU"))
    if told.memory is not None:
        yield "memory", f"{pretty_bytes(told.memory)} a pod: master and workers at their peaks"
    elif "memory" in missing:
        yield "memory", _unknown(missing["memory"])
    yield (
        "connections",
        (
            f"{connections.reached} can be reached ({connections.rollout} during a rollout), "
            f"{connections.expected:.1f} in use on average; a worker's pool is "
            f"{connections.pool}"
        ),
    )
    if connections.server_connections is not None:
        yield (
            "with a pooler",
            (f"{plural(connections.server_connections, 'server connection')} in transaction mode"),
        )
    elif "pooler" in missing:
        yield "with a pooler", _unknown(missing["pooler"])
    if told.now is not None:
        yield "now", as_it_is(told.now, load.server) + _between(told, "now.p95")
    if told.measured is not None:
        yield "measured now", _measured(told.measured)
    gone = as_it_is(told.one_less, load.server)
    yield "with a pod gone", gone + _between(told, "one_less.p95")
    yield "by formula", _screen(told.screen)
    if told.storm is not None:
        yield "after a failover", _storm(told.storm)
    elif "failover" in missing:
        yield "after a failover", _unknown(missing["failover"])
    yield from _by_chance(told)


def _cpu(told: PodsPlanDocument, missing: NotJudged | None) -> Iterator[tuple[str, str]]:
    cpu = told.cpu
    if missing is not None:
        most = f"at most {millicores(cpu.request)} a pod, if all time outside the database is CPU"
        yield "CPU request", f"{_unknown(missing)}; {most}"
        yield "CPU limit", _unknown(missing)
        return
    yield (
        "CPU request",
        f"{millicores(cpu.request)} a pod: p95 of the CPU use in each second, at least its mean, "
        f"{millicores(cpu.mean)}",
    )
    limit = "none" if cpu.limit is None else millicores(cpu.limit)
    yield "CPU limit", f"{limit}: {cpu.because}"


def _lacks_cpu(told: PodsPlanDocument) -> bool:
    return any(one.name == "CPU" for one in told.unknown)


def _unknown(missing: NotJudged) -> str:
    return f"unknown: give {missing.supply}"


def _by_chance(told: PodsPlanDocument) -> Iterator[tuple[str, str]]:
    """Yield how far the plan's own figures differ in repeated simulations."""
    known = {one.figure: one for one in told.intervals}
    if "waiting.p95" not in known:
        return
    one = known["waiting.p95"]
    others = "; ".join(
        f"{name} {_range(known[figure], how)}"
        for name, figure, how in (
            ("median", "waiting.p50", milliseconds),
            ("p99", "waiting.p99", milliseconds),
            ("CPU request", "cpu.request", millicores),
        )
        if figure in known and (figure != "cpu.request" or not _lacks_cpu(told))
    )
    yield (
        "by chance",
        f"p95 wait {_range(one, milliseconds)}; {others}: the lowest and the highest of "
        f"{one.simulations} simulations with other seeds",
    )


def _range(one: PodsInterval, how: Callable[[float], str]) -> str:
    """Return an interval, once where both ends are the same."""
    low, high = how(one.low), "unstable" if one.high is None else how(one.high)
    return low if low == high else f"{low} to {high}"


def interval(told: PodsPlanDocument, figure: str) -> str:
    """Return the interval of a wait in words; empty if there is none."""
    found = next((one for one in told.intervals if one.figure == figure), None)
    return "" if found is None else _range(found, milliseconds)


def _between(told: PodsPlanDocument, figure: str) -> str:
    found = interval(told, figure)
    return f" ({found})" if " to " in found else ""


def _load(load: PodsLoad, *, cpu_known: bool) -> str:
    parts = "".join(
        f", {milliseconds(time)} {where}"
        for time, where in (
            (load.cpu_time if cpu_known else 0, "on CPU"),
            (load.database_time, "in the database"),
        )
        if time
    )
    varied = f"{load.samples} measured times" if load.samples else f"c = {load.variation:.2g}"
    return (
        f"{load.rate:,.6g}/s x {milliseconds(load.service_time)} ({varied}{parts}) keep "
        f"{load.busy:.1f} workers busy; {load.server}, {load.routing} routing"
    )


def as_it_is(found: PodsNow, server: str) -> str:
    """Return how long requests wait with a layout that is not the plan, or that it is unstable."""
    layout = size(found.layout, server)
    if found.killed is not None:
        return f"{layout}: killed (OOM): {found.killed}"
    if found.p95 is None:
        if found.needs is None:
            return f"{layout}: unstable"
        noun, space, of = found.part.partition(" ")
        part = f"{plural(found.needs, noun.removesuffix('s'))}{space}{of}"
        return f"{layout}: unstable, needs {part} at least"
    if found.unknown is not None:
        return f"{layout}: p95 wait unknown; {milliseconds(found.p95)} for a worker alone"
    return f"{layout}: p95 wait {milliseconds(found.p95)}"


def _measured(found: PodsMeasuredWaiting) -> str:
    if found.p95 is None or found.p50 is None:
        return f"requests wait {milliseconds(found.mean)} on average ({found.source})"
    return (
        f"p95 wait before the application {milliseconds(found.p95)}, "
        f"median {milliseconds(found.p50)} ({found.source})"
    )


def before_and_after(told: PodsPlanDocument) -> Iterator[tuple[str, ...]]:
    """Yield a table of what the manifest says now and what is planned, headings first."""
    present, layout, cpu, connections = (told.present, told.layout, told.cpu, told.connections)
    if present is None:
        return
    known = {one.name: one.value for one in present.numbers}
    now = told.now
    yield f"{present.kind} {present.name}", "now", "planned"
    for name, unit, planned in (
        ("pods", "pods", layout.pods),
        ("workers", "workers a pod", layout.workers),
        ("threads", "threads a worker", layout.threads),
    ):
        yield unit, _number(known[name]), f"{planned:,}"
    if "pool" in known:
        yield "pool of a worker", _number(known["pool"]), f"{connections.pool:,}"
        parts = (known["pods"], known["workers"], known["pool"])
        reached = None if None in parts else prod(part or 0 for part in parts)
        yield "connections", _number(reached), f"{connections.reached:,}"
    unknown = _lacks_cpu(told)
    for unit, before, cores in (
        ("CPU request", known.get("cpu_request"), cpu.request),
        ("CPU limit", known.get("cpu_limit"), cpu.limit),
    ):
        yield unit, _cores(before), "unknown" if unknown else _cores(cores)
    if told.memory is not None:
        yield "memory limit", _size(known.get("memory_limit")), _size(told.memory)
    if now is not None:
        yield "p95 wait", _wait_now(now), milliseconds(told.waiting.p95)


def _wait_now(now: PodsNow) -> str:
    if now.killed is not None:
        return "killed (OOM)"
    if now.unknown is not None:
        return "unknown"
    return "unstable" if now.p95 is None else milliseconds(now.p95)


def _number(value: float | None) -> str:
    return "unbounded" if value is None else f"{value:,.0f}"


def _cores(value: float | None) -> str:
    return "none" if value is None else millicores(value)


def _size(value: float | None) -> str:
    return "none" if value is None else pretty_bytes(int(value))


def read_where(told: PodsPlanDocument) -> Iterator[str]:
    """Yield the source of each figure that was read rather than given."""
    for one in told.observed:
        unused = "" if one.used else "; not used"
        yield f"{_FIGURES[one.name][0]} {_figure(one)} ({one.source}){unused}"
    if told.present is not None:
        for number in told.present.numbers:
            yield f"{number.name.replace('_', ' ')} {_amount(number)} ({number.source})"


def _figure(one: PodsFigure) -> str:
    kind = _FIGURES[one.name][1]
    if kind == "rate":
        return f"{one.value:,.4g}/s"
    return milliseconds(one.value) if kind == "time" else f"{one.value:,.0f}"


def _amount(one: PodsNumber) -> str:
    if one.name.startswith("cpu"):
        return _cores(one.value)
    return (_size if one.name.startswith("memory") else _number)(one.value)


#: Inputs that monitoring may supply: their name in words, and their kind.
_FIGURES: Final = {
    "rate": ("rate", "rate"),
    "samples": ("mean service time", "time"),
    "service_time": ("mean service time", "time"),
    "cpu_time": ("CPU time", "time"),
    "database_time": ("time in the database", "time"),
    "database_cpus": ("CPUs of the database", "count"),
    "max_connections": ("max_connections", "count"),
    "pooler": ("server connections of the pooler", "count"),
}


def _screen(screen: PodsScreen) -> str:
    doubts = f"; unreliable: {'; '.join(screen.doubts)}" if screen.doubts else ""
    return (
        f"p95 {milliseconds(screen.p95)}, {percent(screen.waits)} of the requests wait "
        f"(Erlang C, Allen-Cunneen){doubts}"
    )


def _storm(storm: PodsStorm) -> str:
    return (
        f"{plural(storm.connections, 'connection')} at {storm.logins:g} logins/s are back "
        f"after {pretty_duration(storm.back)}; up to {storm.backlog:,.0f} requests queue up, "
        f"and the queue is gone after {pretty_duration(storm.caught_up)}"
    )


_STAGE_HEADS: Final = ("stage", "at most", "busy", "p95 wait")
#: The server whose pods are one process of threads.
_ONE_PROCESS: Final = "jvm"


def unit_of(told: PodsPlanDocument) -> str:
    """Return what the density of a pod counts: ``threads`` or ``workers``."""
    return "threads" if told.load.server == _ONE_PROCESS else "workers"


def other_heads(told: PodsPlanDocument) -> tuple[str, ...]:
    unit = unit_of(told)
    heads = f"{unit} a pod", "pods", f"{unit} in all", "p95 wait"
    return (*heads, "by chance") if told.intervals else heads


def stage_rows(told: PodsPlanDocument) -> Iterator[tuple[str, ...]]:
    for stage in told.stages:
        yield (
            stage.stage,
            "–" if stage.capacity is None else f"{stage.capacity:,.0f}/s",
            "–" if stage.busy is None else percent(stage.busy),
            milliseconds(stage.p95),
        )


def alternative_rows(told: PodsPlanDocument) -> Iterator[tuple[str, ...]]:
    for number, other in enumerate(told.alternatives):
        layout = other.layout
        yield (
            str(density(layout, told.load.server)),
            f"{layout.pods:,}",
            f"{layout.pods * density(layout, told.load.server):,}",
            milliseconds(other.p95),
            *([interval(told, f"alternatives.{number}.p95")] if told.intervals else []),
        )


def curve_rows(told: PodsPlanDocument) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the heads and a row for each routing."""
    by_routing: dict[str, list[PodsPoint]] = {}
    for point in told.curve:
        by_routing.setdefault(point.routing, []).append(point)
    first = next(iter(by_routing.values()))
    server = told.load.server
    heads = ("routing", *(str(density(point.layout, server)) for point in first))
    return heads, [
        (routing, *("unstable" if one.p95 is None else milliseconds(one.p95) for one in points))
        for routing, points in by_routing.items()
    ]


def density(layout: PodsLayout, server: str) -> int:
    return layout.threads if server == _ONE_PROCESS else layout.workers


def size(layout: PodsLayout, server: str) -> str:
    """Return the number of pods and what each contains, in words."""
    if server == _ONE_PROCESS:
        return f"{plural(layout.pods, 'pod')} with {plural(layout.threads, 'thread')}"
    threads = f" of {plural(layout.threads, 'thread')}" if layout.threads > 1 else ""
    return f"{plural(layout.pods, 'pod')} with {plural(layout.workers, 'worker')}{threads}"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.095 else f"{100 * share:.2g} %"
