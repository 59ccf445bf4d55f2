"""A command that runs as long as its server: start it, wait for the server, stop both."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from tempfile import TemporaryFile
from typing import IO, Final

from mrtuner.bench.server import guard
from mrtuner.errors import ConnectError, MrTunerError
from mrtuner.interruptions import uninterrupted
from mrtuner.postgres.cluster import reason_in
from mrtuner.postgres.connect import connect

_STOP_S: Final = 60.0
_HINT: Final = "Run it yourself; it must keep running, or exit with 0 once the server runs."


class Staying:
    """One command, in a process group of its own. `name` is the variant's."""

    def __init__(self, name: str, timeout: float) -> None:
        self.name, self.timeout = name, timeout
        self.process: subprocess.Popen[bytes] | None = None
        self.output: IO[bytes] | None = None
        self._guarded = ExitStack()

    def start(self, words: Sequence[str], dsn: Callable[[], str]) -> None:
        """Run it and wait until the server at `dsn` answers.

        ConnectError when it ends with an error before, or does not answer in time.
        """
        self.output = TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        try:
            with uninterrupted():
                self.process = subprocess.Popen(
                    words, start_new_session=True, stdin=subprocess.DEVNULL, stdout=self.output,
                    stderr=subprocess.STDOUT,
                )  # fmt: skip
        except OSError as error:
            self.output.close()
            raise ConnectError(
                f"the command of variant {self.name} cannot be run: {error.strerror}", _HINT
            ) from error
        self._guarded.enter_context(
            guard.command_run(["kill", "-INT", "--", f"-{self.process.pid}"])
        )
        deadline = time.monotonic() + self.timeout
        while not _answers(dsn):
            self._give_up_if_hopeless(deadline)
            time.sleep(0.1)

    def stop(self, words: Sequence[str] | None = None) -> None:
        """Stop it by a command, else by an interrupt; kill it if it does not end in time."""
        if self.process is None:
            return
        if words is not None:
            subprocess.run(words, check=False, capture_output=True)
        else:
            self._signal(signal.SIGINT)
        try:
            self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self.process.wait()
        self._guarded.close()
        if self.output is not None:
            self.output.close()
        self.process = None

    def _give_up_if_hopeless(self, deadline: float) -> None:
        died = self.process is not None and self.process.poll() not in (None, 0)
        if not died and time.monotonic() < deadline:
            return
        said = self._reason_in_output()
        self.stop()
        why = "" if died else f" within {self.timeout:.0f} s"
        raise ConnectError(
            f"the command of variant {self.name} did not start a server{why}: {said}", _HINT
        )

    def _reason_in_output(self) -> str:
        if self.output is None:
            return "nothing"
        self.output.seek(0)
        return reason_in(self.output.read().decode(errors="replace"))

    def _signal(self, number: int) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)


def _answers(dsn: Callable[[], str]) -> bool:
    try:
        connect(dsn(), timeout=2).close()
    except MrTunerError:
        return False
    return True
