"""Build and push both forms of an image at the same states, and count what a registry receives.

First both are built twice from the directories as they are. What differs between two builds of the
same form is noise; if the forms differ in anything else, they are not compared. Then, in random
order, each change is replayed on both: the state before it is built and pushed, then the state
after it, and that push is counted. After each change, builder and registry forget what it made, so
that no change finds in a cache what would be new in practice.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from mrtuner.errors import MrTunerError, Refused
from mrtuner.image.builder import IMAGE_STORE, Builder, Built, Network, Program, Recipe
from mrtuner.image.kinds import Kind
from mrtuner.image.proof import contexts
from mrtuner.image.proof.replay import Change, Replay, commits, edits
from mrtuner.image.proof.tree import (
    Differences,
    Trees,
    configuration_differences,
    differences,
    without,
)
from mrtuner.image.registry import Registry
from mrtuner.image.stored import StoredImage, read_image
from mrtuner.image.tree import Tree
from mrtuner.wording import first_few

FormName = Literal["before", "after"]
FORMS: Final[tuple[FormName, FormName]] = ("before", "after")
#: Relative difference in bytes received for all changes; a smaller one does not count.
MATTERS: Final = 0.01
Verdict = Literal["better", "worse", "equal"]
_SHOWN: Final = 5
#: Called with the progress, the total, and the current step.
Tell = Callable[[float, float, str], None]


@dataclass(frozen=True, slots=True)
class Deployed:
    """What one change cost one form [bytes]."""

    sent: int  # of the context, to a remote builder
    lines: int  # rebuilt
    built: int  # layers made, uncompressed, those of every stage
    pushed: int  # blobs that the registry received
    manifest: int  # manifests that it received
    layers: int  # of the image that were not in the previous one
    fetched: int  # by a machine that has the previous image

    @property
    def received(self) -> int:
        """All bytes that the registry received; a manifest is sent every time."""
        return self.pushed + self.manifest


@dataclass(frozen=True, slots=True)
class Replayed:
    """A change on both forms."""

    name: str
    kind: Kind
    before: Deployed
    after: Deployed


@dataclass(frozen=True, slots=True)
class KindResult:
    """All changes of a kind, or of all kinds (None)."""

    kind: Kind | None
    changes: int
    before: Deployed  # the sums of all
    after: Deployed
    fewer: int  # changes for which the second form pushed less
    more: int  # or more


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A change that could not be replayed."""

    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The result: what all changes cost in both forms."""

    builder: str
    network: Network
    what: str  # what was replayed
    seed: int
    noise: Differences
    excepted: tuple[str, ...]
    image_before: int  # bytes that a machine without any part of it fetches
    image_after: int
    replayed: tuple[Replayed, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def kinds(self) -> list[KindResult]:
        """One result for each kind that there is, then one for all."""
        kinds = list(dict.fromkeys(one.kind for one in self.replayed))
        each = [_result(kind, [one for one in self.replayed if one.kind == kind]) for kind in kinds]
        return [*each, _result(None, self.replayed)]

    @property
    def verdict(self) -> Verdict:
        """Judge by the bytes received for all changes together, if they differ by MATTERS."""
        whole = self.kinds[-1]
        saved = 1 - whole.after.received / whole.before.received
        if abs(saved) < MATTERS:
            return "equal"
        return "better" if saved > 0 else "worse"


def _result(kind: Kind | None, found: Sequence[Replayed]) -> KindResult:
    pairs = [(one.before.received, one.after.received) for one in found]
    return KindResult(
        kind=kind, changes=len(found), before=_sums([one.before for one in found]),
        after=_sums([one.after for one in found]), fewer=sum(b < a for a, b in pairs),
        more=sum(b > a for a, b in pairs),
    )  # fmt: skip


def _sums(found: Sequence[Deployed]) -> Deployed:
    return Deployed(
        **{name: sum(getattr(one, name) for one in found) for name in Deployed.__slots__}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What to prove. `work` is an empty directory with a short path, for all that is built."""

    old: Path
    new: Path
    work: Path
    file: Path | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)
    program: Program = "podman"
    network: Network = "none"
    image_store: Path = IMAGE_STORE  # images that builds may use
    changes: int = 10  # commits, or edits of each kind
    seed: int = 0
    excepted: tuple[str, ...] = ()


