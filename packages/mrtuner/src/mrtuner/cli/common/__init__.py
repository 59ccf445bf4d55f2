"""What the commands share: options, targets, wording and exit codes."""
