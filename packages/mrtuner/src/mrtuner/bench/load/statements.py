"""The user's own statements as a load: what pg_stat_statements knows, and what can be replayed.

pg_stat_statements keeps texts with $1 in place of every value. A statement without parameters is
replayed as it is. For the others, EXPLAIN (GENERIC_PLAN), PostgreSQL 16 and later, shows which
column a parameter is compared with, or inserted into; SET shows which it is assigned to. Values
come from sampled rows of that table, those of one table from one row: they occur in the data, but
are not those of the original calls. LIMIT becomes the mean number of rows of a call. Everything
else is left out, with the reason.
Source: PostgreSQL documentation, F.32 pg_stat_statements; SELECT, TABLESAMPLE.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from random import Random
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from mrtuner.bench.plan.model import DrawnScript
from mrtuner.postgres.explain import LONGER, Statement

if TYPE_CHECKING:
    from psycopg import Error

    from mrtuner.postgres.connect import Connection

_GENERIC_PLAN_FROM: Final = 160000
#: Sets of values drawn for a statement; pgbench picks one of them each time, by two numbers up to
#: the root: it compares them one by one.
_ROOT: Final = 16
_DRAWS: Final = _ROOT**2
#: Pages of a table whose rows are sampled, about.
_PAGES: Final = 512
#: Draws of a statement that writes which are tried, and rolled back: a key may be there already.
#: None is begun after so many seconds.
_TRIED, _TRIED_S = 8, 5.0
#: One that seems to read is tried for so long [ms].
_READ_MS: Final = 1000
#: SQLSTATEs read_only_sql_transaction and query_canceled. Source: Error Codes.
_READ_ONLY, _CANCELLED = "25006", "57014"
_FAILS: Final = "it fails with values of other rows"
_HEAVIEST: Final = 2**31 - 1  # of pgbench's weights, which are whole numbers
_READS: Final = re.compile(r"\s*(?:select|with|values|table)\b", re.IGNORECASE)
_WRITES: Final = re.compile(r"\s*(?:insert|update|delete|merge)\b", re.IGNORECASE)
_PARAMETER: Final = re.compile(r"\$(\d+)")
#: pgbench would take these for its own variables.
_VARIABLE: Final = re.compile(r"(?<!:):[A-Za-z_]\w*")
#: It has these: in the simple protocol it replaces them even inside a literal, and no others.
#: Source: src/bin/pgbench/pgbench.c, assignVariables.
_GROUP, _DRAW = "mrtuner_group", "mrtuner_draw"
_REPLACED: Final = re.compile(
    rf"(?<!:):(?:client_id|scale|random_seed|default_seed|{_GROUP}|{_DRAW})\b"
)
#: ``(o.customer_id = $1)``, ``((o.name)::text = $2)``, as the planner writes a condition on a plain
#: column. In ``(lower(o.name) = $1)`` and ``((o.price * o.many) > $1)`` there is none.
_COMPARED: Final = re.compile(
    r"\((?P<cast>\(+)?(?:(?P<alias>[\w\"]+)\.)?(?P<column>[\w\"]+)"
    r"(?(cast)(?:\)::[\w .\"]+(?:\([\d,]+\))?(?:\[\])*)+)"
    r" (?P<operator>=|<=|>=|<|>) \$(?P<number>\d+)"
)
_LIMIT: Final = re.compile(r"\blimit\s+\$(\d+)\s*$", re.IGNORECASE)
_SET: Final = re.compile(
    r"^update\s.*?\sset\s+(.*?)(?:\s(?:from|where|returning)\s.*)?$", re.IGNORECASE | re.DOTALL
)
_ASSIGNED: Final = re.compile(r"(?P<column>[\w\"]+)\s*=(?P<value>[^=]*)$")


@dataclass(frozen=True, slots=True)
class Unplayable:
    """A statement that is left out, and why."""

    statement: Statement
    why: str


@dataclass(frozen=True, slots=True)
class Replay:
    """What is run, and what is left out."""

    scripts: tuple[DrawnScript, ...]
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
    share = min(1.0, _HEAVIEST / max((one.calls for one in statements), default=1))
    scripts: list[DrawnScript] = []
    played: list[Statement] = []
    left_out: list[Unplayable] = []
    for number, one in enumerate(statements, 1):
        found = _script(session, one, chance, writes=writes)
        if isinstance(found, Unplayable):
            left_out.append(found)
            continue
        weight = max(1, round(one.calls * share))
        scripts.append(
            DrawnScript(
                name=f"statement-{number}.sql", text=found, weight=weight, statement=one.text
            )
        )
        played.append(one)
    return Replay(tuple(scripts), tuple(played), tuple(left_out))


@dataclass(frozen=True, slots=True)
class _Column:
    """A column that a parameter is compared with, assigned to or inserted into."""

    schema: str
    table: str
    name: str
    operator: str = "="


def _script(
    session: Connection, one: Statement, chance: Random, *, writes: bool
) -> str | Unplayable:
    """Return pgbench's script of a statement, with values drawn, or why it is left out."""
    text = one.text.strip().rstrip(";")
    why = _hopeless(text, writes=writes)
    if why is not None:
        return Unplayable(one, why)
    numbers = {int(found) for found in _PARAMETER.findall(text)}
    texts = [text]
    if numbers:
        if session.info.server_version < _GENERIC_PLAN_FROM:
            return Unplayable(
                one, "it has parameters, whose columns are only known to PostgreSQL 16 and later"
            )
        plan = _planned(session, f"EXPLAIN (GENERIC_PLAN, VERBOSE, FORMAT JSON) {text}")
        if isinstance(plan, str):
            return Unplayable(one, f"it cannot be planned with parameters: {plan}")
        draws = _draws(session, one, numbers, _columns(session, plan, text), chance)
        if isinstance(draws, str):
            return Unplayable(one, draws)
        texts = [_filled(text, draw) for draw in draws]
    why = _tried(session, texts, writing=bool(_WRITES.match(text)), writes=writes)
    if why is not None:
        return Unplayable(one, why)
    return "".join(_choices(texts)) if numbers else f"{text};\n"


