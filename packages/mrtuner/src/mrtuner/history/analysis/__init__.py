"""What happened in a period."""
