"""What sets off a failover outside a cloud: a command of yours, or you yourself."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final

from mrtuner.errors import MrTunerError, UsageError
from mrtuner.rehearsal.run import News

#: How many lines of a command's output the timeline shows.
_LINES: Final = 5


class CommandTrigger:
    """A command line of the user's, run without a shell; the timeline shows its last output.

    It runs with an empty stdin while clients are probed, and is terminated if it is still running
    at the end of the block.
    """

    def __init__(self, line: str) -> None:
        try:
            self.arguments = shlex.split(line)
        except ValueError as error:
            raise UsageError(
                f"cannot read the command: {str(error).lower()}", "Close the quotation mark."
            ) from None
        if not self.arguments:
            raise UsageError("the command is empty", "Give one, or --trigger manual.")
        self._child: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] = TemporaryFile()  # noqa: SIM115 - closed at the end of the block
        self._told = False

    def __enter__(self) -> CommandTrigger:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None and self._child.poll() is None:
            self._child.terminate()
            self._child.wait()
        self._output.close()

    @property
    def words(self) -> str:
        """Only the program's name: its arguments may be confidential."""
        return f"run {Path(self.arguments[0]).name}"

    @property
    def over(self) -> bool:
        return self._child is not None and self._child.poll() is not None

    def check(self) -> None:
        """Raise UsageError if there is no such program."""
        if shutil.which(self.arguments[0]) is None:
            raise UsageError(
                f"program {self.arguments[0]!r} not found",
                "Give its path. Pipes and variables need a shell: --trigger \"sh -c '…'\".",
            )

    def cautions(self, _dsn: str) -> tuple[str, ...]:
        """None: what it does to which server is not known."""
        return ()

    def fire(self) -> None:
        """Start the command; MrTunerError if that fails after all."""
        try:
            self._child = subprocess.Popen(
                self.arguments, stdin=subprocess.DEVNULL, stdout=self._output,
                stderr=subprocess.STDOUT, env=os.environ,
            )  # fmt: skip
        except OSError as error:
            raise MrTunerError(
                f"cannot run {self.arguments[0]}: {error.strerror}", "Nothing was triggered."
            ) from error

    def news(self) -> Iterator[News]:
        """Once the command has ended, yield its last output and its exit status."""
        if not self.over or self._told or self._child is None:
            return
        self._told = True
        self._output.seek(0)
        for line in self._output.read().decode(errors="replace").splitlines()[-_LINES:]:
            if any(letter.isalnum() for letter in line):
                yield News(line.strip(), "command")
        yield News(f"ended with {self._child.returncode}", "command")


class Manual:
    """The user triggers the failover; `ask` tells them when."""

    words = "you trigger it yourself"
    over = True

    def __init__(self, ask: Callable[[str], None]) -> None:
        self._ask = ask

    def check(self) -> None:
        """Check nothing."""

    def cautions(self, _dsn: str) -> tuple[str, ...]:
        """None: what it does to which server is not known."""
        return ()

    def fire(self) -> None:
        self._ask("now make it fail over; time is counted from now")

    def news(self) -> Iterator[News]:
        """Return no news: the user knows what happens."""
        yield from ()