def _draws(
    session: Connection, one: Statement, numbers: set[int], columns: Mapping[int, _Column],
    chance: Random,
) -> list[dict[int, str]] | str:  # fmt: skip
    """Values for each parameter, again and again, or why there are none."""
    fixed: dict[int, str] = {}
    limit = _LIMIT.search(one.text.strip().rstrip(";"))
    if limit is not None and one.rows is not None:
        fixed[int(limit[1])] = str(max(1, ceil(one.rows / max(1, one.calls))))
    tables: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    ends: set[tuple[str, str, str]] = set()
    for number in sorted(numbers - fixed.keys()):
        if number not in columns:
            return f"${number} is not compared with a column"
        at = columns[number]
        if at.operator != "=":
            if (at.schema, at.table, at.name) in ends:
                return f"how wide its ranges of {at.table}.{at.name} are is not known"
            ends.add((at.schema, at.table, at.name))
        tables[at.schema, at.table].append((number, at.name))
    draws: list[dict[int, str]] = [dict(fixed) for _ in range(_DRAWS)]
    for (schema, table), wanted in tables.items():
        names = list(dict.fromkeys(name for _, name in wanted))
        rows = _rows(session, schema, table, names, chance)
        if isinstance(rows, str):
            return rows
        if not rows:
            return f"no row of {table} has a value of {', '.join(names)}"
        rows = [row for row in rows if not any(map(_REPLACED.search, row))]
        if not rows:
            return f"every row of {table} has a colon that pgbench would read as a variable"
        chance.shuffle(rows)
        for place, draw in enumerate(draws):
            row, seen = rows[place % len(rows)], set[str]()
            for number, name in wanted:
                # Two values for one column are those of two rows.
                of = row if name not in seen else chance.choice(rows)
                seen.add(name)
                draw[number] = of[names.index(name)]
    return draws


