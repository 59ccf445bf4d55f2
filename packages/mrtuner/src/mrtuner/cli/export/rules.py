"""`mrtuner export rules`: alerts for Prometheus and a dashboard for Grafana."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from mrtuner.cli.common import options, terminal

KINDS: Final = ("prometheus", "grafana")


@options.command("rules")
@click.argument("kind", type=click.Choice(KINDS), metavar="KIND")
@options.output_option
def command(kind: str, output: Path | None) -> None:
    """Write alerts for Prometheus, or a dashboard for Grafana, on the metrics that we export.

    \b
    Examples:
      mrtuner export rules prometheus -o mrtuner.rules.yml
      mrtuner export rules grafana -o mrtuner-dashboard.json

    KIND is prometheus or grafana. Each alert says what to do. Import the dashboard in Grafana and
    choose the Prometheus that scrapes `mrtuner export prometheus`.
    """
    from mrtuner.history.export.alerts import alerts
    from mrtuner.history.export.grafana import dashboard

    terminal.deliver(alerts() if kind == "prometheus" else dashboard(), output)
