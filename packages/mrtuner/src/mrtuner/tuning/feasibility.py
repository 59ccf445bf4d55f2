"""Whether the worst case fits into memory and, if not, which input has to change."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from mrtuner.catalog import parameters
from mrtuner.catalog.families import AURORA, LAST, family
from mrtuner.errors import DoesNotFit
from mrtuner.formula.class_memory import VARIABLE
from mrtuner.formula.rds_formula import is_formula, parse
from mrtuner.tuning.advice import Advice
from mrtuner.tuning.budget import (
    DEFAULT_WORK_MEM,
    LEAST_WORK_MEM,
    Budget,
    Chosen,
    draw_up,
)
from mrtuner.tuning.engine import INITDB, decide
from mrtuner.tuning.rules.sessions import A_SESSION, FEWEST, USUAL
from mrtuner.tuning.situation import OF_OUR_SESSION, USUAL_CEILING, Memory, Situation
from mrtuner.tuning.verdict import RULES
from mrtuner.units import Bytes, GiB, MiB, TiB, pretty_bytes

if TYPE_CHECKING:
    from mrtuner.postgres.model import Platform, PlatformName

#: What the worst case is computed from.
NEED_MEMORY: Final = (
    "shared_buffers", "wal_buffers", "max_connections", "work_mem", "hash_mem_multiplier",
    "maintenance_work_mem", "autovacuum_work_mem", "autovacuum_max_workers",
    "max_parallel_workers", "max_worker_processes", "io_workers", "io_max_workers",
)  # fmt: skip
#: Rules that the budget depends on: besides those, whether autovacuum runs.
COUNTED: Final = frozenset({
    *NEED_MEMORY, "autovacuum", "autovacuum_worker_slots", "io_method",
})  # fmt: skip
#: Below so many sessions, ten more or fewer make much of a difference.
FEW: Final = 50
HELD: Final = "not changed, since the worst case would not fit in memory"


@dataclass(frozen=True, slots=True)
class Solution:
    """Every rule's answer for one situation, and the resulting budget."""

    advice: dict[str, Advice]
    chosen: Chosen
    budget: Budget | None

    @property
    def work_mem(self) -> Bytes:
        """What each sort may use on this machine."""
        return Bytes(self.chosen.settled().size("work_mem").evaluate({}))

    @property
    def holds(self) -> bool:
        """True if within the ceiling with a useful work_mem, or if memory is unknown."""
        return self.budget is None or (self.budget.fits and self.work_mem >= LEAST_WORK_MEM)


def solve(situation: Situation, only: Collection[str] = RULES.keys()) -> Solution:
    """Decide every parameter and add up the budget, without refusing anything yet.

    `only`: the rules to ask, at least `COUNTED`, on which the budget depends.
    """
    if situation.connections.wanted is None and not situation.live:
        held = replace(situation.connections, held=_sessions_held(situation))
        situation = replace(situation, connections=held)
    return _solve(situation, only)


def _sessions_held(situation: Situation) -> int | None:
    """The most sessions that leave each the default work_mem, in tens above `FEW`; None if the
    usual number does.
    """
    usual = _solve(situation, COUNTED)
    if usual.budget is None or usual.work_mem >= DEFAULT_WORK_MEM:
        return None

    def too_many(count: int) -> bool:
        held = replace(situation.connections, held=count)
        return _solve(replace(situation, connections=held), COUNTED).work_mem < DEFAULT_WORK_MEM

    most = usual.chosen.count("max_connections") + 1
    counts: list[int] = [*range(FEWEST, min(FEW, most)), *range(FEW, most, 10)]
    return counts[max(0, bisect_left(counts, True, key=too_many) - 1)]


def _solve(situation: Situation, only: Collection[str]) -> Solution:
    sized = situation.within_ceiling()
    advice, chosen = decide(sized, only)
    if sized is not situation:  # no such machine was measured
        advice = {name: replace(one, shown=False) for name, one in advice.items()}
    budget = _budget(situation, chosen, situation.connections.active)
    return Solution(advice, chosen, budget)


