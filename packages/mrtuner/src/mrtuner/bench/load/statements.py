"""The user's own statements as a load: what pg_stat_statements knows, and what can be replayed.

pg_stat_statements keeps texts with $1 in place of every value. A statement without parameters is
replayed as it is. For the others, EXPLAIN (GENERIC_PLAN), PostgreSQL 16 and later, shows which
column a parameter is compared with, and values are drawn from that column's pg_stats: they occur in
the data, but are not those of the original calls. Everything else is left out, with the reason.
Source: PostgreSQL documentation, F.32 pg_stat_statements, 53.27 pg_stats.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Final

from mrtuner.bench.plan.model import Script
from mrtuner.postgres.explain import Statement

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection

_GENERIC_PLAN_FROM: Final = 160000
#: Sets of values drawn for a statement; pgbench picks one of them each time.
_DRAWS: Final = 16
_HEAVIEST: Final = 1000  # pgbench's weights are small whole numbers
_READS: Final = re.compile(r"\s*(?:select|with|values|table)\b", re.IGNORECASE)
_WRITES: Final = re.compile(r"\s*(?:insert|update|delete|merge)\b", re.IGNORECASE)
_PARAMETER: Final = re.compile(r"\$(\d+)")
#: pgbench would take these for its own variables.
_VARIABLE: Final = re.compile(r"(?<!:):[A-Za-z_]\w*")
#: ``(o.customer_id = $1)``, ``((o.name)::text = $2)``, as the planner writes a condition.
_COMPARED: Final = re.compile(
    r"\(*(?:(?P<alias>[\w\"]+)\.)?(?P<column>[\w\"]+)\)*(?:::[\w \"]+)?"
    r"\s*(?P<operator>=|<|>|<=|>=)\s*\$(?P<number>\d+)"
)


@dataclass(frozen=True, slots=True)
class Unplayable:
    """A statement that is left out, and why."""

    statement: Statement
    why: str


@dataclass(frozen=True, slots=True)
class Replay:
    """What is run, and what is left out."""

    scripts: tuple[Script, ...]
    statements: tuple[Statement, ...]
    left_out: tuple[Unplayable, ...]

    @property
    def share(self) -> float:
        """Share of all these statements' recorded execution time that the replayed ones took."""
        ours = sum(one.seconds for one in self.statements)
        every = ours + sum(one.statement.seconds for one in self.left_out)
        return ours / every if every else 0.0


def replay(
    session: Connection, statements: Sequence[Statement], *, seed: int, writes: bool
) -> Replay:
    """Turn the statements that can be replayed in this database into scripts, weighted by calls."""
    chance = Random(seed)  # noqa: S311 - it draws parameters, it keeps no secret
    most = max((one.calls for one in statements), default=1)
    scripts: list[Script] = []
    played: list[Statement] = []
    left_out: list[Unplayable] = []
    for number, one in enumerate(statements, 1):
        found = _script(session, one, chance, writes=writes)
        if isinstance(found, Unplayable):
            left_out.append(found)
            continue
        weight = max(1, round(one.calls / most * _HEAVIEST))
        scripts.append(Script(name=f"statement-{number}.sql", text=found, weight=weight))
        played.append(one)
    return Replay(tuple(scripts), tuple(played), tuple(left_out))


def _script(
    session: Connection, one: Statement, chance: Random, *, writes: bool
) -> str | Unplayable:
    """Return pgbench's script of a statement, with values drawn, or why it is left out."""
    text = one.text.strip().rstrip(";")
    why = _hopeless(text, writes=writes)
    if why is not None:
        return Unplayable(one, why)
    numbers = sorted({int(found) for found in _PARAMETER.findall(text)})
    if not numbers:
        return f"{text};\n"
    if session.info.server_version < _GENERIC_PLAN_FROM:
        return Unplayable(
            one, "it has parameters, whose columns are only known to PostgreSQL 16 and later"
        )
    plan = _generic_plan(session, text)
    if isinstance(plan, str):
        return Unplayable(one, plan)
    values = _values(session, numbers, dict(_columns(plan)), chance)
    return Unplayable(one, values) if isinstance(values, str) else "".join(_choices(text, values))


