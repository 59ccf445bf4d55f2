r"""What searches find against the advice, load by load, and whether they ever lose by it.

    python bench/searches.py --minutes 2.5 --rounds 1 --random tpcb --random report
    python bench/searches.py --minutes 30 --rounds 4 --records DIR       # alone on the machine
    python bench/searches.py --records DIR --searches 0                  # only the table

Each search runs on an embedded server of its own. What one found is measured once more: in fresh
pairs on a fresh server, which no search has seen. Both sides of "same" run with the advice,
whatever is proposed: it must find nothing. --random also searches a load without a model, with the
same seed and budget. Interrupted, the same command goes on where it was. Records are kept in
--records; the rows go to --output. "small volume" needs root.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from mrtuner.answers.settings_search.own_server import SearchWish, resume, search
from mrtuner.bench.load.pgbench import Builtin
from mrtuner.bench.server.standing import DATABASE
from mrtuner.errors import MrTunerError
from mrtuner.postgres.connect import connect
from mrtuner.search import procedure, record, server
from mrtuner.search.conclusion import interval
from mrtuner.search.model import Measured, Search, Settings, Trial
from mrtuner.search.text import span, verdict
from mrtuner.text_tables import aligned
from mrtuner.units import Bytes, MiB, pretty_bytes
from mrtuner.wording import plural

#: As small_volume.py has it: an insert into a table with three indexes.
INSERTS = Path(__file__).with_name("inserts.sql").read_text()
EVENTS = """
CREATE TABLE events (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key uuid UNIQUE, account int,
    at timestamptz, body text
);
CREATE INDEX ON events (account, at);
INSERT INTO events (key, account, at, body)
    SELECT gen_random_uuid(), n, now(), repeat('payload ', 20) FROM generate_series(1, 500000) AS n
"""
SKEWED = """\
\\set aid random_zipfian(1, 100000 * :scale, 1.1)
\\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
END;
"""
ANALYTIC = """\
\\set bid random(1, :scale)
SELECT b.bid, t.tid, count(*), sum(a.abalance), max(o.aid)
    FROM pgbench_accounts AS a
    JOIN pgbench_branches AS b USING (bid)
    JOIN pgbench_tellers AS t ON t.bid = b.bid
    JOIN pgbench_accounts AS o ON o.aid = a.aid + t.tid
    WHERE a.bid = :bid
    GROUP BY b.bid, t.tid ORDER BY sum(a.abalance) DESC;
"""
MIXED = f"""\
\\set nightly random(1, 2000)
\\if :nightly = 1
SELECT bid, abalance, count(*), array_agg(aid ORDER BY filler, aid DESC) IS NULL
    FROM pgbench_accounts GROUP BY bid, abalance ORDER BY count(*) DESC LIMIT 10;
\\else
{SKEWED}\\endif
"""


@dataclass(frozen=True, kw_only=True)
class Searched:
    """A load; its text, unless it is pgbench's own."""

    what: str
    builtin: Builtin = "tpcb"
    script: str | None = None
    scale: int = 10
    tables: str | None = None  # SQL, after pgbench's tables
    machine: Mapping[str, int] = field(default_factory=dict)


LOADS = {
    "same": Searched(what="both sides with the advice, TPC-B-like"),
    "tpcb": Searched(what="TPC-B-like"),
    "select": Searched(what="select by key", builtin="select"),
    "skewed": Searched(what="update and select by key, Zipf 1.1", script=SKEWED),
    "analytic": Searched(what="joins of four tables, grouped", script=ANALYTIC),
    "inserts": Searched(what="inserts, three indexes", script=INSERTS, tables=EVENTS),
    "mixed": Searched(what="skewed, and a report of the whole table in 2,000", script=MIXED),
    "small-volume": Searched(
        what="TPC-B-like, 1 GB, 3,000 IOPS", scale=150,
        machine={"memory": 1024 * MiB, "iops": 3000, "connections": 32},
    ),
}  # fmt: skip
#: So many settings of a result are named in the table.
NAMED = 4
#: What counts as equivalent, as in a proof.
DELTA = 0.03
#: The model's first proposals are random as well.
MODEL_FROM = 4
#: Fresh pairs on a fresh server have another order.
_AGAIN_SEED = 10_000


