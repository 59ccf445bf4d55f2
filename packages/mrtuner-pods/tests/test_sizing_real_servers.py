"""Real application servers take what the plan writes for them, and accept as it assumes."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from machine import require
from mrtuner.postgres.cluster import free_port
from mrtuner_pods.formats import Application, render

#: Each request writes the PID of its worker to a file, then waits for the file `go`.
WSGI = """
import os, pathlib, time

def app(environ, start):
    here = pathlib.Path(os.environ["SIGNS"])
    (here / environ["PATH_INFO"].strip("/")).write_text(str(os.getpid()))
    while not (here / "go").exists():
        time.sleep(0.02)
    start("200 OK", [("Content-Length", "2")])
    return [b"ok"]
"""
RACK = """
run(lambda do |environ|
  here = ENV.fetch("SIGNS")
  File.write(File.join(here, environ["PATH_INFO"].delete("/")), Process.pid.to_s)
  sleep(0.02) until File.exist?(File.join(here, "go"))
  [200, { "Content-Length" => "2" }, ["ok"]]
end)
"""
APPLICATION = Application(
    title="a test", server="", pods=1, workers=2, threads=2, pool=2, cpu_request=1.0,
    cpu_limit=None, cpu_because="", memory=None, clients=4, server_connections=None,
)  # fmt: skip
PATIENCE = 90.0


def await_that(what: str, process: subprocess.Popen[bytes], path: Path | int) -> None:
    """Wait until a file has content, or a port accepts a connection."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        assert process.poll() is None, f"{what}: the server ended"
        if isinstance(path, Path):
            if path.exists() and path.read_text():
                return
        else:
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", path)) == 0:
                    return
        time.sleep(0.02)
    raise AssertionError(what)


@contextmanager
def serving(server: str, threads: int, here: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run the server with the plan's configuration; yield its process and its port."""
    application = replace(APPLICATION, server=server, threads=threads)
    port = free_port()
    (here / "app.py").write_text(WSGI)
    (here / "config.ru").write_text(RACK)
    if server in {"puma-6", "unicorn"}:
        program = server.removesuffix("-6")
        require(program)
        file, bind = here / "server.rb", {
            "puma": f'bind "tcp://127.0.0.1:{port}"\n', "unicorn": f'listen "127.0.0.1:{port}"\n',
        }[program]  # fmt: skip
        command = [program, *(("-C",) if program == "puma" else ("-c",)), str(file),
                   str(here / "config.ru")]  # fmt: skip
        file.write_text(render(program, application) + bind)
    else:
        file = here / "gunicorn.conf.py"
        file.write_text(render("gunicorn", application) + f'bind = "127.0.0.1:{port}"\n')
        command = [sys.executable, "-m", "gunicorn", "--config", str(file), "app:app"]
    signs = here / "signs"
    signs.mkdir()
    log = (here / "log").open("wb")
    process = subprocess.Popen(
        command, cwd=here, env=_environment(signs), stdout=log, stderr=log
    )  # fmt: skip
    try:
        await_that(f"{server} listens", process, port)
        yield process, port
    finally:
        (signs / "go").write_text("")
        process.terminate()
        process.wait(PATIENCE)
        log.close()


def _environment(signs: Path) -> dict[str, str]:
    import os

    return {**os.environ, "SIGNS": str(signs)}


@pytest.mark.usefixtures("asks")
@pytest.mark.parametrize(
    ("server", "threads"), [("gunicorn", 1), ("gthread", 2), ("unicorn", 1), ("puma-6", 2)]
)
def test_no_request_waits_beside_an_idle_thread(server: str, threads: int, tmp_path: Path) -> None:
    """As many requests as slots are in service before any has ended: the pod is one queue.

    A worker that accepted while its threads were busy would keep a request waiting forever.
    """
    with serving(server, threads, tmp_path) as (process, port), ExitStack() as stack:
        signs, clients = tmp_path / "signs", []
        for number in range(2 * threads):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            client.sendall(f"GET /{number} HTTP/1.0\r\nHost: here\r\n\r\n".encode())
            clients.append(client)
            await_that(f"request {number} in service", process, signs / str(number))
        workers = {(signs / str(number)).read_text() for number in range(2 * threads)}
        assert len(workers) == 2
        (signs / "go").write_text("")
        for client in clients:
            assert b" 200 " in client.recv(4096)
