"""The page a database administrator keeps: one HTML file that needs nothing but itself.

Everything in it comes from the plain data of a tuning (``mrtuner.tune/1``) and of a proof
(``mrtuner.proof/1``), so it can be built again from the JSON alone, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from math import isfinite
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mrtuner.bench import series
from mrtuner.bench.judge import Judgement
from mrtuner.bench.record import Record, from_dict
from mrtuner.errors import BadValue
from mrtuner.escape import printable
from mrtuner.extras import without
from mrtuner.postgres.connect import masked
from mrtuner.present import charts
from mrtuner.present.bench_charts import Effect, forest
from mrtuner.present.gains import Row, answer
from mrtuner.present.proof import Evidence, differences, evidence
from mrtuner.present.text import still_needed
from mrtuner.stats.paired import Calibration, Comparison, Verdict
from mrtuner.units import pretty_bytes

if TYPE_CHECKING:
    from jinja2 import Environment

_TUNE: Final = "mrtuner.tune/1"
_AREAS: Final = {"wal": "WAL"}
_APPLIED: Final[Mapping[str, Any]] = {
    "steps": (), "left_alone": (), "refused": (), "elsewhere": None,
    "method": None, "restarted": False, "put_back": False, "undo": None,
}  # fmt: skip
_TEMPLATES: Final = Path(__file__).parent / "templates"
#: Facts of a host that count bytes.
_SIZES: Final = frozenset({"memory", "disk_size", "disk_free", "swap", "size"})
#: Connection strings and passwords inside any text, up to where a shell's word ends.
_SECRET: Final = re.compile(
    r"""(?P<uri>\b\w+://\S+?(?=["']?(?:\s|$)))"""
    r"""|(?P<name>\w*(?:password|secret)\s*=\s*)(?:"""
    r"""'"'"'.*?(?:(?<!\\)'"'"'|$)"""  # quotes inside quotes, as shlex writes them
    r"""|'(?:\\.|[^'\\])*'?"""
    r"""|\S+?(?=["']?(?:\s|$)))""",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Headline:
    """The verdict in words: one word, one line, one sentence."""

    word: str
    line: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Duel:
    """One arm against the first, ready for the page."""

    evidence: Evidence
    headline: Headline
    picture: str
    key: str


@dataclass(frozen=True, slots=True)
class Load:
    """One load of a series, ready for the page."""

    finding: series.Finding
    row: Row
    proof: Proof

    @property
    def record(self) -> Record:
        """Its one cell, as the record of a proof."""
        return self.proof.record


@dataclass(frozen=True, slots=True)
class Proof:
    """A proof, ready for the page."""

    record: Record
    duels: tuple[Duel, ...]
    differences: tuple[tuple[str, tuple[str, ...]], ...]  # setting, its value in every arm

    @property
    def calibration(self) -> Calibration | None:
        """What the first arm against itself said of the machine."""
        return self.duels[0].evidence.judgement.calibration if self.duels else None

    @property
    def steal(self) -> float | None:
        """The most CPU time, as a share, that the host of our machine took during a run."""
        return _most(sample.steal for sample in self.record.accepted())

    @property
    def foreign(self) -> float | None:
        """The most CPU time, as a share, that other processes used during a run."""
        return _most(sample.foreign for sample in self.record.accepted())


def _most(shares: Iterable[float | None]) -> float | None:
    return max((share for share in shares if share is not None), default=None)


@charts.for_every_screen()
def page(
    tuning: Mapping[str, Any],
    proof: Mapping[str, Any] | None = None,
    *,
    commands: Sequence[tuple[str, str]] = (),
    applied: Mapping[str, Any] | None = None,
) -> str:
    """The whole report as one HTML document; the same input gives the same text.

    `tuning` is ``Tuning.to_dict()``, `proof` ``Record.to_dict()``. `commands` are (purpose,
    command) to do the same on one's own server and to undo it. `applied` tells what was written:
    ``steps``, ``left_alone``, ``refused`` and ``elsewhere`` as in the plan of an apply, and
    ``method``, ``restarted``, ``put_back``, ``undo``; each may be missing. Passwords in any text
    are masked.

    Raises BadValue for data of another schema, MissingPart without jinja2 or matplotlib.
    """
    if tuning.get("schema") != _TUNE:
        raise BadValue(
            f"not a tuning: schema {tuning.get('schema')!r}", f"Give a document of {_TUNE!r}."
        )
    if proof is not None and proof.get("schema") == series.SCHEMA:
        return _series_page(tuning, series.from_dict(proof), commands, applied)
    shown = None if proof is None else _proof(from_dict(proof), tuning["postgres"])
    return _rendered(
        "page.html", tuning, commands, applied,
        proof=shown, headlines=_headlines(shown), limits=list(_limits(tuning, shown)),
    )  # fmt: skip


def _rendered(
    template: str,
    tuning: Mapping[str, Any],
    commands: Sequence[tuple[str, str]],
    applied: Mapping[str, Any] | None,
    **more: Any,
) -> str:
    """A page with the advice in it; `more` is what it measured, in its template's names."""
    return (
        environment()
        .get_template(template)
        .render(
            tuning=tuning,
            advice=_sorted_out(tuning["advice"]),
            budget_picture=_budget_picture(tuning["budget"]),
            commands=commands,
            applied=None if applied is None else {**_APPLIED, **applied},
            palette=charts.PALETTE,
            **more,
        )
    )


def _series_page(
    tuning: Mapping[str, Any],
    measured: series.Series,
    commands: Sequence[tuple[str, str]],
    applied: Mapping[str, Any] | None,
) -> str:
    """The same for several loads: the answer first, then the advice, then every load."""
    said = answer(measured)
    shown = [
        Load(one, row, _proof(one.record.of_cell(one.verdict.cell), tuning["postgres"], number))
        for number, (one, row) in enumerate(zip(measured.findings, said.rows, strict=True), 1)
    ]
    return _rendered(
        "series.html", tuning, commands, applied,
        said=said, loads=shown, forest=_forest(measured) if shown else "",
        conditions=measured.conditions, record=shown[0].finding.record if shown else None,
        limits=list(_limits_of_a_series(tuning)),
    )  # fmt: skip


def _forest(measured: series.Series) -> str:
    """Every load judged by its throughput, as one picture."""
    effects = [
        Effect(
            name=one.title, ratio=one.verdict.comparison.ratio, low=one.verdict.comparison.low,
            high=one.verdict.comparison.high,
            decided=one.verdict.verdict is not Verdict.UNDECIDED,
        )
        for one in measured.findings
        if not one.rated
    ]  # fmt: skip
    delta = measured.findings[0].record.plan.delta
    return forest(effects, delta=delta, key="loads")


def _limits_of_a_series(tuning: Mapping[str, Any]) -> Iterator[str]:
    yield from _limits(tuning, None, proved=True)
    yield (
        "Each load compares all the settings together. It does not show what any one of them"
        " contributes."
    )
    yield "The loads are not your application: other queries and other data gain more, or nothing."
    yield "Servers and load generator shared one machine, so each took CPU time from the other."


# The advice


@dataclass(frozen=True, slots=True)
class Sorted:
    """The advice by what is to be done with it; changes and suggestions by area."""

    changes: tuple[dict[str, Any], ...]
    suggestions: tuple[dict[str, Any], ...]
    kept: tuple[dict[str, Any], ...]
    unknown: tuple[dict[str, Any], ...]

    @property
    def restarts(self) -> int:
        """How many of the changes wait for a restart."""
        return sum(1 for item in self.changes if item["restart"])


def _sorted_out(advice: Iterable[dict[str, Any]]) -> Sorted:
    items = list(advice)
    changes = [item for item in items if item["verdict"] == "change"]
    return Sorted(
        changes=tuple(item for item in changes if not item["suggestion"]),
        suggestions=tuple(item for item in changes if item["suggestion"]),
        kept=tuple(item for item in items if item["verdict"] == "keep"),
        unknown=tuple(item for item in items if item["verdict"] == "unknown"),
    )


def by_area(advice: Iterable[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Areas in the order of their first parameter."""
    items = list(advice)
    order = list(dict.fromkeys(item["area"] for item in items))
    items.sort(key=lambda item: order.index(item["area"]))
    for area, group in groupby(items, key=itemgetter("area")):
        yield _AREAS.get(area, first_upper(area)), list(group)


def _budget_picture(budget: Mapping[str, Any] | None) -> str:
    if budget is None:
        return ""
    parts = [(part["name"], part["bytes"]) for part in budget["parts"]]
    return charts.budget(parts, ceiling=budget["ceiling"], memory=budget["memory"], key="budget")


# The proof


def _proof(record: Record, major: int, first: int = 1) -> Proof:
    duels = (_duel(item, record, number) for number, item in enumerate(evidence(record), first))
    written = (
        (name, tuple(as_written(name, value, major) for value in values))
        for name, values in differences(record)
    )
    return Proof(record, tuple(duels), tuple(written))


def _duel(item: Evidence, record: Record, number: int) -> Duel:
    key = f"pairs-{number}"
    picture = charts.pairs(_picture(item, record.plan.delta), key=key)
    return Duel(item, _headline(item.judgement), picture, key)


def _picture(item: Evidence, delta: float) -> charts.Duel:
    seen = item.judgement.throughput
    return charts.Duel(
        name_a=item.a,
        name_b=item.b,
        blocks=[
            charts.Block(number=block.number, a=block.a.run.tps, b=block.b.run.tps)
            for block in item.blocks
        ],
        ratio=seen.ratio,
        low=seen.low,
        high=seen.high,
        delta=delta,
        unit="transactions per second",
    )


def as_written(name: str, value: str, major: int) -> str:
    """A value of pg_settings as a configuration file has it: ``128MB`` for 16384 of 8 kB."""
    from mrtuner.catalog import parameters

    known = parameters(major).get(name)
    if known is None:
        return value
    try:
        return known.show(known.parse(value))
    except BadValue:
        return value


# Words


def _headlines(proof: Proof | None) -> list[Headline]:
    if proof is None:
        return [
            Headline("Not measured", "Advice without a proof run", "Nothing was measured here.")
        ]
    if not proof.duels:
        return [Headline("Not measured", "The proof has no finished block", "Nothing can be said.")]
    return [duel.headline for duel in proof.duels]


def _headline(judgement: Judgement) -> Headline:
    seen = judgement.throughput
    times, interval_ = f"{ratio(seen.ratio)} times the throughput", interval(seen)
    match judgement.verdict:
        case Verdict.BETTER | Verdict.WORSE as verdict:
            return Headline(str(verdict).capitalize(), times, f"{first_upper(interval_)}.")
        case Verdict.EQUIVALENT:
            sentence = f"{first_upper(times)}; {interval_}; {seen.because}."
            return Headline("Equivalent", "No difference that matters", sentence)
        case Verdict.UNDECIDED if seen.verdict is not Verdict.UNDECIDED:
            line = f"{times} as measured, but not with the writing paid for"
            return Headline("Undecided", line, f"{first_upper(interval_)}.")
        case Verdict.UNDECIDED:
            sentence = f"{interval_}; {seen.because}. {_more(seen)}"
            return Headline(
                "Undecided", "No difference shown", f"{first_upper(times)}; {sentence}".rstrip()
            )


def _more(seen: Comparison) -> str:
    if seen.more_blocks is None:
        return ""
    return f"{first_upper(still_needed(seen.more_blocks, seen.pairs))}."


def first_upper(text: str) -> str:
    """Unlike str.capitalize, it leaves names such as max_wal_size and JIT alone."""
    return text[:1].upper() + text[1:]


def interval(seen: Comparison | Calibration) -> str:
    """``95 % interval 1.31 to 1.54, 8 pairs``"""
    pairs = plural(seen.pairs, "pair")
    if not isfinite(seen.high):
        return f"no interval, {pairs}"
    return f"95 % interval {ratio(seen.low)} to {ratio(seen.high)}, {pairs}"


def _limits(
    tuning: Mapping[str, Any], proof: Proof | None, *, proved: bool = False
) -> Iterator[str]:
    """What must not be read out of this page."""
    yield (
        "The memory budget is computed, not measured. Temporary tables, memory taken by extensions "
        "and page tables of the kernel are not in it."
    )
    if not tuning["live"]:
        yield "The advice is for a machine as it was described, not for a server that was read."
    if proof is None and proved:
        return
    if proof is None:
        yield "No proof was run: the reasons and their basis are all there is to go by."
        return
    plan = proof.record.plan
    yield (
        "The proof compares all the settings together. It does not show what any one of them "
        "contributes, and a setting whose basis is convention may contribute nothing."
    )
    yield (
        f"The load was {_script(plan.load.script)} at scale {plan.load.scale}, not your "
        "application. Other queries, other data and other sizes may gain more, less or nothing."
    )
    yield (
        "pgbench sends the next transaction when the last one is done. A load that does not wait "
        "would see longer latencies in a stall than these."
    )
    if proof.record.local:
        yield "Server and load generator shared one machine, so each took CPU time from the other."
    if not proof.calibration:
        yield "The machine was not calibrated: its noise is known only from the pairs themselves."


def _script(script: str) -> str:
    return {
        "tpcb": "pgbench's TPC-B-like transaction",
        "simple-update": "pgbench's simple update",
        "select": "pgbench's select by key",
    }.get(script, f"the script {script}")


# Numbers


def ratio(value: float) -> str:
    """Three figures, and three decimals just above one: ``1.42``, ``1.031``, ``0.978``."""
    if 0.1 <= value < 1.1:
        return f"{value:.3f}"
    return f"{value:.2f}" if 1 <= value < 10 else f"{value:.3g}"


def count(value: float | None) -> str:
    """``1,234`` from 100 up, three figures below, a dash for nothing."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def percent(share: float | None) -> str:
    """A share of one as ``3.1 %`` or ``45 %``; a dash for nothing."""
    if share is None or not isfinite(share):
        return "–"
    return f"{share * 100:.2g} %" if share < 0.1 else f"{share * 100:.0f} %"


def plural(number: int, noun: str) -> str:
    """``1 setting``, ``2,000 settings``"""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def moment(text: str) -> str:
    """An ISO 8601 time to the minute: ``2026-07-01 12:40 UTC``."""
    zone = " UTC" if text.endswith("+00:00") else text[19:].lstrip(".0123456789")
    return text[:16].replace("T", " ") + zone


def duration(seconds: float) -> str:
    """``45 s``, ``6.8 min``, ``1.3 h``."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def _host_value(value: Any, name: str) -> str:
    """A fact of a host as the record keeps it: sizes in bytes, huge pages as a small table."""
    if isinstance(value, Mapping):
        inner = (f"{key} {_host_value(item, key)}" for key, item in value.items())
        return ", ".join(inner)
    if name in _SIZES and isinstance(value, int):
        return pretty_bytes(value)
    return str(value)


# The frame


def without_secrets(text: str) -> str:
    """The text with every password in it masked.

    >>> without_secrets("mrtuner apply postgresql://app:hunter2@db/shop --yes")
    'mrtuner apply postgresql://app:***@db/shop --yes'
    """
    return _SECRET.sub(_masked, text)


def _masked(match: re.Match[str]) -> str:
    return masked(match["uri"]) if match["uri"] else f"{match['name']}***"


def _safe(value: Any) -> Any:
    """What every {{ … }} passes through before it is escaped."""
    from markupsafe import Markup

    return (
        printable(without_secrets(value), lines=True)
        if isinstance(value, str) and not isinstance(value, Markup)
        else value
    )


@cache
def environment() -> Environment:
    """The templates of every page, with their filters; passwords in any text are masked."""
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError as missing:
        raise without("jinja2") from missing
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_safe,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {
        "bytes": pretty_bytes,
        "by_area": by_area,
        "count": count,
        "duration": duration,
        "interval": interval,
        "moment": moment,
        "percent": percent,
        "plural": plural,
        "ratio": ratio,
        "first_upper": first_upper,
        "host_value": _host_value,
        "script": _script,
    }
    return made