def prove(task: Task, tell: Tell = lambda _done, _of, _text: None) -> Proof:
    """Build both forms, compare them, and count what each change costs.

    Raises:
        Refused: they do not have the same files, or run differently. MissingPart: no builder or no
        registry. UsageError: nothing differs, or nothing could change.
    """
    recipes = [contexts.recipe_in(form, task.file) for form in (task.old, task.new)]
    forms = contexts.forms(task.old, task.new, recipes)
    dice = random.Random(task.seed)  # noqa: S311 - an order, not a secret
    old = Tree(task.old, recipes[0])
    replay: Replay = commits(old, task.changes) or edits(
        old.context(), forms.own, task.changes, dice
    )
    with ExitStack() as stack:
        sides = [
            _Side(
                name=name,
                form=form,
                recipe=_copied(task, name, form, recipe),
                forms=forms,
                builder=stack.enter_context(_builder(task, directory)),
                registry=stack.enter_context(Registry(task.work / f"{name[0]}r")),
            )
            for name, directory, form, recipe in zip(
                FORMS, directories(task.work), (task.old, task.new), recipes, strict=True
            )
        ]
        return _Run(task, replay, sides, dice, tell).all()


def _builder(task: Task, directory: Path) -> Builder:
    return Builder(task.program, directory, task.network, image_store=task.image_store)


def directories(work: Path) -> list[Path]:
    """Where the builders of the two forms keep what they build."""
    return [work / name[0] for name in FORMS]  # a short path


def _copied(task: Task, name: FormName, form: Path, recipe: Path) -> Recipe:
    """Copy a form to build it. A Dockerfile within the form is taken from the copy."""
    target = task.work / name
    contexts.copy_tree(form, target)
    inside = recipe.is_relative_to(form)
    file = target / recipe.relative_to(form) if inside else recipe.absolute()
    return Recipe(target, file, task.arguments, str(form))


@dataclass(slots=True, kw_only=True)
class _Side:
    """One form: its copy, its builder, its registry."""

    name: FormName
    form: Path
    recipe: Recipe
    forms: contexts.Forms
    builder: Builder
    registry: Registry

    def build(self, tag: str, tell: Callable[[str], None], *, cache: bool = True) -> Built:
        return self.builder.build(
            self.recipe, tag, cache=cache, say=lambda line: tell(f"{self.name}: {line}")
        )

    def push(self, tag: str) -> StoredImage:
        """Push the image, and read it back from the registry."""
        reference = f"{self.registry.address}/app:{tag}"
        self.builder.push(tag, reference)
        return read_image(reference)

    def sent(self) -> int:
        return Tree(self.recipe.directory, self.recipe.file).context().sent


