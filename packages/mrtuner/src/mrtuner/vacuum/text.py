"""A `mrtuner.vacuum/1` document as lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from mrtuner.units import pretty_duration
from mrtuner.vacuum.model import Kept
from mrtuner.vacuum.server_settings import SWITCHES
from mrtuner.vacuum.storage_parameters import ENABLED
from mrtuner.wording import enumerated, not_judged, plural

if TYPE_CHECKING:
    from mrtuner.vacuum.document import TableEntry, VacuumDocument
    from mrtuner.vacuum.model import HorizonBlocker, ServerSetting, WraparoundDistance
    from mrtuner.vacuum.sample import TableComparison

_TOP: Final = 20


def lines(told: VacuumDocument, top: int = _TOP) -> Iterator[str]:
    """Yield the findings line by line: what comes first, what was not judged, then capacity,
    blockers, wraparound and tables.

    Tables without findings are only counted, and at most `top` tables are shown in full.
    """
    yield from _first(told)
    yield from (not_judged(one.name, one.why, one.supply) for one in told.unjudged)
    yield headline(told)
    gaps = sum(1 for one in told.tables if one.rates.gaps)
    if gaps:
        yield (
            f"statistics of {gaps:,} of them were reset during the watch; that interval is left out"
        )
    unjudged = {(one.name, one.why) for one in told.unjudged}
    judged = [one for one in told.missing if (one.name, one.why) not in unjudged]
    yield from (f"not known: {one.name}: {one.why}" for one in judged)
    yield ""
    yield verdict(told)
    yield told.capacity.words
    for one in (each for each in told.settings if each.name not in SWITCHES):
        yield f"  {one.name} = {one.value}  (now {one.now})" + ", needs a restart" * one.restart
        yield f"      {one.because}"
        yield f"      {one.remedy}"
    yield from _blockers(told.blockers)
    yield ""
    yield from map(wraparound_words, told.wraparound)
    for proof in told.proofs:
        yield ""
        yield from _proof(proof)
    yield from _tables(told.tables, top)


def headline(told: VacuumDocument) -> str:
    """What was examined, and for how long."""
    if told.recorded:
        rates = "rates of each table's busiest day in the history"
    elif told.watched is None:
        rates = "rates since the last reset of statistics (for current ones, use --watch)"
    else:
        rates = f"rates measured over {pretty_duration(told.watched)}"
    number = len(told.tables)
    return f"{told.database}: {plural(number, 'table')}, {rates}"


def _first(told: VacuumDocument) -> Iterator[str]:
    """What comes before all other advice, which has no effect without it."""
    for one in _switched_off(told):
        yield f"first: {one.name} is off: {one.because}"
        yield f"      {one.remedy}"


def _switched_off(told: VacuumDocument) -> list[ServerSetting]:
    return [one for one in told.settings if one.name in SWITCHES]


#: The verdict for what is held back, the worst first.
_HELD: Final[dict[str, Kept]] = {
    "Vacuum cannot prevent wraparound": "transaction IDs",
    "Vacuum is held back": "dead rows",
    "Vacuum of catalogs is held back": "dead rows of catalogs",
    "Vacuum of another database is held back": "dead rows of another database",
}


def verdict(told: VacuumDocument) -> str:
    """Whether vacuum keeps up, in words."""
    if _switched_off(told):
        return "Autovacuum does not run"
    for what, keeps in _HELD.items():
        if any(one.keeps == keeps and (one.serious or one.throughout) for one in told.blockers):
            return what
    if not told.capacity.keeps_up:
        return "Vacuum cannot keep up"
    if (told.capacity.used or 0) > 1:
        return "Vacuum does not keep up; with this advice it would"
    if told.unjudged:
        return "It is not known whether vacuum keeps up"
    return _keeping_up(told)


def _keeping_up(told: VacuumDocument) -> str:
    off = sum(
        1 for one in told.tables
        if any(each.name.removeprefix("toast.") == ENABLED for each in one.advice)
    )  # fmt: skip
    if off:
        return f"Autovacuum is switched off for {plural(off, 'table')}"
    behind = sum(1 for one in told.tables if (one.then.busy or 0.0) >= 1)
    if behind:
        return f"Vacuum cannot keep up with {plural(behind, 'table')}"
    late = sum(1 for one in told.tables if one.advice)
    if not late:
        return "Vacuum keeps up"
    return f"Vacuum keeps up; {plural(late, 'table')} should be vacuumed sooner than by default"


def _blockers(blockers: Sequence[HorizonBlocker]) -> Iterator[str]:
    if not blockers:
        return
    yield ""
    yield f"what keeps {enumerated(dict.fromkeys(one.keeps for one in blockers))}:"
    for one in blockers:
        yield f"  {one.what}: {one.name}{age_words(one)}"
        yield f"      {one.remedy}"
        if one.sql:
            yield f"      {one.sql}"


def age_words(one: HorizonBlocker) -> str:
    """How long a blocker has been there, after a comma; empty if unknown."""
    parts = ["throughout the watch"] if one.throughout else []
    if one.seconds is not None:
        parts.append(f"for {pretty_duration(one.seconds)}")
    if one.age is not None:
        parts.append(f"{one.age:,} transactions back")
    return "".join(f", {part}" for part in parts)


def wraparound_words(one: WraparoundDistance) -> str:
    """One counter's distance from wraparound, as a line."""
    due = one.age >= one.forced_at
    where = f"database {one.database}"
    if due and one.oldest:
        where += f", the oldest in {one.oldest}"
    said = f"{one.what}: {one.age:,} of {one.stops_at:,} used ({where})"
    if one.to_stop is None or one.to_forced is None:
        forced = "; forced vacuums are due" if due else ""
        return f"{said}{forced}; pace {one.certainty if one.pace is None else 'zero'}"
    forced = "are due" if due else f"begin in {pretty_duration(one.to_forced)}"
    return (
        f"{said}; at {one.pace:,.3g} per second, forced vacuums {forced} and the "
        f"server stops in {pretty_duration(one.to_stop)} ({one.certainty})"
    )


