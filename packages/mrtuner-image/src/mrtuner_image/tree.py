"""A directory to build, with changes that are not written to it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from mrtuner.errors import UsageError
from mrtuner.files import read_file
from mrtuner_image.context import Context, Found, read_context
from mrtuner_image.dockerfile import Builder
from mrtuner_image.ignore import IgnoreRules, rules_for

#: Where a builder looks without --file. Source: docs.docker.com, docker build, --file.
_USUAL: Final[Mapping[Builder, tuple[str, ...]]] = {
    "podman": ("Containerfile", "Dockerfile"),
    "buildkit": ("Dockerfile",),
}
#: An address that a builder would fetch; as a path, it has lost one of its slashes.
_ADDRESS: Final = re.compile(r"(https?|git|ssh):/|git@[\w.-]+:|-$")


@dataclass(frozen=True, slots=True)
class Tree:
    """A build context and its Dockerfile; `edits` has the contents of changed files."""

    root: Path
    dockerfile: Path
    edits: Mapping[Path, str] = field(default_factory=dict)
    builder: Builder = "podman"  # by whose rules files are found and read
    found: Found = field(
        default_factory=dict, repr=False, compare=False
    )  # read once, for all edits

    def text(self, path: Path) -> str | None:
        """The contents of a text file, line ends as they are; None where there is none.

        Raises:
            UsageError: it cannot be read. BadValue: it is not UTF-8.
        """
        if path in self.edits:
            return self.edits[path]
        if not os.path.lexists(path):
            return None
        read_file(path)  # a device or a large file is refused
        return path.read_bytes().decode()

    @property
    def recipe(self) -> str:
        return self.text(self.dockerfile) or ""

    def edited(self, edits: Mapping[Path, str]) -> Tree:
        return replace(self, edits={**self.edits, **edits})

    def rules(self) -> IgnoreRules:
        return rules_for(self.root, self.dockerfile, self.edits, self.builder)

    def context(self) -> Context:
        """What the builder sees."""
        contents = {
            relative: text.encode()
            for path, text in self.edits.items()
            if (relative := self.relative(path)) is not None
        }
        return read_context(self.root, self.rules(), contents, self.found)

    def relative(self, path: Path) -> str | None:
        """The path within the context; None for a file elsewhere."""
        found = os.path.relpath(path, self.root).replace(os.sep, "/")
        return None if found == ".." or found.startswith("../") else found


def tree_of(directory: Path, file: Path | None = None, builder: Builder = "podman") -> Tree:
    """Return a directory with its Dockerfile: `file`, here or in the directory, else the usual.

    Raises:
        UsageError: no such directory or file.
    """
    if _ADDRESS.match(str(directory)):
        raise UsageError(
            f"{directory} is an address, not a directory",
            "Clone or unpack it, and name the directory.",
        )
    if not directory.is_dir():
        raise UsageError(f"{directory} is not a directory", "Name the directory to build.")
    wanted = (
        [directory / name for name in _USUAL[builder]] if file is None else [file, directory / file]
    )
    for path in wanted:
        if path.exists():
            return Tree(directory, path, builder=builder)
    named = " or ".join(_USUAL[builder]) if file is None else str(file)
    raise UsageError(f"there is no {named} in {directory}", "Name it with --file FILE.")
