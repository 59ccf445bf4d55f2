"""A run of a grid for people and programs: lines for a terminal, one JSON document.

Both are computed from the record alone. Schema "mrtuner.bench.report/1".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from math import isfinite
from textwrap import wrap
from typing import Any, Final

from mrtuner.bench.grid.meanwhile import Meanwhile, meanwhile
from mrtuner.bench.grid.plan import PLACEMENT, Cell, Variant
from mrtuner.bench.grid.record import Failure, GridRecord, unlike
from mrtuner.bench.grid.verdicts import (
    CellVerdict,
    Side,
    by_cell,
    differing_settings,
    require_something,
    sides,
    verdicts,
)
from mrtuner.catalog import MAJORS
from mrtuner.errors import Refused
from mrtuner.present.html import as_written, count, plural, ratio
from mrtuner.stats.paired import Verdict

SCHEMA: Final = "mrtuner.bench.report/1"
#: Columns of prose on a terminal.
WIDE: Final = 100
#: More variants than this are counted in the headline, not named.
_NAMED: Final = 2
_IN_WORDS: Final = {
    Verdict.BETTER: "better",
    Verdict.WORSE: "worse",
    Verdict.EQUIVALENT: "without a difference that matters",
    Verdict.UNDECIDED: "undecided",
}


def document(record: GridRecord, other: GridRecord | None = None) -> dict[str, Any]:
    """The whole report as JSON types; `other` is an earlier run to stand beside it.

    Raises Refused when the two are of different hosts, kernels or versions.
    """
    require_something(record)
    seen, found = verdicts(record), by_cell(sides(record))
    return {
        "schema": SCHEMA,
        "name": record.plan.name,
        "finished": record.sealed,
        "forced": record.forced,
        "started": record.started,
        "ended": record.ended,
        "kernel": record.kernel,
        "pgbench": record.pgbench,
        "mrtuner": record.mrtuner,
        "host": dict(record.host),
        "seed": record.plan.seed,
        "delta": record.plan.delta,
        "variants": [_variant(record, variant) for variant in record.plan.variants],
        "settings_diff": [
            {"name": name, "values": list(values)} for name, values in differing_settings(record)
        ],
        "cells": [
            _cell(record, cell, found.get(cell, {}).values(), seen) for cell in record.cells()
        ],
        "rejected": sum(1 for taken in record.taken if taken.sample.rejected),
        "failures": [_failure(failure) for failure in record.failures],
        "skipped": [
            {"variant": name, "reason": reason} for name, reason in record.plan.skipped.items()
        ],
        "notes": list(record.notes),
        "collector_share": collector_share(record),
        "against": None if other is None else beside(record, other),
    }


def beside(record: GridRecord, other: GridRecord) -> list[dict[str, Any]]:
    """What both runs measured, as it was: between two sessions no interval would be honest.

    Raises Refused when the two are of different hosts, kernels or versions.
    """
    reasons = unlike(record, other)
    if reasons:
        raise Refused(
            f"these runs cannot be compared: {'; '.join(reasons)}",
            "Measure both as variants of one plan.",
        )
    mine, theirs = by_cell(sides(record)), by_cell(sides(other))
    return [
        {
            "cell": cell.key,
            "variant": name,
            "tps": side.tps,
            "other_tps": theirs[cell][name].tps,
            "ratio": side.tps / theirs[cell][name].tps,
            "same_settings": _settings(record, name) == _settings(other, name),
        }
        for cell, table in mine.items()
        for name, side in table.items()
        if name in theirs.get(cell, {})
    ]


def _settings(record: GridRecord, name: str) -> dict[str, str]:
    """Without what differs from run to run because the server lies elsewhere."""
    known = record.settings.get(name, {})
    return {name: value for name, value in known.items() if name not in PLACEMENT}


def collector_share(record: GridRecord) -> float:
    """CPU that collecting took, as a share of one CPU over all runs."""
    wall = sum(taken.sample.run.wall for taken in record.taken)
    return sum(taken.collector_cpu for taken in record.taken) / wall if wall else 0.0


def lines(record: GridRecord, other: GridRecord | None = None) -> Iterator[str]:
    """The report for a terminal, one line at a time."""
    require_something(record)
    compared = beside(record, other) if other is not None else []
    seen, found = verdicts(record), by_cell(sides(record))
    yield _title(record, len(seen))
    wide = max(map(len, record.plan.names))
    for cell in record.cells():
        yield ""
        yield cell.key
        for side in found.get(cell, {}).values():
            yield f"  {_side_line(record, side, wide)}"
        yield from _cell_lines(record, [one for one in seen if one.cell == cell])
    yield from _listed("settings that differ", [_setting(*item) for item in settings_shown(record)])
    yield from _listed("runs that failed", [_failure_line(one) for one in record.failures])
    yield from _listed(
        "variants that could not be run here",
        [f"{name}: {reason}" for name, reason in record.plan.skipped.items()],
    )
    yield from _listed("notes", record.notes)
    yield ""
    yield f"collecting took {collector_share(record) * 100:.1f} % of one CPU"
    if other is not None:
        yield from _listed(
            "beside the other run (two sessions: no verdict, machines drift)",
            [_beside_line(item) for item in compared],
        )


def answer(record: GridRecord, seen: Sequence[CellVerdict]) -> str:
    """What came out, in one sentence that needs no table: the headline of the page."""
    if not seen:
        return "No two variants were measured in the same cell"
    base, names = record.plan.baseline.name, dict.fromkeys(one.variant.name for one in seen)
    if len(names) > _NAMED:
        said = _counted(seen)
        return f"Of {plural(len(seen), 'comparison')} with {base}: {said}"
    by_name = ([one for one in seen if one.variant.name == name] for name in names)
    return "; ".join(_answer(own, base) for own in by_name)


def _answer(own: Sequence[CellVerdict], base: str) -> str:
    """One variant against the first."""
    name = own[0].variant.name
    if len(own) > 1:
        return f"{name} against {base} in {len(own)} cells: {_counted(own)}"
    times = f"{own[0].measure} {ratio(own[0].comparison.ratio)} times"
    match own[0].verdict:
        case Verdict.BETTER | Verdict.WORSE as found:
            return f"{name} is {found} than {base}: {times}"
        case Verdict.EQUIVALENT:
            return f"No difference that matters between {name} and {base}"
        case Verdict.UNDECIDED:
            return f"Undecided whether {name} differs from {base}"


def _counted(seen: Sequence[CellVerdict]) -> str:
    """``3 better, 1 worse, 2 without a difference that matters``; undecided ones last."""
    times = Counter(one.verdict for one in seen)
    return ", ".join(f"{times[one]} {word}" for one, word in _IN_WORDS.items() if times[one])


def _title(record: GridRecord, tests: int) -> str:
    state = "" if record.sealed else ", not finished"
    adjusted = f"; adjusted for {plural(tests, 'comparison')}" if tests > 1 else ""
    return (
        f"{record.plan.name}: {plural(len(record.cells()), 'cell')},"
        f" {len(record.taken)} runs{state}{adjusted}"
    )


def _side_line(record: GridRecord, side: Side, wide: int) -> str:
    p99 = side.times.percentile(0.99)
    tail = f", p99 {count(p99 / 1000)} ms" if p99 is not None else ""
    longest = f", longest {count(side.longest / 1000)} ms" if side.longest is not None else ""
    touch = side.first_touch
    first = f", first touch {count(touch * 1000)} ms" if touch is not None else ""
    rate = count(round(side.tps, 1))
    writes = not (record.plan.by_name[side.cell.workload].reads_only or side.cell.rate)
    charged = f" ({count(round(side.charged, 1))} with the CHECKPOINT)" if writes else ""
    skipped = f", {count(side.skipped)} skipped" if side.skipped else ""
    said = f"{rate} tps{charged}{tail}{longest}{first}{skipped}, {side.runs} runs"
    return f"{side.variant:<{max(wide, 12)}} {said}"


def _cell_lines(record: GridRecord, seen: Sequence[CellVerdict]) -> Iterator[str]:
    """Each verdict with what is true of it alone, then once what is true of several."""
    shared, alone = said_once([_reservations(one) for one in seen])
    for one, own in zip(seen, alone, strict=True):
        yield from _verdict_lines(record, one)
        yield from _points(own)
    if shared:
        yield "  several of these"
        yield from _points(shared)


def said_once(texts: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """What is said of several, in order, and of each what is said of it alone."""
    times = Counter(text for each in texts for text in each)
    shared = [text for text, count in times.items() if count > 1]
    return shared, [[text for text in each if times[text] == 1] for each in texts]


def _reservations(one: CellVerdict) -> tuple[str, ...]:
    return (*(f"no verdict: {why}" for why in one.refused), *one.cautions)


def _points(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from wrap(text, WIDE, initial_indent="    - ", subsequent_indent="      ")


def _verdict_lines(record: GridRecord, one: CellVerdict) -> Iterator[str]:
    seen = one.comparison
    between = f"{ratio(seen.low)} to {ratio(seen.high)}" if isfinite(seen.high) else "no interval"
    bound = " (bound)" if one.variant.bound else ""
    yield (
        f"  {one.variant.name}{bound} against {record.plan.baseline.name}: {one.verdict},"
        f" {one.measure} {ratio(seen.ratio)} times ({between}), p {one.p_holm:.2g}"
    )
    if one.more_blocks is not None and not one.refused:
        yield f"    about {plural(one.more_blocks, 'more block')} would decide it"


def settings_shown(record: GridRecord) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The settings that differ, with each variant's value as people write it: ``128MB``."""
    for name, values in differing_settings(record):
        pairs = zip(record.plan.names, values, strict=True)
        yield name, tuple(as_written(name, value, _major(record, one)) for one, value in pairs)


