"""Which lines of a Dockerfile a change rebuilds, and how large their layers are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from mrtuner.errors import BadValue
from mrtuner_image.cache import Plan, PlannedStage, State, Step, Store, plan
from mrtuner_image.context import Context, ContextEntry
from mrtuner_image.dockerfile import Builder, Dockerfile, assigned, parse
from mrtuner_image.layers import Layer, Packing, layers, shipped
from mrtuner_image.not_ignored import Misplaced, misplaced
from mrtuner_image.tree import Tree


def _same(_entry: ContextEntry) -> str:
    """The same digest for all files: only what changes after the first build matters."""
    return ""


@dataclass(frozen=True, slots=True)
class Build:
    """A build: for each line of each stage its state, and whether its image is new."""

    states: Sequence[Sequence[State]]
    fresh: Sequence[Sequence[bool]]


@dataclass(frozen=True, slots=True)
class BuiltLine:
    """A line of a stage that is built, and what the build did with it."""

    stage: PlannedStage
    step: Step
    layer: Layer
    state: State
    pushed: bool  # it is part of the image, and new or perhaps new

    @property
    def line(self) -> int:
        return self.step.instruction.line


@dataclass(frozen=True)
class Model:
    """What a build makes of a tree, as far as that is known before building."""

    tree: Tree
    recipe: Dockerfile
    context: Context
    given: Mapping[str, str]
    wanted: Plan
    sizes: list[list[Layer]]
    builder: Builder = "podman"
    _builds: dict[tuple[frozenset[int], frozenset[str]], Build] = field(default_factory=dict)

    @property
    def stages(self) -> Iterator[PlannedStage]:
        """The stages that are built."""
        return (stage for stage in self.wanted if stage.needed)

    @cached_property
    def copying(self) -> dict[str, frozenset[int]]:
        """The lines that copy or mount each file of the context; files without any are left out."""
        found: dict[str, set[int]] = {}
        for stage in self.stages:
            for step in stage.steps:
                for source in step.inputs:
                    for _, entry in source.entries:
                        found.setdefault(entry.path, set()).add(step.instruction.line)
        return {path: frozenset(lines) for path, lines in found.items()}

    def sent(self, paths: Iterable[str]) -> int:
        """Bytes of the context sent to a remote builder when these paths have changed.

        Podman gets all of it; BuildKit gets the changed files that a line copies, and a record of
        each file, which is not counted. Source: docs.docker.com, build/buildkit; moby/buildkit,
        frontend/dockerfile/dockerfile2llb/convert.go (filterPaths).
        """
        if self.builder == "podman":
            return self.context.sent
        return sum(self._archived.get(path, 0) for path in set(paths) if path in self.copying)

    @cached_property
    def _archived(self) -> dict[str, int]:
        return {entry.path: entry.archived for entry in self.context.entries}

    @cached_property
    def missed(self) -> list[Misplaced]:
        return misplaced(self.context)

    @cached_property
    def present(self) -> frozenset[str]:
        return frozenset(entry.path for entry in self.context.entries)

    def lines_of(self, path: str) -> frozenset[int]:
        """The lines that copy a path, or would if it were there."""
        if path in self.present or self.context.rules.excludes(path):
            return self.copying.get(path, frozenset())
        return frozenset(
            step.instruction.line
            for stage in self.stages
            for step in stage.steps
            for source in step.inputs
            if source.is_directory and path.startswith(f"{source.path}/" if source.path else "")
        )

    def lines_of_all(self, paths: Iterable[str]) -> frozenset[int]:
        return frozenset[int]().union(*(self.lines_of(path) for path in paths))

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """The ARGs of the stages that are built and that may have any value, by name."""
        names = {
            name
            for stage in self.stages
            for step in stage.steps
            if step.instruction.name == "ARG"
            for name, _ in assigned(step.instruction)
        }
        return tuple(sorted(filter(self._takes_any, names)))

    def _takes_any(self, name: str) -> bool:
        """Whether a build with another value succeeds: it fails where a COPY names a file by it."""
        try:
            self.after(frozenset(), [name])
        except BadValue:
            return False
        return True

    def after(self, lines: frozenset[int], arguments: Iterable[str] = ()) -> Build:
        """The second build, after what these lines copy and these ARGs have changed."""
        key = lines, frozenset(arguments)
        if key not in self._builds:
            store = Store()
            store.build(self._passing(key[1], "1"))
            states = store.build(_altered(self._passing(key[1], "another"), lines))
            self._builds[key] = Build(states, store.fresh)
        return self._builds[key]

    def _passing(self, names: frozenset[str], value: str) -> Plan:
        if not names:
            return self.wanted
        passed = {
            name: self.given.get(name, value) if value == "1" else value for name in sorted(names)
        }
        given = {**self.given, **passed}
        return plan(self.recipe, self.context, _same, given, self.builder)

    def cold(self) -> Build:
        """The first build, without a cache."""
        store = Store()
        states = store.build(self.wanted)
        return Build(states, store.fresh)

    def built(self, build: Build | None) -> list[BuiltLine]:
        """Each line of the stages that are built; without a build all are cached."""
        inside = shipped(self.wanted)
        found: list[BuiltLine] = []
        for index, stage in enumerate(self.wanted):
            if not stage.needed:
                continue
            for number, (step, layer) in enumerate(
                zip(stage.steps, self.sizes[index], strict=True)
            ):
                state: State = build.states[index][number] if build else "cached"
                new = build is not None and (state != "cached" or build.fresh[index][number])
                found.append(BuiltLine(stage, step, layer, state, new and index in inside))
        return found


def _altered(wanted: Plan, lines: frozenset[int]) -> Plan:
    """The plan after what these lines copy has changed."""
    return tuple(
        replace(stage, steps=tuple(_changed(step, lines) for step in stage.steps))
        for stage in wanted
    )


def _changed(step: Step, lines: frozenset[int]) -> Step:
    if step.instruction.line not in lines or step.key is None:
        return step
    return replace(step, key=f"{step.key} changed")


def model_of(
    tree: Tree,
    arguments: Mapping[str, str] | None = None,
    packing: Packing | None = None,
) -> Model:
    """Return what a build makes of a tree; `packing` knows what was compressed earlier.

    Raises:
        BadValue: the builder would refuse it.
    """
    given, builder = dict(arguments or {}), tree.builder
    recipe, context = parse(tree.recipe, given, builder), tree.context()
    wanted = plan(recipe, context, _same, given, builder)
    sizes = layers(wanted, packing or Packing(tree.root))
    return Model(tree, recipe, context, given, wanted, sizes, builder)