def settle(situation: Situation) -> Solution:
    """As `solve`; but while the worst case does not fit a live server, nothing that needs memory is
    raised, nor is work_mem made useless: lowering what its owner chose comes first.
    """
    solution = solve(situation)
    if not situation.live or solution.holds:
        return solution
    lowered = values_to_lower(situation)
    named = ",".join(sorted({*situation.lower, *lowered}))
    why = f"not changed, since the worst case would not fit: --lower {named}" if lowered else HELD
    # A value that is held may make another one rise instead: wal_buffers follow shared_buffers.
    while not solution.holds and (held := _held(solution)):
        situation = replace(situation, fixed={**situation.fixed, **dict.fromkeys(held, why)})
        solution = solve(situation)
    return solution


def _held(solution: Solution) -> list[str]:
    advice = solution.advice
    raised = [name for name in NEED_MEMORY if is_raised(advice.get(name))]
    useless = advice["work_mem"].changes and solution.work_mem < LEAST_WORK_MEM
    return [*raised, "work_mem"] if useless and "work_mem" not in raised else raised


def is_raised(advice: Advice | None) -> bool:
    """Whether the advice sets a larger number than is in force."""
    if advice is None or not advice.changes:
        return False
    now, target = advice.now, advice.target
    return not isinstance(now, str) and not isinstance(target, str) and (target or 0) > (now or 0)


def in_force(situation: Situation) -> Budget | None:
    """The budget of the settings as our session sees them; None without a server or its memory."""
    if not situation.live:
        return None
    return solve(replace(situation, fixed=dict.fromkeys(situation.running, "as it is"))).budget


def overcommitted(situation: Situation, platform: Platform, now: Budget | None) -> Budget | None:
    """The worst case of the settings in force, if it exceeds all of memory, as defaults do not.

    PostgreSQL's defaults exceed 1 GB, and those of managed services any memory, which nobody
    changes for: what somebody set is to blame, or nothing. `now` is the case with every session.
    """
    if now is None or now.total <= now.memory:
        return None
    counted = counted_sessions(situation, platform)
    found, usual = in_force(counted), in_force(by_default(counted, platform))
    return found if found and usual and found.exceeds(usual) else None


def servers_own(situation: Situation) -> bool:
    """Whether our session sees the server's own values, and not those of our role or session."""
    return not any(situation.origins.get(name) in OF_OUR_SESSION for name in NEED_MEMORY)


def values_to_lower(situation: Situation) -> dict[str, Advice]:
    """The owner's values that have to be lowered until the worst case fits, and to what.

    As few as possible, those that save most first; empty if it fits, or cannot be made to fit.
    """
    if solve(situation).holds:
        return {}
    lowered = situation
    own = {name for name in NEED_MEMORY if situation.chosen_by_person(name)} - situation.lower
    while own:
        tries = {name: replace(lowered, lower=lowered.lower | {name}) for name in own}
        best = min(sorted(tries), key=lambda name: _total(tries[name]))
        lowered = tries[best]
        own.remove(best)
        solution = solve(lowered)
        if solution.holds:
            return {
                name: solution.advice[name]
                for name in sorted(lowered.lower - situation.lower)
                if solution.advice[name].changes
            }
    return {}


def _total(situation: Situation) -> int:
    budget = solve(situation).budget
    return budget.total if budget else 0


def _budget(situation: Situation, chosen: Chosen, active: int | None) -> Budget | None:
    return draw_up(
        chosen,
        major=situation.major,
        workload=situation.workload,
        share=situation.ceiling,
        machine=situation.machine,
        huge_pages=situation.huge_pages,
        active=active,
    )


def refuse_overflow(situation: Situation, solution: Solution) -> None:
    """Raise DoesNotFit if the solution does not fit; the hint says what to change.

    A server that runs is not refused an answer: its dangers say the same, unless the user asked for
    more connections.
    """
    budget = solution.budget
    if budget is None or solution.holds:
        return
    if situation.live and situation.connections.wanted is None:
        return
    sessions = situation.connections.wanted or solution.chosen.count("max_connections")
    raise DoesNotFit(
        f"{sessions} connections do not fit into {pretty_bytes(budget.memory)}: even with "
        f"{pretty_bytes(LEAST_WORK_MEM)} of work_mem the worst case exceeds the ceiling of "
        f"{pretty_bytes(budget.ceiling)}",
        what_must_give(situation, sessions),
    )


