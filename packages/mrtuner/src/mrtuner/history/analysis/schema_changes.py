"""What changed in the schemas of a recorded server: indexes that came and went, rewritten tables.

Tables that come and go are not told, nor are the indexes that do so with them: with partitions,
each night would have events. A table that was emptied was not rewritten.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Final

from mrtuner.history.analysis.period import HistoryPeriod
from mrtuner.history.reading import History
from mrtuner.history.unchanged import while_same
from mrtuner.wording import as_name, first_few

_SOURCE: Final = "relations"
#: Names in one sentence.
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class _State:
    """A relation in one row, as `_COLUMNS`; `file` is None if there is none of its name."""

    kind: str | None
    table: str | None
    relation: int | None
    file: int | None
    valid: bool | None
    empty: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """One relation, in two rows that follow each other."""

    at: datetime
    database: str
    schema: str
    name: str
    before: _State
    now: _State

    @property
    def came(self) -> bool:
        return self.before.file is None and self.now.file is not None

    @property
    def went(self) -> bool:
        return self.before.file is not None and self.now.file is None

    @property
    def rewritten(self) -> bool:
        return not (self.came or self.went) and self.before.file != self.now.file

    @property
    def known(self) -> _State:
        return self.before if self.went else self.now

    @property
    def table(self) -> tuple[str, str | None]:
        return self.schema, self.known.table


_COLUMNS: Final = ("kind", "table_name", "relation", "file", "valid", "empty")


def schema_changes(
    history: History, about: HistoryPeriod
) -> Iterator[tuple[datetime, str, str]]:  # fmt: skip
    """Yield what changed in a period: when it was seen, up to a minute later; where; a sentence."""
    for (at, database), group in groupby(
        (one for one in _steps(history, about) if about.begin <= one.at < about.end),
        key=lambda one: (one.at, one.database),
    ):
        for text in _sentences(list(group)):
            yield at, database, f"{text} (database {as_name(database)})"


def _steps(history: History, about: HistoryPeriod) -> Iterator[_Step]:
    """Yield each change of an instance; it has few, so each screen takes those of its period."""
    if not history.has(_SOURCE):
        return
    names = ", ".join(_COLUMNS)
    before = ", ".join(f"before_{name}" for name in _COLUMNS)
    lags = ", ".join(f"lag({name}) OVER w AS before_{name}" for name in _COLUMNS)
    _, rows = while_same(
        history, _SOURCE, ("schema changes", about.instance), lambda: history.table(
            f"""SELECT time, database, schema, name, {before}, {names}
                FROM (SELECT time, database, schema, name, {names}, {lags},
                             row_number() OVER w AS number,
                             min(time) OVER (PARTITION BY database) AS begun
                      FROM {_SOURCE} WHERE instance = $instance
                      WINDOW w AS (PARTITION BY database, schema, name ORDER BY time)) AS s
                WHERE time > begun
                  AND (number = 1 OR file IS DISTINCT FROM before_file
                       OR valid IS DISTINCT FROM before_valid)
                ORDER BY time, database, schema, name""",
            {"instance": about.instance},
        ),
    )  # fmt: skip
    width = len(_COLUMNS)
    for time, database, schema, name, *values in rows:
        yield _Step(
            at=time.replace(tzinfo=UTC), database=database, schema=schema, name=name,
            before=_State(*values[:width]), now=_State(*values[width:]),
        )  # fmt: skip


def _sentences(steps: Sequence[_Step]) -> Iterator[str]:
    """Yield what one sample of a database shows, alike ones together."""
    told: dict[str, list[str]] = defaultdict(list)
    for one, verb in _verbs(steps):
        of = "" if one.known.kind == "table" else f" of {as_name(one.known.table or '?')}"
        told[f"{one.known.kind} {verb}"].append(as_name(one.schema, one.name) + of)
    for key, names in told.items():
        kind, _, verb = key.partition(" ")
        if len(names) == 1:
            yield f"{kind} {names[0]} was {verb}"
        else:
            kinds = "indexes" if kind == "index" else "tables"
            yield f"{len(names):,} {kinds} were {verb}: {first_few(names, _NAMED)}"


def _verbs(steps: Sequence[_Step]) -> Iterator[tuple[_Step, str]]:
    whole = [one for one in steps if one.known.kind == "table"]
    came_or_went = {one.table for one in whole if one.came or one.went}
    refilled = {one.table for one in whole if one.rewritten}
    went = {one.before.relation: one for one in steps if one.went}
    came = {one.now.relation for one in steps if one.came}
    for one in steps:
        is_index = one.known.kind == "index"
        if one.came and one.now.relation in went:
            old = went[one.now.relation]
            yield old, f"renamed to {as_name(one.schema, one.name)}"
        elif one.went and one.before.relation in came:
            continue
        elif one.came or one.went:
            if is_index and one.table not in came_or_went:
                failed = one.came and not one.now.valid
                yield one, "dropped" if one.went else f"created{', and is invalid' * failed}"
        elif one.rewritten and is_index:
            if one.table not in refilled:
                yield one, "rebuilt"
        elif one.rewritten and not (one.now.empty or one.before.empty):
            yield one, "rewritten"
        if not (one.came or one.went) and one.before.valid != one.now.valid:
            yield one, "found valid again" if one.now.valid else "found invalid"
