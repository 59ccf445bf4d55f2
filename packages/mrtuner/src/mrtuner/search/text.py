"""A search as lines: the result, what binds, the trials, what each setting is worth."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mrtuner.present.text import Look, heading, paragraph, table
from mrtuner.search.conclusion import interval, long_runs, percent
from mrtuner.search.model import WORTH, Search, SearchedLoad, SearchedSetting, Trial, Worth
from mrtuner.stats.comparison import compare
from mrtuner.units import Bytes, pretty_bytes
from mrtuner.wording import first_upper, plural

_ORIGINS: Final = {
    "default": "what initdb gives", "pgtune": "PgTune's values", "advice": "the advice",
}  # fmt: skip


def lines(search: Search, look: Look, place: Path) -> Iterator[str]:
    """Yield the answer; `place` is the directory of its record."""
    yield look.painted(first_upper(headline(search)), "heading")
    yield from paragraph(f"{search.load.title}; PostgreSQL {search.postgres}", look)
    yield from paragraph(f"the goal: {search.aim}", look)
    if search.calibration is not None:
        itself = "themselves" if search.live else "itself"
        yield from paragraph(
            f"{search.start} against {itself}, for the noise: {interval(search.calibration)}", look
        )
    for text in notes(search):
        yield from paragraph(text, look, "warning")
    yield from _differences(search, look)
    if search.ablation:
        yield from heading("What each setting is worth", look)
        if worths := [(one.name, one.value, text) for one, text in worth(search)]:
            yield from table(("setting", "value", "worth"), worths, look)
        if text := unmeasured(search):
            yield from paragraph(text, look)
    yield from _binding(search, look)
    yield from _settings(search, look)
    yield from _trials(search, look)
    yield ""
    for purpose, command in commands(search, place):
        yield f"{purpose}: {command}"


def verdict(search: Search) -> str:
    """Return the result in a word or two."""
    if search.result is None:
        return "Unfinished"
    if search.result.found:
        return "Confirmed"
    if search.put_off:
        return "Not confirmed"
    seen = search.result.measured
    return "No verdict" if seen is None or seen.refused else "Nothing found"


def headline(search: Search) -> str:
    """Return the result in a sentence."""
    if search.result is None:
        return f"unfinished after {plural(len(search.trials), 'trial')}"
    return search.result.headline


def notes(search: Search) -> Iterator[str]:
    """Yield what weakens the result."""
    if search.earlier:
        when = ", ".join(one.started[:10] for one in search.earlier)
        yield f"tried first: what earlier searches of this load found on this machine ({when})"
    for what in search.unknown:
        yield f"unknown: {what}"
    if uncounted := sum(len(one.unknown) for one in search.trials):
        yield f"{plural(uncounted, 'pair')} of trials could not be compared, and count for nothing"
    if search.busy is not None:
        yield f"other programs used this machine: {search.busy}"
        if search.result and search.result.found:
            yield (
                "settings that start more processes take CPU from other programs, which is no gain "
                "once these are gone: search again on an idle machine"
            )
    seen = search.result.measured if search.result else None
    if seen is not None:
        yield from (f"no verdict: {why}" for why in seen.refused)
        if search.long_runs is not None:
            yield f"in {long_runs(search.long_runs)}"
        yield from seen.cautions
    for one in search.evidence:
        if one.value is None:
            yield f"{one.mechanism} could not be seen, so its settings were not searched"


def costs(search: Search) -> Iterator[str]:
    """Yield what the settings found cost, against the advice."""
    found = search.result
    if found is None or found.before is None or found.after is None:
        return
    restarts = [one.name for one in found.differences if one.restart]
    yield f"a restart, for {', '.join(restarts)}" if restarts else "no restart"
    sizes = [one.memory for one in (found.before, found.after)]
    if None not in sizes:
        before, after = (pretty_bytes(Bytes(size or 0)) for size in sizes)
        yield f"memory at worst: {after}; before {before}"
    if found.after.replay:
        yield f"recovery after a crash: {found.after.replay}; before {found.before.replay}"


def worth(search: Search) -> Iterator[tuple[Worth, str]]:
    """Yield the settings of the winner that were measured, with what each is worth."""
    for one in search.ablation:
        if one.measured is None:
            continue
        text, low = interval(one.measured), one.measured.low
        if one.little:
            text = f"{text}: under {WORTH * 100:g} %"
        elif low is None or low < 1 + WORTH:
            text = f"{text}: not shown to be worth {WORTH * 100:g} %"
        yield one, text


def unmeasured(search: Search) -> str:
    """Return which settings of the winner were not measured alone; empty if all were."""
    names = [one.name for one in search.ablation if one.measured is None]
    listed = ", ".join(names)
    return f"not measured, as the budget of time or memory had no room: {listed}" if names else ""


def gain(one: Trial) -> str:
    """Return a trial's gain on what it raced."""
    return percent(compare(one.pairs).ratio) if one.pairs else "unknown"


