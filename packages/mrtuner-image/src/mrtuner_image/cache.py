"""Which lines of a Dockerfile are rebuilt, as podman and buildah decide it.

The builder remembers every line by its parent image and a text: the instruction as written, the
values of the declared arguments for RUN, a digest of what is copied for COPY and ADD. Once a line
is rebuilt, so is every later one of its stage. Source: buildah 1.28.2,
imagebuildah/stage_executor.go (intermediateImageExists, getCreatedBy) and digester.go.

Some surprises: the text of ENV and LABEL is compared before variables are resolved, so another
--build-arg leaves them cached; what a RUN reads by --mount=type=bind is not compared at all; and
a copied file counts as changed when its owner changes from the building user to another or back,
even with --chown: the digest has the owner's name, which the builder knows only for itself.

BuildKit's rules differ; they follow its documentation and source, and were not tested. ARG and
ENV, user, directory and shell are part of every later RUN, in stages built on this one too, but of
no COPY; what a RUN reads by --mount is compared; so are permissions of files, even with --chmod,
but not owners in the context: the client sends all files as root's. `COPY --link` has no parent,
except with --chmod. Lines that make no layer are never rebuilt. Source: docs.docker.com,
build/cache/invalidation, build/building/variables (Scoping) and reference/dockerfile;
moby/buildkit, frontend/dockerfile/dockerfile2llb/convert.go (dispatchRun, dispatchArg,
dispatchWorkdir) and convert_copy.go (dispatchCopy), solver/llbsolver/ops/exec.go (CacheMap,
getMountDeps) and file.go (CacheMap), cache/contenthash/tarsum.go and filehash.go, client/solve.go
(prepareSyncedDirs), source/http/source.go (CacheKey).
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from mrtuner.errors import BadValue
from mrtuner_image.context import Context, ContextEntry
from mrtuner_image.dockerfile import (
    NO_BASE,
    Builder,
    BuildStage,
    Dockerfile,
    Instruction,
    assigned,
    expanded,
    platform_arguments,
)
from mrtuner_image.sources import Source, is_remote, sources

State = Literal["cached", "rebuilt", "unknown"]
#: Returns a text that changes with a file's contents.
Digest = Callable[[ContextEntry], str]


@dataclass(frozen=True, slots=True)
class Step:
    """A line of the Dockerfile, and what the builder compares of it."""

    instruction: Instruction
    key: str | None  # None: not known before building
    origins: tuple[int, ...] = ()  # the stages that COPY --from, or mounts, take from
    copied: tuple[Source, ...] = ()  # from the context
    at: str = ""  # of COPY and ADD the destination, of RUN and WORKDIR the directory
    compares_origins: bool = False  # what is taken from the stages is compared
    mounted: tuple[Source, ...] = ()  # from the context, by a RUN, and compared
    passes: bool = False  # it builds nothing: the image below stays the same

    @property
    def inputs(self) -> tuple[Source, ...]:
        return self.copied + self.mounted


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """A stage with the keys of its lines; `base` is a stage's number or an image's name."""

    stage: BuildStage
    base: int | str
    steps: tuple[Step, ...]
    needed: bool  # others are skipped


#: What the builder compares of a Dockerfile and a context.
Plan = tuple[PlannedStage, ...]


def plan(
    dockerfile: Dockerfile,
    context: Context,
    digest: Digest,
    arguments: Mapping[str, str] | None = None,
    builder: Builder = "podman",
) -> Plan:
    """Return what the builder compares of each line.

    Raises:
        BadValue: a COPY names what is not in the context, or an owner or mode that is refused.
    """
    keyed: list[_Keys] = []
    for stage in dockerfile.stages:
        base = dockerfile.stage_of(stage.base, stage.index)
        keys = _Keys(dockerfile, context, digest, stage, arguments or {}, builder)
        if base is not None:
            keys.environment = dict(keyed[base.index].environment)
            keys.foreign, keys.directory = keyed[base.index].foreign, keyed[base.index].directory
            if builder == "buildkit":
                keys.arguments = dict(keyed[base.index].arguments)
                keys.settings = dict(keyed[base.index].settings)
        keys.read()
        keyed.append(keys)
    needed = _needed(dockerfile, keyed)
    return tuple(
        PlannedStage(keys.stage, keys.base, tuple(keys.steps), keys.stage.index in needed)
        for keys in keyed
    )


def _needed(dockerfile: Dockerfile, keyed: list[_Keys]) -> set[int]:
    waiting, needed = [len(dockerfile.stages) - 1], set()
    while waiting:
        index = waiting.pop()
        if index in needed:
            continue
        needed.add(index)
        found = [keyed[index].base, *(one for step in keyed[index].steps for one in step.origins)]
        waiting += [origin for origin in found if isinstance(origin, int)]
    return needed


@dataclass(slots=True)
class _Keys:
    """The keys of one stage, line by line."""

    dockerfile: Dockerfile
    context: Context
    digest: Digest
    stage: BuildStage
    given: Mapping[str, str]
    builder: Builder = "podman"
    environment: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)  # of USER and SHELL
    foreign: bool = False  # whether variables may come from an image that we have not seen
    directory: str = ""  # the working directory
    steps: list[Step] = field(default_factory=list)

    @property
    def base(self) -> int | str:
        found = self.dockerfile.stage_of(self.stage.base, self.stage.index)
        return self.stage.base if found is None else found.index

    def read(self) -> None:
        self.foreign = self.foreign or (isinstance(self.base, str) and self.base != NO_BASE)
        self.directory = self.directory or (_SOMEWHERE if self.foreign else "/")
        for one in self.stage.steps:
            self.steps.append(self._step(one))

    def _step(self, one: Instruction) -> Step:
        if one.name in {"COPY", "ADD"}:
            return self._copy(one)
        if one.name == "RUN":
            return self._run(one)
        if one.name == "ARG":
            self._declare(one)
            key = f"ARG {' '.join(sorted(self.arguments))}"
            return Step(one, key, passes=self.builder == "buildkit")
        if one.name == "ENV":
            self.environment |= {
                name: expanded(value or "", self._values(), one) for name, value in assigned(one)
            }
        if one.name == "WORKDIR":
            self.directory = self._absolute(expanded(one.text, self._values(), one))
            if self.builder == "podman":
                return Step(one, one.original, at=self.directory)
            key = f"WORKDIR {self.directory} {self.settings.get('USER')}"
            return Step(one, key, at=self.directory, passes=self.directory == "/")
        if one.name in {"USER", "SHELL"}:
            said = expanded(one.text, self._values(), one) if one.name == "USER" else one.text
            self.settings[one.name] = said
        return Step(one, one.original, passes=self.builder == "buildkit")

    def _run(self, one: Instruction) -> Step:
        text = f"RUN {self._declared()} {one.original[4:]}"
        mounts = one.mounts
        if self.builder == "podman":
            origins = self._origins(mounts[0].get("from")) if mounts else ()
            return Step(one, text, origins, at=self.directory)
        words = [
            mount.get("source", mount.get("src", "")) or "."
            for mount in mounts
            if mount["type"] == "bind" and "from" not in mount
        ]
        origins = tuple(sorted({n for mount in mounts for n in self._origins(mount.get("from"))}))
        if any("$" in word for word in words):
            return Step(one, None, origins, at=self.directory, compares_origins=True)
        read = tuple(sources(self.context, one, words))
        content = "\n".join(self._content(source, "", "", None) for source in read)
        around = sorted(self.environment.items()), sorted(self.settings.items()), self.directory
        return Step(
            one, f"{text} {around} {_digested(content)}",
            origins, at=self.directory, mounted=read, compares_origins=True,
        )  # fmt: skip

    def _absolute(self, path: str) -> str:
        """The path in the image; a trailing slash stays."""
        end = "/" if path.endswith("/") or path == "." else ""
        return posixpath.normpath(posixpath.join(self.directory, path)).rstrip("/") + end or "/"

    def _declare(self, one: Instruction) -> None:
        for name, value in assigned(one):
            settled = self.given.get(name)
            if settled is None and value is not None:
                settled = expanded(value, self._values(), one)
            if settled is None:
                settled = {**platform_arguments(), **self.dockerfile.heading}.get(name)
            if settled is not None:
                self.arguments[name] = settled
                if self.builder == "buildkit":
                    self.environment.pop(name, None)  # the later one counts

    def _values(self) -> dict[str, str]:
        return self.arguments | self.environment

    def _declared(self) -> str:
        """The arguments as a RUN gets them: ENV of the same name wins (in BuildKit, if later)."""
        values = self._values()
        return " ".join(f"{name}={values[name]}" for name in sorted(self.arguments))

    def _origins(self, name: str | None) -> tuple[int, ...]:
        found = None if name is None else self.dockerfile.stage_of(name, self.stage.index)
        return () if found is None else (found.index,)

    def _copy(self, one: Instruction) -> Step:
        values = self._values()
        words = [expanded(word, values, one) for word in one.words]
        goes_to, at = one.words[-1], self._absolute(words[-1])
        owner, mode = (expanded(one.flag(name) or "", values, one) for name in ("chown", "chmod"))
        self._check(one)
        if (origin := one.flag("from")) is not None:
            origin = expanded(origin, values, one)
            key = f"{one.name} {' '.join(one.flags)} {words[:-1]} in {goes_to}"
            if self.builder == "buildkit":
                key = f"{one.name} {owner} {mode} {origin} {words[:-1]} in {at}"
            return Step(one, key, self._origins(origin), at=at, compares_origins=True)
        unset = self.foreign and any("$" in word for word in one.words[:-1])
        if unset or any(is_remote(word, self.builder) for word in words[:-1]):
            pinned = expanded(one.flag("checksum") or "", values, one)
            key = f"ADD {pinned} {owner} {mode} {words[:-1]} in {at}"
            return Step(one, key if pinned and len(words) == 2 else None)
        named = [word for word in words[:-1] if not (one.heredocs and word.startswith("<<"))]
        found = tuple(sources(self.context, one, named))
        name = _renamed(found, words[-1])
        content = "\n".join(self._content(source, _owner(owner), mode, name) for source in found)
        if self.builder == "buildkit":
            used = {
                name: value
                for name, value in values.items()
                if any(_uses(text.text, name) and not text.literal for text in one.heredocs)
            }
            key = f"{one.name} {owner} {mode} {_digested(content)} {one.heredocs} {used} in {at}"
            return Step(one, key, (), found, at)
        return Step(one, f"{one.name} {_digested(content)} in {goes_to}", (), found, at)

    def _check(self, one: Instruction) -> None:
        """Refuse owners and permissions that the builder refuses; those with variables pass."""
        owner, mode = one.flag("chown") or "", one.flag("chmod") or ""
        named = [part for part in owner.split(":") if not part.isdecimal()]
        if one.links and "$" not in owner and not set(named) <= {"", "root"}:
            raise BadValue(
                f"line {one.line} of the Dockerfile: {one.name} --link --chown={owner}, "
                "but an empty image has no /etc/passwd",
                "Give numbers, or omit --link.",
            )
        if self.builder == "podman" and "$" not in mode and not set(mode) <= set("01234567"):
            raise BadValue(
                f"line {one.line} of the Dockerfile: {one.name} --chmod={mode}, "
                "which is not an octal number",
                "Give digits from 0 to 7; BuildKit takes letters too: --builder buildkit.",
            )

    def _content(self, source: Source, owner: str, mode: str, name: str | None) -> str:
        """Everything that the builder's digest covers; timestamps are not part of it."""
        rows = [f"{'dir' if source.is_directory else 'file'} {owner}"]
        for relative, entry in source.entries:
            shown = f"{entry.mode:o}"
            if self.builder == "podman":
                shown = (mode.lstrip("0") or "0") if mode else f"{entry.mode & ~_SETID:o}"
            if entry.kind == "symlink":
                shown = ""
            told = self.digest(entry) if entry.kind == "file" else entry.target
            own = str(entry.own) if self.builder == "podman" else ""
            said = (name or relative, entry.kind, shown, own, str(entry.size), told)
            rows.append("\0".join(said))
        return "\n".join(rows)


