"""The page of what searches found against the advice, from the rows of `bench/searches.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from docs.generate_bench import read

from mrtuner.wording import enumerated

SEARCHES: Final = Path(__file__).resolve().parent / "searches.json"
GRID: Final = SEARCHES.with_name("search-grid.json")
_ABOUT: Final = """\
# Searches: what they found

What [`mrtuner search`](../how-to/search-for-settings.md) found against the advice, load by load.
Each search starts from the advice for {cpus} CPUs and {memory}, on an embedded PostgreSQL
{postgres} with {clients} clients, and has {budget}. {busy}

{summary}

- *The winner* is the best of the trials, found or not: in fresh pairs with the advice, with its
  95 % interval.
- *Seen from*: a gain that large would have been seen with 80 % power.
- Where nothing is found, the advice stays, so nothing is lost.
- *No verdict*: runs varied too much, or other programs took too much of the machine. That does not
  count as nothing found.
- *Not confirmed*: what won in runs of seconds lost in runs of 45 s.
- *Once more* is what was found, in fresh pairs on a fresh server after the search had ended.
- `same` runs with the advice on both sides, whatever is proposed: it must find nothing.
- Trials are initdb's defaults and PgTune's values, then what is proposed until half of the time is
  spent: short searches propose little.
- The noise is the advice against itself, in three pairs.
- A search that [confirmed initdb's defaults
  wrongly](../measured-results.md#what-short-runs-of-a-search-hide) is not among them: it ran before
  that was mended.

| Load | By | Binds | Trials (proposed) | Noise | The winner | Seen from | Found | Once more |
|:--|:--|:--|--:|:--|:--|--:|:--|:--|"""

#: So many settings of a result are named in the table.
_NAMED: Final = 4
_FROM: Final = {"pgtune": "PgTune's values", "default": "initdb's defaults"}
_AGREED: Final = """
## Settings found, and what the rules say

| Setting | The advice | Found | Searched | Load | Once more |
|:--|:--|:--|:--|:--|:--|"""


_GRID: Final = """
### Load {title}

The ends of the range of each setting that a search may try, and its special values, as far
as the memory budget allows, alone against the advice, on PostgreSQL {postgres}
with {clients} clients, {how}. The bounds hold for
all {cells} cells together with 95 % (Bonferroni; the spread of {spread} is pooled over the cells).
**{verdict}**
Settings that gain only together are not in it.{again}

| Setting | The advice | Tried | Against the advice | Pairs |
|:--|:--|:--|:--|--:|"""


def searches_page() -> Iterator[str]:
    """Every search as a row, what they show together, the settings found, and the grids."""
    yield from _searches()
    yield from ("", "## What a search could have found")
    for grid in read(GRID)["grids"]:
        yield from _grid(grid)


def _grid(grid: Mapping[str, Any]) -> Iterator[str]:
    cells = sorted(grid["cells"], key=lambda one: -one["ratio"])
    tried = [one for one in cells if one["name"]]
    most = _percent(max(one["high"] for one in tried))[1:]
    surely = [one for one in tried if one["low"] > 1]
    yield from _GRID.format(
        title=f"{grid['load']}: {grid['what']}", postgres=grid["postgres"],
        clients=grid["clients"], how=_how(grid), cells=len(cells),
        again=_again(grid) + _uncharged(surely, grid["window [s]"]),
        spread=_percent(1 + grid["spread"])[1:],
        verdict=f"Surely faster: {len(surely)} of {len(tried)}. None gains over {most}.",
    ).splitlines()  # fmt: skip
    for one in cells:
        tells = f"`{one['name']}` | {one['advice']} | {one['value']}"
        cell = tells if one["name"] else "the advice itself | |"
        yield f"| {cell} | {_gain(one)} | {one['pairs']} |"
    for one in grid["not measured"]:
        name = one["name"] or "the advice itself"
        yield f"| `{name}` | {one['advice']} | {one['value']} | **not measured** | |"


def _again(grid: Mapping[str, Any]) -> str:
    """What was measured once more on a fresh server, which the first did not choose by chance."""
    cells = [
        f"{tells} {_gain(one)} in {one['pairs']} pairs"
        + (", then stopped, since it does harm" if one["ended"] == "stopped" else "")
        for one in grid.get("again", ())
        for tells in [f"`{one['name']} = {one['value']}`" if one["name"] else "the advice itself"]
    ]
    return f"\nOnce more, on a fresh server: {'; '.join(cells)}." if cells else ""


def _uncharged(surely: Sequence[Mapping[str, Any]], window: float) -> str:
    """What is surely faster, as it ran: the shorter the run, the more a checkpoint costs it."""
    cells = ", ".join(
        f"`{one['name']} = {one['value']}` {_percent(one['uncharged'])}"
        for one in surely if "uncharged" in one
    )  # fmt: skip
    return (
        f"\nA run of {window} s pays for a whole checkpoint; without that: {cells}."
        if cells
        else ""
    )


def _how(grid: Mapping[str, Any]) -> str:
    most = max(one["pairs"] for one in grid["cells"] if one["name"])
    window = grid["window [s]"]
    if not grid.get("blocks"):
        return f"in {most} interleaved pairs of {window} s"
    return (
        f"in {most} interleaved blocks of runs of {window} s, each charged with the checkpoint "
        "that it leaves"
    )


def _searches() -> Iterator[str]:
    told = read(SEARCHES)
    rows = told["searches"]
    done = [one for one in rows if "failed" not in one]
    busy = sum(1 for one in done if one["other programs"])
    lengths = enumerated(
        (f"{one:g}" for one in sorted({row["budget [s]"] / 60 for row in done})), "or"
    )
    yield from _ABOUT.format(
        cpus=told["cpus"], memory=told["memory"], clients=told["clients"],
        postgres=_several(one["postgres"] for one in done),
        budget=f"{lengths} min",
        summary="\n".join(f"- {text}" for text in told["summary"]),
        busy=(
            f"Other programs used the machine in {busy} of {len(done)}. Pairs are interleaved, so "
            "that both sides met them, but intervals are wide: only large gains and losses show."
            if busy
            else "Nothing else used the machine."
        ),
    ).splitlines()  # fmt: skip
    for one in rows:
        yield "| " + " | ".join(_row(one)) + " |"
    found = [(one, each) for one in done if one["held"] for each in one["differences"]]
    if not found:
        yield ""
        yield (
            "Nothing that a search found was faster than the advice once more, so there is no rule "
            "to change."
        )
        return
    yield from _AGREED.splitlines()
    for one, each in found:
        by = each["advice"] + ("" if each["rule"] else " (the default: no rule)")
        more = _gain(one["once more"])
        place = each["range"] or "not searched"  # it came with PgTune's values, or initdb's
        yield f"| `{each['name']}` | {by} | {each['found']} | {place} | {one['load']} | {more} |"


def _several(texts: Iterator[str]) -> str:
    return " or ".join(dict.fromkeys(texts))


def _row(one: Mapping[str, Any]) -> tuple[str, ...]:
    head = (f"`{one['load']}`: {one['what']}", one["proposals"])
    if "failed" in one:
        return (*head, "", "", "", f"**unknown**: {one['failed']}", "", "", "")
    winner = one["winner against the advice"]
    return (
        *head, ", ".join(one["binds"]), f"{one['trials']} ({one['proposed']})", _gain(one["noise"]),
        _gain(winner), _seen(winner),
        _changed(one),
        _gain(one["once more"]) if one["found"] else "",
    )  # fmt: skip


def _seen(winner: Mapping[str, Any] | None) -> str:
    least = winner["would have been seen"] if winner else None
    return "unknown" if least is None else f"{least * 100:.0f} %"


def _changed(one: Mapping[str, Any]) -> str:
    found = one["differences"]
    if len(found) > _NAMED:
        return f"{len(found)} settings ({_FROM.get(one['from'], 'proposed')})"
    return ", ".join(f"`{each['name']}` = {each['found']}" for each in found) or one["ended"]


def _gain(seen: Mapping[str, Any] | None) -> str:
    if seen is None:
        return "not measured"
    ends = [seen["low"], seen["high"]]
    if None in ends:
        return _percent(seen["ratio"])
    return f"{_percent(seen['ratio'])} ({_percent(ends[0])} to {_percent(ends[1])})"


def _percent(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.1f} %"
