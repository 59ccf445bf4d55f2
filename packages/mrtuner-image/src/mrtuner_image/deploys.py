"""What changes from one deploy to the next, and the bytes that it is expected to cost.

A deploy changes files: those of a real commit, or one file of a kind that is assumed to change in a
certain share of the deploys. It also passes new values for the ARGs that name a revision or a date,
and changes `.git` if that is copied.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mrtuner.wording import plural
from mrtuner_image.commits import Commit
from mrtuner_image.kinds import Kind, kind_of
from mrtuner_image.model import BuiltLine, Model
from mrtuner_image.shell import ShellCommand, commands

#: Share of deploys that change a file of each kind, without a history. Assumed, not measured.
SHARES: Final[Mapping[Kind, float]] = {
    "code": 0.80, "dependencies": 0.05, "configuration": 0.05, "asset": 0.05, "other": 0.05,
}  # fmt: skip
#: Names of ARGs for which a build server passes a new value in every build.
_NEW_EACH_TIME: Final = re.compile(
    r"(?i)(?:.*_)?(sha|sha1|commit|revision|rev|hash|build_?(?:id|number|date|time)|date|timestamp"
    r"|git_?(?:sha|commit|ref|hash|rev|describe)|vcs_ref|source_date_epoch)(?:_.*)?"
)
_GIT: Final = ".git/HEAD"


@dataclass(frozen=True, slots=True)
class Deploy:
    """Files that change together, and how often, relative to the others."""

    weight: float
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Deploys:
    """The deploys to expect."""

    each: tuple[Deploy, ...]
    basis: str  # what the weights come from
    arguments: tuple[str, ...] = ()  # ARGs with a new value every time


def assumed_deploys(model: Model) -> Deploys:
    """Deploys that change one file each: kinds by SHARES, files of a kind equally often.

    Files that an image seldom needs, such as logs, do not count as changes.
    """
    out = {one.path for one in model.missed}
    files: dict[Kind, list[str]] = {}
    for path in model.copying:
        if path in model.present and not _within(path, out):
            files.setdefault(kind_of(path), []).append(path)
    each = tuple(
        Deploy(SHARES[kind] / len(paths), (path,))
        for kind, paths in sorted(files.items())
        for path in sorted(paths)
    )
    told = ", ".join(
        f"{kind} {SHARES[kind]:.0%}".replace("%", " %") for kind in SHARES if kind in files
    )
    if not each:
        return Deploys((Deploy(1, ()),), "assumed to change no copied file", _revisions(model))
    return Deploys(each, f"assumed to change one file each: {told}", _revisions(model))


def _within(path: str, above: set[str]) -> bool:
    parts = path.split("/")
    return any("/".join(parts[:number]) in above for number in range(1, len(parts) + 1))


def recorded_deploys(model: Model, found: Sequence[Commit]) -> Deploys:
    """One deploy for each commit that changed files, but not the Dockerfile or its ignore file."""
    each = tuple(Deploy(1, commit.paths) for commit in found if commit.paths and not commit.recipe)
    return Deploys(each, f"those of the last {plural(len(each), 'commit')}", _revisions(model))


def _revisions(model: Model) -> tuple[str, ...]:
    return tuple(name for name in model.arguments if _NEW_EACH_TIME.fullmatch(name))


@dataclass(slots=True)
class Amount:
    """Expected bytes: those that are known, and how often something unknown is added.

    `unknown` is by cause, such as a command of a RUN; one that removes bytes counts as negative.
    """

    bytes: float = 0
    unknown: dict[str, float] = field(default_factory=dict)

    def add(self, share: float, known: float, unknown: Mapping[str, int]) -> None:
        """Add what happens in this share of the deploys."""
        self.bytes += share * known
        for what, sign in unknown.items():
            self.unknown[what] = self.unknown.get(what, 0) + share * sign


@dataclass(slots=True)
class LineShare:
    """A line, the bytes that it pushes per deploy, and how often it is rebuilt."""

    line: int
    text: str
    pushed: float = 0
    rebuilt: float = 0  # share of all deploys
    unknown: bool = False  # it pushes more, unknown before a build


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected bytes per deploy, and of the image as a whole."""

    sent: int
    rebuilt: Amount
    pushed: Amount
    image: Amount
    lines: tuple[LineShare, ...]


def changed_always(model: Model) -> list[str]:
    """What every commit changes: a file in `.git`, if the directory has one."""
    return [_GIT] if (model.tree.root / ".git").is_dir() else []


