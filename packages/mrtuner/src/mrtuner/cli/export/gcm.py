"""`mrtuner export gcm`: the last sample to Google Cloud Monitoring."""

from __future__ import annotations

from pathlib import Path

import click

from mrtuner.cli.common import options, prerequisites, terminal
from mrtuner.cli.export.pushing import once_option, push_until_stopped
from mrtuner.cli.history.store_options import directory_option


@options.command("gcm")
@directory_option
@click.option(
    "--project", envvar="GOOGLE_CLOUD_PROJECT", required=True, metavar="PROJECT",
    help="Project of Google Cloud.  [default: GOOGLE_CLOUD_PROJECT]",
)  # fmt: skip
@click.option(
    "--endpoint", metavar="URL", help="Address of an emulator of the API, as http://HOST:PORT."
)
@options.time_option("--every", "Time between two messages.", default="1min")
@once_option
def command(
    directory: Path | None, project: str, endpoint: str | None, every: float, once: bool
) -> None:
    """Send the last sample to Google Cloud Monitoring, until stopped.

    \b
    Examples:
      mrtuner export gcm --project shop-prod
      mrtuner export gcm --project shop-prod --once

    Metrics are called custom.googleapis.com/postgresql/NAME, on a generic_node for each instance.
    It uses the application default credentials, which need the role monitoring.metricWriter. While
    the service is down, messages are kept on disk for a day and delivered later.
    """
    prerequisites.require("google.cloud.monitoring_v3")
    from mrtuner.history.directory import history_directory
    from mrtuner.history.export.gcm import message, sender

    push_until_stopped(
        history_directory(directory), "gcm", message(project), sender(endpoint), every=every,
        once=once, tell=terminal.print_note,
    )  # fmt: skip