def _proof(one: TableComparison) -> Iterator[str]:
    yield f"{one.table}: {one.rows:,} rows with a large value read before and after"
    if one.why:
        yield f"  nothing proven: {one.why}"
    elif not one.columns:
        yield "  nothing proven: none of them was updated; watch longer"
    for found in one.columns:
        again = "" if found.rewritten is None else f", {found.rewritten:,} written again"
        yield (
            f"  {found.column}: {found.verdict} ({found.updated:,} updated, "
            f"{found.same:,} of them with the same value{again})"
        )


def _tables(tables: Sequence[TableEntry], top: int) -> Iterator[str]:
    told = [one for one in tables if one.advice or one.hints or suspected(one)]
    for one in told[:top]:
        yield ""
        yield from _table(one)
    if len(told) > top:
        yield ""
        yield f"{len(told) - top:,} more tables have findings: use --top, --json or --format sql"
    if len(tables) > len(told):
        yield ""
        yield f"nothing to set for {len(tables) - len(told):,}{_kinds(tables, told)}"


def _kinds(tables: Sequence[TableEntry], told: Sequence[TableEntry]) -> str:
    shown = {one.oid for one in told}
    counts = Counter(one.kind for one in tables if one.oid not in shown)
    return ": " + ", ".join(f"{count:,} {kind}" for kind, count in counts.items())


def suspected(one: TableEntry) -> bool:
    """Whether values beside the row seem to be written again although they did not change."""
    return bool(one.amplification and one.amplification.suspicion)


def _table(one: TableEntry) -> Iterator[str]:
    yield f"{one.schema}.{one.name}: {one.kind}; {one.because}"
    yield from _pace(one)
    because = None
    for item in one.advice:
        now = "" if item.now is None else f"  (now {item.now})"
        yield f"  {item.name} = {item.value}{now}"
        if item.because != because:
            because = item.because
            yield f"      {because} [{item.source}]"
    yield from (f"  hint: {hint}" for hint in one.hints)
    if one.amplification and one.amplification.suspicion:
        found = one.amplification
        yield f"  TOAST: {found.suspicion} ({found.chunks_an_hour:,.0f} an hour)"
        yield f"      {found.certainty}"


def _pace(one: TableEntry) -> Iterator[str]:
    then = one.then
    if then.produce is None or then.vacuum is None:
        return
    measured = "" if then.measured is None else f", measured {pretty_duration(then.measured)}"
    said = (
        f"  vacuum at {one.now.trigger:,.0f} dead rows, then at {then.trigger:,.0f}: "
        f"produced in {pretty_duration(then.produce)}, vacuumed in"
        f" {pretty_duration(then.vacuum)} at least{measured}"
    )
    yield said + ("" if (then.busy or 0.0) < 1 else ": IT CANNOT KEEP UP")
