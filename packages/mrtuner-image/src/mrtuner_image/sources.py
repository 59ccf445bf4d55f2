"""What a COPY or ADD takes from the context.

Source: buildah 1.28.2, add.go (Add) and copier/copier.go (copierHandlerGet).
"""

from __future__ import annotations

import fnmatch
import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mrtuner.errors import BadValue
from mrtuner_image.context import Context, ContextEntry
from mrtuner_image.dockerfile import Builder, Instruction


@dataclass(frozen=True, slots=True)
class Source:
    """A file or the contents of a directory, with the names under which they are copied."""

    path: str
    is_directory: bool
    entries: tuple[tuple[str, ContextEntry], ...]


#: Source: moby/buildkit, util/sshutil (ParseSCPStyleURL); an http address ends with .git.
_REPOSITORY: Final = re.compile(r"(git|ssh)://|[a-zA-Z0-9_-]+@[a-zA-Z0-9.-]+:")


def is_remote(word: str, builder: Builder = "podman") -> bool:
    """Whether ADD would fetch it; only BuildKit fetches repositories by git or ssh."""
    if builder == "buildkit" and _REPOSITORY.match(word):
        return True
    return word.startswith(("http://", "https://"))


def sources(context: Context, one: Instruction, words: Sequence[str]) -> Iterator[Source]:
    """Yield what these words of a line name, in the builder's order.

    Raises:
        BadValue: a word names nothing, a dangling link, or only what the ignore file excludes.
    """
    for word in words:
        found = [path for path in _named(context, word) if os.path.lexists(context.root / path)]
        if not found:
            raise _missing(one, word, "is not in the context")
        copied = [taken for path in found if (taken := _source(context, path)) is not None]
        if not copied:
            dead = all(_followed(context, path) is None for path in found)
            why = "is a dangling link" if dead else "the ignore file leaves out"
            raise _missing(one, word, why)
        yield from copied


def _missing(one: Instruction, word: str, why: str) -> BadValue:
    return BadValue(
        f"line {one.line} of the Dockerfile copies {word}, which {why}",
        "Correct the line, or the ignore file; the builder would fail.",
    )


def _named(context: Context, word: str) -> list[str]:
    """The paths that a word with wildcards names; none of them leads out of the context."""
    clean = posixpath.normpath("/" + word).lstrip("/")
    if not re.search(r"[*?\[\\]", clean):
        return [clean]
    found = [""]
    for part in clean.split("/"):
        expression = re.compile(fnmatch.translate(part.replace("[^", "[!")))
        found = [
            posixpath.join(above, name)
            for above in found
            for name in _names_in(context, above)
            if expression.match(name)
        ]
    return found


def _names_in(context: Context, directory: str) -> list[str]:
    try:
        return sorted(os.listdir(context.root / directory), key=os.fsencode)  # noqa: PTH208
    except OSError:
        return []


def _source(context: Context, path: str) -> Source | None:
    """What is copied of a path; None if the ignore file excludes it, or for a dangling link."""
    excluded = bool(path) and context.rules.excludes(path)
    real = _followed(context, path)
    if real is None or not (context.root / real).is_dir():
        if excluded or real is None:
            return None
        name = posixpath.basename(path)
        return Source(path, False, ((name, context.at(real)),))
    if excluded and not context.rules.enters_source(path):
        return None
    below = context.below(real) if real else context.entries
    if excluded and not below:
        return None
    start = len(real) + 1 if real else 0
    return Source(path, True, tuple((entry.path[start:], entry) for entry in below))


def _followed(context: Context, path: str) -> str | None:
    """The path behind symbolic links, which never lead out of the context; None for a dead end."""
    for _ in range(_LINKS):
        target = context.root / path
        if not target.is_symlink():
            return path if os.path.lexists(target) else None
        link = os.readlink(target)  # noqa: PTH115 - a name that may be no UTF-8
        path = posixpath.normpath(posixpath.join("/", posixpath.dirname(path), link)).lstrip("/")
    return None


#: Links to follow before giving up, as in a loop.
_LINKS = 40
