"""Advice for an image, as JSON: ``mrtuner.image.advise/1``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from mrtuner.documents import Doc, Document, Struct, field
from mrtuner_image.cost import BUILDER
from mrtuner_image.document import as_text

if TYPE_CHECKING:
    from mrtuner_image.advice.ranking import Advice, Advised, Saving, Savings
    from mrtuner_image.deploys import Amount, Expected


class SavedBytes(Struct):
    """Bytes that a change saves; negative where it adds some."""

    known: Annotated[int | None, Doc("the bytes; null if unknown before a build")] = field(
        name="bytes"
    )
    precision: Annotated[
        Literal["exact", "at least", "at most", "unknown"],
        Doc("exact according to the model, or what is known"),
    ]


class ImageSavings(Struct):
    """Bytes that a change saves per deploy, and in the image."""

    sent: Annotated[SavedBytes, Doc("of the context, sent to a remote builder for each deploy")]
    rebuilt: Annotated[SavedBytes, Doc("of layers that a deploy rebuilds, uncompressed")]
    pushed: Annotated[SavedBytes, Doc("of blobs that a deploy pushes, compressed")]
    image: Annotated[SavedBytes, Doc("of the whole image, compressed: what a new machine pulls")]


class ExpectedBytes(Struct):
    """The bytes expected for a deploy."""

    known: Annotated[int, Doc("of what is known before building")] = field(name="bytes")
    more: Annotated[bool, Doc("whether there is more, unknown before a build")]


class ExpectedLine(Struct):
    """A line of the Dockerfile, and its share of an average deploy."""

    line: Annotated[int, Doc("its number")]
    text: Annotated[str, Doc("the instruction")]
    pushed: Annotated[ExpectedBytes, Doc("bytes that it pushes per deploy")]
    rebuilt: Annotated[float, Doc("share of the deploys that rebuild it")]


class ExpectedDeploy(Struct):
    """An average deploy."""

    sent: Annotated[int, Doc("bytes of the context")]
    rebuilt: Annotated[ExpectedBytes, Doc("layers that are rebuilt, uncompressed")]
    pushed: Annotated[ExpectedBytes, Doc("blobs pushed, at most")]
    image: Annotated[ExpectedBytes, Doc("the whole image, compressed, without its base")]
    lines: Annotated[list[ExpectedLine], Doc("each line of the stages that are built")]


class ImageAdvice(Struct):
    """One piece of advice."""

    number: Annotated[int, Doc("from 1: secrets first, then the most bytes that leave the machine")]
    rule: Annotated[str, Doc("the rule that gives it")]
    title: Annotated[str, Doc("what to do")]
    risk: Annotated[str, Doc("what can go wrong")]
    saved: Annotated[ImageSavings, Doc("what it saves by itself")]
    patch: Annotated[str, Doc("the change as a unified diff")]


class CombinedAdvice(Struct):
    """The advice as one patch."""

    titles: Annotated[
        list[str], Doc("the advice applied, in order; some becomes possible only then")
    ]
    needless: Annotated[list[int], Doc("numbers of advice that the others made unnecessary")]
    saved: Annotated[ImageSavings, Doc("what it saves together")]
    after: Annotated[ExpectedDeploy, Doc("a deploy afterwards")]
    patch: Annotated[str, Doc("the change as a unified diff")]


class ImageAdviceDocument(Document, tag="mrtuner.image.advise/1"):
    """Written by `mrtuner image advise --json`."""

    builder: Annotated[str, Doc("the builder whose rules were used")]
    dockerfile: Annotated[str, Doc("the Dockerfile")]
    place: Annotated[str, Doc("the directory in which to apply the patches")]
    deploys: Annotated[str, Doc("what deploys are assumed to change")]
    arguments: Annotated[list[str], Doc("ARGs that are assumed to be new in every deploy")]
    before: Annotated[ExpectedDeploy, Doc("a deploy now")]
    advice: Annotated[list[ImageAdvice], Doc("the best first")]
    together: Annotated[CombinedAdvice, Doc("all advice, or what was chosen")]


def advice_document(found: Advised) -> ImageAdviceDocument:
    """Return the advice as a document; names that are not UTF-8 are escaped."""
    return ImageAdviceDocument(
        builder=BUILDER[found.builder],
        dockerfile=as_text(str(found.tree.dockerfile)),
        place=as_text(str(found.place)),
        deploys=found.deploys.basis,
        arguments=list(found.deploys.arguments),
        before=_deploy(found.before),
        advice=[_advice(one) for one in found.advice],
        together=CombinedAdvice(
            titles=[as_text(title) for title in found.together.applied],
            needless=list(found.together.needless),
            saved=_savings(found.together.saved),
            after=_deploy(found.together.after),
            patch=found.together.patch,
        ),
    )


def _advice(one: Advice) -> ImageAdvice:
    return ImageAdvice(
        number=one.number, rule=one.rule, title=as_text(one.title), risk=one.risk,
        saved=_savings(one.saved), patch=one.patch,
    )  # fmt: skip


def _savings(saved: Savings) -> ImageSavings:
    return ImageSavings(
        sent=_saving(saved.sent), rebuilt=_saving(saved.rebuilt),
        pushed=_saving(saved.pushed), image=_saving(saved.image),
    )  # fmt: skip


def _saving(saved: Saving) -> SavedBytes:
    if saved.more and saved.less:
        return SavedBytes(known=None, precision="unknown")
    precision: Literal["exact", "at least", "at most"] = "exact"
    if saved.more or saved.less:
        precision = "at least" if saved.more else "at most"
    return SavedBytes(known=saved.bytes, precision=precision)


def _deploy(found: Expected) -> ExpectedDeploy:
    return ExpectedDeploy(
        sent=found.sent,
        rebuilt=_expected(found.rebuilt),
        pushed=_expected(found.pushed),
        image=_expected(found.image),
        lines=[
            ExpectedLine(
                line=one.line, text=one.text, rebuilt=one.rebuilt,
                pushed=ExpectedBytes(known=round(one.pushed), more=one.unknown),
            )
            for one in found.lines
        ],
    )  # fmt: skip


def _expected(amount: Amount) -> ExpectedBytes:
    more = any(share > 0 for share in amount.unknown.values())
    return ExpectedBytes(known=round(amount.bytes), more=more)