def expected(model: Model, deploys: Deploys) -> Expected:
    """Return what a deploy costs on average."""
    rebuilt, pushed, image = Amount(), Amount(), Amount()
    by_line = {
        one.line: LineShare(one.line, one.step.instruction.original) for one in model.built(None)
    }
    whole = sum(deploy.weight for deploy in deploys.each)
    for weight, built in _alike(model, deploys):
        share = weight / whole
        for one in built:
            line = by_line[one.line]
            if one.state != "cached":
                rebuilt.add(share, *_bytes(one, one.layer.size, one.layer.least))
                line.rebuilt += share
            if one.pushed:
                known, more = _bytes(one, one.layer.compressed, one.layer.least_compressed)
                pushed.add(share, known, more)
                line.pushed += share * known
                line.unknown = line.unknown or bool(more)
    for one in model.built(model.cold()):
        if one.pushed:
            image.add(1, *_bytes(one, one.layer.compressed, one.layer.least_compressed))
    return Expected(_sent(model, deploys), rebuilt, pushed, image, tuple(by_line.values()))


def _sent(model: Model, deploys: Deploys) -> int:
    """Bytes of the context that a deploy sends, on average."""
    if model.builder == "podman":
        return model.context.sent
    always = changed_always(model)
    whole = sum(deploy.weight for deploy in deploys.each)
    found = sum(deploy.weight * model.sent([*deploy.paths, *always]) for deploy in deploys.each)
    return round(found / whole)


def _alike(model: Model, deploys: Deploys) -> list[tuple[float, list[BuiltLine]]]:
    """Merge deploys that rebuild the same lines: their total weight, and the lines as built."""
    weights: dict[frozenset[int], float] = {}
    always = model.lines_of_all(changed_always(model))
    for deploy in deploys.each:
        lines = always | model.lines_of_all(deploy.paths)
        weights[lines] = weights.get(lines, 0) + deploy.weight
    passed = set(deploys.arguments) & set(model.arguments)
    return [(weight, model.built(model.after(lines, passed))) for lines, weight in weights.items()]


def _bytes(one: BuiltLine, size: int | None, least: int) -> tuple[int, dict[str, int]]:
    """The known bytes of a line that is or may be rebuilt, and the causes of unknown ones."""
    if one.state == "unknown":
        return 0, ({one.step.instruction.original: 1} if size != 0 else {})
    if size is not None:
        return size, {}
    return least, _unknown_parts(one)


def _unknown_parts(one: BuiltLine) -> dict[str, int]:
    """The causes of a line's unknown bytes: the commands of a RUN, one by one.

    A command thus stays the same cause when it moves to another line. A command that removes files
    takes an unknown number of bytes from those of its line; alone, it makes an empty layer.
    """
    if one.step.instruction.name != "RUN":
        return {one.step.instruction.original: 1}
    making: dict[str, int] = {}
    removing: dict[str, int] = {}
    if one.step.instruction.keeps_cache:
        removing["cache mount"] = -1
    for command in commands(one.step.instruction.text):
        if command.program in _MAKES_NOTHING and ">" not in command.text:
            continue
        if removes(command):
            removing[command.text] = -1
            continue
        if _FIND_AND_CHOWN.match(command.text):  # what a chown would copy but for the known files
            making[_CHOWN + command.words[1]] = 1
            continue
        if command.program in {"chown", "chgrp"} and command.words[-1:]:
            making[_CHOWN + command.words[-1]] = 1
            continue
        bare = " ".join(_WITHOUT_CACHE.sub("", command.text).split())
        making[bare] = 1
        if _WITHOUT_CACHE.search(command.text):
            removing[f"cache of {bare}"] = -1
    return making | removing if making else {}


_CHOWN: Final = "owner of what other lines created in "
_MAKES_NOTHING: Final = frozenset({"cd", "set", "true", ":", "echo", "exec"})
_FIND_AND_CHOWN: Final = re.compile(r"find \S+ .*-exec chown ")
_WITHOUT_CACHE: Final = re.compile(r"\s--no-cache(-dir)?\b")
_REMOVALS: Final = re.compile(
    r"(rm|rmdir)\b|(apt-get|apt) (clean|autoclean|distclean)\b|(yum|dnf|microdnf) clean\b"
    r"|zypper clean\b|(npm|yarn) cache clean\b|composer clear-?cache\b|conda clean\b"
    r"|pip3? cache purge\b"
)


def removes(command: ShellCommand) -> bool:
    """Whether a command only removes files.

    >>> [removes(command) for command in commands("apt install x && rm -rf /y && apt clean")]
    [False, True, True]
    """
    return bool(command.words) and _REMOVALS.match(" ".join(command.words)) is not None