def _major(record: GridRecord, variant: str) -> int:
    version = record.settings.get(variant, {}).get("server_version", "")
    number = re.match(r"\d+", version)
    return int(number[0]) if number and int(number[0]) in MAJORS else MAJORS[-1]


def _setting(name: str, values: Sequence[str]) -> str:
    return f"{name}: {' | '.join(value or 'empty' for value in values)}"


def _failure_line(failure: Failure) -> str:
    return f"{failure.cell.key} block {failure.block}, {failure.label}: {failure.reason}"


def _beside_line(item: dict[str, Any]) -> str:
    same = "same settings" if item["same_settings"] else "other settings"
    return (
        f"{item['cell']} {item['variant']}: {count(round(item['tps'], 1))} tps,"
        f" then {count(round(item['other_tps'], 1))} ({ratio(item['ratio'])}; {same})"
    )


def _listed(title: str, items: Sequence[str]) -> Iterator[str]:
    if items:
        yield ""
        yield title
        for item in items:
            yield from wrap(item, WIDE, initial_indent="  - ", subsequent_indent="    ")


# JSON


def _variant(record: GridRecord, variant: Variant) -> dict[str, Any]:
    version = record.settings.get(variant.name, {}).get("server_version")
    return {
        "name": variant.name,
        "server_version": version,
        "bound": variant.bound,
        "connect": variant.connect,
        "network": variant.network,
        "image": variant.image if variant.network else None,
        "storage": variant.storage,
    }


