"""Prometheus alerts on the metrics of `export prometheus`.

A threshold marks where someone should look; each alert says what to do then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mrtuner.history.export.latest import LAG, UP
from mrtuner.history.export.prometheus import metric, own_metric


@dataclass(frozen=True, slots=True)
class Alert:
    """One Prometheus alert."""

    name: str
    expression: str
    lasts: str  # how long the expression must hold
    severity: str
    summary: str
    action: str


ALERTS: Final = (
    Alert("PostgresDown", f"{own_metric(UP)} == 0", "1m", "critical",
          "{{ $labels.server }} does not answer the recorder",
          "Run mrtuner history status: it says why, or that nobody records."),
    Alert("PostgresRecorderLate", f'{own_metric(LAG)}{{source="sessions"}} > 60', "2m",
          "warning", "{{ $labels.server }} has not been sampled for a minute",
          "Run mrtuner history status: the server or the recorder is down."),
    Alert("PostgresConnectionsNearLimit",
          f"{metric('connections', 'clients')} / {metric('connections', 'ordinary')} > 0.9", "5m",
          "critical",
          "{{ $labels.server }} uses {{ $value | humanizePercentage }} of what max_connections "
          "leaves to ordinary roles",
          "Find out who holds them: mrtuner history show."),
    Alert("PostgresTransactionIdAge", f"{metric('ages', 'age')} > 1e9", "10m", "critical",
          "{{ $labels.database }} of {{ $labels.server }} is {{ $value }} transactions old",
          "Run mrtuner vacuum DSN: it names what keeps vacuum from freezing."),
    Alert("PostgresLongTransaction", f"{metric('connections', 'oldest_transaction')} > 3600", "1m",
          "warning", "a transaction of {{ $labels.server }} has been open for more than an hour",
          "It keeps vacuum from removing rows; mrtuner vacuum DSN names it."),
    Alert("PostgresRequestedCheckpoints",
          f"increase({metric('checkpoints', 'requested')}[1h]) > "
          f"2 * increase({metric('checkpoints', 'timed')}[1h]) + 2", "10m", "warning",
          "WAL forces the checkpoints of {{ $labels.server }}",
          "max_wal_size is too small: mrtuner tune DSN --history DIR."),
    Alert("PostgresSlotNearLoss", f"{metric('slots', 'used')} > 0.8", "1m", "critical",
          "slot {{ $labels.name }} of {{ $labels.server }} will be lost soon",
          "Its receiver is behind: start it, or raise max_slot_wal_keep_size."),
    Alert("PostgresSlotLost", f"{metric('slots', 'lost')} == 1", "0m", "critical",
          "slot {{ $labels.name }} of {{ $labels.server }} is lost",
          "Its receiver must begin anew: see the standby's or subscriber's log; drop the slot."),
    Alert("PostgresReplicationLag", f"{metric('replication', 'replay_lag')} > 60", "5m", "warning",
          "{{ $labels.application }} is {{ $value }} s behind {{ $labels.server }}",
          "Look for a long query or a busy disk on the standby."),
    Alert("PostgresArchivingFails", f"increase({metric('archiver', 'failed')}[10m]) > 0", "10m",
          "critical", "WAL of {{ $labels.server }} is not archived",
          "See the server's log for the error of archive_command; pg_wal keeps growing."),
    Alert("PostgresDiskFull",
          f"predict_linear({metric('filesystems', 'free')}[6h], 86400) < 0", "30m", "critical",
          "{{ $labels.mount }} of {{ $labels.server }} will be full within a day",
          "Find out what grows: mrtuner serve, Headroom, then Vacuum and Replication."),
    Alert("PostgresChecksumFailure",
          f"increase({metric('databases', 'checksum_failures')}[1h]) > 0", "0m", "critical",
          "pages of {{ $labels.database }} of {{ $labels.server }} are damaged",
          "See the server's log for the files; check the disk, and restore from a backup."),
    Alert("PostgresPreparedTransaction", f"{metric('prepared', 'oldest')} > 3600", "5m", "warning",
          "a prepared transaction of {{ $labels.server }} is older than an hour",
          "Finish it: see pg_prepared_xacts, then COMMIT PREPARED or ROLLBACK PREPARED."),
    Alert("PostgresReceiverStopped", f"{metric('receiver', 'streaming')} == 0", "5m", "warning",
          "standby {{ $labels.server }} receives no WAL",
          "See its log, and primary_conninfo and the slot that it uses."),
    Alert("PostgresSubscriptionStopped", f"{metric('subscriptions', 'workers')} == 0", "5m",
          "warning", "subscription {{ $labels.name }} of {{ $labels.server }} does not run",
          "See the subscriber's log; it is disabled, or a change cannot be applied."),
)  # fmt: skip


def alerts() -> str:
    """Return the alerts as a Prometheus rule file."""
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
