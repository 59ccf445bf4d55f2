"""What the advice would do to the plans of a server's own statements, before it is applied.

Costs under different cost settings are in different units, so they are never compared directly.
Two comparisons are sound, and both are made:

* **limits**: both sides under the advised cost settings; only limits such as work_mem differ. A
  plan that costs more there is worse by its own estimate, whatever one believes about the machine.
* **belief**: the two plans under the same cost settings, once under those in force and once under
  the advised ones. To get the plan that the planner would not choose, the nodes it avoids are
  disabled (enable_seqscan and the like); if that gives yet another plan, its cost is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final

from mrtuner.described import Doc, document_name
from mrtuner.postgres.connect import connect
from mrtuner.postgres.explain import (
    CannotExplain,
    Explained,
    Explainer,
    Statement,
    explaining,
    top_statements,
)

#: The settings we advise that may change a plan and that a session may set: those marked
#: GUC_EXPLAIN in guc_tables.c, 18. The first say what the planner believes about the machine,
#: the others what a statement may use.
BELIEFS: Final = frozenset({
    "cpu_index_tuple_cost", "cpu_operator_cost", "cpu_tuple_cost", "effective_cache_size",
    "effective_io_concurrency", "parallel_setup_cost", "parallel_tuple_cost", "random_page_cost",
    "seq_page_cost",
})  # fmt: skip
LIMITS: Final = frozenset({
    "hash_mem_multiplier", "jit", "max_parallel_workers", "max_parallel_workers_per_gather",
    "min_parallel_index_scan_size", "min_parallel_table_scan_size", "parallel_leader_participation",
    "temp_buffers", "work_mem",
})  # fmt: skip

#: Estimates that differ by less than this count as equal: the planner's own fuzz is 1 %.
SAME: Final = 0.05
#: A plan that costs this much more under the settings in force deserves a second look.
DOUBTFUL: Final = 1.5

#: The setting that disables a kind of node. Source: documentation, Planner Method Configuration.
_SWITCHES: Final = {
    "Seq Scan": "enable_seqscan", "Index Scan": "enable_indexscan",
    "Index Only Scan": "enable_indexonlyscan", "Bitmap Heap Scan": "enable_bitmapscan",
    "Hash Join": "enable_hashjoin", "Merge Join": "enable_mergejoin",
    "Nested Loop": "enable_nestloop", "Sort": "enable_sort", "Memoize": "enable_memoize",
    "Incremental Sort": "enable_incremental_sort", "Materialize": "enable_material",
    "Gather Merge": "enable_gathermerge", "Tid Scan": "enable_tidscan",
    "Hashed Aggregate": "enable_hashagg",
}  # fmt: skip
#: What distinguishes two nodes in a plan's shape, besides their children.
_TRAITS: Final = (
    "Join Type", "Strategy", "Partial Mode", "Scan Direction", "Operation", "Command",
    "Workers Planned", "Parallel Aware", "Schema", "Relation Name", "Index Name", "Alias",
    "Subplan Name", "CTE Name", "Function Name",
)  # fmt: skip


class PlanVerdict(StrEnum):
    """What the estimates say about a statement's plan under the advice."""

    BETTER = "better"  # cheaper by its own estimate, under equal cost settings
    WORSE = "worse"  # costlier by the same measure: a limit was lowered
    DOUBTFUL = "doubtful"  # right only if the advised costs are: costlier under those in force
    OTHER = "other"  # another plan of about the same cost, or one that cannot be compared