class AdviceTwice(server.Measurements):
    """Both sides run with the advice, whatever they should be, and restart as those would."""

    def warm_up(self, advice: Settings) -> None:
        super().warm_up(advice)
        for own in self.own:
            own.put = partial(_as_advised, own, own.put, advice)  # type: ignore[method-assign]


def _as_advised(
    own: server.OwnServer, put: Callable[..., None], advice: Settings, wanted: Settings, *,
    restart: bool,
) -> None:  # fmt: skip
    """Restart or reload as for the wanted side, but with the advice."""
    if own.settings is not None:
        own.settings = dict(advice) if own.settings == wanted else {"those of": "the other side"}
    put(advice, restart=restart)
    own.settings = dict(wanted)


def main() -> None:
    options = _options()
    done = 0
    for place, name, seed, at_random in _wanted(options):
        if done >= options.searches:
            break
        if _finished(place):
            continue
        done += 1
        say(f"{place.name}: {LOADS[name].what}")
        try:
            with arranged(name, place, partial(procedure.Procedure, at_random=at_random)):
                _searched(place, LOADS[name], seed, options)
        except MrTunerError as error:
            say(f"failed: {error.message}")
            (place / "failed").write_text(error.message)
    told = (_row(place, name, seed, at_random) for place, name, seed, at_random in _wanted(options))
    rows = [one for one in told if one is not None]
    if rows:
        document = {
            "what": __doc__.partition("\n")[0], "cpus": os.cpu_count(), "memory": memory_here(),
            "clients": options.clients, "summary": list(summary(rows)), "searches": rows,
        }  # fmt: skip
        options.output.write_text(json.dumps(document, indent=1) + "\n")
        _tell(rows)


def _wanted(options: argparse.Namespace) -> Iterator[tuple[Path, str, int, bool]]:
    for number in range(options.rounds):
        for name in options.load or LOADS:
            for at_random in (False, True) if name in options.random else (False,):
                seed = options.seed + number
                kind = "random" if at_random else "model"
                yield options.records / f"{name}-{seed}-{kind}", name, seed, at_random


def _finished(place: Path) -> bool:
    """Whether there is no more to do; a search that failed is not tried again."""
    if (place / "failed").exists():
        return True
    if not (place / record.FILE).exists():
        return False
    found = record.load(place)
    if found.result is None or not found.result.found:
        return found.result is not None
    again = place / "again"
    return (again / record.FILE).exists() and record.load(again).result is not None


@contextmanager
def arranged(
    name: str, place: Path, carried_out: Callable[..., procedure.Procedure]
) -> Iterator[None]:
    """Let the search be the one wanted, and learn from none before it."""
    os.environ["MRTUNER_STATE_DIR"] = str(place / "state")
    before = (procedure.Procedure, server.Measurements, server.OwnServer.fill)
    load = LOADS[name]

    def fill(own: server.OwnServer, scale: int, program: Path) -> None:
        before[2](own, scale, program)
        if load.tables:
            with connect(own.site.cluster.dsn(DATABASE), own_search_path=True) as session:
                session.execute(load.tables.encode())
                session.execute("VACUUM ANALYZE")
                session.execute("CHECKPOINT")

    try:
        server.OwnServer.fill = fill  # type: ignore[method-assign,assignment]
        procedure.Procedure = carried_out  # type: ignore[misc,assignment]
        if name == "same":
            server.Measurements = AdviceTwice  # type: ignore[misc]
        yield
    finally:
        procedure.Procedure, server.Measurements = before[:2]  # type: ignore[misc]
        server.OwnServer.fill = before[2]  # type: ignore[method-assign]


def _searched(place: Path, load: Searched, seed: int, options: argparse.Namespace) -> None:
    place.mkdir(parents=True, exist_ok=True)
    if (place / record.FILE).exists():
        found = resume(place, tell=say)
    else:
        script = place / "load.sql"
        script.write_text(load.script or "")
        wish = SearchWish(
            builtin=load.builtin, scripts=(script,) if load.script else (), scale=load.scale,
            clients=options.clients, budget=60 * options.minutes, seed=seed,
        )  # fmt: skip
        found = search(place, wish, tell=say, **load.machine)  # type: ignore[arg-type]
    say(f"{place.name}: {found.result.headline if found.result else 'unfinished'}")
    if found.result is not None and found.result.found:
        again = place / "again"
        if not (again / record.FILE).exists():
            again.mkdir(exist_ok=True)
            record.save(_again(found), again)
        once_more = resume(again, tell=say).confirmation
        say(f"{place.name}: once more: {interval(once_more) if once_more else 'unknown'}")