def what_must_give(situation: Situation, sessions: int) -> str:
    """Return which inputs to change: a fixed parameter, if any; else connections, or memory."""
    for name in ("max_connections", "shared_buffers", "work_mem", "maintenance_work_mem"):
        if name in situation.fixed and situation.fixed[name] != AURORA.get(name):
            why = situation.fixed[name]
            return f"{name} is fixed ({why}): lower it there, or {_more(situation)}."
    fewer, more = most_sessions(situation, sessions), _more(situation)
    if fewer:
        return (
            f"Lower --connections to {fewer} (a pooler serves more clients with them), or {more}."
        )
    return f"Not even one connection fits: {more}."


def _more(situation: Situation) -> str:
    """Return the ways out: huge pages, more memory, or a higher ceiling if it is low."""
    ways = []
    reserved = with_huge_pages(situation)
    if reserved and reserved.holds and reserved.budget and situation.may_use_huge_pages:
        pages = pages_for(reserved.budget, situation.huge_page)
        left = pretty_bytes(reserved.work_mem)
        ways.append(
            f"reserve {pages} huge pages and use --huge-pages (work_mem can then be {left})"
        )
    ways += _more_memory(situation, held=bool(ways))
    share = least_ceiling(situation) if situation.ceiling < USUAL_CEILING else None
    if share is not None:
        ways.append(f"raise --ceiling to {share:g}")
    return ", or ".join(ways) or "give it more memory"


def _more_memory(situation: Situation, *, held: bool) -> list[str]:
    """Return the least memory that suffices, with huge pages if none does without them.

    `held`: huge pages alone suffice, so more memory with them is not suggested.
    """
    memory = least_memory(situation)
    if memory:
        return [f"give it {_at_least(memory)} of memory"]
    huge = situation.may_use_huge_pages and not held
    with_both = least_memory(situation.all_in_huge_pages) if huge else None
    if with_both is None:
        return []
    return [f"give it {_at_least(with_both)} of memory and reserve huge pages (--huge-pages)"]


def _at_least(size: Bytes) -> str:
    """Return a readable size, rounded up so that it still suffices as an input."""
    unit, name = (GiB, "GB") if size >= 16 * GiB else (MiB, "MB")
    return f"{-(-size // unit)} {name}"


def with_huge_pages(situation: Situation) -> Solution | None:
    """Return the solution with all of shared memory in huge pages; None if it already is."""
    if situation.huge_pages and situation.huge_pages.covers is None:
        return None
    return solve(situation.all_in_huge_pages)


def if_all_sorted(situation: Situation, solution: Solution) -> Budget | None:
    """Return the budget of the same values if every session sorted, not only the active ones."""
    return _budget(situation, solution.chosen, None)


