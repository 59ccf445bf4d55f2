"""`mrtuner export otlp`: the last sample to an OpenTelemetry collector."""

from __future__ import annotations

from pathlib import Path

import click

from mrtuner.cli.common import options, prerequisites, terminal
from mrtuner.cli.export.pushing import once_option, push_until_stopped
from mrtuner.cli.history.store_options import directory_option
from mrtuner.errors import UsageError


@options.command("otlp")
@directory_option
@click.option(
    "--endpoint", envvar="OTEL_EXPORTER_OTLP_ENDPOINT", default="http://127.0.0.1:4318",
    show_default=True, metavar="URL", help="Address of the receiver, without /v1/metrics.",
)  # fmt: skip
@click.option(
    "--header", "headers", multiple=True, metavar="NAME=VALUE",
    help="Header of each request; OTEL_EXPORTER_OTLP_HEADERS keeps a token off the command line.",
)  # fmt: skip
@options.time_option("--every", "Time between two messages.", default="1min")
@once_option
def command(
    directory: Path | None, endpoint: str, headers: tuple[str, ...], every: float, once: bool
) -> None:
    """Send the last sample to an OpenTelemetry collector, over OTLP/HTTP, until stopped.

    \b
    Examples:
      mrtuner export otlp --endpoint http://collector:4318
      mrtuner export otlp --once

    Metrics have the names of the collector's PostgreSQL receiver, where it has them. While the
    receiver is down, messages are kept on disk for a day and delivered later; recording continues.
    """
    prerequisites.require("opentelemetry.proto")
    from mrtuner.history.directory import history_directory
    from mrtuner.history.export.otlp import message, sender

    push_until_stopped(
        history_directory(directory), "otlp", message, sender(endpoint, _headers(headers)),
        every=every, once=once, tell=terminal.print_note,
    )  # fmt: skip


def _headers(given: tuple[str, ...]) -> dict[str, str]:
    import os
    from urllib.parse import unquote

    # The variable is percent-encoded. Source: OpenTelemetry specification, exporter.
    listed = os.environ.get("OTEL_EXPORTER_OTLP_HEADERS", "").split(",")
    texts = [*map(unquote, filter(None, listed)), *given]
    if bad := [text for text in texts if "=" not in text]:
        raise UsageError(f"a header without =: {bad[0].partition(':')[0]}", "Write NAME=VALUE.")
    return {name.strip(): value.strip() for name, _, value in (t.partition("=") for t in texts)}
