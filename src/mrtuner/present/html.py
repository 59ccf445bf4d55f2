"""The report as a page to keep: one self-contained HTML file.

All content comes from the plain data of a tuning (``mrtuner.tune/1``) and of a series of loads
(``mrtuner.series/1``), so it can be recreated from the JSON alone, byte for byte.
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
from mrtuner.bench.record.model import Record
from mrtuner.errors import BadValue
from mrtuner.escape import printable
from mrtuner.extras import without
from mrtuner.postgres.connect import masked
from mrtuner.present import charts, figures
from mrtuner.present.bench_charts import Effect, forest
from mrtuner.present.gains import GainRow, answer
from mrtuner.present.proof import Evidence, evidence
from mrtuner.stats.paired import Verdict
from mrtuner.units import pretty_bytes, pretty_duration
from mrtuner.wording import enumerated, first_upper, plural

if TYPE_CHECKING:
    from jinja2 import Environment

_AREAS: Final = {"wal": "WAL"}
_APPLIED: Final[Mapping[str, Any]] = {
    "steps": (), "left_alone": (), "refused": (), "elsewhere": None,
    "method": None, "restarted": False, "put_back": False, "undo": None,
}  # fmt: skip
_TEMPLATES: Final = Path(__file__).parent / "templates"
#: Facts about a host that are in bytes.
_SIZES: Final = frozenset({"memory", "disk_size", "disk_free", "swap", "size"})
#: Connection strings and passwords inside any text, up to the end of the shell word.
_SECRET: Final = re.compile(
    r"""(?P<uri>\b\w+://\S+?(?=["']?(?:\s|$)))"""
    r"""|(?P<name>\w*(?:password|secret)\s*=\s*)(?:"""
    r"""'"'"'.*?(?:(?<!\\)'"'"'|$)"""  # quotes inside quotes, as shlex writes them
    r"""|'(?:\\.|[^'\\])*'?"""
    r"""|\S+?(?=["']?(?:\s|$)))""",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Load:
    """One load of a series, ready for the page."""

    finding: series.LoadFinding
    row: GainRow
    evidence: Evidence
    picture: str


@figures.for_every_screen()
def page(
    tuning: Mapping[str, Any],
    proof: Mapping[str, Any],
    *,
    commands: Sequence[tuple[str, str]] = (),
    applied: Mapping[str, Any] | None = None,
) -> str:
    """Return the whole report as one HTML document; the same input gives the same text.

    `tuning` is ``Tuning.to_dict()``, `proof` ``Series.to_dict()``. `commands` are (purpose,
    command) to do the same on one's own server and to undo it. `applied` describes what was
    written: ``steps``, ``left_alone``, ``refused`` and ``elsewhere`` as in the plan of an apply,
    and ``method``, ``restarted``, ``put_back``, ``undo``; each is optional. Passwords in any text
    are masked.

    Raises BadValue for data of another schema, MissingPart without jinja2 or matplotlib.
    """
    from mrtuner.documents import read
    from mrtuner.tuning.document import TuneDocument

    read(tuning, TuneDocument)
    measured = series.from_dict(proof)
    said = answer(measured)
    found = zip(measured.findings, said.rows, strict=True)
    loads = [_load(one, row, number) for number, (one, row) in enumerate(found, 1)]
    record = loads[0].finding.record if loads else None
    return (
        environment()
        .get_template("series.html")
        .render(
            tuning=tuning,
            advice=_sorted_out(tuning["advice"]),
            budget_picture=_budget_picture(tuning["budget"]),
            commands=commands,
            applied=None if applied is None else {**_APPLIED, **applied},
            palette=figures.PALETTE,
            said=said,
            loads=loads,
            forest=_forest(measured) if loads else "",
            conditions=measured.conditions,
            record=record,
            one_server=record is not None and _is_one_server(record),
            limits=list(_limits(tuning, record)),
        )
    )


def _load(one: series.LoadFinding, row: GainRow, number: int) -> Load:
    seen = evidence(one.record, one.verdict.cell, one.a.variant, one.b.variant)
    return Load(one, row, seen, _pairs_picture(seen, one.record.plan.delta, number))


def _pairs_picture(seen: Evidence, delta: float, number: int) -> str:
    """Draw the throughput of every block; empty where there is no ratio."""
    if seen.throughput is None:
        return ""
    duel = charts.Duel(
        name_a=seen.a,
        name_b=seen.b,
        blocks=[
            charts.ChartPair(number=block.number, a=block.a.run.tps, b=block.b.run.tps)
            for block in seen.blocks
        ],
        ratio=seen.throughput.ratio,
        low=seen.throughput.low,
        high=seen.throughput.high,
        delta=delta,
        unit="transactions per second",
    )
    return charts.pairs(duel, key=f"pairs-{number}")


def _forest(measured: series.Series) -> str:
    """Draw every load's throughput in one chart; one that is not judged by it is not decided."""
    effects = [
        Effect(
            name=one.title, ratio=seen.ratio, low=seen.low, high=seen.high,
            decided=one.verdict.measure == "throughput"
            and one.verdict.verdict is not Verdict.UNDECIDED,
        )
        for one in measured.findings
        if not one.rated and (seen := one.throughput) is not None
    ]  # fmt: skip
    delta = measured.findings[0].record.plan.delta
    return forest(effects, delta=delta, key="loads")


# The advice


@dataclass(frozen=True, slots=True)
class Sorted:
    """The advice sorted by what to do with it; changes and suggestions by area."""

    changes: tuple[dict[str, Any], ...]
    suggestions: tuple[dict[str, Any], ...]
    kept: tuple[dict[str, Any], ...]
    unknown: tuple[dict[str, Any], ...]

    @property
    def restarts(self) -> int:
        """How many of the changes need a restart."""
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
    """Yield areas in the order of their first parameter."""
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


# Wording.


def as_written(name: str, value: str, major: int) -> str:
    """Return a pg_settings value as in a configuration file: ``128MB`` for 16384 of 8 kB."""
    from mrtuner.catalog import parameters

    known = parameters(major).get(name)
    if known is None:
        return value
    try:
        return known.show(known.parse(value))
    except BadValue:
        return value


def _is_one_server(record: Record) -> bool:
    """Whether all variants ran on the data of one server, as far as its settings tell."""
    known = [record.settings.get(name, {}) for name in record.plan.names]
    return len({(one.get("data_directory"), one.get("port")) for one in known}) == 1


def _limits(tuning: Mapping[str, Any], record: Record | None) -> Iterator[str]:
    """Yield what must not be concluded from this page."""
    yield (
        "The memory budget is computed, not measured. It does not include temporary tables, "
        "memory of extensions and the kernel's page tables."
    )
    if not tuning["live"]:
        yield "The advice is for a machine as described, not for a server that was examined."
    yield (
        "Each load compares all the settings together. It does not show what each of them "
        "contributes."
    )
    yield "The loads are not your application: other queries and data may gain more, or nothing."
    if record is not None and record.local:
        yield "Server and load generator shared one machine, so each took CPU time from the other."


# Numbers


def ratio(value: float) -> str:
    """Return three digits, or three decimals just above one: ``1.42``, ``1.031``, ``0.978``."""
    if 0.1 <= value < 1.1:
        return f"{value:.3f}"
    return f"{value:.2f}" if 1 <= value < 10 else f"{value:.3g}"


def count(value: float | None) -> str:
    """Return ``1,234`` from 100 up, three digits below, a dash for None."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def percent(share: float | None) -> str:
    """Return a share of one as ``3.1 %`` or ``45 %``; a dash for None."""
    if share is None or not isfinite(share):
        return "–"
    return f"{share * 100:.2g} %" if share < 0.1 else f"{share * 100:.0f} %"


def moment(text: str) -> str:
    """Return an ISO 8601 time to the minute: ``2026-07-01 12:40 UTC``."""
    zone = " UTC" if text.endswith("+00:00") else text[19:].lstrip(".0123456789")
    return text[:16].replace("T", " ") + zone


def _host_value(value: Any, name: str) -> str:
    """Return a host's fact from the record: sizes in bytes, huge pages as a small table."""
    if isinstance(value, Mapping):
        inner = (f"{key} {_host_value(item, key)}" for key, item in value.items())
        return ", ".join(inner)
    if name in _SIZES and isinstance(value, int):
        return pretty_bytes(value)
    return str(value)


# The frame


def text_without_secrets(text: str) -> str:
    """Return the text with every password in it masked.

    >>> text_without_secrets("mrtuner apply postgresql://app:hunter2@db/shop --yes")
    'mrtuner apply postgresql://app:***@db/shop --yes'
    """
    return _SECRET.sub(_masked, text)


def _masked(match: re.Match[str]) -> str:
    return masked(match["uri"]) if match["uri"] else f"{match['name']}***"


def _safe(value: Any) -> Any:
    """Filter every {{ … }} before it is escaped."""
    from markupsafe import Markup

    return (
        printable(text_without_secrets(value), lines=True)
        if isinstance(value, str) and not isinstance(value, Markup)
        else value
    )


@cache
def environment() -> Environment:
    """Return the templates of every page, with their filters; passwords in any text are masked."""
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
        "duration": pretty_duration,
        "enumerated": enumerated,
        "moment": moment,
        "percent": percent,
        "plural": plural,
        "ratio": ratio,
        "first_upper": first_upper,
        "host_value": _host_value,
    }
    return made
