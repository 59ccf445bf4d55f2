"""Advice for an image: what the rules propose, costed one by one, ranked, and costed together."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mrtuner.errors import MrTunerError, UsageError
from mrtuner_image.advice.patch import unified
from mrtuner_image.advice.rules import RULES
from mrtuner_image.advice.situation import Proposal, Situation
from mrtuner_image.commits import read_commits
from mrtuner_image.deploys import (
    Amount,
    Deploys,
    Expected,
    assumed_deploys,
    expected,
    recorded_deploys,
)
from mrtuner_image.dockerfile import Builder
from mrtuner_image.layers import Packing
from mrtuner_image.model import Model, model_of
from mrtuner_image.tree import Tree, tree_of

#: Most passes over all rules while patches are combined: one patch may make another possible.
_ROUNDS: Final = 5
#: Shares of deploys that differ by less than this count as equal.
_NONE: Final = 1e-9
_SECRETS: Final = "secrets"


@dataclass(frozen=True, slots=True)
class Saving:
    """Known bytes saved, and whether an unknown number is also saved (more) or added (less)."""

    bytes: int
    more: bool = False
    less: bool = False

    @property
    def is_none(self) -> bool:
        """Whether it certainly saves nothing, or adds bytes."""
        return not self.more and self.bytes <= 0


@dataclass(frozen=True, slots=True)
class Savings:
    """What a change saves: per deploy on average, and in the image as a whole."""

    sent: Saving
    rebuilt: Saving
    pushed: Saving
    image: Saving

    @property
    def known(self) -> int:
        """Known bytes per deploy that no longer leave this machine; advice is ranked by them."""
        return self.sent.bytes + (0 if self.pushed.more and self.pushed.less else self.pushed.bytes)

    @property
    def worth_it(self) -> bool:
        """Whether it saves something, as far as that is known."""
        if not (self.pushed.more or self.image.more) and self.sent.bytes + self.pushed.bytes < 0:
            return False
        parts = (self.sent, self.rebuilt, self.pushed, self.image)
        return not all(part.is_none for part in parts)


@dataclass(frozen=True, slots=True)
class Advice:
    """One piece of advice."""

    number: int  # from 1, the best first
    rule: str
    subject: str
    title: str
    risk: str
    patch: str
    saved: Savings


@dataclass(frozen=True, slots=True)
class Combined:
    """Several pieces of advice as one patch, costed as a whole."""

    patch: str
    after: Expected
    saved: Savings
    applied: tuple[str, ...]  # titles, in the order in which they were combined
    needless: tuple[int, ...]  # numbers of advice that the others made unnecessary


@dataclass(frozen=True, slots=True)
class Advised:
    """The advice for one image, and what its deploys cost now."""

    tree: Tree
    place: Path  # where the patches are applied
    deploys: Deploys
    before: Expected
    advice: tuple[Advice, ...]
    together: Combined
    builder: Builder


def advise(
    directory: Path,
    file: Path | None = None,
    arguments: Mapping[str, str] | None = None,
    *,
    history: int | None = None,
    only: Collection[int] = (),
    builder: Builder = "podman",
) -> Advised:
    """Return advice that makes deploys of this image cheaper.

    Deploys change what the last `history` commits changed; without it, typical changes are assumed.
    `only` has the numbers of the advice to combine; if empty, all that saves something is combined.

    Raises:
        UsageError: no directory, no Dockerfile, no such number, no usable commit. BadValue: a
        Dockerfile or an ignore file that the builder refuses.
    """
    tree = tree_of(directory, file, builder)
    packing = Packing(directory)
    model = model_of(tree, arguments, packing)
    tree = model.tree
    if history is None:
        deploys = assumed_deploys(model)
    else:
        deploys = recorded_deploys(model, read_commits(tree, history))
        if not deploys.each:
            raise UsageError(
                f"none of the last {history} commits changed a file of {directory} but its "
                "Dockerfile or ignore file",
                "Give a larger number, or leave out --history.",
            )
    adviser = _Adviser(dict(arguments or {}), deploys, builder, packing)
    now = Situation(model, deploys, builder)
    before = expected(model, deploys)
    found = adviser.ranked(now, before)
    missing = sorted(set(only) - {one.number for one in found})
    if missing:
        raise UsageError(
            f"there is no advice with number {missing[0]}",
            f"Name one from 1 to {len(found)}."
            if found
            else "There is no advice: omit the option.",
        )
    chosen = [one for one in found if one.number in only]
    together = adviser.combined(now, before, chosen or None, found)
    return Advised(tree, place_of(tree), deploys, before, tuple(found), together, builder)


def place_of(tree: Tree) -> Path:
    """The directory to which paths in the patches are relative.

    The context or, if the Dockerfile or the ignore file is outside it, a directory above them all.
    """
    files = [
        tree.dockerfile.resolve(),
        *([ignore.resolve()] if (ignore := tree.rules().file) else []),
    ]
    place = tree.root
    while not all(file.is_relative_to(place.resolve()) for file in files):
        place = place.resolve().parent
    return place


@dataclass(frozen=True, slots=True)
class _Adviser:
    arguments: Mapping[str, str]
    deploys: Deploys
    builder: Builder
    packing: Packing

    def ranked(self, now: Situation, before: Expected) -> list[Advice]:
        found: list[tuple[str, Proposal, Savings]] = []
        for rule, proposal in _proposals(now):
            after = self._after(now, proposal)
            if after is None:
                continue
            saved = _savings(before, after[1])
            if saved.worth_it or rule == _SECRETS:
                found.append((rule, proposal, saved))
        found.sort(key=lambda one: (one[0] != _SECRETS, -one[2].known, not one[2].pushed.more))
        return [
            Advice(
                number, rule, proposal.subject, proposal.title, proposal.risk,
                _patch(now.tree, now.tree.edited(proposal.edits)), saved,
            )
            for number, (rule, proposal, saved) in enumerate(found, 1)
        ]  # fmt: skip

    def combined(
        self,
        start: Situation,
        before: Expected,
        chosen: Sequence[Advice] | None,
        found: Sequence[Advice],
    ) -> Combined:
        """Apply one proposal after another; each rule sees the tree as changed so far."""
        wanted = None if chosen is None else {(one.rule, one.subject) for one in chosen}
        now, held = start, before
        done: set[tuple[str, str]] = set()
        titles: list[str] = []
        for _ in range(_ROUNDS):
            size, tried = len(titles), set[frozenset[tuple[Path, str]]]()
            while (following := self._following(now, held, wanted, tried)) is not None:
                key, title, now, held = following
                titles.append(title)
                done.add(key)
            if len(titles) == size:
                break
        asked = found if chosen is None else chosen
        return Combined(
            patch=_patch(start.tree, now.tree), after=held,
            saved=_savings(before, held), applied=tuple(titles),
            needless=tuple(
                one.number for one in asked if (one.rule, one.subject) not in done
            ),
        )  # fmt: skip

    def _following(
        self,
        now: Situation,
        held: Expected,
        wanted: Collection[tuple[str, str]] | None,
        tried: set[frozenset[tuple[Path, str]]],
    ) -> tuple[tuple[str, str], str, Situation, Expected] | None:
        """The next possible change that saves something, was asked for, or hides secrets."""
        for rule, proposal in _proposals(now):
            key = rule, proposal.subject
            result = frozenset(proposal.edits.items())
            if result in tried or (wanted is not None and key not in wanted):
                continue
            tried.add(result)
            found = self._after(now, proposal)
            if found is None:
                continue
            model, after = found
            worth_it = _savings(held, after).worth_it
            if wanted is None and rule != _SECRETS and not worth_it:
                continue
            return key, proposal.title, Situation(model, self.deploys, self.builder), after
        return None

    def _after(self, now: Situation, proposal: Proposal) -> tuple[Model, Expected] | None:
        """The patched model and its expected cost; None if the builder would refuse it."""
        tree = now.tree.edited(proposal.edits)
        try:
            model = model_of(tree, self.arguments, self.packing)
        except MrTunerError:
            return None
        return model, expected(model, self.deploys)


def _proposals(now: Situation) -> Iterator[tuple[str, Proposal]]:
    for name, rule in RULES.items():
        for proposal in rule(now):
            yield name, proposal


def _savings(before: Expected, after: Expected) -> Savings:
    return Savings(
        Saving(before.sent - after.sent), _saving(before.rebuilt, after.rebuilt),
        _saving(before.pushed, after.pushed), _saving(before.image, after.image),
    )  # fmt: skip


def _saving(before: Amount, after: Amount) -> Saving:
    shares = {
        what: before.unknown.get(what, 0) - after.unknown.get(what, 0)
        for what in before.unknown.keys() | after.unknown.keys()
    }
    return Saving(
        round(before.bytes - after.bytes),
        more=any(share > _NONE for share in shares.values()),
        less=any(share < -_NONE for share in shares.values()),
    )


def _patch(old: Tree, new: Tree) -> str:
    place = place_of(old).resolve()
    changes: dict[str, tuple[str | None, str]] = {}
    for path, text in new.edits.items():
        before = old.text(path)
        if before != text:
            changes[path.resolve().relative_to(place).as_posix()] = before, text
    return unified(changes)
