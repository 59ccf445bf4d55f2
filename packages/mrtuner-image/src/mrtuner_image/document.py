"""What a change costs an image, as JSON: ``mrtuner.image.cost/1``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from mrtuner.documents import Doc, Document, Struct, field
from mrtuner_image.cache import State
from mrtuner_image.cost import BUILDER
from mrtuner_image.kinds import ChangeKind, Kind
from mrtuner_image.not_ignored import What

if TYPE_CHECKING:
    from mrtuner_image.cost import Change, CommitCost, Cost, Line, Total
    from mrtuner_image.previous import Previous

#: A file's name may be other than UTF-8, which JSON cannot hold.
_ESCAPED = "backslashreplace"


class SentDirectory(Struct):
    """A directory of the context, with what is below it."""

    path: Annotated[str, Doc("relative to the context; `.` for the files at its top")]
    files: Annotated[int, Doc("files in it")]
    sent: Annotated[int, Doc("bytes as an archive")] = field(name="bytes")


class MissedFile(Struct):
    """Something that the ignore file misses."""

    what: Annotated[What, Doc("what it is, judging by its name")]
    path: Annotated[str, Doc("relative to the context; also the line for the ignore file")]
    files: Annotated[int, Doc("files in it")]
    sent: Annotated[int, Doc("bytes as an archive")] = field(name="bytes")


class SentContext(Struct):
    """What the builder sees of the directory."""

    files: Annotated[int, Doc("files that the ignore file lets through")]
    sent: Annotated[
        int, Doc("bytes as an archive, which a remote builder is sent; podman reads it in place")
    ] = field(name="bytes")
    ignore_file: Annotated[str | None, Doc("the ignore file in force, if any")]
    directories: Annotated[list[SentDirectory], Doc("two levels, largest first")]
    missed: Annotated[list[MissedFile], Doc("secrets first, then the largest")]


class CostLine(Struct):
    """A line of the Dockerfile."""

    line: Annotated[int, Doc("its number")]
    stage: Annotated[str, Doc("the name or number of its stage")]
    text: Annotated[str, Doc("the instruction")]
    size: Annotated[int | None, Doc("bytes of its layer; null if unknown before a build")] = field(
        name="bytes"
    )
    at_least: Annotated[int, Doc("bytes that the layer has at least")]
    compressed: Annotated[
        int | None,
        Doc("approximate bytes of its blob in a registry; null if unknown before a build"),
    ]
    why_unknown: Annotated[str, Doc("why the size is unknown before a build; empty if it is known")]


class LineState(Struct):
    """What becomes of a line."""

    line: Annotated[int, Doc("its number")]
    state: Annotated[State, Doc("after the change")]


class SumOfLayers(Struct):
    """Bytes of several layers."""

    known: Annotated[int, Doc("of the lines that are certainly rebuilt, as far as known")] = field(
        name="bytes"
    )
    unknown_lines: Annotated[list[int], Doc("lines that add an unknown number of bytes, or none")]


class CostedChange(Struct):
    """Files whose change costs the same."""

    kind: Annotated[ChangeKind, Doc("the kind of change, by the names of the files")]
    files: Annotated[int, Doc("how many files; 0 for a build argument")]
    example: Annotated[str, Doc("one of them")]
    sent: Annotated[int, Doc("bytes of the context, sent to a remote builder")]
    rebuilt: Annotated[SumOfLayers, Doc("layers that are rebuilt, uncompressed")]
    pushed: Annotated[
        SumOfLayers,
        Doc("blobs pushed, at most: one that turns out identical is not pushed again"),
    ]
    lines: Annotated[list[LineState], Doc("each line of the stages that are built")]


class PreviousImage(Struct):
    """The image of the last build, from which sizes were taken."""

    name: Annotated[str, Doc("as it was given")]
    layers: Annotated[int, Doc("how many it has")]
    size: Annotated[int, Doc("bytes that a first pull takes")] = field(name="bytes")
    base_layers: Annotated[int, Doc("of these, those of its base")]
    base_bytes: Annotated[int, Doc("compressed bytes of these")]


class ReplayedCommit(Struct):
    """A commit of the repository, with the Dockerfile and the layers of today."""

    commit: Annotated[str, Doc("its id")]
    subject: Annotated[str, Doc("the first line of its message")]
    files: Annotated[int, Doc("files of the directory that it changed")]
    kind: Annotated[
        Kind,
        Doc("the kind of change, by the names of the files in the image; of all where none is"),
    ]
    recipe: Annotated[
        bool, Doc("it changed the Dockerfile or the ignore file: its cost is not shown")
    ]
    first_line: Annotated[int | None, Doc("the first line that is rebuilt; null: none")]
    rebuilt: Annotated[SumOfLayers, Doc("layers that are rebuilt, uncompressed")]
    pushed: Annotated[SumOfLayers, Doc("blobs pushed, at most")]


class CostDocument(Document, tag="mrtuner.image.cost/1"):
    """Written by `mrtuner image cost --json`."""

    builder: Annotated[str, Doc("the builder whose rules were used")]
    dockerfile: Annotated[str, Doc("the Dockerfile")]
    context: Annotated[SentContext, Doc("what the builder sees of the directory")]
    changes: Annotated[list[CostedChange], Doc("by kind")]
    pushed_within: Annotated[
        float, Doc("share by which pushed bytes may be off, either way: other code compresses them")
    ]
    lines: Annotated[list[CostLine], Doc("each line of the stages that are built")]
    commits: Annotated[
        list[ReplayedCommit] | None,
        Doc("the repository's last commits, the latest first; null: not asked for"),
    ] = None
    image: Annotated[
        PreviousImage | None, Doc("the image that sizes were taken from; null: none was named")
    ] = None


def cost_document(found: Cost) -> CostDocument:
    """Return the cost as a document; names that are not UTF-8 are escaped."""
    context = found.context
    return CostDocument(
        builder=BUILDER[found.builder],
        dockerfile=as_text(str(found.dockerfile)),
        context=SentContext(
            files=context.files,
            sent=context.sent,
            ignore_file=None if context.rules.file is None else as_text(str(context.rules.file)),
            directories=[
                SentDirectory(path=as_text(one.path), files=one.files, sent=one.sent)
                for one in found.shares
            ],
            missed=[
                MissedFile(what=one.what, path=as_text(one.path), files=one.files, sent=one.sent)
                for one in found.missed
            ],
        ),
        changes=[_change(one) for one in found.changes],
        pushed_within=found.pushed_within,
        lines=[_line(one) for one in found.lines],
        commits=None if found.commits is None else [_commit(one) for one in found.commits],
        image=None if found.previous is None else _previous(found.previous),
    )


def _previous(found: Previous) -> PreviousImage:
    return PreviousImage(
        name=as_text(found.image.name), layers=len(found.image.layers), size=found.image.size,
        base_layers=found.base_layers, base_bytes=found.base_bytes,
    )  # fmt: skip


def _commit(one: CommitCost) -> ReplayedCommit:
    return ReplayedCommit(
        commit=one.commit.id, subject=as_text(one.commit.subject), files=len(one.commit.paths),
        kind=one.kind, recipe=one.commit.recipe, first_line=one.first,
        rebuilt=_sum(one.rebuilt), pushed=_sum(one.pushed),
    )  # fmt: skip


def _line(one: Line) -> CostLine:
    layer = one.layer
    return CostLine(
        line=one.line, stage=one.stage, text=one.text, size=layer.size, at_least=layer.least,
        compressed=layer.compressed, why_unknown=layer.why,
    )  # fmt: skip


def _change(one: Change) -> CostedChange:
    return CostedChange(
        kind=one.kind,
        files=one.files,
        example=as_text(one.example),
        sent=one.sent,
        rebuilt=_sum(one.rebuilt),
        pushed=_sum(one.pushed),
        lines=[LineState(line=line, state=state) for line, state in one.states],
    )


def _sum(total: Total) -> SumOfLayers:
    return SumOfLayers(known=total.bytes, unknown_lines=list(total.unknown))


def as_text(name: str) -> str:
    """Return a path as text; bytes that are not UTF-8 are escaped."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", _ESCAPED)
