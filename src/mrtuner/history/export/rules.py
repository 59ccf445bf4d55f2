"""Alerts on what `export prometheus` offers, and a dashboard of it for Grafana.

Thresholds are where somebody should look; each says what to do then.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert of Prometheus."""

    name: str
    expression: str
    lasts: str  # for so long
    severity: str
    summary: str
    action: str


ALERTS: Final = (
    Alert("PostgresRecorderLate", 'mrtuner_record_lag_seconds{source="sessions"} > 60', "2m",
          "warning", "{{ $labels.server }} has not been sampled for a minute",
          "Run mrtuner history status: the server or the recorder is down."),
    Alert("PostgresConnectionsNearLimit",
          "mrtuner_connections_clients / mrtuner_connections_maximum > 0.9", "5m", "critical",
          "{{ $labels.server }} uses {{ $value | humanizePercentage }} of max_connections",
          "Find who holds them: mrtuner history show."),
    Alert("PostgresTransactionIdAge", "mrtuner_ages_age > 1e9", "10m", "critical",
          "{{ $labels.database }} of {{ $labels.server }} is {{ $value }} transactions old",
          "Run mrtuner vacuum DSN: it names what keeps vacuum from freezing."),
    Alert("PostgresLongTransaction", "mrtuner_connections_oldest_transaction > 3600", "1m",
          "warning", "a transaction of {{ $labels.server }} is open for more than an hour",
          "It keeps vacuum from removing rows; mrtuner vacuum DSN names it."),
    Alert("PostgresRequestedCheckpoints",
          "increase(mrtuner_checkpoints_requested_total[1h]) > "
          "2 * increase(mrtuner_checkpoints_timed_total[1h]) + 2", "10m", "warning",
          "WAL forces the checkpoints of {{ $labels.server }}",
          "max_wal_size is too small: mrtuner tune DSN --history DIR."),
    Alert("PostgresSlotNearLoss", "mrtuner_slots_safe < 5e9", "1m", "critical",
          "slot {{ $labels.name }} of {{ $labels.server }} will be lost soon",
          "Its receiver is behind: start it, or raise max_slot_wal_keep_size."),
    Alert("PostgresReplicationLag", "mrtuner_replication_replay_lag > 60", "5m", "warning",
          "{{ $labels.application }} is {{ $value }} s behind {{ $labels.server }}",
          "Look for a long query or a busy disk on the standby."),
    Alert("PostgresArchivingFails", "increase(mrtuner_archiver_failed_total[10m]) > 0", "10m",
          "critical", "WAL of {{ $labels.server }} is not archived",
          "See the server's log for the error of archive_command; pg_wal grows meanwhile."),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart of the dashboard."""

    title: str
    unit: str  # of Grafana
    legend: str
    expression: str
    stacked: bool = False


_OF: Final = '{server=~"$server"}'
PANELS: Final = (
    Panel("Load: sessions at work, or waiting for", "short", "{{wait_type}}",
          f"mrtuner_load_sessions{_OF}", stacked=True),
    Panel("Sessions", "short", "{{__name__}}",
          '{__name__=~"mrtuner_connections_(clients|active|idle_in_transaction|maximum)", '
          'server=~"$server"}'),
    Panel("Commits and rollbacks", "ops", "{{database}}",
          f"rate(mrtuner_databases_commits_total{_OF}[$__rate_interval])"),
    Panel("WAL written", "Bps", "{{server}}",
          f"rate(mrtuner_wal_bytes_total{_OF}[$__rate_interval])"),
    Panel("Checkpoints an hour, requested", "short", "{{server}}",
          f"increase(mrtuner_checkpoints_requested_total{_OF}[1h])"),
    Panel("Blocks read", "ops", "{{database}}",
          f"rate(mrtuner_databases_blocks_read_total{_OF}[$__rate_interval])"),
    Panel("Temporary files", "Bps", "{{database}}",
          f"rate(mrtuner_databases_temp_bytes_total{_OF}[$__rate_interval])"),
    Panel("Dead rows", "short", "{{schema}}.{{name}}", f"topk(10, mrtuner_tables_dead{_OF})"),
    Panel("Transaction ID age", "short", "{{database}}", f"mrtuner_ages_age{_OF}"),
    Panel("WAL kept for slots", "bytes", "{{name}}", f"mrtuner_slots_retained{_OF}"),
    Panel("Replay lag", "s", "{{application}}", f"mrtuner_replication_replay_lag{_OF}"),
    Panel("Recorder: time since the last sample", "s", "{{source}}",
          f"mrtuner_record_lag_seconds{_OF}"),
)  # fmt: skip
_WIDE, _HIGH = 12, 8


def alerts() -> str:
    """Return the alerts as a rule file of Prometheus."""
    import yaml

    rules = [
        {
            "alert": one.name,
            "expr": one.expression,
            "for": one.lasts,
            "labels": {"severity": one.severity},
            "annotations": {"summary": one.summary, "description": one.action},
        }
        for one in ALERTS
    ]
    text: str = yaml.safe_dump(
        {"groups": [{"name": "mrtuner", "rules": rules}]}, sort_keys=False, width=100
    )
    return text


def dashboard() -> str:
    """Return a dashboard for Grafana 10 and later, as JSON to import."""
    panels = [_panel(number, one) for number, one in enumerate(PANELS)]
    server = {
        "name": "server", "type": "query", "datasource": _SOURCE, "includeAll": True,
        "multi": True, "refresh": 2, "query": "label_values(mrtuner_connections_clients, server)",
    }  # fmt: skip
    source = {"name": "datasource", "type": "datasource", "query": "prometheus"}
    found = {
        "title": "PostgreSQL by MrTuner", "uid": "mrtuner", "schemaVersion": 39, "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"}, "timezone": "utc",
        "templating": {"list": [source, server]}, "panels": panels,
    }  # fmt: skip
    return json.dumps(found, indent=2) + "\n"


_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


def _panel(number: int, one: Panel) -> dict[str, Any]:
    row, column = divmod(number, 2)
    custom = {"stacking": {"mode": "normal"}, "fillOpacity": 40} if one.stacked else {}
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": one.title,
        "datasource": _SOURCE,
        "gridPos": {"x": column * _WIDE, "y": row * _HIGH, "w": _WIDE, "h": _HIGH},
        "fieldConfig": {"defaults": {"unit": one.unit, "custom": custom}, "overrides": []},
        "targets": [{"refId": "A", "expr": one.expression, "legendFormat": one.legend}],
    }
