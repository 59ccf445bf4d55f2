"""What a rule receives, and what it returns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from mrtuner_image.deploys import Deploys
from mrtuner_image.dockerfile import Builder, Instruction
from mrtuner_image.model import Model
from mrtuner_image.tree import Tree


class Edit(NamedTuple):
    """Replaces the rows of a text from `first`, counted from 1, up to the one before `after`."""

    first: int
    after: int
    rows: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change that a rule proposes. It is costed and tried, and may turn out to save nothing."""

    subject: str  # what it is about; stays the same while other changes are made
    title: str  # what to do, as an imperative
    risk: str  # one sentence
    edits: Mapping[Path, str]  # the files' new contents


@dataclass(frozen=True, slots=True)
class Situation:
    """A tree, what a build makes of it, and what deploys change."""

    model: Model
    deploys: Deploys
    builder: Builder = "podman"

    @property
    def tree(self) -> Tree:
        """The directory, with the changes applied so far."""
        return self.model.tree

    def recipe(self, edits: Iterable[Edit]) -> dict[Path, str]:
        """The edited Dockerfile, as the `edits` of a proposal."""
        return {self.tree.dockerfile: edited(self.tree.recipe, edits)}

    def block(self, one: Instruction) -> str:
        """An instruction as written in the Dockerfile, with its continuation lines."""
        rows = self.tree.recipe.split("\n")[one.line - 1 : one.end]
        return "\n".join(row.removesuffix("\r") for row in rows)

    def start(self, one: Instruction) -> int:
        """The number of the first row of an instruction or of comments directly above it."""
        rows = self.tree.recipe.split("\n")
        first = one.line
        while first > 1 and _is_comment(rows, first - 1):
            first -= 1
        return first


#: A rule looks at the situation and proposes nothing, one change or several.
Rule = Callable[[Situation], Iterable[Proposal]]


def _is_comment(rows: list[str], number: int) -> bool:
    """Whether a row is a comment, but not a directive in the first row, such as `# escape=`."""
    row = rows[number - 1].lstrip()
    return row.startswith("#") and not (number == 1 and "=" in row)


def edited(text: str, edits: Iterable[Edit]) -> str:
    r"""The text with rows replaced; new rows get its line ends.

    >>> edited("a\nb\nc\n", [Edit(2, 3, ()), Edit(4, 4, ("d",))])
    'a\nc\nd\n'
    """
    rows = text.split("\n")
    end = "\r" if "\r\n" in text else ""
    for edit in sorted(edits, key=lambda one: (one.first, one.after), reverse=True):
        rows[edit.first - 1 : edit.after - 1] = [row + end for row in edit.rows]
    return "\n".join(rows)


def replaced(one: Instruction, block: str) -> Edit:
    return Edit(one.line, one.end + 1, tuple(block.split("\n")))


def inserted(before: int, *blocks: str) -> Edit:
    return Edit(before, before, tuple(row for block in blocks for row in block.split("\n")))


def removed(now: Situation, one: Instruction) -> Edit:
    """An edit that removes an instruction and the comments directly above it."""
    return Edit(now.start(one), one.end + 1, ())


def appended(block: str, command: str) -> str | None:
    r"""The line with a command appended, on a new row if it has several rows already.

    None if the line ends in a comment or an operator.

    >>> appended("RUN a", "b"), appended("RUN a \\\n    && c", "b")
    ('RUN a && b', 'RUN a \\\n    && c \\\n    && b')
    >>> appended("RUN a # why", "b"), appended("RUN a;", "b")
    (None, None)
    """
    block = block.rstrip()
    first, _, more = block.partition("\n")
    if block.endswith((";", "&", "|", "\\", "`")) or re.search(r"\s#", block.rpartition("\n")[2]):
        return None
    joint = f" {first.rstrip()[-1]}\n    && " if more else " && "
    return block + joint + command
