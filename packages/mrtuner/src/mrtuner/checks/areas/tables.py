"""Tables that were never analyzed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from mrtuner.checks.catalogue import CannotJudge, check
from mrtuner.checks.state import State, UnanalyzedTable
from mrtuner.findings import SLIGHT, Command, Finding, Severity
from mrtuner.units import pretty_bytes
from mrtuner.vacuum.commands import identifier
from mrtuner.wording import as_name, first_few, plural

_SHOWN: Final = 5


@check(
    "never-analyzed",
    judged="a table of 1,000 rows or 1 MB (partitioned: 10,000 rows) has never been analyzed",
    source="documentation: Routine Vacuuming, Updating Planner Statistics",
    remedy="ANALYZE the table, a partitioned one from time to time.",
    needs=("unanalyzed",),
    of_primary=True,
)
def never_analyzed(state: State) -> Iterator[Finding]:
    """The planner guesses: it has no statistics of a table. Autovacuum collects them for ordinary
    tables that change, but never for a partitioned table as a whole; pg_upgrade brings none (18 and
    later: it does).
    """
    found = [one for one in state.unanalyzed if one.readable]
    if found:
        yield _without_statistics(found)
    hidden = [as_name(one.schema, one.name) for one in state.unanalyzed if not one.readable]
    if hidden:
        raise CannotJudge(
            "the size of a locked table, or whether it was analyzed, cannot be seen: "
            f"{first_few(hidden, _SHOWN)}",
            "Ask again when the lock is gone, or GRANT SELECT on the table to the role.",
        )


def _without_statistics(found: Sequence[UnanalyzedTable]) -> Finding:
    whole = [as_name(one.schema, one.name) for one in found]
    return Finding(
        id="never-analyzed",
        severity=Severity.TO_DO,
        text=f"{plural(len(found), 'table')} without statistics: {first_few(whole, _SHOWN)}",
        consequence="plans of queries on them rest on guesses",
        cost=SLIGHT,
        evidence=tuple(
            f"{as_name(one.schema, one.name)}, "
            + (f"about {one.rows:,} rows" if one.rows else pretty_bytes(one.size or 0))
            + (", partitioned: autovacuum does not analyze it" if one.partitioned else "")
            for one in found[:_SHOWN]
        ),
        basis="pg_class and pg_stat_user_tables, now",
        remedy=tuple(
            Command(f"ANALYZE {identifier(one.schema)}.{identifier(one.name)};")
            for one in found[:_SHOWN]
        ),
    )
