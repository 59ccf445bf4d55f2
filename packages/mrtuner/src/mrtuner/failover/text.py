"""Predictions, settings and measurements as readable text: lines, no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from mrtuner.failover.predict.hang_times import Case, Prediction, Situation, pretty_span
from mrtuner.text_tables import aligned, bulleted
from mrtuner.wording import not_judged

if TYPE_CHECKING:
    from mrtuner.failover.audit.check import Audit, Audited
    from mrtuner.failover.settings.advice import Settings

_WIDTH: Final = 100


def prediction(
    situation: Situation, cases: Sequence[Prediction], between: str | None = None
) -> Iterator[str]:
    """What the prediction is based on, the five cases, then how each comes about."""
    yield _title(situation)
    yield from _between(between)
    if situation.client.driver.evidence == "memory":
        yield f"the defaults of {situation.client.driver.title} were not checked against a source"
    yield ""
    back = situation.away is not None
    head = ("case", "hangs", *(("notices",) if back else ()), "decided by")
    rows = [
        (one.case.words, pretty_span(one.span), *((_seen(one),) if back else ()), one.decided_by)
        for one in cases
    ]
    yield from aligned([head, *rows])
    if back:
        yield ""
        yield (
            f"notices: if the address answers again {situation.away:g} s after the client's request"
        )
    for case in cases:
        yield ""
        yield f"{case.case.words}: {pretty_span(case.span)}"
        yield from _items("-", case.steps)
        yield from _items("!", case.traps)


def _between(name: str | None) -> Iterator[str]:
    """Warn that everything shown is about a pooler or proxy, not the server."""
    if name is None:
        return
    yield f"{name} answers in place of the server: the times below are how long clients wait for it"
    yield (
        "for a server that vanishes behind PgBouncer, use --client pgbouncer on its host, without "
        "a connection string"
    )


def _title(situation: Situation) -> str:
    kernel, path = situation.kernel, situation.path
    version = ".".join(map(str, kernel.release))
    return (
        f"{situation.client.driver.title} on Linux {version}, HZ {kernel.hz}, "
        f"round trip {path.rtt * 1000:.3g} ms"
    )


def _seen(case: Prediction) -> str:
    """When the client notices the server's return; "-" if that does not apply."""
    if case.noticed is not None:
        return pretty_span(case.noticed)
    return "never" if case.case is Case.FLIGHT and case.span is None else "-"


def settings(chosen: Settings) -> Iterator[str]:
    """What the settings achieve, what they cost, and what remains unbounded."""
    head = ("case", "hangs at most", "decided by")
    rows = [(case.case.words, _most(case), case.decided_by) for case in chosen.cases]
    yield from aligned([head, *rows])
    yield from bulleted("what it costs", chosen.costs)
    yield from bulleted("not bounded", chosen.unbounded)
    yield ""
    yield f"{chosen.stack.title}: {chosen.stack.verified}"


def audit(done: Audit) -> Iterator[str]:
    """What was not judged, a row per connection, then the problems."""
    yield from (not_judged(one.name, one.why, one.supply) for one in done.unjudged)
    if done.connections:
        head = ("process", "connection", "idle, then a query", "query in flight")
        yield from aligned([head, *map(_audited, done.connections)])
    for one in done.connections:
        yield from bulleted(_owner(one), one.findings)
    yield from bulleted("the server, and what stands in between", done.findings)
    if not done.found and not done.unjudged:
        yield ""
        yield f"no case hangs longer than {done.within:g} s"


def _audited(one: Audited) -> tuple[str, ...]:
    hangs = tuple(pretty_span(case.span) for case in one.cases) or ("not readable", "not readable")
    return (_owner(one), f"{one.connection.local} - {one.connection.peer}", *hangs)


def _owner(one: Audited) -> str:
    seen = one.connection
    return "another user's" if seen.pid is None else f"{seen.process} ({seen.pid})"


def _most(case: Prediction) -> str:
    return "forever" if case.span is None else f"{case.span.high:.1f} s"


def _items(mark: str, items: Iterable[str]) -> Iterator[str]:
    """Each item on its own lines, wrapped to the line width."""
    for item in items:
        yield from wrap(
            item, _WIDTH, initial_indent=f"  {mark} ", subsequent_indent="    ",
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
