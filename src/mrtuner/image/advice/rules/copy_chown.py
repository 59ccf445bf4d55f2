"""`COPY --chown` instead of a recursive chown, which copies every file into one more layer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mrtuner.image.advice.situation import (
    Edit,
    Proposal,
    Situation,
    absolute,
    inserted,
    is_within,
    removed,
    replaced,
    target,
    with_command,
    with_flag,
)
from mrtuner.image.cache import PlannedStage, Step
from mrtuner.image.dockerfile import Instruction
from mrtuner.image.shell import Command, commands

_RECURSIVE: Final = re.compile(r"-\w*R\w*|--recursive")
_MAKES_USERS: Final = frozenset({"useradd", "adduser", "groupadd", "addgroup"})

#: The second statement was observed with buildah 1.28.2, the third follows from GNU chown.
_RISK: Final = (
    "Files that the base image has in that directory keep their owner, missing parent "
    "directories get the new one, and the target of a symbolic link is left alone."
)


@dataclass(frozen=True, slots=True)
class _Chown:
    """A recursive chown of one directory."""

    command: Command
    user: str
    group: str  # empty: left as it is
    login_group: bool  # `user:` means the user's own group
    path: str

    def flag(self, copy: Instruction) -> str | None:
        """The --chown value with the same result; None if a user or group is unknown.

        One that the chown does not name stays as in the line's own --chown, else root; files copied
        from a stage keep their owner there, which is unknown.
        """
        if self.login_group:
            return self.user
        if self.user and self.group:
            return f"{self.user}:{self.group}"
        had = copy.flag("chown") or ("" if copy.flag("from") is not None else "0:0")
        user, _, group = had.partition(":")
        user, group = self.user or user, self.group or group or (user if user.isdigit() else "")
        return f"{user}:{group}" if user and group and "$" not in had else None

    @property
    def names(self) -> list[str]:
        """Users and groups that must exist."""
        return [name for name in (self.user, self.group) if name and not name.isdigit()]

    def of_others(self, word: str) -> str:
        """A command that changes the owner only where it differs."""
        tests = [f"! -user {self.user}"] * bool(self.user) + [f"! -group {self.group}"] * bool(
            self.group
        )
        test = tests[0] if len(tests) == 1 else f"\\( {' -o '.join(tests)} \\)"
        owner = f"{self.user}:{self.group}" if self.group else self.user
        owner += ":" if self.login_group else ""
        return f"find {word} {test} -exec chown -h {owner} {{}} +"


def copy_with_its_owner(now: Situation) -> Iterator[Proposal]:
    """One proposal for each recursive chown of what this stage copies."""
    for stage in now.stages():
        for place, step in enumerate(stage.steps):
            if step.instruction.name != "RUN":
                continue
            for command in commands(step.instruction.text):
                chown = _chown(command, step)
                edits = None if chown is None else _edits(now, stage, place, chown)
                if chown is not None and edits is not None:
                    yield Proposal(
                        command.text,
                        f"copy with --chown instead of {command.text}",
                        _RISK,
                        now.recipe(edits),
                    )


def _chown(command: Command, step: Step) -> _Chown | None:
    words = command.words
    if command.program not in {"chown", "chgrp"}:
        return None
    flags = [word for word in words[1:] if word.startswith("-")]
    named = [word for word in words[1:] if not word.startswith("-")]
    if len(named) != 2 or not any(_RECURSIVE.fullmatch(flag) for flag in flags):
        return None
    if any(re.search(r"[$*?\[]", word) for word in named):
        return None
    user, colon, group = named[0].partition(":")
    if command.program == "chgrp":
        user, colon, group = "", "", named[0]
    return _Chown(
        command, user, group, bool(colon and user and not group), absolute(step, named[1])
    )


def _edits(now: Situation, stage: PlannedStage, place: int, chown: _Chown) -> list[Edit] | None:
    run = stage.steps[place]
    copies = [
        step
        for step in stage.steps[:place]
        if step.instruction.name in {"COPY", "ADD"} and is_within(target(step), chown.path)
    ]
    if not copies:
        return None
    if _owned_before(stage.steps[stage.steps.index(copies[0]) : place], run, chown):
        return None
    edits = _users_first(now, stage, place, chown, copies[0])
    if edits is None:
        return None
    block = now.block(run.instruction)
    for step in copies:
        flag = chown.flag(step.instruction)
        if flag is None:
            return None
        text = now.block(step.instruction)
        edits.append(replaced(step.instruction, with_flag(text, step.instruction, "chown", flag)))
    rest = _rest(stage, place, chown)
    own = [one for one in commands(run.instruction.text) if one.text != chown.command.text]
    if not own or any(_makes(one, chown) for one in own):  # the others were moved up
        line = replaced(run.instruction, f"RUN {rest}") if rest else removed(now, run.instruction)
        return [*edits, line]
    changed = with_command(block, chown.command.text, rest)
    return None if changed is None else [*edits, replaced(run.instruction, changed)]


def _owned_before(between: Sequence[Step], run: Step, chown: _Chown) -> bool:
    """Whether another chown runs after the first COPY and before this one: it would now win."""
    ahead = run.instruction.text.partition(chown.command.text)[0]
    texts = [step.instruction.text for step in between if step.instruction.name == "RUN"]
    return any(re.search(r"\bch(own|grp)\b", text) for text in [*texts, ahead])


def _rest(stage: PlannedStage, place: int, chown: _Chown) -> str:
    """The chown still needed for what other lines create in that directory; empty if none."""
    run = stage.steps[place]
    within = [
        one.text
        for one in commands(run.instruction.text)
        if one.text != chown.command.text and one.program not in _MAKES_USERS
    ]
    made = bool(within) and _named(run, chown.path, " && ".join(within))
    outside = any(
        step.instruction.name in {"COPY", "ADD"}
        and is_within(chown.path, target(step))
        and target(step) != chown.path
        for step in stage.steps[:place]
    )
    before = any(_may_write(step, chown.path) for step in stage.steps[:place])
    there = _OFTEN_THERE.fullmatch(chown.path) is not None
    return chown.of_others(chown.command.words[-1]) if before or made or outside or there else ""


#: Directories that a base image is likely to have: a COPY does not change their owner.
_OFTEN_THERE: Final = re.compile(
    r"/|/(bin|boot|dev|home|lib|media|mnt|opt|root|run|sbin|srv|tmp)|/(etc|usr|var)(/.*)?"
    r"|/home/[^/]+"
)


def _may_write(step: Step, path: str) -> bool:
    """Whether a WORKDIR or RUN may create a directory or something in it."""
    if step.instruction.name == "WORKDIR":
        return is_within(step.at, path)
    return step.instruction.name == "RUN" and _named(step, path, step.instruction.text)


def _named(step: Step, path: str, text: str) -> bool:
    """Whether commands of a RUN may write to a path: they work there, or mention it."""
    found = commands(text)
    if all(_writes_elsewhere(command) for command in found):
        return False
    return is_within(step.at or "/", path) or path in text


def _writes_elsewhere(command: Command) -> bool:
    if command.program in {"pip", "pip3"}:
        return not {"-e", "--editable", "-t", "--target", "--prefix"} & {*command.words}
    return command.program in _ELSEWHERE


#: Programs that write to the system's directories, wherever they are called.
_ELSEWHERE: Final = _MAKES_USERS | {
    "apt-get", "apt", "apk", "yum", "dnf", "microdnf", "zypper", "cd", "ldconfig", "locale-gen",
}  # fmt: skip


def _users_first(
    now: Situation, stage: PlannedStage, place: int, chown: _Chown, first: Step
) -> list[Edit] | None:
    """Edits that move the creation of users above the first COPY; None if that is impossible."""
    edits: list[Edit] = []
    start = stage.steps.index(first)
    for step in stage.steps[start : place + 1]:
        if step.instruction.name != "RUN":
            continue
        found = commands(step.instruction.text)
        making = [one for one in found if _makes(one, chown)]
        if not making:
            continue
        others = [one for one in found if one not in making and one.text != chown.command.text]
        if others and not all(one.program in _MAKES_USERS for one in others):
            return None
        moved = [one.text for one in found if one.text != chown.command.text]
        edits.append(inserted(now.start(first.instruction), "RUN " + " && ".join(moved)))
        if step is not stage.steps[place]:
            edits.append(removed(now, step.instruction))
    return edits


def _makes(command: Command, chown: _Chown) -> bool:
    return command.program in _MAKES_USERS and bool({*chown.names} & {*command.words[1:]})
