"""`mrtuner export prometheus`: /metrics from the last sample."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from mrtuner.cli.common import options, prerequisites, terminal
from mrtuner.cli.history.store_options import directory_option
from mrtuner.errors import MrTunerError, UsageError

_DEFAULT: Final = "127.0.0.1:9188"


@options.command("prometheus")
@directory_option
@click.option(
    "--listen", default=_DEFAULT, show_default=True, metavar="HOST:PORT",
    help="Address to listen on; there is no password, so keep it off public networks.",
)  # fmt: skip
@click.option(
    "--max-rows", type=click.IntRange(1), metavar="N", default=200, show_default=True,
    help="Maximum number of rows (tables, databases, slots) to export per source and instance.",
)  # fmt: skip
@click.option("--once", is_flag=True, help="Write the metrics to stdout instead of listening.")
@options.output_option
def command(
    directory: Path | None, listen: str, max_rows: int, once: bool, output: Path | None
) -> None:
    """Serve the last sample to Prometheus; scrapes do not query the server.

    \b
    Examples:
      mrtuner export prometheus
      mrtuner export prometheus --listen 0.0.0.0:9188 --dir /var/lib/mrtuner
      mrtuner export prometheus --once -o /var/lib/node_exporter/mrtuner.prom

    Counters are those of the server itself, so that rate() works across restarts of the recorder.
    Statements are not exported, because the number of their identifiers is unbounded.
    """
    prerequisites.require("prometheus_client")
    from mrtuner.history.directory import history_directory
    from mrtuner.history.export.prometheus import exposition, registry

    place = history_directory(directory)
    if once or output is not None:
        terminal.deliver(exposition(place, most_rows=max_rows).decode(), output)
        return
    host, port = _address(listen)
    from prometheus_client import start_http_server

    try:
        server, thread = start_http_server(
            port, addr=host, registry=registry(place, most_rows=max_rows)
        )
    except OSError as error:
        raise MrTunerError(
            f"cannot listen on {listen}: {error.strerror}", "Name another address with --listen."
        ) from None
    terminal.print_note(f"listening on http://{listen}/metrics; Ctrl-C ends it")
    try:
        thread.join()
    finally:
        server.shutdown()


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"{text!r} is not HOST:PORT", f"Write {_DEFAULT}.")
    return host.strip("[]"), int(port)