def _hopeless(text: str, *, writes: bool) -> str | None:
    """Return why a statement cannot be replayed, judged by its text alone, or None."""
    if ";" in text:
        return "it contains a semicolon, so it may be several statements"
    if LONGER in text:
        return "how long its lists of values are is not known"
    if _VARIABLE.search(text):
        return "it contains a colon, which pgbench would read as a variable"
    if _READS.match(text):
        return None
    if not _WRITES.match(text):
        return "it neither reads nor changes rows"
    return None if writes else "it writes: add --writes if the data may be lost"


def _planned(session: Connection, explain: str) -> Mapping[str, Any] | str:
    """The plan, or why there is none; nothing is executed."""
    from psycopg import Error

    try:
        with session.transaction(force_rollback=True):
            row = session.execute(explain.encode()).fetchone()
    except Error as error:
        return _refused(error)
    plan: Mapping[str, Any] = row[0][0]["Plan"] if row else {}
    return plan


def _tried(session: Connection, texts: Sequence[str], *, writing: bool, writes: bool) -> str | None:
    """Return why some of the texts would fail, or None. What they write is rolled back."""
    from psycopg import Error

    if not writing:
        found = _planned(session, f"EXPLAIN (FORMAT JSON) {texts[0]}")
        if isinstance(found, str):
            return f"{_FAILS}: {found}"
        return None if writes else _read(session, texts[0])
    end = monotonic() + _TRIED_S
    for text in texts[:_TRIED]:
        if monotonic() > end:
            break
        try:
            with session.transaction(force_rollback=True):
                session.execute(text.encode())
        except Error as error:
            return f"{_FAILS}: {_refused(error)}"
    return None


def _read(session: Connection, text: str) -> str | None:
    """Return why a statement that seems to read would fail in a read-only session, or None.

    Rows that are locked, a WITH that changes some and a function that writes are found only by
    running it: EXPLAIN (ANALYZE) sends no rows. One that takes too long to try is taken as it is.
    """
    from psycopg import Error

    try:
        with session.transaction(force_rollback=True):
            session.execute("SET TRANSACTION READ ONLY")
            session.execute(f"SET LOCAL statement_timeout = {_READ_MS}".encode())
            session.execute(f"EXPLAIN (ANALYZE, TIMING OFF) {text}".encode())
    except Error as error:
        if error.sqlstate == _READ_ONLY:
            return "it writes or locks rows: add --writes if the data may be lost"
        return None if error.sqlstate == _CANCELLED else f"{_FAILS}: {_refused(error)}"
    return None


def _refused(error: Error) -> str:
    """Why the server refused a statement, without values: its other lines may quote them too."""
    said = error.diag.message_primary or type(error).__name__
    return _QUOTED.sub('"…"', said) if (error.sqlstate or "").startswith(_OF_VALUES) else said


#: The class of data exceptions, whose messages quote what is wrong. Source: Error Codes.
_OF_VALUES: Final = "22"
_QUOTED: Final = re.compile(r'".*"', re.DOTALL)


def _columns(session: Connection, plan: Mapping[str, Any], text: str) -> dict[int, _Column]:
    """The columns that parameters stand for, by their numbers."""
    changed = plan if plan.get("Node Type") == "ModifyTable" else {}
    found = dict(_compared(plan))
    if changed.get("Operation") == "Insert":
        found = dict(_inserted(session, changed)) | found
    elif changed.get("Operation") == "Update":
        found = dict(_assigned(changed, text)) | found
    return found


def _compared(plan: Mapping[str, Any]) -> Iterator[tuple[int, _Column]]:
    nodes = list(_nodes(plan))
    tables = {
        node.get("Alias", node["Relation Name"]): (node["Schema"], node["Relation Name"])
        for node in nodes
        if "Relation Name" in node
    }
    for node in nodes:
        own = node.get("Alias")
        for name in ("Index Cond", "Recheck Cond", "Filter", "Join Filter", "Hash Cond"):
            for found in _COMPARED.finditer(str(node.get(name, ""))):
                table = tables.get((found["alias"] or own or "").strip('"'))
                if table is not None:
                    column = found["column"].strip('"')
                    yield int(found["number"]), _Column(*table, column, found["operator"])


