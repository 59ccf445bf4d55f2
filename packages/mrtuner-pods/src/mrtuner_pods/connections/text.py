"""A `mrtuner.pods.check/1` document as lines of text: the answer first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Final

from mrtuner.text_tables import aligned, bulleted
from mrtuner.units import pretty_bytes, pretty_duration
from mrtuner.wording import not_judged, plural
from mrtuner_pods.connections.compared import Compared
from mrtuner_pods.connections.document import (
    ConnectionLimit,
    ConnectionsOpened,
    PodsCheckDocument,
)
from mrtuner_pods.connections.judge import count
from mrtuner_pods.connections.model import total
from mrtuner_pods.connections.remedies import (
    FewerConnections,
    MemoryNeeded,
    PoolerNeeded,
    WaysToFit,
)
from mrtuner_pods.observed.model import OpenSessions, PoolerPool

_WIDTH: Final = 100
_DURING: Final = {
    "at rest": "without a rollout",
    "surge": "by a rollout's new pods",
    "first step": "when a rollout starts",
    "overlap": "during a rollout",
}


def check(told: PodsCheckDocument) -> Iterator[str]:
    """Yield the answer, who connects, the stages, the limits, ways to make it fit, and sources."""
    yield from (not_judged(one.name, one.why, one.supply) for one in told.unjudged)
    yield verdict(told)
    yield from _first(told)
    yield ""
    yield from aligned(_terms(told.terms, told.reachable, "who connects to the server"),
                       right={1})  # fmt: skip
    if told.clients:
        yield ""
        clients = _sum(told.clients)
        yield from aligned(_terms(told.clients, clients, "who connects to PgBouncer"), right={1})
    yield ""
    yield from aligned(_stages(told), right={1})
    yield ""
    yield from _limits(told.limits)
    yield from _expected(told)
    if told.ways:
        yield from _ways(told, told.ways)
    yield from bulleted("warnings", told.warnings)
    yield from bulleted("notes", told.notes)
    yield ""
    yield "where each number was read"
    for one in told.numbers:
        yield from _wrapped(f"{one.of}: {one.name} {count(one.value)} ({one.source})", "  ")


def verdict(told: PodsCheckDocument) -> str:
    """Return whether it fits, in one sentence with both numbers of the limit that decides."""
    limit = next(one for one in told.limits if one.name == told.first)
    least = "at least " if told.unjudged and limit.reachable is not None else ""
    reached = least + count(limit.reachable)
    what = "clients" if limit.clients else "connections"
    when = _DURING[told.stage]
    if told.fits:
        return f"fits: at most {reached} of {limit.admits:,} {what} can be reached {when}"
    if told.ways is None:
        of = f"{reached} of {limit.admits:,} {what} can be reached {when}"
        return f"it is not known whether it fits: {of}"
    if limit.reachable is None:
        return f"does not fit: {what} are unbounded, and {limit.admits:,} are admitted"
    admitted = f"{limit.admits:,} are admitted"
    return f"does not fit: {reached} {what} can be reached {when}, and {admitted}"


def _first(told: PodsCheckDocument) -> Iterator[str]:
    if told.ways is None:
        yield f"the limit with the least to spare is {told.first}"
        return
    when = "" if told.gives_at in {None, "at rest"} else f", at the stage {told.gives_at!r}"
    yield f"the first limit to be exceeded is {told.first}{when}".replace("'", '"')
    for one in told.numbers:
        if one.value is None:
            yield from _wrapped(f"unbounded: {one.name} of {one.of}: {one.source}", "")


def _sum(terms: Sequence[ConnectionsOpened]) -> int | None:
    return total(one.reachable for one in terms)


def _terms(
    terms: Sequence[ConnectionsOpened], together: int | None, title: str
) -> Iterator[tuple[str, ...]]:
    yield (title, "can be reached", "how")
    for one in terms:
        kind = "" if one.kind in {"other", "pooler"} else f" ({one.kind})"
        yield (f"{one.name}{kind}", count(one.reachable), one.how)
    servers = list(dict.fromkeys(one.server for one in terms if one.server))
    for server in servers:
        own = _sum([one for one in terms if one.server in {None, server}])
        yield (f"together at {server}", count(own), "")
    if len(terms) > 1 and not servers:
        yield ("together", count(together), "")


def _stages(told: PodsCheckDocument) -> Iterator[tuple[str, ...]]:
    yield ("stage of a rollout", "can be reached", "")
    for one in told.stages:
        named = "" if one.gives in ([], ["max_connections"]) else f": {', '.join(one.gives)}"
        mark = "fits" if one.fits else f"does not fit{named}"
        if one.fits and told.unjudged:
            mark = "not known"
        checked = ", checked" if one.stage == told.stage else ""
        yield (one.stage, count(one.reachable), mark + checked)


def _limits(limits: Sequence[ConnectionLimit]) -> Iterator[str]:
    rows = [("limit", "admits", "can be reached")]
    rows += [(one.name, f"{one.admits:,}", count(one.reachable)) for one in limits]
    yield from aligned(rows, right={1, 2})
    for one in limits:
        yield from _wrapped(f"{one.name}: {one.how}", "  ")


def _expected(told: PodsCheckDocument) -> Iterator[str]:
    yield ""
    expected = told.expected
    if expected is None:
        yield "expected: unknown; give --rate and --hold"
    else:
        number = f"{expected.value:.3g}"
        yield f"expected: {number} connections in use on average ({expected.source})"
    if told.open_now is not None:
        yield f"open now: {plural(told.open_now, 'session')}"
    seen = told.seen
    if seen is not None:
        yield f"most seen: {plural(seen.value, 'session')} ({seen.source})"
    yield from who_connects(told.sessions, told.pools)
    yield from _compared(told.compared)


def _compared(rows: Sequence[Compared]) -> Iterator[str]:
    """Yield what was counted beside what was seen, after an empty line, for each source."""
    for source in dict.fromkeys(one.source for one in rows):
        yield ""
        heads = ("counted and seen", "at rest", "checked", "most seen", "addresses", "the count is")
        yield from aligned(
            [heads, *(_compared_row(one) for one in rows if one.source == source)],
            right=range(1, 5),
        )
        yield from _wrapped(f"seen: {source}", "  ")


def _compared_row(one: Compared) -> tuple[str, ...]:
    addresses = "–" if one.addresses is None else f"{one.addresses:,}"
    counted = (count(one.rest), count(one.reachable))
    return (one.name, *counted, f"{one.seen:,}", addresses, one.verdict)


def who_connects(sessions: Sequence[OpenSessions], pools: Sequence[PoolerPool]) -> Iterator[str]:
    """Yield the tables of sessions and of pools, each after an empty line, without empty ones."""
    for rows in (session_rows(sessions), pool_rows(pools)):
        if rows:
            yield ""
            yield from aligned(rows, right=range(1, len(rows[0])))


def session_rows(sessions: Sequence[OpenSessions]) -> list[tuple[str, ...]]:
    """Return a table of sessions by application, headings first; empty if there are none."""
    rows = [
        (
            f"{one.application or '(no application_name)'}, {one.role} in {one.database}",
            *(f"{number:,.3g}" for number in (one.sessions, one.active, one.in_transaction)),
            "–" if one.clients is None else f"{one.clients:,}",
        )
        for one in sessions
    ]
    heads = ("sessions at the database", "open", "active", "in transaction", "addresses")
    return [heads, *rows] if rows else []


def pool_rows(pools: Sequence[PoolerPool]) -> list[tuple[str, ...]]:
    """Return a table of PgBouncer's pools, headings first; empty if there are none."""
    rows = [
        (
            f"{one.user} in {one.database} ({one.mode})",
            *(f"{number:,}" for number in (one.clients, one.waiting, one.servers, one.idle)),
            pretty_duration(one.longest_wait) if one.longest_wait else "–",
        )
        for one in pools
    ]
    heads = ("pool of PgBouncer", "clients", "waiting", "servers", "idle", "longest wait")
    return [heads, *rows] if rows else []


