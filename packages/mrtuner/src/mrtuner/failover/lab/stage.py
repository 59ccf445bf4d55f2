"""The inside of the lab: the first process of its own namespaces, run by `control`.

`python -m mrtuner.failover.lab.stage` reads one request, a line of JSON, from stdin, and writes
lines of JSON: `progress`, then `result`, or `error`. Further lines of stdin are the lab's commands.
When stdin ends it exits, and the kernel ends everything that it started.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from mrtuner.errors import MrTunerError, UsageError
from mrtuner.failover.lab import patroni, pooler
from mrtuner.failover.lab.control import Request
from mrtuner.failover.lab.lab import Lab
from mrtuner.failover.lab.machines import prepare
from mrtuner.failover.lab.run import Play
from mrtuner.failover.lab.scenarios import POOLER, Scenario, scenario
from mrtuner.failover.predict.kernel import local
from mrtuner.failover.predict.path import Path as NetworkPath
from mrtuner.failover.settings.advice import settings
from mrtuner.postgres.binaries import Binaries, find_binaries


def main() -> None:
    """Handle one request; errors are passed to the caller."""
    import psycopg

    from mrtuner.documents import convert

    request = convert(json.loads(sys.stdin.readline()), Request)
    try:
        prepare()
        for name, value in request.sysctls.items():
            _set(name, value)
        if request.scenario is None:
            _open(request)
        else:
            threading.Thread(target=_end_with_stdin, daemon=True).start()
            _play(request, scenario(request.scenario))
    except MrTunerError as error:
        _send(error=[type(error).__name__, error.message, error.hint])
    except psycopg.Error as error:
        said = str(error).strip().partition("\n")[0]
        _send(error=["ConnectError", said, "Check the parameters given with --client."])
    os._exit(0)  # do not wait for threads of clients that hang forever


def _end_with_stdin() -> None:
    sys.stdin.read()
    os._exit(1)


def _set(name: str, value: int) -> None:
    try:
        Path("/proc/sys", *name.split(".")).write_text(str(value))
    except OSError as error:
        raise UsageError(
            f"this kernel rejects {name} = {value}: {error.strerror}",
            "See the kernel's documentation of ip-sysctl.",
        ) from error


def _play(request: Request, one: Scenario) -> None:
    from mrtuner.documents import as_builtins

    if request.parameters is None:  # those that keep the client's hangs within the bound
        advised = settings("psycopg", request.within, local(), NetworkPath()).bounds
        request = replace(request, parameters=advised.conninfo)
    _progress("starting a primary and a standby")
    if one.manager:
        patroni.require()
    if one.entrance == POOLER:
        pooler.program()
    made = patroni.PatroniLab if one.manager else Lab
    with made(_binaries(request), ttl=request.ttl) as lab:
        _send(result=as_builtins(Play(lab, one, request, _progress).run()))


def _open(request: Request) -> None:
    """Stay open and execute the lines of stdin."""
    with Lab(_binaries(request), ttl=request.ttl) as lab:
        _send(ready=lab.dsns())
        for line in sys.stdin:
            if not line.strip():
                continue
            try:
                lab.do(line)
                _send(done=line.strip())
            except MrTunerError as error:
                _send(refused=[error.message, error.hint])


def _binaries(request: Request) -> Binaries:
    return find_binaries(Path(request.server_bin) if request.server_bin else None)


def _progress(text: str) -> None:
    _send(progress=text)


def _send(**what: Any) -> None:
    print(json.dumps(what), flush=True)  # noqa: T201  # the process that started us reads it


if __name__ == "__main__":
    main()
