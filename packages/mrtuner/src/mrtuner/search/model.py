"""A search: what it was asked, what it tried, and what it found. All of it is in its record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from mrtuner.bench.load.pgbench import Builtin
from mrtuner.bench.plan.model import Script
from mrtuner.described import Doc, Omissible, document_name
from mrtuner.stats.comparison import Verdict

#: Values by the names of settings, as in a configuration file.
Settings = Mapping[str, str]
#: default: what initdb gives; pgtune: PgTune's values; advice: on a live server, the advice;
#: earlier: the winner of an earlier search; proposed: by the optimiser.
Origin = Literal["default", "pgtune", "advice", "earlier", "proposed"]
#: What is to be better. p99: of transactions that begin at a fixed rate; statement time: the mean
#: time of the statements of a live server.
Goal = Literal["throughput", "p99", "statement time"]
#: better: the best so far from then on; stopped: worse, or a guard tripped; failed: it did not run.
Outcome = Literal["better", "not better", "stopped", "failed"]
#: What a setting must be worth, or it goes back to the advice.
WORTH: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedStatement:
    """A statement of `pg_stat_statements` or of a history, without literals."""

    text: Annotated[str, Doc("its text, with $1 in place of every value")]
    calls: Annotated[int, Doc("how often it was called")]
    seconds: Annotated[float, Doc("execution time of all calls [s]")]
    rows: Annotated[int | None, Doc("rows returned or changed by all calls; null: unknown")]
    left_out: Annotated[str | None, Doc("why it is not replayed; null: it is")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedLoad:
    """The load, and the server that it runs on."""

    builtin: Annotated[Builtin | None, Doc("a script of pgbench's own; null with `scripts`")]
    scripts: Annotated[tuple[Script, ...], Doc("scripts in pgbench's language")]
    scale: Annotated[int | None, Doc("pgbench's scale factor; null without its tables")]
    clients: Annotated[int | None, Doc("number of sessions; null on a live server")]
    memory: Annotated[int | None, Doc("bytes that the server may use; null: no limit")]
    iops: Annotated[int | None, Doc("I/O operations per second of its volume; null: no limit")]
    rate: Annotated[float | None, Doc("transactions that begin each second; null: full speed")] = (
        None
    )
    server: Annotated[
        str | None, Doc("the live server whose own load it is; null: a server of our own")
    ] = None
    database: Annotated[
        str | None, Doc("the database that was copied; null: pgbench's tables, or a live server")
    ] = None
    statements: Annotated[
        tuple[SearchedStatement, ...],
        Doc("what is replayed on the copy, as often as it was called, and what is left out"),
    ] = ()

    @property
    def title(self) -> str:
        """``tpcb, scale 10, 8 clients``."""
        if self.server is not None:
            return "the server's own load"
        what = self.builtin or ", ".join(one.name for one in self.scripts)
        if self.statements:
            what = f"statements for {self.replayed:.0%} of the time"
        data = f"scale {self.scale}" if self.database is None else f"a copy of {self.database}"
        rate = "" if self.rate is None else f", {self.rate:g} transactions a second"
        return f"{what}, {data}, {self.clients} clients{rate}"

    @property
    def replayed(self) -> float:
        """The share of the statements' time that those replayed took."""
        every = sum(one.seconds for one in self.statements)
        ours = sum(one.seconds for one in self.statements if one.left_out is None)
        return ours / every if every else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How the budget is spent; fixed before the first run."""

    budget: Annotated[float, Doc("seconds in all, without filling the server")]
    window: Annotated[int, Doc("seconds of one run")]
    warmup: Annotated[int, Doc("seconds of the load before each run, which do not count")]
    pairs: Annotated[int, Doc("pairs of runs of a trial that is not stopped")]
    search: Annotated[float, Doc("share of the budget for trials")]
    confirmation: Annotated[float, Doc("share for fresh pairs of the winner and the advice")]
    ablation: Annotated[float, Doc("share for taking the winner's settings back one by one")]
    reduced: Annotated[float, Doc("share for fresh pairs of what is left then")]
    runs: Annotated[int, Doc("runs of a pair; three on a live server")] = 2


@document_name("Evidence")
@dataclass(frozen=True, slots=True, kw_only=True)
class BindingEvidence:
    """Something that may hold the load back, and what was seen of it under the advice."""

    mechanism: Annotated[str, Doc("its name")]
    meaning: Annotated[str, Doc("what was measured")]
    value: Annotated[float | None, Doc("what was seen; null if it could not be seen")]
    least: Annotated[float, Doc("from this value on, its settings are searched")]

    @property
    def binds(self) -> bool:
        """Whether enough of it was seen."""
        return self.value is not None and self.value >= self.least


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedSetting:
    """A setting that is searched, and where."""

    name: Annotated[str, Doc("the parameter")]
    mechanism: Annotated[str, Doc("what it may relieve")]
    why: Annotated[str, Doc("how")]
    advice: Annotated[str, Doc("its value in the advice")]
    values: Annotated[tuple[str, ...], Doc("the values that are tried; empty: a range")]
    low: Annotated[str | None, Doc("the range, on a logarithmic scale")]
    high: Annotated[str | None, Doc("its upper end")]
    special: Annotated[tuple[str, ...], Doc("values with a meaning of their own, beside the range")]
    restart: Annotated[bool, Doc("whether it needs a restart")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingLeftOut:
    """A setting that is not searched."""

    name: Annotated[str, Doc("the parameter")]
    why: Annotated[str, Doc("why not")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Other settings in a race with the best so far."""

    number: Annotated[int, Doc("from 1; 0 is the advice")]
    origin: Annotated[Origin, Doc("where the settings come from")]
    settings: Annotated[dict[str, str], Doc("every setting of this side")]
    place: Annotated[dict[str, float], Doc("where they lie in what is searched; for resuming")]
    against: Annotated[int, Doc("number of the trial that was the best so far")]
    pairs: Annotated[
        tuple[tuple[float, float], ...],
        Doc(
            "the best so far and this trial, pair by pair: transactions a second; with a goal "
            "that is a time, its reciprocal [1/s]"
        ),
    ]
    outcome: Annotated[Outcome, Doc("how it ended")]
    because: Annotated[str, Doc("why")]
    score: Annotated[
        float | None,
        Doc("logarithm of the ratio to the advice, over all races between; null if it failed"),
    ]
    seconds: Annotated[float, Doc("how long it took")]
    unknown: Annotated[tuple[str, ...], Doc("why pairs do not count, one for each")] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A ratio of throughputs, or of speeds, with its 95 % interval."""

    verdict: Annotated[Verdict, Doc("the second side against the first")]
    ratio: Annotated[float, Doc("the second side over the first")]
    low: Annotated[float | None, Doc("lower end of its 95 % interval; null with a single pair")]
    high: Annotated[float | None, Doc("upper end; null with a single pair")]
    pairs: Annotated[int, Doc("pairs of runs that count")]
    detectable: Annotated[
        float | None, Doc("the gain that so many pairs show with 80 % power: 0.05 is 5 %")
    ]
    refused: Annotated[tuple[str, ...], Doc("why there is no verdict")]
    cautions: Annotated[tuple[str, ...], Doc("what weakens the verdict")]
    seconds: Annotated[float, Doc("how long it took")]
    unknown: Annotated[tuple[str, ...], Doc("why pairs do not count, one for each")] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """What one setting of the winner is worth: the winner over the winner without it."""

    name: Annotated[str, Doc("the parameter")]
    advice: Annotated[str, Doc("its value in the advice")]
    value: Annotated[str, Doc("its value in the winner")]
    measured: Annotated[Measured | None, Doc("null if the budget of time or memory had no room")]

    @property
    def little(self) -> bool:
        """Whether it was measured, and is not worth a percent."""
        return self.measured is not None and self.measured.ratio < 1 + WORTH


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A setting that differs from the advice."""

    name: Annotated[str, Doc("the parameter")]
    advice: Annotated[str, Doc("its value in the advice")]
    value: Annotated[str, Doc("what was found")]
    restart: Annotated[bool, Doc("whether it needs a restart")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What settings cost at worst."""

    memory: Annotated[int | None, Doc("bytes that the server may need; null if unknown")]
    replay: Annotated[str | None, Doc("recovery after a crash, in words; null if unknown")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What the search found."""

    found: Annotated[bool, Doc("whether something better than the advice was confirmed")]
    headline: Annotated[str, Doc("the result in a sentence")]
    settings: Annotated[dict[str, str], Doc("every setting found; empty if nothing was")]
    differences: Annotated[tuple[Difference, ...], Doc("where they differ from the advice")]
    measured: Annotated[Measured | None, Doc("against the advice, in fresh pairs; null: none ran")]
    before: Annotated[Costs | None, Doc("what the advice costs")]
    after: Annotated[Costs | None, Doc("what the settings found cost")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """What an earlier search of the same load, on the same version and machine, confirmed."""

    started: Annotated[str, Doc("when it began; ISO 8601, UTC")]
    settings: Annotated[dict[str, str], Doc("where its winner differed from what it started from")]


@dataclass(kw_only=True)
class Search:
    """A search that runs, was interrupted or is finished."""

    mrtuner: Annotated[str, Doc("version of MrTuner")]
    postgres: Annotated[str, Doc("version of the server")]
    started: Annotated[str, Doc("ISO 8601, UTC")]
    load: Annotated[SearchedLoad, Doc("what ran, and where")]
    machine: Annotated[
        Mapping[str, str | int | float | bool | list[str] | None],
        Doc("what was said about the machine, as in `mrtuner.tune`"),
    ]
    cpus: Annotated[int | None, Doc("CPUs of the machine; null: unknown")] = None
    memory: Annotated[int | None, Doc("bytes of its memory; null: unknown")] = None
    earlier: Annotated[list[Earlier], Doc("winners of earlier searches, which are tried first")] = (
        field(default_factory=list)
    )
    keep: Annotated[tuple[str, ...], Doc("settings that were to stay as advised")]
    seed: Annotated[int, Doc("of all that is random")]
    schedule: Annotated[Schedule, Doc("how the budget is spent")]
    advice: Annotated[
        Settings, Doc("the settings that it starts from; on a live server, those in force")
    ]
    baselines: Annotated[
        Mapping[str, Settings], Doc("other settings to compare with: initdb's, PgTune's")
    ]
    goal: Annotated[Goal, Doc("what is to be better")] = "throughput"
    busy: Annotated[
        str | None, Doc("what used the machine before the first run; null: nothing")
    ] = None
    unknown: Annotated[list[str], Doc("what could not be read or counted")] = field(
        default_factory=list
    )
    calibration: Annotated[
        Measured | None, Doc("the advice against itself: the noise of this machine")
    ] = None
    evidence: Annotated[
        list[BindingEvidence], Doc("what holds the load back, seen under the advice")
    ] = field(default_factory=list)
    searched: Annotated[list[SearchedSetting], Doc("the settings that are searched")] = field(
        default_factory=list
    )
    left_out: Annotated[list[SettingLeftOut], Doc("those that are not, and why")] = field(
        default_factory=list
    )
    trials: Annotated[list[Trial], Doc("in the order in which they ran")] = field(
        default_factory=list
    )
    candidate: Annotated[int | None, Doc("number of the trial that was measured afresh")] = None
    confirmation: Annotated[
        Measured | None, Doc("that trial against the advice, in fresh pairs")
    ] = None
    ablation: Annotated[list[Worth], Doc("what each of its settings is worth")] = field(
        default_factory=list
    )
    reduced: Annotated[
        Measured | None, Doc("without those that are worth less than 1 %, against the advice")
    ] = None
    long_runs: Annotated[
        Measured | None,
        Doc(
            "what won against the advice in long runs, where the load may write; null: not measured"
        ),
    ] = None
    result: Annotated[SearchResult | None, Omissible("null until the search is finished")] = None

    @property
    def live(self) -> bool:
        """Whether it runs on a live server."""
        return self.load.server is not None

    @property
    def aim(self) -> str:
        """What a gain is a gain in."""
        return {
            "throughput": "transactions a second",
            "p99": "p99 latency, as a speed: +25 % is a latency of 80 %",
            "statement time": "mean statement time, as a speed: +25 % is a time of 80 %",
        }[self.goal]

    @property
    def start(self) -> str:
        """What it starts from, in words."""
        return "the settings in force" if self.live else "the advice"

    def name(self, number: int) -> str:
        """What a trial is called: ``trial 3``; number 0, ``the advice``."""
        return f"trial {number}" if number else self.start

    def side(self, number: int) -> Settings:
        """The settings of a trial; of number 0, the advice."""
        return self.advice if number == 0 else self.trials[number - 1].settings

    @property
    def best(self) -> int:
        """The number of the trial that won its race last; 0 for the advice."""
        won = [one.number for one in self.trials if one.outcome == "better"]
        return won[-1] if won else 0

    def score(self, number: int) -> float:
        """The logarithm of a trial's ratio to the advice."""
        return 0.0 if number == 0 else self.trials[number - 1].score or 0.0

    @property
    def put_off(self) -> tuple[str, ...]:
        """Why what won does not hold in long runs; empty if it does, or none were measured."""
        return self.long_runs.refused if self.long_runs else ()

    @property
    def reduced_side(self) -> Settings:
        """The winner without the settings that are worth little."""
        side = self.side(self.candidate or 0)
        for one in self.ablation:
            if one.little:
                side = taken_back(side, one.name, self.advice)
        return side


def taken_back(side: Settings, name: str, advice: Settings) -> dict[str, str]:
    """Return a side with one setting as advised."""
    others = {key: text for key, text in side.items() if key != name}
    return others | ({name: advice[name]} if name in advice else {})


def differences(
    advice: Settings, other: Settings, default: Callable[[str], str]
) -> dict[str, tuple[str, str]]:
    """Return the settings that differ: their values in the advice and in `other`, by name.

    `default` gives the value of a setting that one side leaves alone.
    """
    pairs = {
        name: (advice.get(name, default(name)), other.get(name, default(name)))
        for name in dict.fromkeys((*advice, *other))
    }
    return {name: (a, b) for name, (a, b) in pairs.items() if a != b}
