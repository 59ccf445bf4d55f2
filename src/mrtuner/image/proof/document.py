"""A proof as JSON: ``mrtuner.image.proof/1``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from mrtuner.documents import Doc, Document, Struct, convert, field

if TYPE_CHECKING:
    from mrtuner.image.proof.run import KindResult, Proof

_Kind = Literal["code", "dependencies", "asset", "configuration", "other"]


class DeployedForm(Struct):
    """What a change cost one form."""

    sent: Annotated[int, Doc("bytes of the context, sent to a remote builder")]
    lines: Annotated[int, Doc("lines of the Dockerfile that were rebuilt")]
    built: Annotated[int, Doc("bytes of the layers that were built, uncompressed")]
    pushed: Annotated[int, Doc("bytes of blobs that the registry received")]
    manifest: Annotated[int, Doc("bytes of manifests that it received")]
    layers: Annotated[int, Doc("layers of the image that the previous one did not have")]
    fetched: Annotated[int, Doc("bytes fetched by a machine that has the previous image")]


class NoisyPath(Struct):
    """A path that differs when the same image is built twice."""

    path: Annotated[str, Doc("in the image")]
    what: Annotated[list[str], Doc("what differs: `content`, `mode`, …")]


class ReplayedChange(Struct):
    """A change that was built and pushed in both forms."""

    name: Annotated[str, Doc("the commit and its subject, or the file that was edited")]
    kind: Annotated[_Kind, Doc("the kind of change, by the names of the files")]
    before: Annotated[DeployedForm, Doc("with the first directory")]
    after: Annotated[DeployedForm, Doc("with the second one, or the patch")]


class KindOfChange(Struct):
    """All changes of a kind."""

    kind: Annotated[_Kind | None, Doc("the kind; null for all together")]
    changes: Annotated[int, Doc("how many")]
    before: Annotated[DeployedForm, Doc("with the first directory, the sum of all")]
    after: Annotated[DeployedForm, Doc("with the second one, or the patch, the sum of all")]
    fewer: Annotated[int, Doc("changes for which the registry received fewer bytes after")]
    more: Annotated[int, Doc("changes for which it received more")]


class ChangeLeftOut(Struct):
    """A change that could not be replayed."""

    name: Annotated[str, Doc("the commit and its subject, or the file that was edited")]
    why: Annotated[str, Doc("the reason")]


class ProofDocument(Document, tag="mrtuner.image.proof/1"):
    """Written by `mrtuner image prove --json`.

    The final file trees and configurations were equal, except for noise and accepted differences:
    others are refused.
    """

    verdict: Annotated[
        Literal["better", "worse", "equal"],
        Doc("on the bytes received for all changes; equal: they differ by less than 1 %"),
    ]
    builder: Annotated[str, Doc("the builder, as it names itself: `podman version 4.3.1`")]
    network: Annotated[Literal["none", "host"], Doc("the network that builds had")]
    what: Annotated[str, Doc("what was replayed")]
    seed: Annotated[int, Doc("seed of the random order")]
    uplink: Annotated[float | None, Doc("bytes a second, if stated")]
    noise: Annotated[list[NoisyPath], Doc("what differs when the same directory is built twice")]
    excepted: Annotated[list[str], Doc("paths that may differ, as given")]
    image_before: Annotated[int, Doc("bytes of the whole image, compressed")]
    image_after: Annotated[int, Doc("bytes of the whole image, compressed")]
    kinds: Annotated[list[KindOfChange], Doc("one for each kind, the last for all")]
    changes: Annotated[list[ReplayedChange], Doc("in the order of their replay")] = field(
        default_factory=list
    )
    left_out: Annotated[list[ChangeLeftOut], Doc("what could not be replayed")] = field(
        default_factory=list
    )


def proof_document(found: Proof, uplink: float | None = None) -> ProofDocument:
    """Return a proof as a document; names that are not UTF-8 are escaped."""
    return ProofDocument(
        verdict=found.verdict,
        builder=found.builder,
        network=found.network,
        what=_text(found.what),
        seed=found.seed,
        uplink=uplink,
        noise=[NoisyPath(_text(path), sorted(what)) for path, what in found.noise.items()],
        excepted=list(found.excepted),
        image_before=found.image_before,
        image_after=found.image_after,
        kinds=[_kind(one) for one in found.kinds],
        changes=[
            ReplayedChange(_text(one.name), one.kind, _form(one.before), _form(one.after))
            for one in found.replayed
        ],
        left_out=[ChangeLeftOut(_text(one.name), _text(one.why)) for one in found.left_out],
    )


def _form(found: object) -> DeployedForm:
    return convert(found, DeployedForm)


def _kind(one: KindResult) -> KindOfChange:
    return KindOfChange(
        kind=one.kind, changes=one.changes, before=_form(one.before), after=_form(one.after),
        fewer=one.fewer, more=one.more,
    )  # fmt: skip


def _text(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
