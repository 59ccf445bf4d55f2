"""Real clients through real faults: run inside new user and network namespaces.

The real server runs outside; a relay in the server's namespace leads to a Unix socket, and that to
the server's own, which our user may not open there. Reads a JSON request from stdin, writes to
stdout how long each client hung [s] in each case, and what it said then.

Clients are separate programs (`clients/`). They print `ready` once one connection is held and
others lie idle, then read the name of a case a line and print `CASE failed …` or `CASE answered`.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from mrtuner.failover.namespaces import SERVER, Network

PORT = 5432
#: A Unix socket, or an address and port.
Target = str | tuple[str, int]
#: The relay writes its process id there.
RELAY = Path("relay.pid")
#: A Java application server takes long to start [s].
_START = 90.0
_LIMIT = 60.0
#: Enough to be acknowledged, too short for a keepalive, whose answer would be the last sign [s].
_SETTLE = 0.5
_PROC = Path("/proc")


def relay(path: str) -> None:
    """Lead TCP connections to a Unix socket until stdin ends."""
    RELAY.write_text(str(os.getpid()))
    lead(socket.create_server(("", PORT)), path)
    sys.stdin.read()
    os._exit(0)


def lead(listening: socket.socket, target: Target) -> None:
    """Lead connections elsewhere, in threads, until the listening socket is shut down."""
    threading.Thread(target=_accept, args=(listening, target), daemon=True).start()


def _accept(listening: socket.socket, target: Target) -> None:
    with listening, suppress(OSError):
        while True:
            client, _ = listening.accept()
            server = socket.socket(socket.AF_UNIX if isinstance(target, str) else socket.AF_INET)
            server.connect(target)
            threading.Thread(target=_copy, args=(client, server), daemon=True).start()


def _copy(*ends: socket.socket) -> None:
    """Copy both ways until one end is closed."""
    other = dict(zip(ends, reversed(ends), strict=True))
    with selectors.DefaultSelector() as selector, suppress(OSError), ends[0], ends[1]:
        for end in ends:
            selector.register(end, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                assert isinstance(key.fileobj, socket.socket)
                data = key.fileobj.recv(65536)
                if not data:
                    return
                other[key.fileobj].sendall(data)


class Program:
    """One client. It ends with its stdin, or is killed with everything that it started."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self._errors = Path(f"{name}.errors").resolve()
        with self._errors.open("w") as errors:
            self._child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                start_new_session=True,
            )  # fmt: skip
        self._began = {"ready": time.monotonic()}
        self._answers: dict[str, Future[tuple[float, str]]] = {"ready": Future()}
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()

    def ask(self, case: str) -> None:
        """Begin a case."""
        assert self._child.stdin is not None
        self._answers[case] = Future()
        self._began[case] = time.monotonic()
        self._child.stdin.write(f"{case}\n")
        self._child.stdin.flush()

    def answer(self, case: str, limit: float) -> tuple[float, str]:
        """How long the case took [s], and what the client said."""
        try:
            return self._answers[case].result(limit)
        except Exception as error:
            said = self._errors.read_text()[-2000:]
            raise RuntimeError(f"{self._errors.stem}, {case}: {error!r} {said}") from error

    def _listen(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            case, _, said = line.strip().partition(" ")
            if case in self._answers and not self._answers[case].done():
                self._answers[case].set_result((time.monotonic() - self._began[case], said))
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(EOFError("it ended"))


@contextmanager
def silent(network: Network) -> Iterator[None]:
    """Every packet is dropped without a reply."""
    network.silence()
    yield


@contextmanager
def frozen(_: Network) -> Iterator[None]:
    """The server stands still; its kernel acknowledges everything."""
    pid = int(RELAY.read_text())
    os.kill(pid, signal.SIGSTOP)
    try:
        # On a busy machine, a thread runs on until another one wakes up and takes the signal.
        while not _stopped(pid):
            time.sleep(0.001)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _stopped(pid: int) -> bool:
    """Whether every thread of a process is stopped."""
    states = [task.read_text().rpartition(")")[2] for task in _PROC.glob(f"{pid}/task/*/stat")]
    return all(state.split()[0] == "T" for state in states)


FAULTS: Mapping[str, Callable[[Network], Any]] = {"silent": silent, "frozen": frozen}


def main() -> None:
    request = json.load(sys.stdin)
    _apply(request["sysctl"])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    server = [sys.executable, __file__, "relay", request["socket"]]
    with Network(server) as network, ExitStack() as stack:
        _wait_for((SERVER, PORT))
        programs = {
            name: stack.enter_context(Program(name, command))
            for name, command in request["programs"].items()
        }
        for program in programs.values():
            program.answer("ready", _START)
        found = _hangs(programs, FAULTS[request["fault"]](network), request["cases"])
    json.dump(found, sys.stdout)


def _apply(sysctl: str) -> None:
    """Apply the generated sysctl file in this namespace."""
    for line in sysctl.splitlines():
        name, equals, value = line.partition(" = ")
        if equals and not line.startswith("#"):
            Path("/proc/sys", *name.split(".")).write_text(value)


def _wait_for(address: tuple[str, int]) -> None:
    for _ in range(500):
        with suppress(OSError), socket.create_connection(address, 1):
            return
        time.sleep(0.02)


def _hangs(
    programs: Mapping[str, Program], fault: Any, cases: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, tuple[float, str]]]:
    """Run all cases: queries in flight are acknowledged before the fault, others start after it."""
    for name, program in programs.items():
        if "flight" in cases[name]:
            program.ask("flight")
    time.sleep(_SETTLE)
    with fault:
        for name, program in programs.items():
            for case in cases[name]:
                if case != "flight":
                    program.ask(case)
        return {
            name: {case: program.answer(case, _LIMIT) for case in cases[name]}
            for name, program in programs.items()
        }


if __name__ == "__main__":
    if sys.argv[1:2] == ["relay"]:
        relay(sys.argv[2])
    else:
        main()
