"""The ignore file of a build context, read as podman and buildah, or BuildKit, read it.

These are not gitignore's rules, nor quite those of docker-py's matcher, which ignores case.
Source: buildah 1.28.2, pkg/parse/parse.go (ContainerIgnoreFile) and copier/copier.go;
openshift/imagebuilder builder.go (ParseIgnore); containers/storage pkg/fileutils/fileutils.go
(PatternMatcher). For BuildKit, which was not tested: docs.docker.com,
build/concepts/context (.dockerignore files); moby/buildkit,
frontend/dockerfile/dockerignore/dockerignore.go (ReadAll); moby/patternmatcher, patternmatcher.go
(compile); tonistiigi/fsutil, filter.go (Walk).
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from mrtuner.errors import BadValue, UsageError
from mrtuner_image.dockerfile import Builder

#: What Go's strings.TrimSpace removes.
_SPACE: Final = " \t\n\v\f\r\x85\xa0"
#: One character of a class as filepath.Match reads it: `]` and `-` only after a backslash.
_IN_CLASS: Final = r"(?:\\.|[^\\\]\-])"
#: What filepath.Match accepts as a whole.
_SYNTAX: Final = re.compile(
    rf"(?:\\.|\[\^?(?:{_IN_CLASS}(?:-{_IN_CLASS})?)+\]|[^\[\\])*", re.DOTALL
)
_GO_REPEAT: Final = re.compile(r"\{\d+(?:,\d*)?\}")
#: With one of these in a negated pattern, BuildKit looks into every directory.
_WILD: Final = re.compile(r"[*?\[\]^\\]")
_HINT: Final = "Correct the pattern: the builder would fail as well."


@dataclass(frozen=True, slots=True)
class Pattern:
    """A line of the ignore file; `negated` brings back what an earlier one left out."""

    text: str
    negated: bool
    expression: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """What stays out of a context. The last pattern that matches a path decides."""

    patterns: tuple[Pattern, ...] = ()
    file: Path | None = None
    builder: Builder = "podman"

    def excludes(self, path: str) -> bool:
        """Whether the path, relative to the context, is left out.

        >>> rules = rules_of(["*.log", "a", "!a/b"])
        >>> [rules.excludes(path) for path in ("x.log", "c/x.log", "a", "a/b", "a/c")]
        [True, False, True, False, True]
        """
        for pattern in reversed(self.patterns):
            if pattern.expression.search(path):
                return not pattern.negated
        return False

    def enters(self, directory: str) -> bool:
        """Whether the builder looks into an excluded directory.

        Podman compares characters, not names: `!ab/c` makes it look into `a` as well, and `!*/c`
        into nothing. BuildKit looks wherever a pattern may bring something back.
        """
        if self.builder == "buildkit":
            back = [
                pattern.text.removesuffix("/**").removesuffix("/*") + "/"
                for pattern in self.patterns
                if pattern.negated
            ]
            return any(_WILD.search(text) or text.startswith(f"{directory}/") for text in back)
        return any(
            (pattern.text.strip("/") + "/").startswith(directory)
            for pattern in self.patterns
            if pattern.negated
        )

    def enters_source(self, directory: str) -> bool:
        """Whether the builder looks into an excluded directory that a COPY names."""
        if self.builder == "buildkit":
            return self.enters(directory)
        return any(
            pattern.text.removeprefix("/").startswith(directory + "/")
            for pattern in self.patterns
            if pattern.negated
        )


def rules_for(
    directory: Path,
    dockerfile: Path,
    edits: Mapping[Path, str] | None = None,
    builder: Builder = "podman",
) -> IgnoreRules:
    """Return the rules in force for a build; none without an ignore file.

    `edits` has the contents of files that would be written or changed.

    Raises:
        BadValue: a pattern that the builder refuses, or that cannot be interpreted here.
        UsageError: the file cannot be read.
    """
    for file in ignore_files(directory, dockerfile, builder):
        if edits and file in edits:
            return replace(rules_of(edits[file].split("\n"), builder), file=file)
        try:
            text = file.read_bytes().decode("utf-8", "surrogateescape")
        except FileNotFoundError:
            continue
        except OSError as error:
            raise UsageError(
                f"cannot read {file}: {error.strerror}", "Make it a file that you may read."
            ) from error
        return replace(rules_of(text.split("\n"), builder), file=file)
    return IgnoreRules(builder=builder)


def ignore_files(directory: Path, dockerfile: Path, builder: Builder = "podman") -> list[Path]:
    """Return where a builder looks for an ignore file; the first that exists counts."""
    ends = _ENDS[builder]
    beside = [dockerfile.with_name(dockerfile.name + end) for end in ends]
    return [*beside, *(directory / end for end in reversed(ends))]


#: For Dockerfile X, the order is X.dockerignore, X.containerignore, .containerignore,
#: .dockerignore: the first that exists wins. BuildKit does not know .containerignore.
_ENDS: Final[Mapping[Builder, tuple[str, ...]]] = {
    "podman": (".dockerignore", ".containerignore"),
    "buildkit": (".dockerignore",),
}


def rules_of(lines: Iterable[str], builder: Builder = "podman") -> IgnoreRules:
    """Return the rules in these lines of an ignore file; BadValue for an invalid pattern."""
    if builder == "buildkit":
        said = [line for line in lines if not line.removeprefix("\ufeff").startswith("#")]
        found = [line.removeprefix("\ufeff").strip(_SPACE) for line in said]
        return IgnoreRules(tuple(_for_buildkit(line) for line in found if line), None, builder)
    stripped = [line.strip("/") for line in lines if line and line[0] != "#"]
    return IgnoreRules(tuple(_pattern(line) for line in stripped if line.strip(_SPACE)))


def _pattern(line: str) -> Pattern:
    text = _clean(line.strip(_SPACE))
    negated = text.startswith("!")
    if text == "!":
        raise BadValue("illegal pattern ! in the ignore file: it excludes nothing", _HINT)
    if negated:
        text = _clean(text[1:]).removeprefix("/")
    if not _SYNTAX.fullmatch(text):
        raise _bad(line)
    return Pattern(text, negated, _compiled(text, line))


def _for_buildkit(line: str) -> Pattern:
    negated = line.startswith("!")
    text = line[1:].strip(_SPACE) if negated else line
    text = _clean(text).removeprefix("/")
    if negated and line.strip("!/" + _SPACE) == "":
        raise BadValue("illegal pattern ! in the ignore file: it excludes nothing", _HINT)
    if not _SYNTAX.fullmatch(text):
        raise _bad(line)
    if re.search(r"\\[a-zA-Z0-9]", text):
        raise _bad(line, "backslash before a letter or digit")
    if "[[:" in text:
        raise _bad(line, "character class by name")
    return Pattern(text, negated, re.compile(rf"^(?:{_matched(text)})(?:/.*)?\Z", re.DOTALL))


def _matched(text: str) -> str:
    """The expression of a pattern: `**` before or after plain text stands for any text."""
    plain = re.compile(r"[^*?\[\]\\]*")
    if text.startswith("**") and plain.fullmatch(text, 2):
        rest = re.escape(text[2:])
        return rf".*{rest}" + (f"|{re.escape(text[3:])}" if text.startswith("**/") else "")
    if plain.fullmatch(text):
        return re.escape(text)
    if text.endswith("**") and plain.fullmatch(text, 0, len(text) - 2):
        return re.escape(text[:-2]) + ".*"
    return _PIECES.sub(_expression, text)


#: The parts of a pattern for BuildKit: any text, text without a slash, an escaped character, a
#: class, or a literal character.
_PIECES: Final = re.compile(r"(\*\*/?)(\Z)?|\*|\?|\\.|\[\^?(?:\\.|[^\]\\])*\]|.", re.DOTALL)


def _expression(piece: re.Match[str]) -> str:
    said = piece[0]
    if piece[1]:
        return ".*" if piece[2] is not None else "(?:.*/)?"
    if said in {"*", "?"}:
        return "[^/]*" if said == "*" else "[^/]"
    if said[0] == "[" and len(said) > 1:
        return "[" + ("^" if said[1] == "^" else "") + _class(said[2 if said[1] == "^" else 1 : -1])
    return said if said[0] == "\\" else re.escape(said)


def _class(inside: str) -> str:
    """The rest of a class, with characters escaped that Python would read differently."""
    return re.sub(r"(\\.)|([\[&~|])", lambda kept: kept[1] or "\\" + kept[2], inside) + "]"


def _bad(line: str, why: str = "syntax error") -> BadValue:
    return BadValue(f"{why} in pattern {line} of the ignore file", _HINT)


def _clean(path: str) -> str:
    """The path as Go's filepath.Clean writes it: no `.`, no empty part, `..` resolved."""
    rooted = path.startswith("/")
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and (parts and parts[-1] != ".."):
            parts.pop()
        elif part == ".." and rooted:
            continue
        elif part not in {"", "."}:
            parts.append(part)
    return ("/" if rooted else "") + "/".join(parts) or "."