def _values(
    session: Connection, numbers: Sequence[int], columns: Mapping[int, tuple[str, str, str]],
    chance: Random,
) -> dict[int, list[str]] | str:  # fmt: skip
    """Draws for each parameter, or why there are none."""
    values: dict[int, list[str]] = {}
    for number in numbers:
        if number not in columns:
            return f"${number} is not compared with a column"
        values[number] = _draws(session, *columns[number], chance)
        if not values[number]:
            table, column, _ = columns[number]
            return f"no statistics of {table}.{column}: run ANALYZE"
    return values


def _hopeless(text: str, *, writes: bool) -> str | None:
    """Return why a statement cannot be replayed, judged by its text alone, or None."""
    if ";" in text:
        return "it contains a semicolon, so it may be several statements"
    if _VARIABLE.search(text):
        return "it contains a colon, which pgbench would read as a variable"
    if _READS.match(text):
        return None
    if not _WRITES.match(text):
        return "it neither reads nor changes rows"
    return None if writes else "it writes: add --writes if the data may be lost"


def _generic_plan(session: Connection, text: str) -> Mapping[str, Any] | str:
    """The plan without values, or why there is none; nothing is executed."""
    from psycopg import Error

    try:
        with session.transaction(force_rollback=True):
            row = session.execute(
                f"EXPLAIN (GENERIC_PLAN, VERBOSE, FORMAT JSON) {text}".encode()
            ).fetchone()
    except Error as error:
        return f"it cannot be planned with parameters: {str(error).splitlines()[0]}"
    plan: Mapping[str, Any] = row[0][0]["Plan"] if row else {}
    return plan


def _columns(plan: Mapping[str, Any]) -> Iterator[tuple[int, tuple[str, str, str]]]:
    """Parameters by number: the table, the column and the schema that they are compared with."""
    nodes = list(_nodes(plan))
    tables = {
        node.get("Alias", node["Relation Name"]): (node["Relation Name"], node["Schema"])
        for node in nodes
        if "Relation Name" in node
    }
    for node in nodes:
        own = node.get("Alias")
        for name in ("Index Cond", "Recheck Cond", "Filter", "Join Filter", "Hash Cond"):
            for found in _COMPARED.finditer(str(node.get(name, ""))):
                table = tables.get((found["alias"] or own or "").strip('"'))
                if table is not None:
                    yield int(found["number"]), (table[0], found["column"].strip('"'), table[1])


def _nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def _draws(session: Connection, table: str, column: str, schema: str, chance: Random) -> list[str]:
    """Draw common values by their share, others from the histogram; none without statistics."""
    row = session.execute(
        "SELECT most_common_vals::text::text[], most_common_freqs, histogram_bounds::text::text[]"
        " FROM pg_stats WHERE schemaname = %s AND tablename = %s AND attname = %s",
        [schema, table, column],
    ).fetchone()
    if row is None:
        return []
    common, shares, bounds = (part or [] for part in row)
    population = [*common, *bounds]
    if not population:
        return []
    rest = max(0.0, 1 - sum(shares)) / max(1, len(bounds))
    weights = [*shares, *([rest] * len(bounds))]
    return chance.choices(population, weights=weights if sum(weights) > 0 else None, k=_DRAWS)


def _choices(text: str, values: Mapping[int, Sequence[str]]) -> Iterator[str]:
    """Yield a script that picks one of the draws at random each time it runs."""
    yield f"\\set draw random(1, {_DRAWS})\n"
    for draw in range(_DRAWS):
        yield f"\\{'el' if draw else ''}if :draw = {draw + 1}\n"
        yield f"{_filled(text, {number: drawn[draw] for number, drawn in values.items()})};\n"
    yield "\\endif\n"


def _filled(text: str, values: Mapping[int, str]) -> str:
    """Replace parameters by untyped literals; the server infers their types as a parameter's."""
    return _PARAMETER.sub(lambda found: _literal(values[int(found[1])]), text)


def _literal(value: str) -> str:
    """Quote a string constant; backslashes are literal under standard_conforming_strings = on.

    >>> _literal("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"
