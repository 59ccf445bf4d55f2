"""The gains of a series of loads, and where there are none, for terminal and page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mrtuner.bench.series import FOREIGN_CPU_WARNED, LeftOut, LoadFinding, Series
from mrtuner.bench.verdict.judge import Judged
from mrtuner.present.text import Look, heading, paragraph, still_needed, table, titled
from mrtuner.stats.comparison import FEWEST_PAIRS, Comparison, Verdict
from mrtuner.wording import first_upper, plural

#: Pauses [s], and their ratio, from which on the headline mentions them.
_LONG_PAUSE: Final = 1.0
_TIMES_LONGER: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GainRow:
    """One load in the first table."""

    title: str
    why: str
    verdict: Verdict
    gain: str  # × 2.31, p99 × 0.015, or pause × 0.02
    interval: str  # 1.94 to 2.86
    speed: str | None  # throughput × 1.5 (1.4 to 1.6), where something else is judged
    pause: str | None  # 11 s → 0.1 s: with the defaults, with ours; None: not measured
    p99: str | None  # 41 ms → 54 ms
    bound: str  # CPU: 97% of 2 busy
    bound_short: str  # CPU
    parts: str  # sorts × 1.04, hash joins × 1.45; empty for a load of one piece
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The verdict in words, with every load treated alike."""

    headline: str
    sentences: tuple[str, ...]
    rows: tuple[GainRow, ...]
    left_out: tuple[LeftOut, ...]
    warnings: tuple[str, ...]


def answer(series: Series) -> Answer:
    """Return the conclusions from the whole series."""
    found = series.findings
    return Answer(
        headline=_headline(found),
        sentences=tuple(_sentences(found)),
        rows=tuple(_row(one) for one in found),
        left_out=series.left_out,
        warnings=tuple(_warnings(series)),
    )


def screen(series: Series, look: Look) -> Iterator[str]:
    """Yield the answer for a terminal."""
    said = answer(series)
    yield from titled(said.headline, look)
    for sentence in said.sentences:
        yield from paragraph(sentence, look)
    for warning in said.warnings:
        yield from paragraph(f"warning: {warning}", look, style="warning")
    yield ""
    header = ("load", "verdict", "ratio", "95 % interval", "longest pause", "limited by")
    rows = [
        (row.title, str(row.verdict), row.gain, row.interval, row.pause or "–", row.bound_short)
        for row in said.rows
    ]
    yield from table(header, rows, look)
    speeds = [f"{row.title} {row.speed}" for row in said.rows if row.speed is not None]
    if speeds:
        yield from heading("throughput where another measure is judged, for information", look)
        yield from paragraph("; ".join(speeds), look)
    for row in said.rows:
        if row.parts:
            yield from heading(f"{row.title}, part by part: medians, no verdicts", look)
            yield from paragraph(row.parts, look)
    tails = [f"{row.title} {row.p99}" for row in said.rows if row.p99 is not None]
    if tails:
        yield from heading("99th percentile of latency, better or worse", look)
        yield from paragraph("; ".join(tails), look)
    grouped = _grouped(said.rows)
    if grouped:
        yield from heading("cautions", look)
    for note, titles in grouped.items():
        whose = "every load" if len(titles) == len(said.rows) > 1 else ", ".join(titles)
        yield from paragraph(f"{whose}: {note}", look)
    for one in said.left_out:
        yield from heading(f"not measured: {one.title}", look)
        yield from paragraph(f"{one.why}. {one.remedy}", look)


def _grouped(rows: Sequence[GainRow]) -> dict[str, list[str]]:
    """Return every note once, with the loads that it applies to."""
    grouped: dict[str, list[str]] = {}
    for row in rows:
        for note in row.notes:
            grouped.setdefault(note, []).append(row.title)
    return grouped


# Wording.


def _headline(found: Sequence[LoadFinding]) -> str:
    if not found:
        return "Nothing was measured"
    better = [one for one in found if one.verdict.verdict is Verdict.BETTER]
    worse = [one for one in found if one.verdict.verdict is Verdict.WORSE]
    if not [*better, *worse]:
        same = all(one.verdict.verdict is Verdict.EQUIVALENT for one in found)
        return "No difference that matters" if same else "Undecided: no load shows a difference"
    parts = [_short(one) for one in better]
    if worse:
        parts.append(f"slower: {', '.join(_short(one) for one in worse)}")
    rest = len(found) - len(better) - len(worse)
    elsewhere = f" No gain shown in {rest} of {len(found)} loads." if rest else ""
    return f"{first_upper('; '.join(parts))}.{elsewhere}"


def _short(one: LoadFinding) -> str:
    """Return, say, ``small volume 1.6 times as fast, longest pause …``."""
    if one.verdict.measure == "longest pause":
        return f"{one.title}: {_pause_words(one)}"
    if one.rated:
        a, b = _p99s(one)
        text = f"{one.title} {one.verdict.measure} {b or '–'} instead of {a or '–'}"
    else:
        text = f"{one.title} {_times(one.verdict.comparison.ratio)} as fast"
    return f"{text}, {_pause_words(one)}" if _pauses_apart(one) else text


