"""The commands of `mrtuner export`: one file per monitoring system."""

from __future__ import annotations

from mrtuner.cli.common.commands import Commands

command = Commands(
    "export",
    {
        "prometheus": "Serve the last sample to Prometheus, or print it in its format.",
        "otlp": "Send the last sample to an OpenTelemetry collector.",
        "gcm": "Send the last sample to Google Cloud Monitoring.",
        "rules": "Write alerts for Prometheus, or a dashboard for Grafana.",
    },
    package="mrtuner.cli.export",
    help="""Export the last sample of `mrtuner record` to a monitoring system.

    \b
    Examples:
      mrtuner export prometheus                      listens on http://127.0.0.1:9188/metrics
      mrtuner export prometheus --once > mrtuner.prom
      mrtuner export otlp --endpoint http://collector:4318
      mrtuner export gcm --project shop-prod
      mrtuner export rules grafana -o mrtuner-dashboard.json
    """,
)