#: Stands for the working directory of a base image, which is unknown.
_SOMEWHERE: Final = "/(working directory of the base)"
#: Mode bits that podman removes from files of the context.
_SETID: Final = 0o6000


def _digested(content: str) -> str:
    return hashlib.sha256(content.encode("utf-8", "surrogateescape")).hexdigest()


def _uses(text: str, name: str) -> bool:
    return re.search(rf"\$(?:{name}\b|\{{{name}\b)", text) is not None


def _owner(told: str) -> str:
    user, _, group = told.partition(":")
    return f"{user or '0'}:{group or user or '0'}"


def _renamed(found: tuple[Source, ...], target: str) -> str | None:
    """The name that a single file gets at its destination; None if it keeps its own."""
    if len(found) != 1 or found[0].is_directory or target.endswith("/") or target == ".":
        return None
    return posixpath.basename(target)


#: The parent of a `COPY --link`.
_NO_PARENT: Final = "nothing"


class Store:
    """Simulates the images that a builder keeps: what was built once is found again.

    Base images are assumed unchanged.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[object, str], int] = {}
        self._alike: dict[tuple[object, str], int] = {}
        self._merged: dict[tuple[object, object], int] = {}
        self._made = 0
        #: For each line of the last build: whether that build made its image, perhaps in another
        #: stage.
        self.fresh: list[list[bool]] = []

    def build(self, wanted: Plan) -> list[list[State]]:
        """Build, and return the state of each line by stage; a skipped stage has no lines."""
        images: dict[int, tuple[object, bool]] = {}
        states: list[list[State]] = []
        before, self.fresh = self._made, []
        for index, stage in enumerate(wanted):
            states.append([])
            self.fresh.append([])
            if not stage.needed:
                continue
            image, sure = images[stage.base] if isinstance(stage.base, int) else (stage.base, True)
            looking = True
            for step in stage.steps:
                if step.passes:
                    states[-1].append("cached")
                    self.fresh[-1].append(False)
                    continue
                if step.instruction.links:
                    made, known, state = self._take(step, _NO_PARENT, True, True, images)
                    image, sure = self._over(image, made), sure and known
                else:
                    made, sure, state = self._take(step, image, sure, looking, images)
                    image, looking = made, state != "rebuilt"
                states[-1].append(state)
                self.fresh[-1].append(isinstance(made, int) and made > before)
            images[index] = image, sure
        return states

    def _over(self, below: object, layer: object) -> int:
        """The image that an independent layer makes on top of another image."""
        if (below, layer) not in self._merged:
            self._made += 1
            self._merged[below, layer] = self._made
        return self._merged[below, layer]

    def _take(
        self,
        step: Step,
        image: object,
        sure: bool,
        looking: bool,
        images: Mapping[int, tuple[object, bool]],
    ) -> tuple[object, bool, State]:
        """The image after a line, whether it is certain to be that one, and the line's state."""
        key, loose, certain = self._key(step, images)
        found = self._known.get((image, key)) if looking and certain else None
        if found is not None:
            return found, sure, "cached" if sure else "unknown"
        old = self._alike.get((image, loose)) if looking else None
        if old is not None and (key != loose or not certain):
            return old, False, "unknown"
        self._made += 1
        self._known[image, key] = self._alike[image, loose] = self._made
        return self._made, True, "rebuilt"

    def _key(self, step: Step, images: Mapping[int, tuple[object, bool]]) -> tuple[str, str, bool]:
        """The key that is compared, the part known for certain, and whether all of it is known."""
        loose = step.key if step.key is not None else step.instruction.original
        if not step.compares_origins or not step.origins:
            return loose, loose, step.key is not None
        taken = [images[origin] for origin in step.origins]
        certain = step.key is not None and all(sure for _, sure in taken)
        return f"{loose} of {[image for image, _ in taken]}", loose, certain