def changed(search: Search, one: Trial) -> str:
    """Return where a trial differs from the advice, in the settings that are searched."""
    if one.origin in _ORIGINS:
        return _ORIGINS[one.origin]
    advice = {entry.name: entry.advice for entry in search.searched}
    values = {name: one.settings.get(name, text) for name, text in advice.items()}
    return ", ".join(
        f"{name}={text}" for name, text in values.items() if text != advice[name]
    ) or "as advised"  # fmt: skip


def commands(search: Search, place: Path) -> Iterator[tuple[str, str]]:
    """Yield what to do next: its purpose, and the command."""
    where = shlex.quote(str(place))
    if search.result is None:
        yield "to go on", resume_command(search.load, place)
    elif search.result.found:
        yield "to apply it", f"mrtuner apply postgresql://USER@HOST/DATABASE --from {where}"


def resume_command(load: SearchedLoad, place: Path) -> str:
    """Return the command that goes on with an interrupted search."""
    how = "--embedded" if load.server is None else "--reload-only"
    ours = load.server is None and load.database is None
    server = "" if ours else f"postgresql://USER@HOST/DATABASE {how} "
    return f"mrtuner search {server}--resume {shlex.quote(str(place))}"


def _differences(search: Search, look: Look) -> Iterator[str]:
    if search.result is None or not search.result.differences:
        return
    yield from heading(f"Differences from {search.start}", look)
    rows = [
        (one.name, one.advice, one.value, "restart" if one.restart else "reload")
        for one in search.result.differences
    ]
    yield from table(("setting", search.start, "found", "takes"), rows, look)
    for text in costs(search):
        yield from paragraph(text, look)


def _binding(search: Search, look: Look) -> Iterator[str]:
    yield from heading("What binds", look)
    rows = [
        (one.mechanism, "unknown" if one.value is None else f"{one.value:g}",
         f"{one.least:g}", "yes" if one.binds else "", one.meaning)
        for one in search.evidence
    ]  # fmt: skip
    if rows:
        yield from table(("mechanism", "seen", "from", "binds", "meaning"), rows, look)
    else:
        yield from paragraph("not seen yet", look)


def _trials(search: Search, look: Look) -> Iterator[str]:
    if not search.trials:
        return
    yield from heading(plural(len(search.trials), "trial"), look)
    rows = [
        (str(one.number), one.origin, gain(one), search.name(one.against), one.outcome,
         changed(search, one))
        for one in search.trials
    ]  # fmt: skip
    yield from table(("", "from", "gain", "on", "ended", "settings"), rows, look)


def _settings(search: Search, look: Look) -> Iterator[str]:
    yield from heading("Settings searched", look)
    rows = [(one.name, one.advice, span(one), one.why) for one in search.searched]
    if rows:
        yield from table(("setting", "advice", "tried", "why"), rows, look)
    else:
        yield from paragraph("none: no setting acts on what binds", look)
    yield from heading("Settings left out", look)
    yield from table(("setting", "why"), [(one.name, one.why) for one in search.left_out], look)


def span(one: SearchedSetting) -> str:
    """Return where a setting is searched, in words."""
    if one.values:
        return ", ".join(one.values)
    special = f" or {', '.join(one.special)}" if one.special else ""
    return f"{one.low} to {one.high}{special}"
