"""The outside of the lab: starts the stage in its namespaces and talks to it.

The stage ends when its stdin closes, so it leaves nothing behind, even if we are killed.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from mrtuner import errors
from mrtuner.errors import MissingPart, MrTunerError, UsageError
from mrtuner.failover.lab.machines import enter
from mrtuner.failover.namespaces import hint, python, require
from mrtuner.failover.predict.client import configured
from mrtuner.postgres.connect import given
from mrtuner.postgres.server_user import without_libpq
from mrtuner.wording import first_line, last_line

_PATIENCE: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the lab should do. Durations are in seconds."""

    scenario: str | None = None  # None: stay open for commands
    within: float = 10.0  # the bound the clients are configured for, unless `parameters` are given
    parameters: Mapping[str, str] | None = None  # libpq's
    sysctls: Mapping[str, int] = field(default_factory=dict)  # in the client's namespace
    ttl: float = 5.0  # of the DNS name
    watch: float = 180.0  # after which to stop waiting for a hang
    server_bin: str | None = None  # absolute

    def to_json(self) -> str:
        """Return the request as one line."""
        return json.dumps(asdict(self))


def sysctl(text: str) -> tuple[str, int]:
    """Parse ``tcp_retries2=5`` or ``net.ipv4.tcp_retries2=5``; UsageError for anything else.

    >>> sysctl("tcp_retries2=5")
    ('net.ipv4.tcp_retries2', 5)
    """
    name, _, value = text.partition("=")
    short = name.strip().removeprefix("net.ipv4.")
    if not short.startswith("tcp_") or not short.isidentifier() or not value.strip().isdigit():
        raise UsageError(f"{text!r} is not a TCP setting", "Write it as tcp_retries2=5.")
    return f"net.ipv4.{short}", int(value)


#: The lab itself decides where the clients connect to.
_OURS: Final = frozenset({"host", "hostaddr", "port", "user", "password", "dbname", "service",
                          "passfile", "servicefile"})  # fmt: skip


def parameters(text: str) -> dict[str, str]:
    """Return libpq parameters for the lab's clients; UsageError for those that the lab sets.

    >>> parameters("connect_timeout=3 keepalives=0")
    {'connect_timeout': '3', 'keepalives': '0'}
    """
    said = given(text)
    if taken := sorted(_OURS & set(said)):
        raise UsageError(
            f"{', '.join(taken)} cannot be given: the lab uses its own servers",
            "Give only limits, such as connect_timeout=3.",
        )
    configured("psycopg", {"host": "lab", **said})  # raises the error for an invalid value
    return {name: str(value) for name, value in said.items()}


class Session(AbstractContextManager["Session"]):
    """A running stage; MissingPart, in one sentence, if the kernel does not permit it."""

    def __init__(self, request: Request) -> None:
        require()
        _require_all()
        self._process = subprocess.Popen(
            enter(python("mrtuner.failover.lab.stage")),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,  # only we receive Ctrl-C
            env=without_libpq(),
        )  # fmt: skip
        self._say(request.to_json())

    def __exit__(self, *_: object) -> None:
        self._process.kill()  # --kill-child then ends the first process, and with it all others
        self._process.communicate()

    def command(self, line: str) -> None:
        self._say(line.strip())

    def events(self) -> Iterator[tuple[str, Any]]:
        """Yield the stage's reports as they come; its errors are raised here."""
        assert self._process.stdout is not None  # noqa: S101  # we asked for a pipe
        for line in self._process.stdout:
            ((what, content),) = json.loads(line).items()
            if what == "error":
                name, message, advice = content
                raise getattr(errors, name, MrTunerError)(message, advice)
            yield what, content

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None  # noqa: S101  # we asked for a pipe
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self.ended() from None

    def ended(self) -> MrTunerError:
        _, said = self._process.communicate(timeout=_PATIENCE)
        return MissingPart(
            f"the lab ended unexpectedly: {last_line(said)}",
            "Run it with --debug and report the output.",
        )

    def first(self) -> int | None:
        """The process id through which to enter the client's namespaces; None: it is gone."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        try:
            return int(children.read_text().split()[0])
        except (OSError, IndexError):
            return None


def _require_all() -> None:
    """Raise MissingPart if some of the other namespaces cannot be made, as in some containers."""
    tried = subprocess.run(enter(["true"]), capture_output=True, text=True, check=False)
    if tried.returncode:
        raise MissingPart(f"namespaces cannot be created here: {first_line(tried.stderr)}", hint())


def play(request: Request, tell: Callable[[str], None]) -> dict[str, Any]:
    """Play one scenario; return the outcome's document."""
    with Session(request) as session:
        for what, content in session.events():
            if what == "result":
                result: dict[str, Any] = content
                return result
            tell(content)
        raise session.ended()
