"""A run of a grid as a report for a terminal, computed from the record alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from textwrap import wrap
from typing import Final

from mrtuner.bench.record.model import Record
from mrtuner.bench.verdict.judge import CellVerdict, require_samples, verdicts
from mrtuner.bench.verdict.summary import (
    OtherRun,
    VariantSummary,
    beside,
    by_cell,
    collector_share,
    differing_settings,
    summaries,
)
from mrtuner.catalog import MAJORS
from mrtuner.present.html import as_written, count, ratio
from mrtuner.stats.comparison import Verdict
from mrtuner.text_tables import bulleted
from mrtuner.wording import plural

#: Line width of text on a terminal.
WIDE: Final = 100
#: More variants than this are counted, not named, in the headline.
_NAMED: Final = 2
_IN_WORDS: Final = {
    Verdict.BETTER: "better",
    Verdict.WORSE: "worse",
    Verdict.EQUIVALENT: "without a difference that matters",
    Verdict.UNDECIDED: "undecided",
}


def lines(record: Record, other: Record | None = None) -> Iterator[str]:
    """Yield the report for a terminal, one line at a time."""
    require_samples(record)
    compared = beside(record, other) if other is not None else []
    seen, found = verdicts(record), by_cell(summaries(record))
    yield _title(record, len(seen))
    wide = max(map(len, record.plan.names))
    for cell in record.cells():
        yield ""
        yield cell.key
        for side in found.get(cell, {}).values():
            yield f"  {_side_line(record, side, wide)}"
        yield from _cell_lines(record, [one for one in seen if one.cell == cell])
    yield from bulleted("settings that differ", [
        f"{name}: {' | '.join(value or 'empty' for value in values)}"
        for name, values in settings_shown(record)
    ])  # fmt: skip
    yield from bulleted("runs that failed", [
        f"{one.cell.key} block {one.block}, {one.label}: {one.reason}" for one in record.failures
    ])  # fmt: skip
    yield from bulleted(
        "variants that could not be run here",
        [f"{name}: {reason}" for name, reason in record.plan.skipped.items()],
    )
    yield from bulleted("notes", record.notes)
    yield ""
    yield f"collecting took {collector_share(record) * 100:.1f} % of one CPU"
    if other is not None:
        yield from bulleted(
            "compared with the other run (no verdict, because machines drift between sessions)",
            [_beside_line(item) for item in compared],
        )


def answer(record: Record, seen: Sequence[CellVerdict]) -> str:
    """Return the result in one sentence that needs no table: the headline of the page."""
    if not seen:
        return "No two variants were measured in the same cell"
    base, names = record.plan.baseline.name, dict.fromkeys(one.variant.name for one in seen)
    if len(names) > _NAMED:
        said = _counted(seen)
        return f"Of {plural(len(seen), 'comparison')} with {base}: {said}"
    by_name = ([one for one in seen if one.variant.name == name] for name in names)
    return "; ".join(_answer(own, base) for own in by_name)


def _answer(own: Sequence[CellVerdict], base: str) -> str:
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
    """Return ``3 better, 1 worse, 2 without a difference that matters``; undecided ones last."""
    times = Counter(one.verdict for one in seen)
    return ", ".join(f"{times[one]} {word}" for one, word in _IN_WORDS.items() if times[one])


def _title(record: Record, tests: int) -> str:
    state = "" if record.sealed else ", not finished"
    adjusted = f"; adjusted for {plural(tests, 'comparison')}" if tests > 1 else ""
    return (
        f"{record.plan.name}: {plural(len(record.cells()), 'cell')},"
        f" {plural(len(record.samples), 'run')}{state}{adjusted}"
    )


def _side_line(record: Record, side: VariantSummary, wide: int) -> str:
    p99 = side.times.percentile(0.99)
    tail = f", p99 {count(p99 / 1000)} ms" if p99 is not None else ""
    longest = f", longest {count(side.longest / 1000)} ms" if side.longest is not None else ""
    touch = side.first_touch
    first = f", first touch {count(touch * 1000)} ms" if touch is not None else ""
    rate = count(round(side.tps, 1))
    writes = not (record.plan.by_name[side.cell.workload].reads_only or side.cell.rate)
    paid = count(round(side.tps_with_checkpoint, 1))
    charged = f" ({paid} with checkpoint)" if writes else ""
    skipped = f", {count(side.skipped)} skipped" if side.skipped else ""
    said = f"{rate} tps{charged}{tail}{longest}{first}{skipped}, {plural(side.runs, 'run')}"
    return f"{side.variant:<{max(wide, 12)}} {said}"


def _cell_lines(record: Record, seen: Sequence[CellVerdict]) -> Iterator[str]:
    """Yield each verdict with its own remarks, then the shared remarks once."""
    shared, alone = said_once(
        [[*(f"no verdict: {why}" for why in one.refused), *one.cautions] for one in seen]
    )
    for one, own in zip(seen, alone, strict=True):
        yield from _verdict_lines(record, one)
        yield from _points(own)
    if shared:
        yield "  common to several of these"
        yield from _points(shared)


def said_once(texts: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """Return the remarks that several share, in order, and each one's own remarks."""
    times = Counter(text for each in texts for text in each)
    shared = [text for text, count in times.items() if count > 1]
    return shared, [[text for text in each if times[text] == 1] for each in texts]


def _points(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from wrap(text, WIDE, initial_indent="    - ", subsequent_indent="      ")


def _verdict_lines(record: Record, one: CellVerdict) -> Iterator[str]:
    seen = one.comparison
    between = f"{ratio(seen.low)} to {ratio(seen.high)}" if isfinite(seen.high) else "no interval"
    bound = " (bound)" if one.variant.bound else ""
    yield (
        f"  {one.variant.name}{bound} against {record.plan.baseline.name}: {one.verdict},"
        f" {one.measure} {ratio(seen.ratio)} times ({between}), p {one.p_holm:.2g}"
    )
    if one.more_blocks is not None and not one.refused:
        yield f"    about {plural(one.more_blocks, 'more block')} would decide it"


def settings_shown(record: Record) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the settings that differ, with each variant's value as people write it: ``128MB``."""
    for name, values in differing_settings(record):
        pairs = zip(record.plan.names, values, strict=True)
        yield name, tuple(as_written(name, value, _major(record, one)) for one, value in pairs)


def _major(record: Record, variant: str) -> int:
    version = record.settings.get(variant, {}).get("server_version", "")
    number = re.match(r"\d+", version)
    return int(number[0]) if number and int(number[0]) in MAJORS else MAJORS[-1]


def _beside_line(item: OtherRun) -> str:
    same = "same settings" if item.same_settings else "other settings"
    return (
        f"{item.cell} {item.variant}: {count(round(item.tps, 1))} tps,"
        f" then {count(round(item.other_tps, 1))} ({ratio(item.ratio)}; {same})"
    )