@document_name("PlanSide")
@dataclass(frozen=True, slots=True)
class Side:
    """One plan: its readable lines, and its cost under its own settings."""

    plan: Annotated[tuple[str, ...], Doc("lines of the plan, each ending in its cost")]
    cost: Annotated[float, Doc("the planner's total cost")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedPlan:
    """A statement whose plan changes, or whose cost changes because a limit was changed."""

    statement: Statement
    verdict: PlanVerdict
    before: Side  # under the settings in force
    after: Side  # under the advice
    by: tuple[str, ...]  # settings each of which causes this change alone
    also: tuple[str, ...]  # settings each of which causes a different change alone
    limits: float  # cost after / before, both under the advised cost settings
    believed_now: float | None  # new plan / old plan, under the cost settings in force
    believed_then: float | None  # the same ratio under the advised ones
    same_shape: bool

    @property
    def warning(self) -> str | None:
        """Why to think twice, or None."""
        if self.verdict is PlanVerdict.WORSE:
            return f"with equal cost settings, its plan costs {self.limits:.2f} times as much"
        if self.verdict is PlanVerdict.DOUBTFUL and self.believed_now is not None:
            return (
                "with the cost settings in force, its new plan costs "
                f"{self.believed_now:.2f} times as much: it is better only if the advised "
                "ones are right"
            )
        return None


@dataclass(frozen=True, slots=True)
class NotExplained:
    """A statement without a plan, and the server's reason."""

    statement: Statement
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plans:
    """The plans of the most time-consuming statements, under two sets of settings."""

    asked: int
    settings: tuple[tuple[str, str, str], ...]  # name, in force, advised
    left_out: tuple[str, ...]  # advised settings that no session can try
    unchanged: int
    changed: tuple[ChangedPlan, ...]
    not_explained: tuple[NotExplained, ...]

    @property
    def explained(self) -> int:
        """Number of statements with both plans."""
        return self.unchanged + len(self.changed)

    @property
    def warnings(self) -> tuple[ChangedPlan, ...]:
        """The changed plans that deserve a second look."""
        return tuple(one for one in self.changed if one.warning)


def compare(
    dsn: str, number: int, advised: Mapping[str, str], *, trusted: bool = False
) -> Plans:  # fmt: skip
    """Return the plans of the `number` most time-consuming statements, in force and as advised.

    `advised` is configuration text by name, whether or not it needs a restart: what a session
    cannot set is left out and named. Nothing is executed or changed. Raises MissingPart without
    pg_stat_statements, ConnectError when the session breaks; Refused as a superuser, unless the
    database's functions, which planning calls, are `trusted`.
    """
    with connect(dsn) as conn:
        statements = top_statements(conn, number)
        with explaining(conn, trusted=trusted) as explainer:
            return _compared(explainer, statements, number, advised)


def _compared(
    explainer: Explainer,
    statements: Sequence[Statement],
    number: int,
    advised: Mapping[str, str],
) -> Plans:
    in_force = explainer.in_force(sorted(BELIEFS | LIMITS))
    tried = {name: value for name, value in advised.items() if name in in_force}
    unchanged = 0
    changed: list[ChangedPlan] = []
    missed: list[NotExplained] = []
    for statement in statements:
        try:
            one = _Question(explainer, statement, tried).answer()
        except CannotExplain as error:
            missed.append(NotExplained(statement, str(error)))
            continue
        if one is None:
            unchanged += 1
        else:
            changed.append(one)
    return Plans(
        asked=number,
        settings=tuple((name, in_force[name], value) for name, value in tried.items()),
        left_out=tuple(name for name in advised if name not in tried and name in _SERVER_WIDE),
        unchanged=unchanged,
        changed=tuple(sorted(changed, key=lambda one: one.warning is None)),
        not_explained=tuple(missed),
    )


#: Advised settings that may change plans or their cost but that a session cannot try.
_SERVER_WIDE: Final = frozenset({"default_statistics_target", "shared_buffers"})


@dataclass(frozen=True, slots=True)
class _Question:
    """One statement, planned under several sets of settings."""

    explainer: Explainer
    statement: Statement
    tried: Mapping[str, str]

    def answer(self) -> ChangedPlan | None:
        """Return how the plan or its cost changes; None if neither does."""
        before, after = self._plan({}), self._plan(self.tried)
        old, new = shape(before.root), shape(after.root)
        beliefs = {name: value for name, value in self.tried.items() if name in BELIEFS}
        limits = _ratio(after.cost, self._plan(beliefs).cost)
        if old == new and abs(limits - 1) <= SAME:
            return None
        alone = {name: shape(self._plan({name: self.tried[name]}).root) for name in self.tried}
        now, then = self._beliefs(before, after) if old != new else (None, None)
        return ChangedPlan(
            statement=self.statement,
            verdict=_verdict(limits, now),
            before=Side(lines(before.root), before.cost),
            after=Side(lines(after.root), after.cost),
            by=tuple(name for name, found in alone.items() if old != new == found),
            also=tuple(name for name, found in alone.items() if found not in (old, new)),
            limits=limits,
            believed_now=now,
            believed_then=then,
            same_shape=old == new,
        )

    def _beliefs(self, before: Explained, after: Explained) -> tuple[float | None, float | None]:
        """Return cost of new plan / old plan, under the settings in force and the advised ones."""
        new_now = self._forced(after, {})
        old_then = self._forced(before, self.tried)
        now = None if new_now is None else _ratio(new_now, before.cost)
        then = None if old_then is None else _ratio(after.cost, old_then)
        return now, then

    def _forced(self, wanted: Explained, settings: Mapping[str, str]) -> float | None:
        """Return a plan's cost under settings with which the planner may choose another one.

        None if disabling the nodes of other plans does not lead to it.
        """
        off: dict[str, str] = {}
        while True:
            try:
                chosen = self._plan({**settings, **off})
            except CannotExplain:  # this version lacks one of the switches
                return None
            if shape(chosen.root) == shape(wanted.root):
                return chosen.cost
            more = _to_switch_off(chosen.root, wanted.root) - off.keys()
            if not more:
                return None
            off |= dict.fromkeys(more, "off")

    def _plan(self, settings: Mapping[str, str]) -> Explained:
        return self.explainer.plan(self.statement, settings)


def _to_switch_off(chosen: Mapping[str, Any], wanted: Mapping[str, Any]) -> set[str]:
    """Return the switches for the kinds of nodes that only the chosen plan has."""
    return {_SWITCHES[kind] for kind in kinds(chosen) - kinds(wanted) if kind in _SWITCHES}


def _ratio(after: float, before: float) -> float:
    return after / before if before > 0 else 1.0


def _verdict(limits: float, believed_now: float | None) -> PlanVerdict:
    if limits > 1 + SAME:
        return PlanVerdict.WORSE
    if limits < 1 - SAME:
        return PlanVerdict.BETTER
    if believed_now is not None and believed_now >= DOUBTFUL:
        return PlanVerdict.DOUBTFUL
    return PlanVerdict.OTHER


Shape = tuple[Any, ...]


def shape(node: Mapping[str, Any]) -> Shape:
    """Return a plan without costs and conditions; plans of equal shape count as the same."""
    traits = tuple(node.get(name) for name in _TRAITS)
    return (node["Node Type"], *traits, tuple(shape(child) for child in node.get("Plans", ())))


def kinds(node: Mapping[str, Any]) -> frozenset[str]:
    """The kinds of nodes in a plan; a hash aggregate is a kind of its own."""
    hashed = node["Node Type"] == "Aggregate" and node.get("Strategy") == "Hashed"
    own = frozenset({"Hashed Aggregate" if hashed else str(node["Node Type"])})
    return own.union(*(kinds(child) for child in node.get("Plans", ())))


def lines(node: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a plan in readable form, one line per node, followed by its cost."""
    return tuple(_lines(node, 0))


def _lines(node: Mapping[str, Any], depth: int) -> Iterator[str]:
    yield f"{'  ' * depth}{_title(node)}  {node['Total Cost']:.2f}"
    for child in node.get("Plans", ()):
        yield from _lines(child, depth + 1)


def _title(node: Mapping[str, Any]) -> str:
    """Name a node as EXPLAIN's text format does."""
    words = [_kind(node)]
    if "Index Name" in node:
        words.append(f"using {node['Index Name']}")
    if "Relation Name" in node:
        words.append(f"on {node['Relation Name']}")
    if "Workers Planned" in node:
        words.append(f"({node['Workers Planned']} workers)")
    return " ".join(words)


def _kind(node: Mapping[str, Any]) -> str:
    kind = str(node["Node Type"])
    if kind == "Aggregate":
        strategies = {"Hashed": "HashAggregate", "Sorted": "GroupAggregate",
                      "Mixed": "MixedAggregate"}  # fmt: skip
        kind = strategies.get(node.get("Strategy", ""), kind)
        if (mode := node.get("Partial Mode", "Simple")) != "Simple":
            kind = f"{mode} {kind}"
    if kind == "ModifyTable":
        kind = str(node.get("Operation", kind))
    if kind in {"Hash Join", "Merge Join", "Nested Loop"}:
        join = node.get("Join Type", "Inner")
        name = kind.removesuffix(" Join")
        kind = kind if join == "Inner" else f"{name} {join} Join"
    return f"Parallel {kind}" if node.get("Parallel Aware") else kind
