r"""The ends of the range of each setting that a search may try, each alone against the advice.

    python bench/search_grid.py --load analytic --pairs 6 --records DIR --output grid.json
    python bench/search_grid.py --runs bench/runs/small-volume-reloads.json \
        --runs bench/runs/small-volume-restarts.json --output grid.json

All cells have the same number of interleaved pairs, also those that lose, unless they do harm. The
bounds hold for all cells together with 95 %: Bonferroni's, from a spread that is pooled over the
cells. The first cell is the advice against itself. Interrupted, the same command goes on.

Where writes can be put off for longer than a pair lasts, --runs makes the grid of what
`small_volume.py` measured: one arm called advice with --reload "" at least twice and each other
value once, or arms that each change one setting. Its runs are longer, and what a checkpoint after
one takes is charged to it. The spread is what is left after the means of cells and of blocks.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import exp, fsum, log, sqrt
from pathlib import Path
from statistics import fmean
from typing import Any

from scipy.stats import t
from searches import LOADS, arranged, memory_here, say

from mrtuner.answers.settings_search.own_server import SearchWish, resume, search
from mrtuner.search import procedure, race, record, space
from mrtuner.search.model import Search, Trial, differences
from mrtuner.text_tables import aligned

ALPHA = 0.05
#: The budget [min] whose schedule has runs of two seconds; the grid itself has none.
MINUTES = 10.0


@dataclass(kw_only=True)
class Grid(procedure.Procedure):
    """All cells in turn, instead of what is proposed."""

    pairs: int
    only: Collection[str] = ()

    def _profile(self) -> None:
        super()._profile()
        found = self.search
        found.schedule = replace(found.schedule, pairs=self.pairs)
        # Whatever binds: a grid is to show what the profile would have left out as well.
        seen = [replace(one, value=max(one.value or 0, one.least)) for one in found.evidence]
        found.searched, found.left_out = space.choose(seen, self.server, found.advice, found.keep)

    def _baselines(self) -> None:
        """Their settings are cells as well."""

    def _trials(self) -> None:
        if not self.search.trials:
            self._try("proposed", dict(self.search.advice), {})
        for name, text in _cells(space.dimensions(self.search.searched, self.server)):
            side = self._side({name: text}, self.search.advice)
            if side in self._tried() or (self.only and f"{name}={text}" not in self.only):
                continue
            say(f"{name} = {text}")
            if self.fits(side):
                self._try("proposed", side, {})
            else:
                say("not tried: beyond the memory budget")

    def _choose_candidate(self) -> None:
        self.search.candidate = 0

    @property
    def _base(self) -> int:
        return 0


def _cells(dimensions: Sequence[space.Dimension]) -> Iterator[tuple[str, str]]:
    for one in dimensions:
        ends = (one.text(0.99999), one.text(0.20001 if one.setting.special else 0))
        for text in dict.fromkeys(one.setting.values or (*one.setting.special, *ends)):
            if text != one.setting.advice:
                yield one.name, text


def main() -> None:
    options = _options()
    rows = []
    if options.runs:
        rows.append(_row_of_runs([json.loads(one.read_text()) for one in options.runs]))
        _tell(rows[-1])
    space.MOST = sys.maxsize  # type: ignore[misc]
    race.lost = _never_lost
    for name in options.load:
        place = options.records / f"{name}-grid"
        place.mkdir(parents=True, exist_ok=True)
        with arranged(name, place, partial(Grid, pairs=options.pairs, only=options.cell)):
            found = _measured(place, name, options.clients)
        rows.append(_row(found, name))
        _tell(rows[-1])
    told = {"cpus": os.cpu_count(), "memory": memory_here(), "grids": rows}
    options.output.write_text(json.dumps(told, indent=1) + "\n")


def _never_lost(raced: race.Raced) -> str | None:  # noqa: ARG001
    """Losers are measured as well: their intervals are part of the proof."""
    return None


def _measured(place: Path, name: str, clients: int) -> Search:
    if (place / record.FILE).exists():
        return resume(place, tell=say)
    load, script = LOADS[name], place / "load.sql"
    script.write_text(load.script or "")
    wish = SearchWish(
        builtin=load.builtin, scripts=(script,) if load.script else (), scale=load.scale,
        clients=clients, budget=60 * MINUTES, seed=1,
    )  # fmt: skip
    return search(place, wish, tell=say, **load.machine)  # type: ignore[arg-type]


def _row(found: Search, name: str) -> dict[str, Any]:
    cells = [
        (one, [log(b / a) for a, b in one.pairs]) for one in found.trials if len(one.pairs) > 1
    ]
    freedom = sum(len(logs) - 1 for _, logs in cells)
    spread = sqrt(fsum((one - fmean(logs)) ** 2 for _, logs in cells for one in logs) / freedom)
    quantile = float(t.ppf(1 - ALPHA / 2 / len(cells), freedom))
    return {
        "load": name, "what": LOADS[name].what, "postgres": found.postgres,
        "started": found.started, "clients": found.load.clients, "window [s]":
        found.schedule.window, "other programs": found.busy, "spread": round(spread, 4),
        "not measured": [_cell(found, one) for one in found.trials if len(one.pairs) < 2],
        "cells": [
            _cell(found, one)
            | {"pairs": len(logs), "ended": one.outcome}
            | _bounds(fmean(logs), quantile * spread / sqrt(len(logs)))
            for one, logs in cells
        ],
    }  # fmt: skip


def _bounds(mean: float, half: float) -> dict[str, float]:
    """A ratio and its bounds, of logs."""
    low, ratio, high = (round(exp(mean + one), 4) for one in (-half, 0.0, half))
    return {"ratio": ratio, "low": low, "high": high}


@dataclass(frozen=True, slots=True)
class Block:
    """What ran between one shuffle and the next: the logs of transactions a second."""

    advice: Sequence[float]
    cells: Mapping[tuple[str, str], float]

    @property
    def all(self) -> list[float]:
        return [*self.advice, *(self.cells[cell] for cell in sorted(self.cells))]


def _row_of_runs(files: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """All cells of these files against the runs with the advice in the same block."""
    advised = files[0]["arms"]["advice"]
    measured, uncharged = ([list(_blocks(file, of)) for file in files] for of in ("charged", "tps"))
    spread, freedom = _spread(measured)
    cells = dict.fromkeys(cell for each in measured for cell in each[0].cells)
    quantile = float(t.ppf(1 - ALPHA / 2 / (len(cells) + 1), freedom))

    def told(
        name: str | None, value: str | None, gains: Sequence[float], of: int
    ) -> dict[str, Any]:
        return {
            "name": name, "advice": advised.get(name, "the default") if name else None,
            "value": value, "pairs": len(gains), "ended": "measured",
        } | _bounds(fmean(gains), quantile * spread * sqrt(1 / len(gains) + 1 / of))  # fmt: skip

    same = [
        after - before
        for each in measured
        for one in each
        for before, after in zip(one.advice[::2], one.advice[1::2], strict=False)
    ]
    rows = [told(None, None, same, len(same))]
    for name, value in cells:
        within = [one for each in measured for one in each if (name, value) in one.cells]
        gains = _gains(measured, (name, value))
        rows.append(told(name, value, gains, sum(len(one.advice) for one in within)))
        rows[-1]["uncharged"] = round(exp(fmean(_gains(uncharged, (name, value)))), 4)
    first = files[0]
    return {
        "load": "small-volume", "what": first["what"], "postgres": first["postgres"],
        "started": first["started"], "clients": first["clients"], "window [s]": first["seconds"],
        "blocks": True, "spread": round(spread, 4), "not measured": [],
        "cells": rows,
    }  # fmt: skip


def _gains(measured: Sequence[Sequence[Block]], cell: tuple[str, str]) -> list[float]:
    """Return a cell's gain in each block that has it, as a log."""
    return [
        one.cells[cell] - fmean(one.advice)
        for each in measured
        for one in each
        if cell in one.cells
    ]


