"""What a change costs: the lines that it rebuilds, and their bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mrtuner_image.cache import State
from mrtuner_image.commits import Commit, read_commits
from mrtuner_image.context import Context, Share, by_directory
from mrtuner_image.deploys import changed_always
from mrtuner_image.dockerfile import Builder
from mrtuner_image.kinds import ChangeKind, Kind, kind_of, kind_of_all
from mrtuner_image.layers import Layer
from mrtuner_image.model import Build, BuiltLine, Model, model_of
from mrtuner_image.not_ignored import Misplaced
from mrtuner_image.previous import Previous, Tell, known_from
from mrtuner_image.stored import StoredImage
from mrtuner_image.tree import tree_of

#: The builders whose rules are modelled, and how these were tested.
BUILDER: Final[Mapping[Builder, str]] = {
    "podman": "podman 4.3, buildah 1.28",
    "buildkit": "BuildKit, from its documentation, not tested",
}
#: Relative error of predicted blob sizes, without and with the sizes of the last build: without
#: them, files are compressed here, by other code than the builder's.
_COLD: Final = 0.10
_WARM: Final = 0.02
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
    """The known bytes of several layers, and the lines of which something is unknown."""

    bytes: int
    unknown: tuple[int, ...] = ()  # their sizes, or whether they are rebuilt


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
    sent: int  # to a remote builder
    states: tuple[tuple[int, State], ...]  # of each line that is built
    rebuilt: Total
    pushed: Total  # at most: a layer that comes out the same is not pushed again

    @property
    def first(self) -> int | None:
        return next((line for line, state in self.states if state != "cached"), None)


@dataclass(frozen=True, slots=True)
class CommitCost:
    """What a commit costs; nothing if it changed the Dockerfile or the ignore file."""

    commit: Commit
    kind: Kind  # of its files that are in the image, or of all if none is
    first: int | None  # the first line that is or may be rebuilt
    rebuilt: Total
    pushed: Total


@dataclass(frozen=True, slots=True)
class Cost:
    """What changes to a directory cost its image."""

    dockerfile: Path
    context: Context
    shares: tuple[Share, ...]
    missed: tuple[Misplaced, ...]
    lines: tuple[Line, ...]
    changes: tuple[Change, ...]
    commits: tuple[CommitCost, ...] | None = None  # None: not asked for
    previous: Previous | None = None  # the image that sizes were taken from
    builder: Builder = "podman"

    @property
    def pushed_within(self) -> float:
        """Relative error of the known pushed bytes, in either direction."""
        return _COLD if self.previous is None else _WARM


def cost(
    directory: Path,
    file: Path | None = None,
    arguments: Mapping[str, str] | None = None,
    history: int | None = None,
    image: StoredImage | None = None,
    tell: Tell = lambda _done, _of: None,
    *,
    builder: Builder = "podman",
) -> Cost:
    """Return what each kind of change to this directory costs its image.

    With `history`, also what each of the last `history` commits would cost, latest first.
    With the `image` of the last build, its layers give the sizes; `tell` reports progress.

    Raises:
        UsageError: no directory, no Dockerfile, no repository. BadValue: a Dockerfile or an ignore
        file that the builder refuses, or an image that another Dockerfile made.
    """
    tree = tree_of(directory, file, builder)
    commits = None if history is None else read_commits(tree, history)
    model = model_of(tree, arguments)
    previous = None
    if image is not None:
        model, previous = known_from(model, image, tell)
    context = model.context
    return Cost(
        dockerfile=model.tree.dockerfile, context=context,
        shares=tuple(by_directory(context)), missed=tuple(model.missed),
        lines=tuple(_lines(model)), changes=tuple(_changes(model)),
        commits=None if commits is None else tuple(_commit(model, one) for one in commits),
        previous=previous, builder=model.builder,
    )  # fmt: skip


def _commit(model: Model, commit: Commit) -> CommitCost:
    """What the files of a commit cost with the present Dockerfile and layers."""
    kind = kind_of_all([path for path in commit.paths if model.lines_of(path)] or commit.paths)
    if commit.recipe:
        return CommitCost(commit, kind, None, Total(0), Total(0))
    built = model.built(model.after(model.lines_of_all([*commit.paths, *changed_always(model)])))
    first = next((one.line for one in built if one.state != "cached"), None)
    return CommitCost(commit, kind, first, rebuilt_total(built), pushed_total(built))


def _lines(model: Model) -> list[Line]:
    return [
        Line(one.line, one.stage.stage.name, one.step.instruction.original, one.layer)
        for one in model.built(None)
    ]


def _changes(model: Model) -> list[Change]:
    found = [*_of_files(model), *_of_arguments(model)]
    return sorted(found, key=lambda one: (_ORDER.index(one.kind), -one.files, one.example))


def _of_files(model: Model) -> Iterator[Change]:
    """Group files that the same lines copy: they cost the same."""
    groups: dict[tuple[ChangeKind, frozenset[int]], list[str]] = {}
    for entry in model.context.entries:
        if entry.kind == "file":
            lines = model.copying.get(entry.path, frozenset())
            groups.setdefault((kind_of(entry.path), lines), []).append(entry.path)
    for (kind, lines), paths in groups.items():
        build = model.after(lines) if lines else None
        yield _change(model, kind, paths[0], len(paths), build)


def _of_arguments(model: Model) -> Iterator[Change]:
    """One change for each ARG, as if a build server passed a new revision or date."""
    for name in model.arguments:
        build = model.after(frozenset(), [name])
        yield _change(model, "build argument", f"--build-arg {name}", 0, build)


def _change(
    model: Model, kind: ChangeKind, example: str, files: int, build: Build | None
) -> Change:
    built = model.built(build)
    return Change(
        kind=kind, files=files, example=example, sent=model.sent([example]),
        states=tuple((one.line, one.state) for one in built),
        rebuilt=rebuilt_total(built), pushed=pushed_total(built),
    )  # fmt: skip


def rebuilt_total(built: Iterable[BuiltLine]) -> Total:
    """Bytes of the layers that are rebuilt, uncompressed."""
    return _total(
        (one.line, one.state, one.layer.size, one.layer.least)
        for one in built
        if one.state != "cached"
    )


def pushed_total(built: Iterable[BuiltLine]) -> Total:
    """Bytes of the blobs that are pushed, at most."""
    return _total(
        (
            one.line,
            "rebuilt" if one.state == "cached" else one.state,
            one.layer.compressed,
            one.layer.least_compressed,
        )
        for one in built
        if one.pushed
    )


def _total(layers_of: Iterable[tuple[int, State, int | None, int]]) -> Total:
    """Sum the known bytes of lines that are certainly rebuilt; list lines not fully known."""
    known = 0
    unknown: list[int] = []
    for line, state, size, least in layers_of:
        if state == "rebuilt":
            known += least if size is None else size
        if size is None or (state == "unknown" and size):
            unknown.append(line)
    return Total(known, tuple(unknown))
