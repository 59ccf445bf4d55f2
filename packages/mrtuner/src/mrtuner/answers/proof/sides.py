"""The two sides of a proof on one server: its settings as they were, and as advised."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from signal import SIGHUP, SIGINT, SIGTERM
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Self

from mrtuner.answers.recorded import Tell, silent
from mrtuner.errors import ApplyError, MrTunerError, NotPutBack, Refused

if TYPE_CHECKING:
    from mrtuner.bench.proof import RunningServer
    from mrtuner.change.journal import Journal
    from mrtuner.change.settings.apply import Restart, SettingsPlan, Wanted
    from mrtuner.postgres.connect import Connection

CURRENT: Final = "current"
ADVISED: Final = "advised"
_STILL: Final = "still restoring everything; interrupt again to stop halfway"
#: The server, too, notices within seconds that we are gone, and releases our lock.
_KEPT_ALIVE: Final = {
    "tcp_keepalives_idle": 5, "tcp_keepalives_interval": 1, "tcp_keepalives_count": 5,
}  # fmt: skip


class Alone:
    """Keeps other proofs and searches off a server: a session holds a lock until the block ends.

    With two, each would take what the other tries for what was there before.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._session: Connection | None = None

    def __enter__(self) -> Self:
        self.hold()
        return self

    def __exit__(self, *_: object) -> None:
        if self._session is not None:
            self._session.close()

    def hold(self) -> None:
        """Take the lock unless we have it: a session ends with its server. Refused if taken."""
        from mrtuner.change.settings import live
        from mrtuner.change.settings.settings_transaction import alive
        from mrtuner.postgres.connect import connect, translated

        if self._session is not None and alive(self._session):
            return
        self.__exit__()
        self._session = session = connect(self._dsn)
        try:
            with translated():
                if session.info.server_version >= 140000:  # it is idle for a whole window
                    session.execute("SET idle_session_timeout = 0")
                for name, seconds in _KEPT_ALIVE.items():
                    session.execute(f"SET {name} = {seconds}")
            live.lock(session, live.SEARCHING)
        except Refused:
            self.__exit__()
            raise Refused(
                "another proof or search changes settings on this server now",
                "Wait until it has ended.",
            ) from None

    def let_go(self) -> None:
        """Give up the lock until `hold`: a smart shutdown waits until all sessions have ended."""
        self.__exit__()


def refuse_left(dsn: str, journal: Journal) -> None:
    """Raise Refused if a measurement's settings are in force: nothing may be built on them."""
    from mrtuner.change.settings.live import identify
    from mrtuner.postgres.connect import connect

    with connect(dsn) as connection:
        left = journal.measured(identify(connection).server)
    if left is not None:
        raise Refused(
            f"a proof or search has put settings into force: {', '.join(left.names)}",
            "Wait until it has ended. If it was killed, take them back: mrtuner undo DSN --proof.",
        )


def refuse_edits(dsn: str) -> None:
    """Raise Refused if others wrote settings that our reload would put into force unseen."""
    from mrtuner.change.settings.next_start import unloaded
    from mrtuner.postgres.connect import connect

    with connect(dsn) as connection:
        found = [f"{one.name} = {one.value}" for one in unloaded(connection)]
    if found:
        raise Refused(
            f"the configuration files were changed and not reloaded: {', '.join(found)}",
            "Reload first if that is wanted (SELECT pg_reload_conf()), or take it back.",
        )