def _blocks(file: Mapping[str, Any], of: str) -> Iterator[Block]:
    """Yield what was measured, `of` each run; all but one setting of it are the advice's."""
    for number in range(1, file["blocks"] + 1):
        advice, cells = list[float](), dict[tuple[str, str], float]()
        for run in (one for one in file["runs"] if one["block"] == number):
            arm, plain = file["arms"][run["arm"]], file["arms"]["advice"]
            differs = {name: arm[name] for name in arm if arm[name] != plain.get(name)}
            differs |= dict(pair.split("=") for pair in run["reloaded"].split(",") if pair)
            if not differs:
                advice.append(log(run[of]))
            else:
                (cell,) = differs.items()
                cells[cell] = log(run[of])
        yield Block(advice, cells)


def _spread(measured: Sequence[Sequence[Block]]) -> tuple[float, int]:
    """The spread of a run that neither its cell nor its block explains, and on how many degrees."""
    squares, freedom = 0.0, 0
    for blocks in measured:
        rows = [one.all for one in blocks]
        mean = fmean(value for row in rows for value in row)
        of_cell = [fmean(column) for column in zip(*rows, strict=True)]
        squares += fsum(
            (value - fmean(row) - of_cell[n] + mean) ** 2
            for row in rows
            for n, value in enumerate(row)
        )
        freedom += (len(rows) - 1) * (len(of_cell) - 1)
    return sqrt(squares / freedom), freedom


def _cell(found: Search, one: Trial) -> dict[str, str | None]:
    """The setting that differs and its values; none where the advice ran against itself."""
    defaults = {each.name: each.advice for each in found.searched}
    changed = differences(found.advice, one.settings, lambda name: defaults.get(name, ""))
    for name, (advised, value) in changed.items():
        return {"name": name, "advice": advised, "value": value}
    return {"name": None, "advice": None, "value": None}


def _tell(row: dict[str, Any]) -> None:
    say(f"{row['load']}: the spread of a pair is {row['spread']:.1%}")
    cells = sorted(row["cells"], key=lambda one: -one["ratio"])
    shown = [
        (
            f"{one['name']} = {one['value']}" if one["name"] else "the advice",
            f"{one['ratio'] - 1:+.1%}", f"{one['low'] - 1:+.1%} to {one['high'] - 1:+.1%}",
            str(one["pairs"]),
        )
        for one in cells
    ]  # fmt: skip
    for line in aligned([("cell", "gain", "for all cells together", "pairs"), *shown]):
        say(line)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--load", action="append", choices=LOADS, default=[])
    parser.add_argument("--runs", action="append", type=Path, default=[], help="of small_volume.py")
    parser.add_argument("--pairs", type=int, default=6, help="of each cell")
    parser.add_argument("--cell", action="append", default=[], help="only this: setting=value")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--records", type=Path, default=Path("searches"))
    parser.add_argument("--output", type=Path, default=Path("search-grid.json"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
