"""What sets and restores storage parameters of tables and settings of roles: plan, ask, report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mrtuner.cli.common import change, terminal
from mrtuner.escape import printable
from mrtuner.wording import plural

if TYPE_CHECKING:
    from mrtuner.change.catalog_transaction import CatalogTransaction, Wanted
    from mrtuner.change.record import Outcome, ParameterChange
    from mrtuner.cli.common.options import Asked
    from mrtuner.documents import Document

#: Makes the document of a change: what was recovered, the plan, the outcome, the way back.
Told = Callable[
    ["Outcome | None", Sequence["ParameterChange"], "Outcome", "str | None"], "Document"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogChange:
    """One kind of change, as its commands show it."""

    kind: type[CatalogTransaction]
    nouns: tuple[str, str]  # what is set, and of what: parameter, table
    undo: tuple[str, ...]  # the command that undoes it, with DSN for the server
    applied: Told
    undone: Told

    def put(self, dsn: str, plan: Callable[[], Wanted], asked: Asked) -> None:
        """Make the plan, show it, ask, and set what it says."""
        with asked.book() as book:
            recovered = self.kind.finish_or_revert_interrupted(dsn, book)
            change.print_recovered(recovered)
            wanted = plan()
            entries = self.kind.planned(dsn, wanted)
            self._show("the plan", entries, {name: why for name, (_, why) in wanted.items()})
            if entries:
                asked.confirm(f"Set {self._number(entries)}?")
            outcome = self.kind.apply(dsn, entries, book)
        where = change.dsn_without_secrets(dsn)
        words = [where if word == "DSN" else word for word in self.undo]
        undo = change.command_line(words, asked.journal) if outcome.changed else None
        self._finish(self.applied, recovered, entries, outcome, undo, asked)

    def take_back(self, dsn: str, asked: Asked) -> None:
        """Show what the last change set, ask, and restore what was there before."""
        from mrtuner.change.catalog_transaction import turned

        with asked.book() as book:
            recovered = self.kind.finish_or_revert_interrupted(dsn, book)
            change.print_recovered(recovered)
            if recovered is not None and recovered.change_is_undone:
                self._finish(self.undone, recovered, (), recovered, None, asked)
                return
            done = self.kind.last(dsn, book)
            entries = [] if done is None else [turned(one) for one in done.entries]
            if done is not None:
                self._show(f"undo of change {done.id}, made {done.began}", entries)
                asked.confirm(f"Restore {self._number(entries)}?")
            outcome = self.kind.undo(dsn, book, only=0 if done is None else done.id)
        self._finish(self.undone, recovered, entries, outcome, None, asked)

    def _show(
        self,
        title: str,
        entries: Sequence[ParameterChange],
        reasons: Mapping[str, str] | None = None,
    ) -> None:
        """Print how each parameter changes, and why if reasons are given."""
        if entries:
            from mrtuner.present.text import heading, table

            look = terminal.look(sys.stderr)
            header: tuple[str, ...] = (self.nouns[0], "now", "becomes")
            rows = [(printable(one.name), _text(one.before), _text(one.after)) for one in entries]
            terminal.print_notes(heading(title, look))
            if reasons is None:
                shown = table(header, rows, look)
            else:
                why = [(*row, reasons[one.name]) for row, one in zip(rows, entries, strict=True)]
                shown = table((*header, "why"), why, look)
            terminal.print_notes(shown)

    def _number(self, entries: Sequence[ParameterChange]) -> str:
        from mrtuner.change.catalog_transaction import owner_of

        owners = len({owner_of(one) for one in entries})
        return f"{plural(len(entries), self.nouns[0])} of {plural(owners, self.nouns[1])}"

    def _finish(
        self,
        told: Told,
        recovered: Outcome | None,
        entries: Sequence[ParameterChange],
        outcome: Outcome,
        undo: str | None,
        asked: Asked,
    ) -> None:
        if asked.as_json:
            terminal.document(told(recovered, entries, outcome, undo))
            return
        terminal.print_lines(self._outcome_lines(outcome))
        if undo:
            terminal.print_note(f"to undo: {undo}")

    def _outcome_lines(self, outcome: Outcome) -> Iterator[str]:
        if outcome.result in {"nothing", "reverted"}:
            yield "nothing to change"
            return
        yield change.verified(outcome, self.nouns[0])
        for name in outcome.left:
            yield f"left alone: {printable(name)} was changed since, or its {self.nouns[1]} is gone"


def _text(value: str | None) -> str:
    return "unset" if value is None else value