def _again(found: Search) -> Search:
    """Return a search of which only the confirmation is left to do."""
    assert found.result is not None
    winner = Trial(
        number=1, origin="earlier", settings=found.result.settings, place={}, against=0, pairs=(),
        outcome="better", because="found by the search", score=None, seconds=0.0,
    )  # fmt: skip
    return replace(
        found, seed=found.seed + _AGAIN_SEED, trials=[winner], candidate=1, confirmation=None,
        ablation=[], reduced=None, result=None, schedule=replace(found.schedule, ablation=0.0),
    )  # fmt: skip


def _row(place: Path, name: str, seed: int, at_random: bool) -> dict[str, Any] | None:
    row: dict[str, Any] = {
        "load": name, "what": LOADS[name].what, "seed": seed,
        "proposals": "random" if at_random else "TPE",
    }  # fmt: skip
    if (place / "failed").exists():
        return row | {"failed": (place / "failed").read_text()}
    if not (place / record.FILE).exists():
        return None
    found = record.load(place)
    if found.result is None:
        return row | {"failed": f"unfinished after {len(found.trials)} trials"}
    ranges = {one.name: span(one) for one in found.searched}
    again = place / "again"
    more = record.load(again).confirmation if (again / record.FILE).exists() else None
    return row | {
        "postgres": found.postgres, "started": found.started, "load and size": found.load.title,
        "budget [s]": found.schedule.budget, "window [s]": found.schedule.window,
        "other programs": found.busy, "unknown": found.unknown,
        "binds": [one.mechanism for one in found.evidence if one.binds],
        "searched": [one.name for one in found.searched],
        "trials": len(found.trials),
        "proposed": sum(one.origin == "proposed" for one in found.trials),
        "noise": _figures(found.calibration),
        "ended": verdict(found), "found": found.result.found,
        "winner against the advice": _figures(found.confirmation),
        "result against the advice": _figures(found.result.measured)
        if found.result.found else None,
        "once more": _figures(more),
        "held": more is not None and more.low is not None and more.low > 1,
        "from": found.trials[found.candidate - 1].origin if found.candidate else "advice",
        "differences": [
            {"name": one.name, "advice": one.advice, "found": one.value,
             "rule": one.name in found.advice, "range": ranges.get(one.name)}
            for one in found.result.differences
        ],
    }  # fmt: skip


def _figures(seen: Measured | None) -> dict[str, Any] | None:
    if seen is None:
        return None
    return {
        "ratio": round(seen.ratio, 4), "low": seen.low and round(seen.low, 4),
        "high": seen.high and round(seen.high, 4), "pairs": seen.pairs, "verdict": seen.verdict,
        "would have been seen": seen.detectable and round(seen.detectable, 3),
        "refused": list(seen.refused),
    }  # fmt: skip


def _tell(rows: Sequence[Mapping[str, Any]]) -> None:
    shown = [
        (
            one["load"], one["proposals"], f"{one.get('trials', '')} ({one.get('proposed', '')})",
            ", ".join(one.get("binds", ())),
            one.get("failed") or one["ended"],
            _gain(one.get("winner against the advice")), _gain(one.get("once more")), _changed(one),
        )
        for one in rows
    ]  # fmt: skip
    head = (
        "load", "proposals", "trials (proposed)", "binds", "ended", "in fresh pairs", "once more",
        "by",
    )  # fmt: skip
    for line in aligned([head, *shown]):
        say(line)
    for line in summary(rows):
        say(line)


def _changed(one: Mapping[str, Any]) -> str:
    """The settings found; of many, their number and where they come from."""
    found = one.get("differences", ())
    if len(found) > NAMED:
        return f"{len(found)} settings ({one['from']})"
    return ", ".join(f"{each['name']}={each['found']}" for each in found)


