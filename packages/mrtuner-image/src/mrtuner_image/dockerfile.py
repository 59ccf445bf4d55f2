"""A Dockerfile as podman and buildah read it: lines, stages, flags, words, variables.

Source: openshift/imagebuilder of buildah 1.28.2, dockerfile/parser and shell_parser.go. Heredocs
and `COPY --link` are refused, as by these builders, but accepted for BuildKit.
Source of these: docs.docker.com, reference/dockerfile (Here-documents, COPY --link);
moby/buildkit, frontend/dockerfile/parser/parser.go (heredocsFromLine, ParseHeredoc).
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from mrtuner.errors import BadValue

Builder = Literal["podman", "buildkit"]

_ESCAPE: Final = re.compile(r"^#[ \t]*escape[ \t]*=[ \t]*(.).*$", re.IGNORECASE)
_BLANKS: Final = re.compile(r"[\t\v\f\r ]+")
_HEREDOC: Final = re.compile(
    r"(?<!<)<<(?P<tabs>-?)\s*(?P<quote>['\"]?)(?P<name>[A-Za-z_]\w*)(?P=quote)(?=\s|$)"
)
#: A word as a shell reads it, and a whole word that begins a heredoc for BuildKit.
_WORD: Final = re.compile(r"(?:\\.|\"(?:\\.|[^\"\\])*\"|'[^']*'|[^\s\\\"'])+")
_HEREDOC_WORD: Final = re.compile(
    r"\d*<<(?P<tabs>-?)(?P<quote>['\"]?)(?P<name>[^\s<'\"]+)(?P=quote)"
)
_KNOWN: Final = frozenset(
    {
        "ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL",
        "MAINTAINER", "ONBUILD", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR",
    }
)  # fmt: skip
#: Flags of COPY and ADD, by builder; BuildKit's --parents and --exclude are not modelled.
_FLAGS: Final[Mapping[tuple[Builder, str], tuple[str, ...]]] = {
    ("podman", "COPY"): ("--chown=", "--chmod=", "--from="),
    ("podman", "ADD"): ("--chown=", "--chmod="),
    ("buildkit", "COPY"): ("--chown=", "--chmod=", "--from=", "--link"),
    ("buildkit", "ADD"): ("--chown=", "--chmod=", "--link", "--checksum=", "--keep-git-dir"),
}
#: Instructions that make a layer; the others change only the configuration.
LAYERED: Final = frozenset({"ADD", "COPY", "RUN"})
NO_BASE: Final = "scratch"
#: GOARCH for each output of `uname -m`.
_MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}


@dataclass(frozen=True, slots=True)
class Heredoc:
    """Text below a line, and its delimiter, which is its file name in a COPY."""

    name: str
    text: str
    literal: bool  # its variables are not resolved


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction of a Dockerfile, with the lines that continue it."""

    line: int  # where it begins, from 1
    name: str  # in capitals
    original: str  # as the builder prints and remembers it: continuations joined
    flags: tuple[str, ...] = ()
    text: str = ""  # after the name and the flags
    end: int = 0  # the last line that continues it
    heredocs: tuple[Heredoc, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The words of COPY, ADD and FROM: a JSON list, or else separated by blanks."""
        if self.text.startswith("["):
            try:
                listed = json.loads(self.text)
            except ValueError:
                listed = None
            if isinstance(listed, list) and all(isinstance(word, str) for word in listed):
                return tuple(listed)
        return tuple(_BLANKS.split(self.text)) if self.text else ()

    def flag(self, name: str) -> str | None:
        """The value of ``--name=value``."""
        start = f"--{name}="
        return next((one.removeprefix(start) for one in self.flags if one.startswith(start)), None)

    @property
    def mounts(self) -> list[dict[str, str]]:
        """The options of each ``--mount=``; its type is bind unless it has another."""
        return [
            {"type": "bind"}
            | {
                name.lower(): value
                for name, _, value in (part.partition("=") for part in flag[8:].split(","))
            }
            for flag in self.flags
            if flag.startswith("--mount=")
        ]

    @property
    def reads_context(self) -> bool:
        """Whether a mount shows it a part of the context."""
        return any(one["type"] == "bind" and "from" not in one for one in self.mounts)

    @property
    def keeps_cache(self) -> bool:
        """Whether a mount keeps a directory from build to build, outside the image."""
        return any(one["type"] == "cache" for one in self.mounts)

    @property
    def links(self) -> bool:
        """Whether its layer is independent of those below: --link, ignored with --chmod."""
        asked = "--link" in self.flags or self.flag("link") == "true"
        return asked and not self.flag("chmod")


@dataclass(frozen=True, slots=True)
class BuildStage:
    """A FROM and the lines below it."""

    index: int
    name: str  # the number where it has none
    base: str  # with variables resolved
    steps: tuple[Instruction, ...]


@dataclass(frozen=True, slots=True)
class Dockerfile:
    """A whole Dockerfile."""

    stages: tuple[BuildStage, ...]
    heading: Mapping[str, str]  # ARGs above the first FROM, and those that BuildKit has there

    def stage_of(self, name: str, before: int) -> BuildStage | None:
        """The stage above number `before` with this name or number; None if there is none."""
        for stage in reversed(self.stages[:before]):
            if name in {stage.name, str(stage.index)}:
                return stage
        return None


def architecture() -> str:
    """Return this machine's, as images name it: ``amd64``, ``arm64``."""
    return _MACHINES.get(platform.machine(), platform.machine())


def platform_arguments() -> dict[str, str]:
    """Return the ARGs that a builder sets itself, by this machine.

    A stage has those that it declares without a value; BuildKit has all of them in FROM, too.
    Source: docs.docker.com, reference/dockerfile (Automatic platform ARGs in the global scope);
    podman 4.3.1 was tried.
    """
    own = architecture()
    values = {"PLATFORM": f"linux/{own}", "OS": "linux", "ARCH": own, "VARIANT": ""}
    return {side + name: value for side in ("TARGET", "BUILD") for name, value in values.items()}


def parse(
    text: str, arguments: Mapping[str, str] | None = None, builder: Builder = "podman"
) -> Dockerfile:
    """Return the stages of a Dockerfile; `arguments` are those of --build-arg.

    Raises:
        BadValue: the builder would refuse it; the message names the line.
    """
    given = dict(arguments or {})
    found = list(instructions(text, builder))
    first = next((place for place, one in enumerate(found) if one.name == "FROM"), None)
    if first is None:
        raise BadValue("the Dockerfile has no FROM", "Begin it with FROM and an image.")
    heading: dict[str, str] = {}
    if builder == "buildkit":
        heading = {name: given.get(name, value) for name, value in platform_arguments().items()}
    for one in found[:first]:
        if one.name != "ARG":
            raise _bad(one, f"{one.name} before the first FROM", "Move it below FROM.")
        for name, value in assigned(one):
            if (settled := given.get(name, value)) is not None:
                heading[name] = expanded(settled, heading, one)
    starts = [place for place, one in enumerate(found) if one.name == "FROM"]
    stages: list[BuildStage] = []
    for index, place in enumerate(starts):
        end = starts[index + 1] if index + 1 < len(starts) else len(found)
        stages.append(_stage(index, found[place], found[place + 1 : end], heading))
    return Dockerfile(tuple(stages), heading)


def _stage(
    index: int, start: Instruction, steps: Sequence[Instruction], heading: Mapping[str, str]
) -> BuildStage:
    words = start.words
    named = len(words) == 3 and words[1].lower() == "as"
    if len(words) != 1 and not named:
        raise _bad(start, "FROM takes an image, or an image AS a name", "Correct the line.")
    base = expanded(words[0], heading, start)
    if not base or base.startswith((":", "/")) or base.endswith((":", "@", "/")):
        raise _bad(
            start, f"{words[0]} is {base or 'empty'}" + (", which names no image" if base else ""),
            "Give the ARG above FROM a value, or name one with --build-arg.",
        )  # fmt: skip
    return BuildStage(index, words[2] if named else str(index), base, tuple(steps))


def instructions(text: str, builder: Builder = "podman") -> Iterator[Instruction]:
    """Yield the instructions, joined with the lines that continue them; skip comments."""
    escape, heading = "\\", True
    rows = iter(enumerate(text.removeprefix("\ufeff").split("\n"), 1))
    for number, row in rows:
        row = row.removesuffix("\r").lstrip()
        if heading and (directive := _ESCAPE.match(row)):
            escape, heading = directive[1], False
            if escape not in "\\`":
                raise BadValue(f"line {number}: escape={escape}", "Use a backslash or a backtick.")
        heading = heading and row.startswith("#")
        more = re.compile(re.escape(escape) + r"[ \t]*$")
        line, last = "" if row.startswith("#") else row, number
        while more.search(line):
            line = more.sub("", line)
            line, ended, last = _continued(line, rows, more, last)
            if ended:
                break
        if line:
            yield _instruction(number, line, last, rows, builder)


def _continued(
    line: str, rows: Iterator[tuple[int, str]], more: re.Pattern[str], last: int
) -> tuple[str, bool, int]:
    """The line with its next row, whether that is its last, and the number of that row."""
    for number, row in rows:
        row = row.removesuffix("\r")
        if not row.strip() or row.lstrip().startswith("#"):
            continue  # comments and empty rows do not end it
        return line + row, not more.search(row), number
    return line, True, last


def _instruction(
    number: int, line: str, last: int, rows: Iterator[tuple[int, str]], builder: Builder
) -> Instruction:
    name, _, rest = _BLANKS.sub("\0", line.strip(), count=1).partition("\0")
    flags, text = _flags(rest)
    one = Instruction(number, name.upper(), line, flags, text.strip(), last)
    if one.name not in _KNOWN:
        raise _bad(one, f"unknown instruction {name}", "Correct it: the builder would fail.")
    if builder == "buildkit" and one.name in LAYERED:
        one = _with_heredocs(one, rows)
    elif one.name in LAYERED and _HEREDOC.search(one.text):
        raise _bad(
            one, "a heredoc, which this builder does not support",
            "Write the commands with && and backslashes, or COPY a file; BuildKit takes it: "
            "--builder buildkit.",
        )  # fmt: skip
    if one.name in {"ADD", "COPY"}:
        _check_copy(one, builder)
    return one


def _with_heredocs(one: Instruction, rows: Iterator[tuple[int, str]]) -> Instruction:
    """The line with the heredocs below it, each up to a row that has only its name."""
    found: list[Heredoc] = []
    end, original = one.end, one.original
    for start in filter(None, map(_HEREDOC_WORD.fullmatch, _WORD.findall(one.text))):
        text: list[str] = []
        for number, row in rows:
            row = row.lstrip("\t") if start["tabs"] else row
            end, original = number, f"{original}\n{row}"
            if row.removesuffix("\r") == start["name"]:
                break
            text.append(f"{row}\n")
        else:
            raise _bad(
                one, f"the heredoc {start['name']} is not closed",
                f"End it with a line that has only {start['name']}.",
            )  # fmt: skip
        found.append(Heredoc(start["name"], "".join(text), bool(start["quote"])))
    return replace(one, original=original, end=end, heredocs=tuple(found))


def _check_copy(one: Instruction, builder: Builder) -> None:
    for flag in one.flags:
        if not flag.startswith(_FLAGS[builder, one.name]):
            if builder == "buildkit":
                raise _bad(one, f"{one.name} {flag}, which is not modelled", "Omit it.")
            hint = "Omit it, or give --builder buildkit if BuildKit builds."
            hint = hint if flag.startswith(_FLAGS["buildkit", one.name]) else "Omit it."
            raise _bad(one, f"{one.name} {flag}, which this builder does not support", hint)
    if len(one.words) < 2:
        raise _bad(one, f"{one.name} takes a source and a destination", "Name both.")


def _flags(rest: str) -> tuple[tuple[str, ...], str]:
    """The leading words that begin with two dashes, and what follows them."""
    flags: list[str] = []
    while match := re.match(r"\s*(--(?:\\.|\"[^\"]*\"|'[^']*'|[^\s\\\"'])+)", rest):
        flags.append(re.sub(r"\\(.)|[\"']", r"\1", match[1]))
        rest = rest[match.end() :]
    return tuple(flags), rest


def assigned(one: Instruction) -> list[tuple[str, str | None]]:
    """The names and values of an ARG or ENV, unexpanded; None for an ARG without a value.

    >>> assigned(Instruction(1, "ENV", "", (), 'A=1 B="two words"'))
    [('A', '1'), ('B', '"two words"')]
    >>> assigned(Instruction(1, "ENV", "", (), "OLD a form"))
    [('OLD', 'a form')]
    """
    words = _WORD.findall(one.text)
    if one.name == "ENV" and words and "=" not in words[0]:
        name, _, value = _BLANKS.sub(" ", one.text, count=1).partition(" ")
        return [(name, value)]
    pairs = [word.partition("=") for word in words]
    return [(name, value if equals else None) for name, equals, value in pairs]


_TOKEN: Final = re.compile(
    r"\\(?P<escaped>.)|'(?P<single>[^']*)'|\"(?P<double>(?:\\.|[^\"\\])*)\""
    r"|\$\{(?P<braced>\w+)(?::(?P<how>[-+])(?P<other>[^}]*))?\}|\$(?P<name>[^\W\d]\w*|\d)",
    re.DOTALL,
)


def expanded(word: str, values: Mapping[str, str], one: Instruction) -> str:
    """The word with variables resolved and without quotes; an unset variable is empty.

    Raises BadValue for other forms than ${NAME}, ${NAME:-default} and ${NAME:+if}.

    >>> line = Instruction(1, "COPY", "")
    >>> expanded("${A}/$B/'$B'/${C:-c}", {"A": "a", "B": "b"}, line)
    'a/b/$B/c'
    """

    def value(found: re.Match[str]) -> str:
        if found["escaped"] is not None:
            return found["escaped"]
        if found["single"] is not None:
            return found["single"]
        if found["double"] is not None:
            bare = re.sub(r"\\([\"\\$])", lambda kept: "\0" + kept[1], found["double"])
            return _DOLLAR.sub(variable, bare).replace("\0", "")
        return variable(found)

    def variable(found: re.Match[str]) -> str:
        now = values.get(found["braced"] or found["name"], "")
        if found["how"] == "-":
            return now or expanded(found["other"], values, one)
        if found["how"] == "+":
            return now and expanded(found["other"], values, one)
        return now

    if re.search(r"(?<!\\)\$\{(?!\w+(?::[-+][^}]*)?\})", word):
        raise _bad(one, f"cannot resolve {word}", "Use ${NAME}, ${NAME:-default} or ${NAME:+if}.")
    return _TOKEN.sub(value, word)


_DOLLAR: Final = re.compile(
    r"(?<!\0)\$(?:\{(?P<braced>\w+)(?::(?P<how>[-+])(?P<other>[^}]*))?\}|(?P<name>[^\W\d]\w*|\d))"
)


def _bad(one: Instruction, what: str, hint: str) -> BadValue:
    return BadValue(f"line {one.line} of the Dockerfile: {what}", hint)
