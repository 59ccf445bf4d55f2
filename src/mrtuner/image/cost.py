"""What a change costs: the lines that it builds again, and their bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mrtuner.errors import UsageError
from mrtuner.files import read_file
from mrtuner.image.cache import Digest, Plan, State, Store, plan
from mrtuner.image.context import Context, Entry, Share, by_directory, read_context
from mrtuner.image.dockerfile import Dockerfile, parse
from mrtuner.image.ignore import rules_for
from mrtuner.image.kinds import ChangeKind, kind_of
from mrtuner.image.layers import Layer, layers, shipped
from mrtuner.image.misplaced import Misplaced, misplaced

#: What was compared with the real builder; others decide differently.
BUILDER: Final = "podman 4.3, buildah 1.28"
_USUAL: Final = ("Containerfile", "Dockerfile")
_ORDER: Final[tuple[ChangeKind, ...]] = (
    "code",
    "dependencies",
    "configuration",
    "asset",
    "other",
    "build argument",
)


@dataclass(frozen=True, slots=True)
class Total:
    """Bytes of several layers: what is known of them, and which lines are not."""

    bytes: int
    unknown: tuple[int, ...] = ()  # their sizes are not known, or whether they are built again


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the Dockerfile in a stage that is built."""

    line: int
    stage: str
    text: str
    layer: Layer


@dataclass(frozen=True, slots=True)
class Change:
    """Files whose change costs the same, and what it costs."""

    kind: ChangeKind
    files: int
    example: str
    sent: int  # to a builder elsewhere
    states: tuple[tuple[int, State], ...]  # of each line that is built
    rebuilt: Total
    pushed: Total  # at most: a layer that comes out the same is not pushed again

    @property
    def first(self) -> int | None:
        """The first line that is built again, or may be."""
        return next((line for line, state in self.states if state != "cached"), None)


@dataclass(frozen=True, slots=True)
class Cost:
    """The answer."""

    dockerfile: Path
    context: Context
    shares: tuple[Share, ...]
    missed: tuple[Misplaced, ...]
    lines: tuple[Line, ...]
    changes: tuple[Change, ...]


def cost(
    directory: Path, file: Path | None = None, arguments: Mapping[str, str] | None = None
) -> Cost:
    """Return what each kind of change to this directory costs its image.

    Raises:
        UsageError: no directory, no Dockerfile. BadValue: one that the builder refuses.
    """
    given = dict(arguments or {})
    if not directory.is_dir():
        raise UsageError(f"{directory} is not a directory", "Name the directory that is built.")
    path = _dockerfile(directory, file)
    recipe = parse(read_file(path), given)
    context = read_context(directory, rules_for(directory, path))
    wanted = plan(recipe, context, _same, given)
    sizes = layers(wanted, directory)
    return Cost(
        dockerfile=path, context=context,
        shares=tuple(by_directory(context)), missed=tuple(misplaced(context)),
        lines=tuple(_lines(wanted, sizes)),
        changes=tuple(_Changes(recipe, context, given, wanted, sizes).all()),
    )  # fmt: skip


def _dockerfile(directory: Path, file: Path | None) -> Path:
    wanted = [directory / name for name in _USUAL] if file is None else [file, directory / file]
    for path in wanted:
        if path.exists():
            return path
    named = "Containerfile or Dockerfile" if file is None else str(file)
    raise UsageError(f"there is no {named} in {directory}", "Name it with --file FILE.")


def _same(_entry: Entry) -> str:
    """For the first build, contents do not matter: only what changes afterwards."""
    return ""


def _lines(wanted: Plan, sizes: Sequence[Sequence[Layer]]) -> list[Line]:
    return [
        Line(step.instruction.line, stage.stage.name, step.instruction.original, layer)
        for stage, own in zip(wanted.stages, sizes, strict=True)
        if stage.needed
        for step, layer in zip(stage.steps, own, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _Changes:
    """Every kind of change to one directory."""

    recipe: Dockerfile
    context: Context
    given: Mapping[str, str]
    wanted: Plan
    sizes: Sequence[Sequence[Layer]]

    def all(self) -> list[Change]:
        found = [*self._of_files(), *self._of_arguments()]
        return sorted(found, key=lambda one: (_ORDER.index(one.kind), -one.files, one.example))

    def _of_files(self) -> list[Change]:
        """Files that the same lines copy cost the same."""
        copied: dict[str, set[int]] = {}
        for stage in self.wanted.stages:
            for step in stage.steps if stage.needed else ():
                for source in step.copied:
                    for _, entry in source.entries:
                        copied.setdefault(entry.path, set()).add(step.instruction.line)
        groups: dict[tuple[ChangeKind, frozenset[int]], list[str]] = {}
        for entry in self.context.entries:
            if entry.kind == "file":
                lines = frozenset(copied.get(entry.path, ()))
                groups.setdefault((kind_of(entry.path), lines), []).append(entry.path)
        return [
            self._change(kind, paths[0], len(paths), self._edited(paths[0]) if lines else None)
            for (kind, lines), paths in groups.items()
        ]

    def _edited(self, path: str) -> list[list[State]]:
        changed: Digest = lambda entry: "changed" if entry.path == path else ""  # noqa: E731
        return self._after(self.wanted, plan(self.recipe, self.context, changed, self.given))

    def _of_arguments(self) -> list[Change]:
        """Each ARG of a stage, as a build server passes a new revision or date."""
        names = {
            name
            for stage in self.wanted.stages
            for step in (stage.steps if stage.needed else ())
            if step.instruction.name == "ARG"
            for name in _argument_names(step.instruction.text)
        }
        return [
            self._change("build argument", f"--build-arg {name}", 0, self._passed(name))
            for name in sorted(names)
        ]

    def _passed(self, name: str) -> list[list[State]]:
        one, other = (
            plan(self.recipe, self.context, _same, {**self.given, name: value})
            for value in (self.given.get(name, "1"), "another")
        )
        return self._after(one, other)

    @staticmethod
    def _after(one: Plan, other: Plan) -> list[list[State]]:
        store = Store()
        store.build(one)
        return store.build(other)

    def _change(
        self, kind: ChangeKind, example: str, files: int, states: list[list[State]] | None
    ) -> Change:
        inside = shipped(self.wanted)
        told: list[tuple[int, State]] = []
        rebuilt: list[tuple[int, State, Layer]] = []
        pushed: list[tuple[int, State, Layer]] = []
        for index, stage in enumerate(self.wanted.stages):
            for number, layer in enumerate(self.sizes[index]):
                state: State = states[index][number] if states else "cached"
                line = stage.steps[number].instruction.line
                told.append((line, state))
                if state != "cached":
                    rebuilt.append((line, state, layer))
                if state != "cached" and index in inside:
                    pushed.append((line, state, layer))
        return Change(
            kind=kind, files=files, example=example, sent=self.context.sent, states=tuple(told),
            rebuilt=_total([(line, state, one.size, one.least) for line, state, one in rebuilt]),
            pushed=_total([(line, state, one.compressed, 0) for line, state, one in pushed]),
        )  # fmt: skip


def _argument_names(text: str) -> list[str]:
    return [word.partition("=")[0] for word in text.split() if word[0].isalpha()]


def _total(layers_of: Sequence[tuple[int, State, int | None, int]]) -> Total:
    """What is surely built again, with the sizes that are known; the other lines by number."""
    known = 0
    unknown: list[int] = []
    for line, state, size, least in layers_of:
        if state == "rebuilt":
            known += least if size is None else size
        if size is None or (state == "unknown" and size):
            unknown.append(line)
    return Total(known, tuple(unknown))
