"""Compare predictions with this kernel, without root: in seconds, or with the full grid.

Short limits are set in our own namespaces; nothing on the machine changes. Every trial runs
several times in parallel, at different phases of the kernel's timer wheel.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass, replace
from typing import Final

from mrtuner.errors import MissingPart
from mrtuner.failover.namespaces import enter, python, require
from mrtuner.failover.predict.hang_times import SLACK
from mrtuner.failover.predict.timer_wheel import Band
from mrtuner.failover.selftest.cases import SHORT, Batch
from mrtuner.wording import last_line

#: What a batch needs in addition to its longest hang [s].
_PATIENCE: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One setting: the predicted band, and the measured hangs [s]."""

    case: int
    setting: str
    predicted: Band
    measured: tuple[float, ...]

    @property
    def fits(self) -> bool:
        """Whether every hang is in the band, or outside by no more than SLACK."""
        return all(self.predicted.covers(hang, slack=SLACK) for hang in self.measured)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTest:
    """All trials, on one kernel."""

    release: str
    hz: int
    rto: float  # s, for a connection to the other namespace
    trials: tuple[Trial, ...]

    @property
    def fits(self) -> bool:
        """Whether the predictions hold here."""
        return all(trial.fits for trial in self.trials)

    def lines(self) -> Iterator[str]:
        from mrtuner.text_tables import aligned

        yield f"Linux {self.release}, HZ {self.hz}, first RTO {self.rto * 1000:g} ms"
        yield ""
        head = ("case", "setting", "predicted s", "measured s", "")
        yield from aligned([head, *map(_row, self.trials)])


def _row(trial: Trial) -> tuple[str, ...]:
    band = f"{trial.predicted.low:.2f} - {trial.predicted.high:.2f}"
    seen = f"{min(trial.measured):.2f} - {max(trial.measured):.2f} ({len(trial.measured)})"
    return (str(trial.case), trial.setting, band, seen, "fits" if trial.fits else "DOES NOT FIT")


def run(batches: Sequence[Batch] = (SHORT,)) -> SelfTest:
    """Run all batches in parallel. MissingPart if the kernel does not permit it.

    Any interruption, such as Ctrl-C, ends the namespaces immediately.
    """
    require()
    with ExitStack() as stack, ThreadPoolExecutor(len(batches)) as pool:
        stages = [stack.enter_context(_Stage(batch)) for batch in batches]
        try:
            parts = list(pool.map(_Stage.measured, stages))
        except BaseException:
            for stage in stages:
                stage.kill()  # its threads wait for the stages, and the pool for its threads
            raise
    trials = sorted((trial for part in parts for trial in part.trials), key=lambda one: one.case)
    return replace(parts[0], trials=tuple(trials))


class _Stage(AbstractContextManager["_Stage"]):
    """One batch in its own namespaces, which end with the process."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._child = subprocess.Popen(
            enter(python("mrtuner.failover.selftest.stage")), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._child.wait()

    def kill(self) -> None:
        """Kill it at once: unshare ends what runs inside as well."""
        self._child.kill()

    def measured(self) -> SelfTest:
        """Return what the stage wrote."""
        from mrtuner.documents import convert

        stdout, stderr = self._child.communicate(
            json.dumps(asdict(self._batch)), timeout=self._batch.limit + _PATIENCE
        )
        if self._child.returncode:
            raise MissingPart(
                f"the self-test's namespaces failed: {last_line(stderr)}",
                "Report it with the output of --debug.",
            )
        return convert(json.loads(stdout), SelfTest)