def _cell(
    record: GridRecord, cell: Cell, found: Iterable[Side], seen: Sequence[CellVerdict]
) -> dict[str, Any]:
    return {
        "cell": cell.key,
        "workload": cell.workload,
        "scale": cell.scale,
        "clients": cell.clients,
        "rate": cell.rate,
        "asked_tps": record.rates.get(cell.key),
        "sides": [_side(side) for side in found],
        "verdicts": [_verdict(record, one) for one in seen if one.cell == cell],
        "meanwhile": [_meanwhile(one) for one in meanwhile(record) if one.cell == cell.key],
    }


def _meanwhile(one: Meanwhile) -> dict[str, Any]:
    known = {name: value for name, value in asdict(one).items() if name != "cell"}
    return known | {"events": [{"event": name, "share": share} for name, share in one.events]}


def _side(side: Side) -> dict[str, Any]:
    return {
        "variant": side.variant,
        "runs": side.runs,
        "tps": side.tps,
        "charged_tps": side.charged,
        "worst_second": side.worst_second,
        "cv": side.cv,
        "drift": side.drift,
        "skipped": side.skipped,
        "latency_ms": {name: _ms(value) for name, value in side.percentiles.items()},
        "longest_ms": _ms(side.longest),
        "first_touch_ms": None if side.first_touch is None else side.first_touch * 1000,
    }


def _verdict(record: GridRecord, one: CellVerdict) -> dict[str, Any]:
    seen = one.comparison
    return {
        "variant": one.variant.name,
        "first": record.plan.baseline.name,
        "verdict": str(one.verdict),
        "measure": one.measure,
        "ratio": seen.ratio,
        "interval": [_finite(seen.low), _finite(seen.high)],
        "hodges_lehmann": seen.hodges_lehmann,
        "pairs": seen.pairs,
        "p": seen.p_value,
        "p_holm": one.p_holm,
        "mde": _finite(seen.mde),
        "more_blocks": one.more_blocks,
        "bound": one.variant.bound,
        "refused": list(one.refused),
        "cautions": list(one.cautions),
    }


def _failure(failure: Failure) -> dict[str, Any]:
    return {
        "cell": failure.cell.key,
        "phase": failure.phase,
        "block": failure.block,
        "variant": failure.label,
        "reason": failure.reason,
    }


def _ms(value: int | None) -> float | None:
    return None if value is None else value / 1000


def _finite(number: float) -> float | None:
    return number if isfinite(number) else None