# Three ways.


def _ways(told: PodsCheckDocument, ways: WaysToFit) -> Iterator[str]:
    yield ""
    yield "three ways to make it fit"
    fewer = [*_fewer(ways.fewer)]
    yield from _way(1, "fewer", fewer or ["no single workload can be reduced far enough"], ways.now)
    yield from _way(2, "a pooler", [_pooler(ways.pooler)], ways.pooler_needs)
    yield from _way(3, "larger", [_larger(ways, told)], ways.larger)


def _way(
    number: int, name: str, sentences: Sequence[str], needs: MemoryNeeded | None
) -> Iterator[str]:
    for place, sentence in enumerate(sentences):
        head = f"  {number}. {name}: " if place == 0 else "     or "
        yield from wrap(sentence, _WIDTH, initial_indent=head, subsequent_indent="     ",
                        break_long_words=False, break_on_hyphens=False)  # fmt: skip
    if needs is not None:
        yield from _wrapped(_memory(needs), "     ")


def _fewer(ways: Sequence[FewerConnections]) -> Iterator[str]:
    for one in ways:
        parts = []
        if one.at_most is not None:
            now = f" instead of {one.connections}" if one.connections else ""
            parts.append(f"at most {one.at_most} connections in each pool{now}")
        if one.pods_at_most is not None and one.connections:
            parts.append(f"at most {plural(one.pods_at_most, 'pod')} instead of {one.pods}")
        if parts:
            yield f"{one.workload}: {', or '.join(parts)}"


