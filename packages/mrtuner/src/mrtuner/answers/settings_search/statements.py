"""The statements of a database as the load of a search, on a copy of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mrtuner.answers.proof.loads import database_name, shortened, workload_of
from mrtuner.answers.recorded import remembered
from mrtuner.bench.load.statements import Replay, replay
from mrtuner.bench.plan.model import Workload
from mrtuner.errors import MrTunerError, Refused
from mrtuner.postgres.connect import connect
from mrtuner.postgres.explain import Statement, top_statements
from mrtuner.search.model import SearchedLoad, SearchedStatement
from mrtuner.wording import plural

if TYPE_CHECKING:
    from mrtuner.answers.settings_search.own_server import SearchWish

#: Statements that are examined, those that took the most time.
MOST: Final = 30
#: Statements of a smaller share of the time are counted, not named; the record has them.
_LITTLE: Final = 0.01
#: How far back a history is read [s].
_BACK: Final = 7 * 86_400.0


def read_statements(wish: SearchWish) -> tuple[Statement, ...]:
    """Return what ran in the database that is copied, without literals.

    MrTunerError without any, MissingPart without pg_stat_statements.
    """
    from mrtuner.history.recording.statement_text import normalized

    assert wish.copied is not None  # noqa: S101 - the command line has checked it
    if wish.history is not None:
        found = _recorded(wish.history, wish.instance, database_name(wish.copied))
    else:
        with connect(wish.copied) as session:
            found = top_statements(session, MOST)
    if not found:
        raise MrTunerError(
            "no statements of that database are known",
            "Give the database in the connection string, and let the application run for a while.",
        )
    return tuple(replace(one, text=normalized(one.text, positions=True)) for one in found)


def _recorded(history: Path, instance: str | None, database: str) -> tuple[Statement, ...]:
    from mrtuner.history.analysis.statements import statements

    with remembered(history, instance, since=_BACK) as (opened, about):
        found = [
            one for one in statements(opened, about, 10 * MOST)
            if one.database == database and one.calls
        ]  # fmt: skip
    return tuple(
        Statement(
            id=one.query_id, text=one.text or "", role=one.role, calls=one.calls,
            seconds=one.seconds, rows=one.rows,
        )
        for one in found[:MOST]
    )  # fmt: skip


def searched_statements(found: Replay) -> tuple[SearchedStatement, ...]:
    why = {one.statement: one.why for one in found.left_out}
    every = sorted((*found.statements, *why), key=lambda one: -one.seconds)
    return tuple(
        SearchedStatement(
            text=one.text, calls=one.calls, seconds=round(one.seconds, 3), rows=one.rows,
            left_out=why.get(one),
        )
        for one in every
    )  # fmt: skip


def left_out(load: SearchedLoad) -> Iterator[str]:
    """Yield what of the statements is not replayed: the share of the time first, then each."""
    missing = [one for one in load.statements if one.left_out is not None]
    if not missing:
        return
    yield f"statements for {load.replayed:.0%} of the time are replayed; the others are left out"
    every = sum(one.seconds for one in load.statements)
    large = [one for one in missing if one.seconds >= _LITTLE * every]
    for one in large:
        share = one.seconds / every
        yield f"left out, {share:.0%} of the time: {shortened(one.text)}: {one.left_out}"
    if more := len(missing) - len(large):
        yield f"left out: {plural(more, 'statement')} of under {_LITTLE:.0%} of the time each"


def replayed(inside: str, statements: Sequence[SearchedStatement], seed: int) -> Workload:
    """Return the load of a search that goes on; values are drawn from the new copy.

    Refused if other statements can be replayed now.
    """
    known = [
        Statement(
            id=number, text=one.text, role=None, calls=one.calls, seconds=one.seconds, rows=one.rows
        )
        for number, one in enumerate(statements)
    ]
    with connect(inside, own_search_path=True) as session:
        found = replay(session, known, seed=seed, writes=True)
    if [one.text for one in found.statements] != [
        one.text for one in statements if one.left_out is None
    ]:
        raise Refused(
            "other statements can be replayed than when the search began",
            "The database changed: begin another search in a new directory.",
        )
    return workload_of(found, reads=False)