def _pauses_apart(one: LoadFinding) -> bool:
    """Whether one side had long pauses in every block, and the other in none."""
    blocks = one.pauses_by_block
    longest = [max(pair) for pair in blocks]
    if one.pauses is None or not blocks or max(longest) < _LONG_PAUSE:
        return False
    return all(a > _TIMES_LONGER * b for a, b in blocks) or all(
        b > _TIMES_LONGER * a for a, b in blocks
    )


def _pause_words(one: LoadFinding) -> str:
    a, b = (_seconds(side.pause or 0) for side in (one.a, one.b))
    return f"longest pause {b} instead of {a}"


def _sentences(found: Sequence[LoadFinding]) -> Iterator[str]:
    for verdict, words in _GROUPS:
        titles = [one.title for one in found if one.verdict.verdict is verdict]
        if titles:
            yield f"{words}: {', '.join(titles)}."
    if len(found) > 1:
        yield (f"The verdicts hold jointly: p is adjusted for {len(found)} comparisons (Holm).")


_GROUPS: Final = (
    (Verdict.BETTER, "Better with the advice"),
    (Verdict.WORSE, "Worse with the advice"),
    (Verdict.EQUIVALENT, "No difference that matters"),
    (Verdict.UNDECIDED, "No difference shown"),
)


def _warnings(series: Series) -> Iterator[str]:
    if series.busy:
        yield f"other programs used the machine before the first run: {series.busy}"
    foreign = series.foreign
    if foreign is not None and foreign > FOREIGN_CPU_WARNED:
        yield (
            f"other programs used {foreign:.0%} of the CPU or more during half of the runs: the "
            "ratios are less reliable; measure again when the machine is quiet"
        )


def _row(one: LoadFinding) -> GainRow:
    seen, verdict = one.verdict.comparison, one.verdict.verdict
    a, b = _p99s(one)
    gain = f"{_SHORT[one.verdict.measure]}× {_figures(seen.ratio)}"
    return GainRow(
        title=one.title, why=one.why, verdict=verdict, gain=gain, interval=interval(seen),
        speed=_speed(one),
        pause=_pauses(one), p99=f"{a} → {b}" if a and b else None, bound=_bounds(one),
        bound_short=_bounds_short(one),
        parts=", ".join(f"{name} × {_figures(ratio)}" for name, ratio in one.parts),
        notes=tuple(_notes(one)),
    )  # fmt: skip


#: What a ratio in a table compares; throughput is not named.
_SHORT: Final[Mapping[Judged, str]] = {
    "throughput": "", "longest pause": "pause ", "p99 latency": "p99 ", "median latency": "median ",
}  # fmt: skip


def _speed(one: LoadFinding) -> str | None:
    """Return the throughput ratio of a load at full speed that another measure judges."""
    seen = one.throughput
    if one.rated or one.verdict.measure == "throughput" or seen is None:
        return None
    return f"throughput × {_figures(seen.ratio)} ({interval(seen)})"


def _notes(one: LoadFinding) -> Iterator[str]:
    yield from (f"no verdict: {reason}" for reason in one.verdict.refused)
    more = one.verdict.more_blocks
    if more is not None and not one.verdict.refused:
        yield still_needed(more, one.verdict.comparison.pairs)
    same = one.verdict.calibration
    if same is not None:
        yield (
            f"calibration, the same settings twice in {plural(same.pairs, 'block')}: "
            f"{_figures(same.ratio)} times, {interval(same)}"
        )
    yield from one.verdict.cautions


def interval(seen: Comparison) -> str:
    """Return ``1.94 to 2.86``; of two pairs it would span several powers of ten."""
    if seen.pairs < FEWEST_PAIRS:
        return "no interval"
    return f"{_figures(seen.low)} to {_figures(seen.high)}"


def _figures(ratio: float) -> str:
    return f"{ratio:.2f}" if 0.1 <= ratio < 10 else f"{ratio:.2g}"


def _times(ratio: float) -> str:
    return f"{ratio:.1f} times" if 1.15 <= ratio < 10 else f"{_figures(ratio)} times"


def _p99s(one: LoadFinding) -> tuple[str | None, str | None]:
    """Return p99 of both sides; the median if that is what judges the load."""
    share = 0.5 if one.verdict.measure == "median latency" else 0.99
    a, b = (_time(side.times.percentile(share)) for side in (one.a, one.b))
    return a, b


def _time(microseconds: int | None) -> str | None:
    return None if microseconds is None else _seconds(microseconds / 1e6)


def _seconds(seconds: float) -> str:
    """Return ``0.1 s``, ``11 s``, ``12 ms``."""
    if seconds < 0.1:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"


def _pauses(one: LoadFinding) -> str | None:
    if one.pauses is None:
        return None
    a, b = one.pauses
    return f"{_seconds(a)} → {_seconds(b)}"


def _bounds(one: LoadFinding) -> str:
    a, b = one.bounds
    if a.kind == b.kind:
        return b.words
    return f"{b.words}; {one.a.variant}: {a.words}"


def _bounds_short(one: LoadFinding) -> str:
    a, b = (_KINDS[side.kind] for side in one.bounds)
    return b if a == b else f"{b} ({one.a.variant}: {a})"


_KINDS: Final = {
    "cpu": "CPU", "storage": "storage", "locks": "locks", "rate": "the rate", "nothing": "–",
}  # fmt: skip