def _gain(seen: Mapping[str, Any] | None) -> str:
    if seen is None:
        return ""
    low, high = seen["low"], seen["high"]
    ends = f" ({low - 1:+.1%} to {high - 1:+.1%})" if low and high else ""
    return f"{seen['ratio'] - 1:+.1%}{ends}"


def summary(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what all searches show together; what is unknown comes first."""
    done = [one for one in rows if "failed" not in one]
    if len(done) < len(rows):
        yield f"unknown: {len(rows) - len(done)} of {len(rows)} searches did not end"
    found = [one for one in done if one["found"]]
    unchecked = [one for one in found if one["once more"] is None]
    if unchecked:
        yield f"unknown: {len(unchecked)} of {len(found)} results were not measured once more"
    compared = list(_against_random(done))
    yield from (one for one in compared if one.startswith("unknown"))
    lost = [one for one in found if _below(one["once more"], "high")]
    undecided = [one for one in found if one not in lost and _below(one["once more"], "low")]
    if undecided:
        yield (
            f"unknown: {len(undecided)} of {len(found)} results may be slower than the advice by "
            f"over {DELTA:.0%}: their intervals once more reach so far"
        )
    unjudged = [one for one in done if one["ended"] == "No verdict"]
    if unjudged:
        yield f"unknown: {len(unjudged)} of {len(done)} searches ended without a verdict"
    judged = [one for one in done if one not in unjudged]
    same = [one for one in judged if one["load"] == "same"]
    yield f"same: {sum(one['found'] for one in same)} of {len(same)} with a verdict found something"
    yield (
        f"{len(judged)} searches with a verdict, and "
        f"{sum(one['proposed'] for one in judged)} proposals in all: "
        f"{len(found)} found something; once more, {sum(one['held'] for one in found)} of these "
        f"were faster than the advice, and {len(lost)} slower by over {DELTA:.0%}"
    )
    yield from (one for one in compared if not one.startswith("unknown"))
    for text, loads in _agreed([one for one in found if one["held"]]).items():
        if len(loads) > 1:
            yield f"{text}: found for {', '.join(sorted(loads))}"


def _below(seen: Mapping[str, Any] | None, end: str) -> bool:
    return seen is not None and seen[end] is not None and seen[end] < 1 - DELTA


def _against_random(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what the model's winner is worth beside random search's, each in fresh pairs."""
    by = {(one["load"], one["seed"], one["proposals"]): one for one in rows}
    for (load, seed, proposals), model in by.items():
        at_random = by.get((load, seed, "random"))
        if proposals != "TPE" or at_random is None:
            continue
        each = [one["winner against the advice"] for one in (model, at_random)]
        fewest = min(model["proposed"], at_random["proposed"])
        if None in each or fewest <= MODEL_FROM:
            yield (
                f"unknown: the model against random search on {load}: one of them made "
                f"{plural(fewest, 'proposal')}, and the model's first {MODEL_FROM} are random"
            )
        else:
            ratio = each[0]["ratio"] / each[1]["ratio"]
            yield f"{load}: the best of the model over the best at random: {ratio:.2f}"


def _agreed(found: Sequence[Mapping[str, Any]]) -> dict[str, set[str]]:
    """Return loads by what was found for them: the setting, and whether it rose or fell."""
    loads: dict[str, set[str]] = defaultdict(set)
    for one in found:
        for each in one["differences"]:
            loads[f"{each['name']}, advised {each['advice']}"].add(f"{one['load']} {each['found']}")
    return loads


def memory_here() -> str:
    return pretty_bytes(Bytes(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")))


def say(text: str) -> None:
    print(text, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--load", action="append", choices=LOADS, help="only this; repeatable")
    parser.add_argument("--random", action="append", choices=LOADS, default=[])
    parser.add_argument("--minutes", type=float, default=30, help="of each search")
    parser.add_argument("--rounds", type=int, default=1, help="each with a seed of its own")
    parser.add_argument("--searches", type=int, default=sys.maxsize, help="at most, in this run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--records", type=Path, default=Path("searches"))
    parser.add_argument("--output", type=Path, default=Path("searches.json"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