@dataclass(slots=True)
class _Run:
    """A proof in progress; `done` counts builds."""

    task: Task
    replay: Replay
    sides: Sequence[_Side]
    dice: random.Random
    tell: Tell
    trees: Trees = field(default_factory=Trees)
    noise: Differences = field(default_factory=dict)
    done: int = 0

    def all(self) -> Proof:
        images = self._same_twice()
        order = list(self.replay.changes)
        self._baseline()
        self.dice.shuffle(order)
        replayed: list[Replayed] = []
        left_out: list[LeftOut] = []
        for change in order:
            try:
                replayed.append(self._replayed(change))
            except Refused:
                raise
            except MrTunerError as error:
                left_out.append(LeftOut(change.name, error.message))
            finally:
                for side in self.sides:
                    side.builder.forget()
        if not replayed:
            raise MrTunerError(
                f"none of {self.replay.what} could be built: {left_out[0].why}",
                "Name fewer commits, or copy the directory out of its repository.",
            )
        return Proof(
            builder=self.sides[0].builder.version, network=self.task.network,
            what=self.replay.what, seed=self.task.seed, noise=self.noise,
            excepted=self.task.excepted, image_before=images[0].size, image_after=images[1].size,
            replayed=tuple(replayed), left_out=tuple(left_out),
        )  # fmt: skip

    def _build(self, side: _Side, tag: str, *, cache: bool = True) -> Built:
        of = 2 * len(self.sides) + len(self.sides) * (1 + 2 * len(self.replay.changes))

        def say(text: str) -> None:
            self.tell(self.done, of, text)

        built = side.build(tag, say, cache=cache)
        self.done += 1
        return built

    def _same_twice(self) -> list[StoredImage]:
        """Build each form twice to find noise; refuse forms that do not give the same image."""
        images: list[StoredImage] = []
        noise: dict[str, frozenset[str]] = {}
        for side in self.sides:
            twice: list[StoredImage] = []
            for tag in ("first", "second"):
                self._build(side, tag, cache=False)
                twice.append(side.push(tag))
            one, other = (self.trees.of(image) for image in twice)
            for path, what in differences(one, other).items():
                noise[path] = noise.get(path, frozenset()) | what
            images.append(twice[0])
        self.noise = noise
        self._refuse_unless_equal(images, "the two directories")
        self._forget()
        return images

    def _refuse_unless_equal(self, images: Sequence[StoredImage], where: str) -> None:
        """Refuse images that differ: fewer bytes for a different image prove nothing."""
        run = configuration_differences(*images)
        if run:
            told = [f"{name} ({a} and {b})" for name, (a, b) in run.items()]
            raise Refused(
                f"{where} give images that run differently: {first_few(told, _SHOWN)}",
                "Change the Dockerfile so that both are the same.",
            )
        found = differences(*(self.trees.of(image) for image in images))
        left = without(found, self.noise, self.task.excepted)
        if left:
            told = [f"{path} ({', '.join(sorted(what))})" for path, what in left.items()]
            raise Refused(
                f"{where} give images with different files: {first_few(told, _SHOWN)}",
                "Make them equal, or name what may differ with --except PATH.",
            )

    def _baseline(self) -> None:
        """Build the oldest state that can be built; builder and registry keep it throughout."""
        for change in reversed(self.replay.changes):
            try:
                for side in self.sides:
                    self._enter(side, change.parent)
                    self._build(side, "start")
                    side.push("start")
            except MrTunerError:
                self._forget()  # the change says why, when its turn comes
                continue
            for side in self.sides:
                side.builder.keep()
            return

    def _forget(self) -> None:
        for side in self.sides:
            side.builder.forget()
            side.registry.forget(set())

    def _enter(self, side: _Side, state: str) -> None:
        self.replay.write(side.recipe.directory, state)
        side.forms.settle(side.recipe.directory, side.form)

    def _replayed(self, change: Change) -> Replayed:
        order = list(self.sides)
        self.dice.shuffle(order)
        found: dict[FormName, Deployed] = {}
        images: dict[FormName, StoredImage] = {}
        for side in order:
            found[side.name], images[side.name] = self._deployed(side, change)
        where = f"at {change.name}, the two forms"
        self._refuse_unless_equal([images[name] for name in FORMS], where)
        return Replayed(change.name, change.kind, found["before"], found["after"])

    def _deployed(self, side: _Side, change: Change) -> tuple[Deployed, StoredImage]:
        known = side.registry.files()
        try:
            self._enter(side, change.parent)
            self._build(side, "parent")
            parent = side.push("parent")
            self._enter(side, change.state)
            built = self._build(side, "change")
            side.registry.take()
            image = side.push("change")
            received = side.registry.take()
            had = {layer.digest for layer in parent.layers}
            deployed = Deployed(
                sent=side.sent(), lines=sum(not line.cached for line in built.lines),
                built=sum(built.layers), pushed=received.blobs, manifest=received.manifests,
                layers=len({layer.digest for layer in image.layers} - had),
                fetched=image.fetched_after(parent),
            )  # fmt: skip
            # Read while the registry still has it.
            self.trees.of(image)
        finally:
            side.registry.forget(known)
        return deployed, image