def _compiled(pattern: str, line: str) -> re.Pattern[str]:
    """The pattern as a regular expression.

    The builder passes most characters to Go's regular expressions unchanged: `a+b` matches `aab`.
    What Go refuses is refused; what Python would read differently is translated.
    """
    out = ["^"]
    place = 0
    while place < len(pattern):
        piece, place = _piece(pattern, place, out[-1], line)
        out.append(piece)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of classes that look nested
            return re.compile("".join(out) + r"(/.*)?\Z")
    except (re.error, OverflowError):
        raise _bad(line) from None


def _piece(pattern: str, place: int, before: str, line: str) -> tuple[str, int]:
    """The expression for what stands at `place`, and where the next one begins."""
    char, rest = pattern[place], pattern[place + 1 :]
    if pattern.startswith("**", place):
        after = place + (3 if rest.startswith("*/") else 2)
        return (".*" if after == len(pattern) else "(.*/)?"), after
    if char == "\\":
        if rest[0].isalnum():
            raise _bad(line, "backslash before a letter or digit")
        return "\\" + rest[0], place + 2
    if pattern.startswith("[[:", place):
        raise _bad(line, "character class by name")
    if char == "+" or (char == "{" and _GO_REPEAT.match(pattern, place)):
        return _repeat(char, before, line), place + 1
    return _ONE.get(char, char), place + 1


#: What one character of a pattern becomes; the others stay as they are.
_ONE: Final = {"*": "[^/]*", "?": "[^/]", ".": r"\.", "$": r"\$", "{": r"\{"}


def _repeat(char: str, before: str, line: str) -> str:
    if before == "^" and char == "+":
        return ""  # Go repeats the beginning of the text, which changes nothing
    if before in {"^", "", "(", "|", "+", "}"} or before in {"[^/]*", ".*", "(.*/)?"}:
        raise _bad(line, "repetition of nothing")
    return char