def _pooler(way: PoolerNeeded | None) -> str:
    if way is None:
        return "no connection is left for it"
    clients = (
        "as many clients as the applications open"
        if way.clients is None else f"{way.clients:,} clients together"
    )  # fmt: skip
    of_each = f" for each of {way.databases} databases" if way.databases > 1 else ""
    return (
        f"PgBouncer in transaction mode with at most {way.servers:,} server connections: "
        f"max_db_connections = {way.each:,}{of_each} in each of {way.processes} processes (those "
        f"of a rollout included), and max_client_conn for {clients}"
    )


def _larger(ways: WaysToFit, told: PodsCheckDocument) -> str:
    """Return every limit that is exceeded, with the value it would need."""
    parts = []
    for one in told.limits:
        if one.fits:
            continue
        if one.reachable is None:
            return "no number is large enough"
        sessions = one.kind == "max_connections"
        if sessions and ways.larger is None:
            return "PostgreSQL allows no larger value"
        if sessions and ways.larger is not None:
            most, now = ways.larger.max_connections, ways.now.max_connections
            parts.append(f"max_connections = {most:,} instead of {now:,}, with a restart")
        else:
            together = ", of all its processes together" if one.clients else ""
            parts.append(f"{one.name} = {one.reachable:,}{together}")
    return " and ".join(dict.fromkeys(parts))


def _memory(needs: MemoryNeeded) -> str:
    if needs.memory is None:
        return f"{needs.sessions:,} sessions need more memory than any machine has"
    said = (
        f"memory: {needs.sessions:,} sessions need at least {pretty_bytes(needs.memory)}, by "
        "the memory budget of mrtuner tune"
    )
    if needs.price is not None:
        said += f"; one more adds {pretty_bytes(needs.price)}"
    if needs.fits is False:
        return f"{said}; this machine has less"
    if needs.work_mem is not None:
        return f"{said}; here work_mem can then be {pretty_bytes(needs.work_mem)}"
    return said


def _wrapped(text: str, indent: str) -> Iterator[str]:
    yield from wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ",
                    break_long_words=False, break_on_hyphens=False)  # fmt: skip
