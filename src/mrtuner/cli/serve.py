"""`mrtuner serve`: the viewer of a history, in the browser."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Final

import click

from mrtuner.cli import options, prerequisites, terminal
from mrtuner.cli.history.store_options import directory_option
from mrtuner.errors import MissingPart, MrTunerError

_LOOPBACK: Final = "127.0.0.1"


@options.command("serve")
@directory_option
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8080, show_default=True, metavar="PORT",
    help="Port to answer on, of this machine's loopback address; 0 takes a free one.",
)  # fmt: skip
@click.option("--open", "browser", is_flag=True, help="Open the page in the browser.")
@options.json_option
def command(directory: Path | None, port: int, browser: bool, as_json: bool) -> None:
    """Show a history in the browser: load, statements, headroom, WAL, I/O, vacuum, locks.

    \b
    Examples:
      mrtuner serve
      mrtuner serve --dir /var/lib/mrtuner --port 8081
      ssh -L 8080:127.0.0.1:8080 bastion mrtuner serve      # then open http://127.0.0.1:8080/

    It answers on the loopback address only, reads the history and changes nothing. A recorder may
    write at the same time.
    """
    prerequisites.require("duckdb", "starlette", "uvicorn")
    from mrtuner.documents import as_builtins
    from mrtuner.history.directory import history_directory
    from mrtuner.history.reading import open_history
    from mrtuner.web.app import STATIC, app
    from mrtuner.web.document import Serving

    place = history_directory(directory)
    with open_history(place):  # Whatever is wrong with the store is said now.
        pass
    if not (STATIC / "index.html").is_file():
        raise MissingPart("the page is not built", "In a checkout, run: make page.")
    with _listening(port) as listener:
        address = f"http://{_LOOPBACK}:{listener.getsockname()[1]}/"
        told = as_builtins(Serving(address=address, directory=str(place)))
        terminal.answer(told, [f"{place} is shown at {address}; Ctrl-C ends it"], as_json)
        if browser:
            click.launch(address)
        import uvicorn

        config = uvicorn.Config(
            app(place), log_level="warning", server_header=False, lifespan="off",
            limit_concurrency=200, timeout_keep_alive=30, h11_max_incomplete_event_size=16_384,
        )  # fmt: skip
        uvicorn.Server(config).run(sockets=[listener])


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server((_LOOPBACK, port))
    except OSError as error:
        raise MrTunerError(
            f"cannot listen on {_LOOPBACK}:{port}: {error.strerror}", "Name another with --port."
        ) from None
