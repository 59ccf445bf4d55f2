"""Looking after many instances: audit, maintenance, snapshots, IAM policy."""