class Sides:
    """Switches a server between both sides; leaving the block restores it.

    Every switch is a journalled change. If a side needs a restart, every activation restarts,
    so that both start with equally cold buffers.
    """

    def __init__(
        self,
        dsn: str,
        wanted: Sequence[Wanted],
        journal: Journal,
        restart: Restart,
        fits: Callable[[Mapping[str, str]], bool],
        *,
        tell: Tell = silent,
        repair: str | None = None,  # command that restores what we could not; None: say nothing
        often: bool = False,  # restored so often that it is not told each time
        patience: float = 0.0,  # how long a server that does not answer is tried again [s]
        alone: Alone | None = None,  # held from one switch to the next
    ) -> None:
        self.dsn, self.wanted, self.journal, self.restart = dsn, wanted, journal, restart
        self.fits, self.tell, self.repair, self.often = fits, tell, repair, often
        self.patience, self.alone = patience, alone
        self.changed = False
        self._server: str | None = None  # known once the block has begun
        self._end = FinishPuttingBack(lambda: tell(_STILL))
        self.plan: SettingsPlan | None = None  # of the last switch to the advised side

    def servers(self) -> dict[str, RunningServer]:
        """What `mrtuner.bench.proof.prove` compares, by variant."""
        from mrtuner.bench.proof import RunningServer

        return {
            CURRENT: RunningServer(self.dsn, self.as_they_were),
            ADVISED: RunningServer(self.dsn, self.as_advised),
        }

    @property
    def restarts(self) -> bool:
        """Whether switching between the sides takes a restart that is allowed."""
        return self.restart.run is not None and any(item.restart for item in self.wanted)

    def as_they_were(self) -> None:
        """Restore the settings, or start afresh if they are in force already."""
        from mrtuner.change.settings.apply import undo

        with self._switching():
            if not self.changed:
                self._start_afresh()
                return
            undo(self.dsn, self.journal, restart=self.restart, fits=self.fits, proof=True)
            self.changed = False

    def as_advised(self) -> None:
        """Put the advice into force, or start afresh if it is in force already."""
        from mrtuner.change.settings.apply import apply

        with self._switching():
            if self.changed:
                self._start_afresh()
                return
            refuse_edits(self.dsn)
            self.plan = self._planned()
            apply(
                self.dsn, self.plan, self.journal, restart=self.restart, fits=self.fits, proof=True
            )
            self.changed = True

    @contextmanager
    def _switching(self) -> Iterator[None]:
        """Let others wait while we change sides; a restart finds no session of ours."""
        if self.alone is not None and self.restarts:
            self.alone.let_go()
        yield
        if self.alone is not None:
            self.alone.hold()

    def _planned(self) -> SettingsPlan:
        from mrtuner.change.settings.apply import plan
        from mrtuner.postgres.connect import connect
        from mrtuner.postgres.read_server import read

        with connect(self.dsn) as connection:
            return plan(read(connection), self.wanted)

    def _start_afresh(self) -> None:
        """Restart the server, if switching to the other side needs a restart too."""
        if not self.restarts:
            return
        assert self.restart.run is not None  # noqa: S101 - `restarts` says so
        from mrtuner.change.settings.live import identify
        from mrtuner.change.settings.restart import NotAnswering, NotRestarted, restarted
        from mrtuner.change.settings.server_log import server_log, with_log
        from mrtuner.postgres.connect import connect

        with connect(self.dsn) as connection:
            before, log = identify(connection).started, server_log(connection)
            limit = self.restart.limit(connection)
        try:
            restarted(self.dsn, self.restart.run, limit, before).close()
        except NotRestarted as error:
            raise ApplyError(str(error), "Correct the command that restarts the server.") from error
        except NotAnswering as error:
            raise ApplyError(
                f"the server does not answer after a restart: {with_log(str(error), log)}",
                "See its log. Start it, then run again.",
            ) from error

    def __enter__(self) -> Self:
        from mrtuner.change.settings.live import identify
        from mrtuner.postgres.connect import connect

        with connect(self.dsn) as connection:
            self._server = identify(connection).server
        self._before = self._last()
        self._end.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.unwinding()
        try:
            if self.left:
                if not self.often:
                    self.tell("restoring the settings")
                if self.alone is not None and self.restarts:
                    self.alone.let_go()
                self._put_back()
        except BaseException:
            self._say_left()
            raise
        finally:
            self._end.__exit__()

    def _last(self) -> int:
        """The number of our change in force, from the journal: right after any interruption."""
        last = None if self._server is None else self.journal.measured(self._server)
        return 0 if last is None else last.id

    @property
    def left(self) -> bool:
        """Whether there is something to restore."""
        if self._server is None:
            return False
        return self._last() > self._before or self.journal.unfinished(self._server) is not None

    def _put_back(self) -> None:
        from mrtuner.change.settings.restart import until_it_works

        try:
            until_it_works(
                self._put_back_once, self.patience,
                lambda why: self.tell(f"warning: cannot restore the settings yet: {why}"),
            )  # fmt: skip
        except MrTunerError as error:
            if not self.patience:
                raise
            why = f"the settings are not restored: {error.message}"
            raise NotPutBack(why, error.hint) from error

    def _put_back_once(self) -> None:
        from mrtuner.change.settings.apply import finish_or_revert_settings, undo

        finish_or_revert_settings(self.dsn, self.journal, restart=self.restart)
        while self._last() > self._before:
            done = undo(self.dsn, self.journal, restart=self.restart, fits=self.fits, proof=True)
            if done.kept:
                self.tell(done.kept)
        self.changed = False

    def _say_left(self) -> None:
        """Print the advised settings still in force and the command that restores everything.

        If the settings cannot be read, it prints a warning, so as not to hide the first error.
        """
        if self.repair is None:
            return
        try:
            names = self._off()
        except MrTunerError as error:
            self.tell(f"warning: cannot read the settings now in force: {error.message}")
        else:
            left = f"still in force, as advised: {', '.join(names)}"
            self.tell(f"warning: {left if names else 'the settings are as before'}")
        if self.left:
            self.tell(f"to restore everything: {self.repair}")

    def _off(self) -> tuple[str, ...]:
        """The settings that are not as they were before."""
        from mrtuner.change.settings.live import in_force
        from mrtuner.postgres.connect import connect

        steps = self.plan.steps if self.plan else ()
        with connect(self.dsn) as connection:
            rows = in_force(connection, [step.name for step in steps])
        return tuple(
            step.name
            for step in steps
            if step.name in rows and rows[step.name].setting != step.in_force
        )


class FinishPuttingBack:
    """Handle Ctrl-C, SIGTERM and SIGHUP while there is something to restore.

    The first signal interrupts the work, which begins restoring; the second is only answered, so
    that restoring continues; a third interrupts even that.
    """

    def __init__(self, answer: Callable[[], None]) -> None:
        self._answer = answer
        self._requests = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (SIGINT, SIGTERM, SIGHUP):
            if (before := signal.getsignal(number)) is not signal.SIG_IGN:  # set by nohup
                self._before[number] = before
                signal.signal(number, self._requested)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def unwinding(self) -> None:
        """Note that restoring has begun, with or without a signal; the next one is the second."""
        self._requests = max(1, self._requests)

    def _requested(self, number: int, _frame: FrameType | None) -> None:
        self._requests += 1
        if self._requests != 2:
            raise KeyboardInterrupt(f"signal {number}")
        with suppress(RuntimeError, OSError):  # stderr is being written to, or closed
            self._answer()
