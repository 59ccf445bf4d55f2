"""One scenario from start to outcome."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, repeat
from typing import Any, Final

from mrtuner.failover.lab import patroni, pooler, probe_view
from mrtuner.failover.lab.control import Request
from mrtuner.failover.lab.document import CountedWrites, PlayedCase, PlayedScenario, played_case
from mrtuner.failover.lab.lab import Lab
from mrtuner.failover.lab.scenarios import POOLER, FaultMoment, Scenario
from mrtuner.failover.lab.trials import Attempt, Trials
from mrtuner.failover.predict.client import client_with
from mrtuner.failover.predict.hang_times import Prediction, Situation
from mrtuner.failover.predict.kernel import Kernel, local
from mrtuner.failover.predict.timer_wheel import Band
from mrtuner.rehearsal.document import rounded
from mrtuner.rehearsal.observation import Observation
from mrtuner.rehearsal.probes import Probes, Schedule

_INTERVAL: Final = 0.2
#: What probes find out is accurate to one interval [s].
_COARSE: Final = 0.3
_STEADY: Final = 1.0
#: A probe gives up after this [s], later than the clients' own limits.
_PATIENCE: Final = 30.0
#: Minimum time to watch an endless hang; and how long to watch any beyond its band [s].
_LEAST: Final = 5.0
_BEYOND: Final = 1.5


@dataclass(slots=True)
class Play:
    """A scenario in progress. Times are from time.monotonic(); `seen_…` from the probes' clock."""

    lab: Lab
    one: Scenario
    request: Request
    tell: Callable[[str], None]
    kernel: Kernel = field(default_factory=local)
    fault: float = field(init=False, default=0.0)
    takeover: float = field(init=False, default=0.0)
    end: float = field(init=False, default=0.0)
    seen_takeover: float = field(init=False, default=0.0)
    seen_end: float = field(init=False, default=0.0)

    def run(self) -> PlayedScenario:
        """Break it, wait, and compare what was measured with what was predicted."""
        trials = Trials(self._dsns())
        schedule = Schedule(interval=_INTERVAL, timeout=_PATIENCE)
        with Probes(self._dsn(self.one.observers), schedule) as probes:
            probes.wait_until_steady(_STEADY, patience=_PATIENCE)
            self._break(trials, probes)
            trials.wait(self._until(trials.attempts))
            self.end = time.monotonic()
            rows = list(self._rows(trials.attempts))  # fencing ends the remaining hangs
            if self.one.fence is not None:
                self.tell("fencing the old primary")
                self.one.fence(self.lab)
            self.seen_end = probes.now()
            self._wait_for_answers(probes)
            observed = probes.finish()
        return self._outcome(rows, observed)

    def _dsns(self) -> Iterator[str]:
        """One connection string per client; each has its own pool if there are pools."""
        if self.one.entrance != POOLER:
            return repeat(self._dsn(self.one.entrance))
        pooler.start(self.request.within)
        return (f"{self._dsn(POOLER)} dbname=pool{number}" for number in count())

    def _dsn(self, entrance: str) -> str:
        if entrance == POOLER:
            return f"host=127.0.0.1 port={pooler.PORT} user=postgres dbname=postgres"
        from psycopg.conninfo import make_conninfo

        given: dict[str, Any] = dict(self.request.parameters or {})
        return make_conninfo(self.lab.dsns()[entrance], **given)

    def _break(self, trials: Trials, probes: Probes) -> None:
        trials.before()
        self.tell(f"now: {self.one.words}")
        self.fault = time.monotonic()
        self.one.fault(self.lab)
        trials.after()
        if self.one.late:
            trials.wait(self._until(trials.attempts))
        time.sleep(max(0.0, self.fault + self.one.after - time.monotonic()))
        self.one.takeover(self.lab)
        self.takeover, self.seen_takeover = time.monotonic(), probes.now()
        self.tell("the other machine has taken over; waiting for hanging clients")

    def _until(self, attempts: list[Attempt]) -> float:
        """When every hang that ends should have ended."""
        spans = ((each.began, self._predicted(each).span) for each in attempts)
        ends = [began + span.high + _BEYOND for began, span in spans if span is not None]
        latest = max([*ends, self.takeover + _LEAST])
        return min(latest, self.fault + self.request.watch)

    def _wait_for_answers(self, probes: Probes) -> None:
        """Wait until each kind of probe has been answered after the end."""
        self.tell("waiting until the probes get answers again")
        last = time.monotonic() + _PATIENCE
        while time.monotonic() < last:
            late = {each.kind for each in probes.attempts()
                    if each.answered and each.sent > self.seen_end}  # fmt: skip
            if late >= set(probes.schedule.kinds):
                return
            time.sleep(_INTERVAL)

    def _predicted(self, attempt: Attempt) -> Prediction:
        client = client_with("psycopg", self._dsn(self.one.entrance))
        situation = Situation(kernel=self.kernel, client=client, path=attempt.path)
        return self.one.expected(
            attempt.case,
            FaultMoment(
                situation=situation,
                within=self.request.within,
                fault=max(0.0, self.fault - attempt.began),
                takeover=self.takeover - attempt.began,
            ),
        )

    def _rows(self, attempts: list[Attempt]) -> Iterator[PlayedCase]:
        for case in self.one.cases:
            mine = [each for each in attempts if each.case is case]
            predictions = [self._predicted(each) for each in mine]
            yield played_case(
                case.words,
                union([each.span for each in predictions]),
                predictions[0].decided_by,
                [each.seconds for each in mine],
                watched=min(self.end - each.began for each in mine),
            )

    def _outcome(self, rows: list[PlayedCase], observed: Observation) -> PlayedScenario:
        ledger = observed.ledger
        pooled = self.one.entrance == POOLER
        cases = [*rows, *self._more(observed)]
        return PlayedScenario(
            scenario=self.one.name,
            words=self.one.words,
            release=".".join(map(str, self.kernel.release)),
            hz=self.kernel.hz,
            parameters={} if pooled else dict(self.request.parameters or {}),
            sysctls=dict(self.request.sysctls),
            fits=all(case.fits is not False for case in cases),
            cases=cases,
            probes=[probe_view.seen(observed, kind, self.seen_takeover) for kind in observed.kinds],
            writes=CountedWrites(
                acknowledged=ledger.acknowledged if ledger else 0,
                lost=len(ledger.lost) if ledger else 0,
            ),
            fenced=None if self.one.fence is None else rounded(self.end - self.fault),
        )

    def _more(self, observed: Observation) -> Iterator[PlayedCase]:
        """Rows that only some scenarios have."""
        if self.one.entrance == "name":
            yield self._name_row(observed)
        if self.one.manager is not None:
            yield played_case(
                "the next primary",
                patroni.election(),
                f"Patroni's ttl = {patroni.TTL}, loop_wait = {patroni.LOOP_WAIT}",
                [self.takeover - self.fault],
            )
        if self.one.name == "partition":
            yield self._partition_row(observed)

    def _name_row(self, observed: Observation) -> PlayedCase:
        ttl, first = self.request.ttl, probe_view.first_by_new(observed)
        return played_case(
            "the name points elsewhere",
            Band(0.0, ttl / 2, ttl),
            f"the name's TTL = {ttl:g} s",
            [None if first is None else max(0.0, first - self.seen_takeover)],
            slack=_COARSE,
            watched=self.seen_end - self.seen_takeover,
        )

    def _partition_row(self, observed: Observation) -> PlayedCase:
        writes = [each.ended for each in probe_view.stale(observed, self.seen_takeover)
                  if each.kind.writes]  # fmt: skip
        return played_case(
            "writes to the old primary",
            Band.exactly(self.seen_end - self.seen_takeover),
            "clients do not learn of the new primary until the old one is fenced",
            [max(writes, default=self.seen_takeover) - self.seen_takeover],
            slack=_COARSE,
        )


def union(spans: Sequence[Band | None]) -> Band | None:
    """Return the band that contains them all; None if any is endless."""
    known = [span for span in spans if span is not None]
    return Band.over(known) if len(known) == len(spans) else None
