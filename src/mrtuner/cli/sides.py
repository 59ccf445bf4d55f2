"""The two sides of a proof on one server: its settings as they were, and as advised."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from mrtuner.cli import terminal

if TYPE_CHECKING:
    from mrtuner.bench.proof import Arm
    from mrtuner.journal.store import Journal
    from mrtuner.tuning.apply import Plan, Restart, Wanted

CURRENT: Final = "current"
ADVISED: Final = "advised"


class Sides:
    """Switches a server between both sides; on leaving the block it is as it was.

    Every switch is a journalled change. Where a side needs a restart, every activation restarts,
    so that both start with equally cold buffers.
    """

    def __init__(
        self,
        dsn: str,
        wanted: Sequence[Wanted],
        journal: Journal,
        restart: Restart,
        fits: Callable[[Mapping[str, str]], bool],
    ) -> None:
        self.dsn, self.wanted, self.journal, self.restart = dsn, wanted, journal, restart
        self.fits = fits
        self.changed = False
        self.plan: Plan | None = None  # of the last switch to the advised side

    def arms(self) -> tuple[Arm, Arm]:
        """What `mrtuner.bench.proof.prove` compares."""
        from mrtuner.bench.proof import Arm

        return Arm(CURRENT, self.dsn, self.as_they_were), Arm(ADVISED, self.dsn, self.as_advised)

    def as_they_were(self) -> None:
        """Put the settings back, or start afresh with them."""
        if not self.changed:
            self._start_afresh()
            return
        from mrtuner.tuning.apply import undo

        undo(self.dsn, self.journal, restart=self.restart, fits=self.fits)
        self.changed = False

    def as_advised(self) -> None:
        """Put the advice into force, or start afresh with it."""
        if self.changed:
            self._start_afresh()
            return
        from mrtuner.tuning.apply import apply

        self.plan = self._planned()
        apply(self.dsn, self.plan, self.journal, restart=self.restart, fits=self.fits)
        self.changed = True

    def _planned(self) -> Plan:
        from mrtuner.postgres.connect import connect
        from mrtuner.postgres.read import read
        from mrtuner.tuning.apply import plan

        with connect(self.dsn) as connection:
            return plan(read(connection), self.wanted)

    def _start_afresh(self) -> None:
        """Restart, where the other side could not be reached without it either."""
        if self.restart.run is None or not any(item.restart for item in self.wanted):
            return
        from mrtuner.postgres.connect import connect
        from mrtuner.tuning.live import identify
        from mrtuner.tuning.restart import restarted

        with connect(self.dsn) as connection:
            before = identify(connection).started
        restarted(self.dsn, self.restart.run, self.restart.patience, before).close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.changed:
            terminal.talk("putting the settings back")
            self.as_they_were()
