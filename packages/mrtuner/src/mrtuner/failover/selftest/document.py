"""Predictions compared with this kernel, as JSON: ``mrtuner.failover.selftest/1``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from mrtuner.documents import Doc, Document, Struct
from mrtuner.failover.predict.document import band
from mrtuner.failover.predict.timer_wheel import Band

if TYPE_CHECKING:
    from mrtuner.failover.selftest.run import SelfTest


class MeasuredTrial(Struct):
    """One setting in one case."""

    case: Annotated[
        int, Doc("1: a new connection; 2: an idle one, then a query; 3: a query in flight")
    ]
    setting: Annotated[str, Doc("what was set")]
    predicted: Annotated[Band, Doc("the hang that is predicted")]
    measured: Annotated[list[float], Doc("each hang, in seconds")]
    fits: Annotated[bool, Doc("whether every hang lies in the band or at most 0.1 s beside it")]


class SelfTestDocument(Document, tag="mrtuner.failover.selftest/1"):
    """Written by `mrtuner failover self-test --json`."""

    release: Annotated[str, Doc("version of the kernel")]
    hz: Annotated[int, Doc("its ticks per second")]
    rto: Annotated[float, Doc("first retransmission timeout of a connection there, in seconds")]
    fits: Annotated[bool, Doc("whether every trial fits")]
    trials: Annotated[list[MeasuredTrial], Doc("what was tried, case by case")]


def selftest_document(done: SelfTest) -> SelfTestDocument:
    """Return what was predicted and what was measured."""
    return SelfTestDocument(
        release=done.release,
        hz=done.hz,
        rto=done.rto,
        fits=done.fits,
        trials=[
            MeasuredTrial(
                case=one.case,
                setting=one.setting,
                predicted=band(one.predicted),
                measured=[round(hang, 3) for hang in one.measured],
                fits=one.fits,
            )
            for one in done.trials
        ],
    )