def _inserted(session: Connection, insert: Mapping[str, Any]) -> Iterator[tuple[int, _Column]]:
    """Parameters of VALUES: the planner lists every column of the table, in their order."""
    row = session.execute(
        "SELECT array_agg(attname::text ORDER BY attnum) FROM pg_attribute"
        " WHERE attrelid = format('%%I.%%I', %s::text, %s::text)::regclass AND attnum > 0",
        [insert["Schema"], insert["Relation Name"]],
    ).fetchone()
    names = row[0] if row else []
    values = [one for child in insert.get("Plans", ()) for one in child.get("Output", ())]
    if len(values) != len(names):
        return
    for name, value in zip(names, values, strict=True):
        for number in _PARAMETER.findall(value):
            yield int(number), _Column(insert["Schema"], insert["Relation Name"], name)


def _assigned(update: Mapping[str, Any], text: str) -> Iterator[tuple[int, _Column]]:
    """Parameters of SET, such as ``balance = balance + $1``."""
    said = _SET.match(text)
    for part in _parts(said[1]) if said else ():
        found = _ASSIGNED.match(part.strip())
        for number in _PARAMETER.findall(found["value"]) if found else ():
            name = found["column"].strip('"') if found else ""
            yield int(number), _Column(update["Schema"], update["Relation Name"], name)


def _parts(text: str) -> Iterator[str]:
    """Split at the commas that are in no parentheses.

    >>> list(_parts("a = f($1, $2), b = $3"))
    ['a = f($1, $2)', ' b = $3']
    """
    depth, part = 0, ""
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            yield part
            part = ""
        else:
            part += letter
    yield part


def _nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def _rows(
    session: Connection, schema: str, table: str, names: Sequence[str], chance: Random
) -> list[tuple[str, ...]] | str:
    """Sample rows that have all these columns, as texts; or why that is not possible."""
    from psycopg import Error, sql

    columns = [sql.Identifier(name) for name in names]
    place, seed = sql.Identifier(schema, table), sql.Literal(chance.randrange(2**31))
    try:
        with session.transaction():
            row = session.execute(
                sql.SQL(
                    "SELECT {pages}::float8 * current_setting('block_size')::int"
                    " / greatest(pg_relation_size({name}::regclass), 1)"
                ).format(pages=_PAGES, name=place.as_string(session))
            ).fetchone()
            share = min(100.0, 100 * row[0]) if row else 100.0
            return session.execute(
                sql.SQL(
                    "SELECT {texts} FROM {place} TABLESAMPLE SYSTEM ({share}) REPEATABLE ({seed})"
                    " WHERE ({columns}) IS NOT NULL ORDER BY md5(ctid::text || {seed}) LIMIT {many}"
                ).format(
                    texts=sql.SQL(", ").join(sql.SQL("{}::text").format(one) for one in columns),
                    place=place, share=share, seed=seed, many=_DRAWS,
                    columns=sql.SQL("ROW({})").format(sql.SQL(", ").join(columns)),
                )
            ).fetchall()  # fmt: skip
    except Error as error:
        return f"rows of {table} cannot be sampled: {_refused(error)}"


def _choices(texts: Sequence[str]) -> Iterator[str]:
    """Yield a script that runs one of the texts, picked at random each time."""
    yield f"\\set {_GROUP} random(1, {_ROOT})\n\\set {_DRAW} random(1, {_ROOT})\n"
    for group in range(_ROOT):
        yield f"\\{'el' if group else ''}if :{_GROUP} = {group + 1}\n"
        for draw in range(_ROOT):
            yield f"\\{'el' if draw else ''}if :{_DRAW} = {draw + 1}\n"
            yield f"{texts[group * _ROOT + draw]};\n"
        yield "\\endif\n"
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