def pages_for(budget: Budget, size: Bytes) -> int:
    """The number of huge pages of this size that hold a budget's shared memory."""
    return -(-budget.shared // size)


def most_sessions_with(situation: Situation, buffers: Bytes, below: int) -> int:
    """The most connections, below those given, that leave room for `buffers` of shared buffers."""

    def too_many(count: int) -> bool:
        chosen = solve(_with_sessions(situation, count)).chosen.settled()
        return chosen.size("shared_buffers").evaluate({}) < buffers

    return bisect_left(range(1, below + 1), True, key=too_many)


def _with_sessions(situation: Situation, count: int) -> Situation:
    return replace(situation, connections=replace(situation.connections, wanted=count))


def most_sessions(situation: Situation, asked: int) -> int:
    """The most connections, up to those asked for, that this memory holds; 0 for none."""

    def overflows(count: int) -> bool:
        return not solve(_with_sessions(situation, count)).holds

    return bisect_left(range(1, asked + 1), True, key=overflows)


def least_memory(situation: Situation) -> Bytes | None:
    """The least memory that holds the connections asked for, in whole 64 MB; None beyond 64 TB."""
    steps = range(64 * MiB, 64 * TiB, 64 * MiB)

    def holds(size: int) -> bool:
        return solve(replace(situation, memory=Memory(Bytes(size)))).holds

    index = bisect_left(steps, True, key=holds)
    return Bytes(steps[index]) if index < len(steps) else None


def least_ceiling(situation: Situation) -> float | None:
    """The least share of memory, in hundredths, that holds the connections; None above 0.9."""
    steps = range(10, round(USUAL_CEILING * 100) + 1)

    def holds(percent: int) -> bool:
        return solve(replace(situation, ceiling=percent / 100)).holds

    index = bisect_left(steps, True, key=holds)
    return steps[index] / 100 if index < len(steps) else None


# What a server would have if nobody had set anything.

_FAMILIES: Final[dict[PlatformName, str]] = {"rds": "postgres", "aurora": "aurora-postgresql"}
#: Services that size servers by their memory. Nobody knows all their defaults: what they size is
#: taken as it is, and only work_mem and its multiplier for PostgreSQL's.
_SERVICES: Final[frozenset[PlatformName]] = frozenset(
    {*_FAMILIES, "cloud-sql", "alloydb", "azure", "supabase", "neon", "aiven", "heroku"}
)
VCPUS: Final = "DBInstanceVCPU"
_NOT_SIZED: Final = ("work_mem", "hash_mem_multiplier")
#: The most connections that a service allows by default: one for so many bytes, and as RDS says no
#: more than 5,000; from PostgreSQL's own 100 on. Source: families.json, max_connections of RDS and
#: Aurora; that other services allow no more by default is general knowledge, not verified.
_PER_CONNECTION: Final = 9_531_392
_MOST: Final = 5000


def counted_sessions(situation: Situation, platform: Platform) -> Situation:
    """The situation with the sessions that count.

    Where a service allows one for so many bytes of memory, nobody chose their number. Then as many
    sort at a time as `tune` assumes for the workload, and all are open; if the service's own
    defaults do not fit with so many, one for each 32 MB of memory, half of that, and so on.
    """
    memory, allowed = situation.memory, int(situation.running.get("max_connections", 0))
    if memory is None or platform.name not in _SERVICES or allowed > _by_service(memory.size):
        return situation
    by_memory = memory.size // A_SESSION
    usual = max(FEWEST, min(by_memory, USUAL[situation.workload]))
    active, counted = situation.connections.active or usual, situation
    for count in (allowed, *fewer(min(allowed, max(usual, by_memory)))):
        counted = replace(
            situation,
            running={**situation.running, "max_connections": str(count)},
            connections=replace(situation.connections, active=min(active, count)),
        )
        budget = in_force(by_default(counted, platform))
        if budget is None or budget.fits:
            break
    return counted


def fewer(most: int) -> Iterator[int]:
    """Yield `most`, its half, its quarter and so on, and finally ten: fewer are never counted."""
    while most > FEWEST:
        yield most
        most //= 2
    yield FEWEST


def by_default(situation: Situation, platform: Platform) -> Situation:
    """The situation with the defaults of the platform in place of what needs memory."""
    found = {name: _postgres_default(name, situation.major) for name in NEED_MEMORY}
    running, memory = situation.running, situation.memory
    if memory is not None and platform.name in _SERVICES:
        if platform.name not in _FAMILIES:
            found = {name: found[name] for name in _NOT_SIZED}
        elif situation.major <= LAST:
            found |= _of_family(f"{_FAMILIES[platform.name]}{situation.major}", situation)
        allowed = int(running.get("max_connections", 0))
        found["max_connections"] = str(min(allowed, _by_service(memory.size)))
    kept = {name: text for name, text in found.items() if text is not None and name in running}
    return replace(situation, running={**running, **kept})


def _by_service(memory: int) -> int:
    return max(100, min(memory // _PER_CONNECTION, _MOST))


def _postgres_default(name: str, major: int) -> str | None:
    known = parameters(major).get(name)
    default = INITDB.get(name, known.default if known else None)
    return None if default is None else str(default)


def _of_family(name: str, situation: Situation) -> dict[str, str]:
    """A family's defaults of what needs memory, on this machine."""
    known = family(name).parameters
    machine = {VARIABLE: situation.machine["memory"]}
    if situation.cpus is not None:
        machine[VCPUS] = situation.cpus.count
    texts = {one: known[one].default or "" for one in NEED_MEMORY if one in known}
    return {
        one: str(parse(text).evaluate(machine)) if is_formula(text) else text
        for one, text in texts.items() if text and (VCPUS in machine or VCPUS not in text)
    }  # fmt: skip
